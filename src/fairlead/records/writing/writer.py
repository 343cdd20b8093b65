"""The shells that Spark calls: what a task does with its rows, and what the driver does once all tasks are done.

Spark makes a writer for each of these moments anew, or sends one by pickle. PySpark's contract:
`pyspark/sql/datasource.py`, `pyspark/sql/worker/python_streaming_sink_runner.py`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from fairlead.kafka import Cluster
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import InvalidValue, UnknownTopic
from fairlead.records.writing.checkpoint import sync_notes
from fairlead.records.writing.encoding import Encoded, encoded
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.parts import NOTHING, PartInfo
from fairlead.records.writing.publishing import (
    limits_of,
    opened,
    partitions_of,
    publish,
    remembered_ms,
    settled,
    streams_of,
)
from fairlead.records.writing.routing import routed
from fairlead.records.writing.staging import Staging

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Spark's local properties of a streaming query's tasks."""
TOGETHER_BYTES: Final = 64 * 1024 * 1024
"""Rows of a task that are sorted by partition together."""


@dataclass(frozen=True, slots=True)
class Left(WriterCommitMessage):
    """What a task has left, and for which batch."""

    query: str
    batch: int
    part: PartInfo


class RecordsWriter(DataSourceArrowWriter):
    """Writes a DataFrame once: what its tasks have goes to the cluster when all of them are done."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._query = options.write_id or f"write-{SystemRandomness().id16().hex()}"
        self._batch = options.version or 0
        self._folder = options.staging or Path(tempfile.mkdtemp(prefix="fairlead-write-"))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        return _left(self._options, self._staging, self._batch, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver."""
        _commit(self._options, self._staging, self._batch, _parts(messages, self._query, self._batch))
        self._end()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver."""
        self._staging.discard(self._batch, [each.part.name for each in messages if isinstance(each, Left)])
        self._end()

    @property
    def _staging(self) -> Staging:
        return Staging(self._folder, self._query)

    def _end(self) -> None:
        if self._options.staging is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        elif self._options.write_id is None:
            self._staging.remove()


class RecordsStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query, each exactly once."""

    def __init__(self, options: WriteOptions) -> None:
        if options.write_id is not None:
            raise InvalidValue("options txnAppId and txnVersion are for df.write; a streaming query has its own")
        if options.staging is None:
            raise InvalidValue(
                "the query has no checkpoint that is a local folder; name one by the option checkpointLocation, or by "
                "stagingLocation a folder that all executors see and that is kept as long as the checkpoint"
            )
        self._options = options
        self._folder = options.staging

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        batch = None if context is None else context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise InvalidValue("this task does not belong to a batch of a streaming query, as far as Spark says")
        return _left(self._options, Staging(self._folder, query), int(batch), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """In the driver."""
        query = _query(messages)
        if query is not None:
            if self._options.checkpoint is not None:
                sync_notes(self._options.checkpoint, batchId)
            _commit(self._options, Staging(self._folder, query), batchId, _parts(messages, query, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """In the driver."""
        query = _query(messages)
        if query is not None:
            names = [each.part.name for each in messages if isinstance(each, Left)]
            Staging(self._folder, query).discard(batchId, names)


def _query(messages: Iterable[WriterCommitMessage | None]) -> str | None:
    return next((each.query for each in messages if isinstance(each, Left)), None)


def _parts(messages: Iterable[WriterCommitMessage | None], query: str, batch: int) -> list[PartInfo]:
    """Raises: InvalidValue: a task is missing, or left something of another batch."""
    parts: list[PartInfo] = []
    for each in messages:
        if not isinstance(each, Left):
            raise InvalidValue(f"a task of batch {batch} of query {query} says nothing of what it has left")
        if (each.query, each.batch) != (query, batch):
            raise InvalidValue(
                f"a task of batch {batch} of query {query} has left records of batch {each.batch} of {each.query}"
            )
        parts.append(each.part)
    return parts


# ---------------------------------------------------------------- in a task


def _left(options: WriteOptions, staging: Staging, batch: int, rows: Iterator[pa.RecordBatch]) -> Left:
    if staging.done() >= batch or staging.manifest(batch) is not None:
        return Left(staging.query, batch, NOTHING)  # it is settled what is written
    # Keyless records begin at another partition in each batch, task and query, or all of a small one lay in the first.
    turn = crc32(staging.query.encode()) + batch + _task_number()
    with ExitStack() as stack:
        part = staging.write(batch, _encoded(options, rows, turn, stack))
    return Left(staging.query, batch, part)


def _encoded(options: WriteOptions, rows: Iterator[pa.RecordBatch], turn: int, stack: ExitStack) -> Iterator[Encoded]:
    """The rows of a task as record batches, keyless ones from the `turn`-th partition on. Raises: FairleadError."""
    topics, clock = _Topics(options, stack), SystemClock()
    for together in _together(rows):
        yield from encoded(routed(together, options, topics, turn), options.codec, clock.wall_ms(), topics.limits)
        turn += 1


def _task_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _together(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, many at a time."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for each in rows:
        if each.num_rows:
            held.append(each)
            held_bytes += each.nbytes
        if held_bytes >= TOGETHER_BYTES:
            yield pa.concat_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.concat_batches(held)


class _Topics:
    """How many partitions topics have, and the largest batch that they take; each is asked for once a task."""

    def __init__(self, options: WriteOptions, stack: ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._runner: asyncio.Runner | None = None
        self._known: dict[str, int] = {}
        self._limits: dict[str, int] = {}

    def __call__(self, names: Sequence[str]) -> Mapping[str, int]:
        """Raises: UnknownStream, UnknownTopic, TryAgain."""
        return self._all(self._known, names, self._partitions)

    def limits(self, names: Collection[str]) -> Mapping[str, int]:
        """Raises: UnknownTopic, TryAgain."""
        return self._all(self._limits, names, limits_of)

    def _all(
        self,
        known: dict[str, int],
        names: Collection[str],
        ask: Callable[[Cluster, Sequence[str]], Awaitable[Mapping[str, int]]],
    ) -> Mapping[str, int]:
        unknown = [name for name in names if name not in known]
        if unknown:
            if self._runner is None:
                self._runner = self._stack.enter_context(asyncio.Runner())
            known |= self._runner.run(self._asked(ask, unknown))
        return known

    async def _asked(
        self, ask: Callable[[Cluster, Sequence[str]], Awaitable[Mapping[str, int]]], names: Sequence[str]
    ) -> Mapping[str, int]:
        async with opened(self._options) as cluster:
            return await ask(cluster, names)

    async def _partitions(self, cluster: Cluster, names: Sequence[str]) -> Mapping[str, int]:
        try:
            return await partitions_of(cluster, names)
        except UnknownTopic:
            await asyncio.to_thread(streams_of, self._options, names)  # it may be the stream that is not there
            raise


# ---------------------------------------------------------------- in the driver


def _commit(options: WriteOptions, staging: Staging, batch: int, parts: Sequence[PartInfo]) -> None:
    """Raises: FairleadError: not all of the batch is there; what is missing comes with the next try."""
    if staging.done() >= batch:
        return
    asyncio.run(_write(options, staging, batch, parts))
    staging.finish(batch)


async def _write(options: WriteOptions, staging: Staging, batch: int, parts: Sequence[PartInfo]) -> None:
    clock = SystemClock()
    manifest = staging.manifest(batch)
    if manifest is None and not any(part.size_bytes for part in parts):
        return
    async with opened(options) as cluster:
        if manifest is None:
            remembered = await asyncio.to_thread(remembered_ms, options, parts)
            manifest = await settled(cluster, staging, batch, parts, clock.wall_ms(), remembered)
            if staging.done() >= batch:
                return  # another driver has finished it meanwhile, and its manifest is gone
        await publish(cluster, staging, manifest, options, clock.wall_ms())
