"""Record batches of one task ⇄ a file. Each batch stands behind its topic, partition and length; a file that is shorter
than its task said is refused. What the records hold is checked by the cluster, against the batch's CRC."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.model.errors import InvalidValue
from fairlead.protocol.batch import HEADER_BYTES, read_header
from fairlead.protocol.heads import with_producer
from fairlead.records.writing.encoding import Encoded

_FRAME: Final = struct.Struct(">HiI")
_READ_BYTES: Final = 8 * 1024 * 1024


class Place(NamedTuple):
    """A partition, by the name that the main listener gives its topic."""

    topic: str
    partition: int


class PartInfo(NamedTuple):
    """What a task has left."""

    name: str
    size_bytes: int
    records: dict[Place, int]
    """How many, by partition."""


class StagedBatch(NamedTuple):
    """A batch that can be sent under any producer."""

    place: Place
    records: int
    head: memoryview
    body: memoryview

    @property
    def size_bytes(self) -> int:
        """Of the batch."""
        return len(self.head) + len(self.body)

    def of_producer(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
    ) -> bytes:
        """Its head as this producer sends it."""
        return with_producer(
            *(self.head, len(self.body), producer_id, producer_epoch, base_sequence), transactional=transactional
        )


NOTHING: Final = PartInfo("", 0, {})
"""Of a task without rows, or of a batch that is settled without it: there is no file."""


def write_part(file: Path, batches: Iterable[Encoded]) -> PartInfo:
    """Write the batches into a new file; durable when this returns, and gone if it fails. Raises: OSError."""
    try:
        return _write(file, batches)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _write(file: Path, batches: Iterable[Encoded]) -> PartInfo:
    records: dict[Place, int] = {}
    with file.open("xb", buffering=1024 * 1024) as out:
        for batch in batches:
            topic = batch.topic.encode()
            out.write(_FRAME.pack(len(topic), batch.partition, batch.size_bytes))
            out.writelines((topic, batch.head, batch.body))
            place = Place(batch.topic, batch.partition)
            records[place] = records.get(place, 0) + batch.records
        size = out.tell()
        out.flush()
        os.fdatasync(out.fileno())
    return PartInfo(file.name, size, records)


def read_part(file: Path, size_bytes: int) -> Iterator[StagedBatch]:
    """The batches of a file that is to have `size_bytes`.

    Raises:
        InvalidValue: it is not there, or not as it was written.
    """
    try:
        with file.open("rb", buffering=0) as found:
            if os.fstat(found.fileno()).st_size != size_bytes:
                raise InvalidValue(f"{file}: it was written with {size_bytes:,} bytes")
            yield from _batches(file, found.fileno())
    except FileNotFoundError:
        raise InvalidValue(f"{file}: it is gone; do all executors see the folder as the same one?") from None


def _batches(file: Path, descriptor: int) -> Iterator[StagedBatch]:
    rest = memoryview(b"")
    while chunk := os.read(descriptor, _READ_BYTES):
        rest = memoryview(b"".join((rest, chunk)))
        at = 0
        while (batch := _batch_at(file, rest, at)) is not None:
            at += _FRAME.size + len(batch.place.topic.encode()) + batch.size_bytes
            yield batch
        rest = rest[at:]
    if rest:
        raise InvalidValue(f"{file}: its last batch is cut")


def _batch_at(file: Path, data: memoryview, at: int) -> StagedBatch | None:
    """The batch that begins there, if it is whole."""
    if len(data) - at < _FRAME.size:
        return None
    topic_bytes, partition, size = _FRAME.unpack_from(data, at)
    begin = at + _FRAME.size + topic_bytes
    if len(data) < begin + size:
        return None
    if size < HEADER_BYTES:
        raise InvalidValue(f"{file}: a batch of {size} bytes")
    batch = data[begin : begin + size]
    place = Place(str(data[at + _FRAME.size : begin], "utf-8"), partition)
    return StagedBatch(place, read_header(batch).record_count, batch[:HEADER_BYTES], batch[HEADER_BYTES:])
