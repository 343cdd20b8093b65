"""One Fetch while it is gathered: what is wanted of which partitions, what was found, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import code_of
from fairlead.broker.pacing import Pace
from fairlead.broker.partitions import check_epoch, check_partition, find_topic
from fairlead.broker.topics import Found, Listener
from fairlead.model.errors import OffsetOutOfRange
from fairlead.protocol.fetch import FetchPartition, FetchTopic, PartitionAnswer, TopicAnswer
from fairlead.streamlog.fetch import Fetched
from fairlead.streamlog.shard import Watch


@dataclass(slots=True, eq=False)
class _Wanted:
    """One partition to read and what was found there so far."""

    found: Found
    asked: FetchPartition
    answer: PartitionAnswer
    size_bytes: int = 0

    @property
    def end(self) -> int:
        """The partition's end as announced now; -1 once its topic is gone."""
        state = self.found.shard.state
        if not state.has_topic(self.found.topic.number):
            return -1
        return state.partition(self.found.topic.number, self.asked.partition).end


class _Cold(NamedTuple):
    """A partition whose next batches are not in memory, and how many bytes of them may be read."""

    wanted: _Wanted
    max_bytes: int


class Poll:
    """The partitions of one Fetch. `close()` it, whatever happens."""

    def __init__(self, listener: Listener, readers: Executor, topics: Sequence[FetchTopic], max_bytes: int) -> None:
        self._listener = listener
        self._readers = readers
        self._topics = topics
        self._places: list[list[_Wanted | PartitionAnswer]] = []
        self._room_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._watches: list[Watch] | None = None
        self._moved: dict[_Wanted, None] = {}
        self._wake: asyncio.Future[None] | None = None
        self.size_bytes = 0
        self.failed = False
        """A partition has an error: the client must hear of it, so nothing is waited for."""

    async def read_all(self) -> None:
        """Find each partition and read it."""
        pace = Pace()
        for topic in self._topics:
            self._places.append(self._begin(topic))
            await pace.turn()
        await self._read(self._wanted(), pace)

    async def read_moved(self) -> None:
        """Read again where something has moved since."""
        moved, self._moved = self._moved, {}
        await self._read(moved, Pace())

    async def wait(self, deadline: float) -> bool:
        """Until a partition without data moves; False if none did before `deadline` (the loop's time, seconds)."""
        if self._watches is None:
            self._watch()
        if self._moved:
            return True
        self._wake = self._loop.create_future()
        timer = self._loop.call_at(deadline, _wake, self._wake)
        try:
            await self._wake
        finally:
            timer.cancel()
            self._wake = None
        return bool(self._moved)

    def answers(self) -> list[TopicAnswer]:
        """What was found, in the order of the request."""
        return [
            TopicAnswer(topic.name, topic.topic_id, [p.answer if isinstance(p, _Wanted) else p for p in places])
            for topic, places in zip(self._topics, self._places, strict=True)
        ]

    def close(self) -> None:
        """Watch nothing any more."""
        for watch in self._watches or ():
            watch.close()

    def _wanted(self) -> Iterable[_Wanted]:
        return (place for places in self._places for place in places if isinstance(place, _Wanted))

    def _begin(self, topic: FetchTopic) -> list[_Wanted | PartitionAnswer]:
        try:
            found = find_topic(self._listener, topic.name, topic.topic_id)
        except Exception as error:
            self.failed = True
            return [PartitionAnswer(asked.partition, code_of(error)) for asked in topic.partitions]
        return [_Wanted(found, asked, PartitionAnswer(asked.partition, ErrorCode.none)) for asked in topic.partitions]

    async def _read(self, wanted: Iterable[_Wanted], pace: Pace) -> None:
        cold: list[_Cold] = []
        for one in wanted:
            if not one.size_bytes:
                self._read_warm(one, cold)
            await pace.turn()
        if cold:
            results = await self._loop.run_in_executor(self._readers, partial(_read_cold, cold))
            for (one, reserved_bytes), result in zip(cold, results, strict=True):
                self._room_bytes += reserved_bytes
                self._put(one, result)

    def _read_warm(self, one: _Wanted, cold: list[_Cold]) -> None:
        """Answer from memory; what is not there goes to `cold` with the room that is kept for it."""
        topic, asked, log = one.found.topic, one.asked, one.found.shard.log
        limit = min(asked.max_bytes, self._room_bytes)
        try:
            check_partition(topic, asked.partition)
            check_epoch(topic, asked.current_leader_epoch)
            if self._room_bytes <= 0:
                state = log.state.partition(topic.number, asked.partition)
                self._put(one, Fetched([], state.end, state.start))
                return
            fetched = log.fetch_cached(topic.number, asked.partition, asked.offset, limit)
        except Exception as error:
            self._put(one, error)
            return
        if fetched is not None:
            self._put(one, fetched)
        else:
            self._room_bytes -= limit
            cold.append(_Cold(one, limit))

    def _put(self, one: _Wanted, result: Fetched | Exception) -> None:
        partition = one.asked.partition
        if isinstance(result, Exception):
            known = isinstance(result, OffsetOutOfRange)
            start, end = (result.start, result.end) if isinstance(result, OffsetOutOfRange) else (-1, -1)
            one.answer = PartitionAnswer(partition, code_of(result), end if known else -1, start if known else -1)
            self.failed = True
            return
        one.size_bytes = sum(map(len, result.batches))
        one.answer = PartitionAnswer(partition, ErrorCode.none, result.high_watermark, result.log_start, result.batches)
        self._room_bytes -= one.size_bytes
        self.size_bytes += one.size_bytes

    def _watch(self) -> None:
        self._watches = []
        for one in self._wanted():
            if one.size_bytes:
                continue
            shard, number = one.found.shard, one.found.topic.number
            self._watches.append(shard.watch(number, one.asked.partition, partial(self._note, one)))
            # It may have moved between its reading and now.
            if one.end != one.answer.high_watermark:
                self._moved[one] = None

    def _note(self, one: _Wanted) -> None:
        self._moved[one] = None
        if self._wake is not None:
            _wake(self._wake)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _read_cold(cold: Sequence[_Cold]) -> list[Fetched | Exception]:
    """Read from disk; runs in a thread."""
    return [_read_one(one.found, one.asked, max_bytes) for one, max_bytes in cold]


def _read_one(found: Found, asked: FetchPartition, max_bytes: int) -> Fetched | Exception:
    try:
        return found.shard.log.fetch(found.topic.number, asked.partition, asked.offset, max_bytes)
    except Exception as error:
        return error
