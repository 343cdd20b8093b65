"""Fetch while it is gathered: what is wanted of which topics, what was found, and what is waited for.

A consumer of thousands of partitions names them all in each request, and nearly all of them say again what they said
before: read from this offset, where nothing new has come. So a connection remembers the topics of its last Fetch by
their bytes, each with its packed answer and with a watch that says when the answer holds no more; such a topic costs a
look into a table. (Incremental sessions, KIP-227, would save sending them; librdkafka has none.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import code_of
from fairlead.broker.pacing import Pace
from fairlead.broker.partitions import check_epoch, find_topic
from fairlead.broker.topics import Found, ListenerView
from fairlead.model.errors import OffsetOutOfRange
from fairlead.protocol.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchTopic,
    FetchTopicResponse,
    pack_topic,
    read_topic,
)
from fairlead.streamlog.reading.fetch import Fetched
from fairlead.streamlog.writing.watches import Watch

REMEMBERED_MAX = 20_000
"""Topics remembered for one connection, some 20 MB; a request of more is read anew each time."""


@dataclass(slots=True, eq=False)
class _Entry:
    """One topic of a request, and what was found of it so far."""

    asked: FetchTopic
    found: Found | None
    answers: list[FetchPartitionResponse]
    size_bytes: int = 0
    current: bool = False
    """The answers say what is there now, which is nothing to read."""
    packed: bytes = b""
    """The answers for the wire, while `current`."""
    slot: int = -1
    watches: list[Watch] = field(default_factory=list)

    def same_topic(self) -> bool:
        """The topic is still there with the same partitions and epoch, in a stream that was not deleted."""
        if self.found is None or self.found.shard.closed:
            return False
        number, table = self.found.topic.number, self.found.shard.state.topic_table
        return table.slot[number] == self.slot and table.epoch[number] == self.found.topic.epoch

    def at_end(self) -> bool:
        """Every partition is asked for from its end on, as it is now."""
        assert self.found is not None
        state, number = self.found.shard.state, self.found.topic.number
        return all(one.offset == state.partition(number, one.partition).end for one in self.asked.partitions)

    def close(self) -> None:
        """Watch nothing any more."""
        for watch in self.watches:
            watch.close()
        self.watches = []
        self.current = False


class _Cold(NamedTuple):
    """A partition whose next batches are not in memory, and how many bytes of them may be read."""

    entry: _Entry
    place: int
    max_bytes: int


class FetchMemory:
    """What a connection remembers of its last Fetch. `close` it with the connection."""

    def __init__(self) -> None:
        self._form = (0, 0)
        self._entries: dict[bytes, _Entry] = {}
        self.moved: dict[_Entry, None] = {}
        """Topics where something has moved since they were read."""
        self.wake: asyncio.Future[None] | None = None
        """Done as soon as something moves."""

    def take(self, listener: ListenerView, topics: Iterable[bytes], form: tuple[int, int]) -> Iterator[_Entry]:
        """The entry of each topic; those of the last request that are in this one again are used again.

        `form` is (version, isolation), on which packed answers depend.

        Raises:
            Malformed: a topic cannot be read.
        """
        if form != self._form:
            self.close()
            self._form = form
        before, self._entries = self._entries, {}
        self.moved.clear()
        try:
            for data in topics:
                entry = self._entries.get(data) or before.pop(data, None)
                if entry is None or not entry.same_topic():
                    if entry is not None:
                        entry.close()
                    entry = _new_entry(listener, read_topic(data, form[0]))
                self._entries[data] = entry
                yield entry
        finally:
            for entry in before.values():
                entry.close()

    def watch(self, entry: _Entry) -> None:
        """Note from now on what moves there."""
        assert entry.found is not None
        note = partial(self._note, entry)
        shard, number = entry.found.shard, entry.found.topic.number
        entry.watches = [shard.watch(number, one.partition, note) for one in entry.asked.partitions]

    def _note(self, entry: _Entry) -> None:
        entry.current = False
        self.moved[entry] = None
        if self.wake is not None:
            _finish(self.wake)

    def settle(self) -> None:
        """The answer is packed: keep no batches until the next request, and nothing if it is too much to remember."""
        for entry in self._entries.values():
            if entry.size_bytes:
                entry.answers = _blank(entry.asked)
        if len(self._entries) > REMEMBERED_MAX:
            self.close()

    def close(self) -> None:
        """Forget everything and watch nothing."""
        for entry in self._entries.values():
            entry.close()
        self._entries = {}
        self.moved.clear()


def _blank(asked: FetchTopic) -> list[FetchPartitionResponse]:
    """Answers in which nothing was found yet."""
    return [FetchPartitionResponse(one.partition, ErrorCode.none) for one in asked.partitions]


def _new_entry(listener: ListenerView, asked: FetchTopic) -> _Entry:
    try:
        found = find_topic(listener, asked.name, asked.topic_id)
    except Exception as error:
        return _Entry(asked, None, [FetchPartitionResponse(one.partition, code_of(error)) for one in asked.partitions])
    return _Entry(asked, found, _blank(asked), slot=found.shard.state.topic_table.slot[found.topic.number])


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Poll:
    """One Fetch."""

    def __init__(self, memory: FetchMemory, readers: Executor, form: tuple[int, int], max_bytes: int) -> None:
        self._memory = memory
        self._readers = readers
        self._form = form
        self._entries: list[_Entry] = []
        self._room_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self.size_bytes = 0
        self._failed = False

    def enough(self, min_bytes: int) -> bool:
        """The answer need not wait: there is enough, or no room, or an error that the client must hear of."""
        return self._failed or self.size_bytes >= min_bytes or self._room_bytes <= 0

    async def read_all(self, listener: ListenerView, topics: Iterable[bytes]) -> None:
        """Find each topic and read it."""
        pace = Pace()
        cold: list[_Cold] = []
        for entry in self._memory.take(listener, topics, self._form):
            self._entries.append(entry)
            if not entry.current:
                self._read(entry, cold)
            await pace.turn()
        await self._read_cold(cold)

    async def read_moved(self) -> None:
        """Read again where something has moved since."""
        moved = list(self._memory.moved)
        self._memory.moved.clear()
        cold: list[_Cold] = []
        pace = Pace()
        for entry in moved:
            if entry.watches and not entry.size_bytes:  # else it is no longer asked for, or has its data
                self._read(entry, cold)
                await pace.turn()
        await self._read_cold(cold)

    async def wait(self, deadline: float) -> bool:
        """Until something moves; False if nothing did before `deadline` (the loop's time, seconds)."""
        memory = self._memory
        if not memory.moved:
            memory.wake = self._loop.create_future()
            timer = self._loop.call_at(deadline, _finish, memory.wake)
            try:
                await memory.wake
            finally:
                timer.cancel()
                memory.wake = None
        return bool(memory.moved)

    @property
    def topics(self) -> int:
        """How many topics were asked for."""
        return len(self._entries)

    def answers(self) -> Iterator[FetchTopicResponse | bytes]:
        """What was found, in the order of the request."""
        for entry in self._entries:
            if entry.current:
                yield entry.packed
            else:
                yield FetchTopicResponse(entry.asked.name, entry.asked.topic_id, entry.answers)

    def _read(self, entry: _Entry, cold: list[_Cold]) -> None:
        """Answer from memory; what is not there goes to `cold` with the room that is kept for it."""
        entry.size_bytes = 0
        if entry.found is None:
            self._failed = True
            return
        begun_cold = len(cold)
        for place, asked in enumerate(entry.asked.partitions):
            self._read_partition(entry, place, asked, cold)
        if len(cold) == begun_cold:
            self._settle(entry)

    def _read_partition(self, entry: _Entry, place: int, asked: FetchPartition, cold: list[_Cold]) -> None:
        assert entry.found is not None
        topic, shard = entry.found.topic, entry.found.shard
        limit = min(asked.max_bytes, self._room_bytes)
        try:
            shard.check_open()
            topic.check_partition(asked.partition)
            check_epoch(topic, asked.current_leader_epoch)
            fetched = (
                shard.reader.fetch_cached(topic.number, asked.partition, asked.offset, limit) if limit > 0 else None
            )
        except Exception as error:
            self._put(entry, place, error)
            return
        if fetched is not None:
            self._put(entry, place, fetched)
        elif self._room_bytes > 0:
            self._room_bytes -= limit
            cold.append(_Cold(entry, place, limit))
        else:
            state = shard.state.partition(topic.number, asked.partition)
            self._put(entry, place, Fetched([], state.end, state.start))

    async def _read_cold(self, cold: Sequence[_Cold]) -> None:
        if not cold:
            return
        results = await self._loop.run_in_executor(self._readers, _read_from_disk, cold)
        for one, result in zip(cold, results, strict=True):
            self._room_bytes += one.max_bytes
            self._put(one.entry, one.place, result)
            self._read_ahead(one, result)
        for entry in {one.entry: None for one in cold}:
            self._settle(entry)

    def _read_ahead(self, one: _Cold, result: Fetched | Exception) -> None:
        """A consumer that was answered from the disk will mostly go on there."""
        found = one.entry.found
        if isinstance(result, Exception) or found is None:
            return
        partition = one.entry.asked.partitions[one.place].partition
        job = found.shard.reader.ahead(found.topic.number, partition, result, one.max_bytes)
        if job is not None:
            self._readers.submit(job)

    def _put(self, entry: _Entry, place: int, result: Fetched | Exception) -> None:
        partition = entry.asked.partitions[place].partition
        if isinstance(result, Exception):
            bounds = (result.end, result.start) if isinstance(result, OffsetOutOfRange) else (-1, -1)
            entry.answers[place] = FetchPartitionResponse(partition, code_of(result), *bounds)
            self._failed = True
            return
        size = sum(map(len, result.batches))
        entry.answers[place] = FetchPartitionResponse(
            partition, ErrorCode.none, result.high_watermark, result.log_start, result.batches
        )
        entry.size_bytes += size
        self._room_bytes -= size
        self.size_bytes += size

    def _settle(self, entry: _Entry) -> None:
        """A topic without anything to read is watched, and its answer kept until it moves."""
        if entry.size_bytes or any(answer.error for answer in entry.answers):
            return
        if not entry.watches:
            self._memory.watch(entry)
        if entry.at_end():
            topic = FetchTopicResponse(entry.asked.name, entry.asked.topic_id, entry.answers)
            entry.packed = pack_topic(topic, *self._form)
            entry.current = True
        elif self._room_bytes > 0:
            self._memory.moved[entry] = None  # it moved while it was read


def _read_from_disk(cold: Sequence[_Cold]) -> list[Fetched | Exception]:
    """Runs in a thread."""
    return [_read_one(one) for one in cold]


def _read_one(cold: _Cold) -> Fetched | Exception:
    found, asked = cold.entry.found, cold.entry.asked.partitions[cold.place]
    assert found is not None
    try:
        return found.shard.reader.fetch(found.topic.number, asked.partition, asked.offset, cold.max_bytes)
    except Exception as error:
        return error
