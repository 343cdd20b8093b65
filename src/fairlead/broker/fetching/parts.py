"""Reading the partitions of one Fetch: from memory, else from the disk, within the limits of the request.

As in Kafka (KIP-74) nothing that is read exceeds what is left of the answer or the partition's own limit, but for the
first batch of an answer that has nothing yet: so a consumer comes past a batch that is larger than all its limits, and
an answer is larger than its limit for no other reason. librdkafka refuses such an answer and asks again for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest, code_of
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.partitions import check_epoch, find_topic
from fairlead.broker.topics.topics import Found, ListenerView
from fairlead.model.errors import OffsetOutOfRange
from fairlead.protocol.batch import read_header
from fairlead.protocol.fetch import FetchPartition, FetchPartitionResponse
from fairlead.protocol.fetch import Part as Bytes
from fairlead.streamlog.reading.fetch import Fetched

PARTITION_BYTES: Final = 1000
TOPIC_BYTES: Final = 500
"""What it takes to remember a partition with its watch, and its topic, as measured."""
MakesWait = Callable[[Found, int, int], bool]
"""Whether a consumer at this offset of a partition is to wait, see `CutWatch.makes_wait`."""
_NAME_BYTES_EACH: Final = 4
"""Of each character of a topic's name."""


class AskedTopic:
    """A topic that is asked for, by name or by id, and what it is here."""

    __slots__ = ("_slot", "error", "found", "name", "topic_id")

    def __init__(self, name: str | None, topic_id: bytes | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.found: Found | None = None
        self.error = ErrorCode.none
        """Why it was not found."""
        self._slot = -1

    @property
    def kept_bytes(self) -> int:
        """What it takes to remember it: a client may give it a name of 32 KB, which is kept in several places."""
        return TOPIC_BYTES + _NAME_BYTES_EACH * len(self.name or "")

    def find(self, listener: ListenerView) -> None:
        """Look it up, for the first time or again."""
        try:
            self.found = found = find_topic(listener, self.name, self.topic_id)
        except Exception as error:
            self.found, self.error = None, code_of(error)
        else:
            self._slot = found.shard.state.topic_table.slot[found.topic.number]

    @property
    def same(self) -> bool:
        """It is still there with the same partitions and epoch, in a stream that was not deleted."""
        if self.found is None or self.found.shard.closed:
            return False
        topic, table = self.found.topic, self.found.shard.state.topic_table
        is_there = table.slot[topic.number] == self._slot and table.epoch[topic.number] == topic.epoch
        return is_there and table.count[topic.number] == topic.partitions  # it may grow within its slots

    def end_of(self, partition: int, *, committed: bool) -> int:
        """Where a partition of a topic that was found ends now, for who reads all records or the committed ones."""
        assert self.found is not None
        state, number = self.found.shard.state, self.found.topic.number
        end = state.partition(number, partition).end
        return state.stable_end(number, partition, end) if committed else end


@dataclass(slots=True, eq=False)
class Part:
    """A partition that is asked for, and what one Fetch has found of it."""

    topic: AskedTopic
    asked: FetchPartition
    answer: FetchPartitionResponse | None = None
    """None: it was not looked at."""
    size_bytes: int = 0
    """Of the answer's batches."""
    committed: bool = False
    """Only committed records were asked for."""
    cut_count: int = 0
    """How often logs of its shard had been cut when it was read."""

    @property
    def next_offset(self) -> int:
        """What is to be read next."""
        if self.answer is None or not self.answer.batches:
            return self.asked.offset
        return read_header(self.answer.batches[-1]).last_offset + 1

    @property
    def is_done(self) -> bool:
        """There was nothing to read."""
        answer = self.answer
        return (
            answer is not None
            and not answer.error
            and not answer.batches
            and self.asked.offset >= (answer.stable_end if self.committed else answer.high_watermark)
        )

    @property
    def at_end(self) -> bool:
        """All that is there now was read."""
        end = self.topic.end_of(self.asked.partition, committed=self.committed)
        return self.next_offset == end if self.size_bytes else self.is_done and self.asked.offset >= end

    def forget(self) -> None:
        """The answer is packed, or what was found does not hold any more."""
        self.answer = None
        self.size_bytes = 0


class _Cold(NamedTuple):
    """A partition whose next batches are not in memory, and how many bytes of them may be read."""

    part: Part
    offset: int
    max_bytes: int
    at_least_one: bool
    committed: bool


class Reading:
    """What one Fetch reads."""

    def __init__(
        self, readers: Executor, min_bytes: int, max_bytes: int, *, committed: bool, makes_wait: MakesWait
    ) -> None:
        self._readers = readers
        self._makes_wait = makes_wait
        self._committed = committed
        self._min_bytes = min(min_bytes, max_bytes)
        self._room_bytes = max(0, max_bytes)
        self.size_bytes = 0
        self._failed = False
        self._left_out = False
        """There is a batch for which no room was left."""

    @property
    def enough(self) -> bool:
        """The answer need not wait: there is enough, or no room, or an error that the client must hear of."""
        return self._failed or self._left_out or self.exhausted or self.size_bytes >= self._min_bytes

    @property
    def exhausted(self) -> bool:
        """Nothing more can be read."""
        return self._room_bytes <= 0 < self.size_bytes

    async def read(self, parts: Iterable[Part]) -> None:
        """Read each part; one that has data already, behind that. As long as there is nothing, what comes next may be
        too large: its size must be known before others get what is left."""
        pace = Pace()
        cold: list[_Cold] = []
        for part in parts:
            self._read(part, cold)
            if cold and not self.size_bytes:
                await self._read_cold(cold)
                cold = []
            await pace.turn()
        if cold:
            await self._read_cold(cold)

    def give_back(self, part: Part) -> None:
        """Read anew what comes of a part, if anything."""
        self.size_bytes -= part.size_bytes
        self._room_bytes += part.size_bytes
        part.forget()

    def _read(self, part: Part, cold: list[_Cold]) -> None:
        """Answer from memory; what is not there goes to `cold` with the room that is kept for it."""
        found, asked = part.topic.found, part.asked
        if found is None:
            part.answer = FetchPartitionResponse(asked.partition, part.topic.error)
            self._failed = True
            return
        cut_count, offset, limit = found.shard.state.cut_count, asked.offset, asked.max_bytes
        if part.size_bytes:
            if part.cut_count != cut_count:
                self.give_back(part)  # what follows now may follow on other records
            offset, limit = part.next_offset, limit - part.size_bytes
        part.cut_count = cut_count
        limit = max(0, min(limit, self._room_bytes))
        first = not self.size_bytes
        try:
            found.shard.check_open()
            found.topic.check_partition(asked.partition)
            check_epoch(found, asked.partition, asked.current_leader_epoch)
            reader, number = found.shard.reader, found.topic.number
            fetched = reader.fetch_cached(
                number, asked.partition, offset, limit, at_least_one=first, committed=self._committed
            )
        except Exception as error:
            self._put(part, error)
            return
        if fetched is None and not first and not limit:
            state = found.shard.state.partition(number, asked.partition)
            stable = found.shard.state.stable_end(number, asked.partition, state.end)
            fetched = Fetched([], state.end, state.log_start, stable)
        if fetched is not None:
            self._put(part, fetched)
        else:
            self._room_bytes -= limit
            cold.append(_Cold(part, offset, limit, first, self._committed))

    async def _read_cold(self, cold: Sequence[_Cold]) -> None:
        results = await asyncio.get_running_loop().run_in_executor(self._readers, _read_from_disk, cold)
        for one, result in zip(cold, results, strict=True):
            self._room_bytes += one.max_bytes
            self._put(one.part, _checked(one.part, result))
            self._read_ahead(one, result)

    def _read_ahead(self, one: _Cold, result: Fetched | Exception) -> None:
        """A consumer that was answered from the disk will mostly go on there."""
        found = one.part.topic.found
        if isinstance(result, Exception) or found is None:
            return
        job = found.shard.reader.ahead(found.topic.number, one.part.asked.partition, result, one.max_bytes)
        if job is not None:
            self._readers.submit(job)

    def _put(self, part: Part, result: Fetched | Exception) -> None:
        partition = part.asked.partition
        if isinstance(result, Exception):
            self.give_back(part)
            bounds = (result.end, result.start) if isinstance(result, OffsetOutOfRange) else (-1, -1)
            part.answer = FetchPartitionResponse(partition, self._code(part, result), *bounds)
            self._failed = True
            return
        batches: Sequence[Bytes]
        aborted: Sequence[tuple[int, int, int]]
        batches, end, start, stable, aborted = result
        size_bytes = sum(map(len, batches))
        if not size_bytes:
            self._left_out |= part.next_offset < (stable if self._committed else end)
        if part.size_bytes:
            batches, aborted = _behind(part, result)
        part.committed = self._committed
        part.answer = FetchPartitionResponse(partition, ErrorCode.none, end, start, batches, stable, aborted)
        part.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self._room_bytes = max(0, self._room_bytes - size_bytes)

    def _code(self, part: Part, error: Exception) -> ErrorCode:
        """A client without epochs that stands behind a cut asks for metadata and tries again while it is made to wait;
        by epochs it would have been told already."""
        found, asked = part.topic.found, part.asked
        is_behind = isinstance(error, OffsetOutOfRange) and asked.offset > error.end and asked.current_leader_epoch < 0
        if is_behind and found is not None and self._makes_wait(found, asked.partition, asked.offset):
            return ErrorCode.not_leader_or_follower
        return code_of(error)


class Waker:
    """What one Fetch waits on, until something moves."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        self._woken: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Let the one that waits, if any, look again."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, deadline: float) -> None:
        """Until `wake` is called, or until `deadline` (the loop's time, seconds)."""
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_at(deadline, self.wake)
        try:
            await self._woken
        finally:
            timer.cancel()
            self._woken = None


def _behind(part: Part, result: Fetched) -> tuple[Sequence[Bytes], Sequence[tuple[int, int, int]]]:
    """The batches and aborted transactions of a part, once more was read of it."""
    before = part.answer
    assert before is not None
    aborted = [each for each in result.aborted if each not in before.aborted]
    return [*before.batches, *result.batches], (*before.aborted, *aborted)


def _read_from_disk(cold: Sequence[_Cold]) -> list[Fetched | Exception]:
    """Runs in a thread."""
    return [_read_one(one) for one in cold]


def _checked(part: Part, result: Fetched | Exception) -> Fetched | Exception:
    """What was read beside the loop, if the topic has the same epoch still."""
    found, asked = part.topic.found, part.asked
    assert found is not None
    try:
        check_epoch(found, asked.partition, asked.current_leader_epoch)
    except RefusedRequest as refused:
        return refused
    return result


def _read_one(cold: _Cold) -> Fetched | Exception:
    found, asked = cold.part.topic.found, cold.part.asked
    assert found is not None
    reader, number = found.shard.reader, found.topic.number
    try:
        return reader.fetch(
            number,
            asked.partition,
            cold.offset,
            cold.max_bytes,
            at_least_one=cold.at_least_one,
            committed=cold.committed,
        )
    except Exception as error:
        return error
