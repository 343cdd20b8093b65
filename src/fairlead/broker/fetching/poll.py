"""Fetch of a client without a session, while it is gathered: what is wanted, what was found, what is waited for.

A consumer of thousands of partitions names them all in each request, and nearly all of them say again what they said
before: read from this offset, where nothing new has come. So a connection remembers the topics of its last Fetch by
their bytes, each with its packed answer and with a watch that says when the answer holds no more; such a topic costs a
look into a table. Clients with sessions (`sessions.py`) need not even send it; librdkafka has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from fairlead.broker.fetching.parts import PARTITION_BYTES, AskedTopic, Part, Reading, Waker
from fairlead.broker.fetching.remembered import UNBOUNDED, Hold
from fairlead.broker.fetching.sessions import FetchSession
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.topics import ListenerView
from fairlead.protocol.fetch import FetchPartitionResponse, FetchTopicResponse, pack_topic, read_topic
from fairlead.streamlog.writing.watches import Watch

REMEMBERED_MAX = 20_000
"""Topics remembered for one connection, some 20 MB; a request of more is read anew each time."""


@dataclass(slots=True, eq=False)
class _Entry:
    """One topic of a request, and what was found of it so far."""

    topic: AskedTopic
    parts: list[Part]
    current: bool = False
    """`packed` says what is there now, which is nothing to read."""
    packed: bytes = b""
    """The answers for the wire, as they were when there was nothing to read."""
    watches: list[Watch] = field(default_factory=list)
    """Of each part, or of none."""
    behind: list[Part] = field(default_factory=list)
    """Of which there was more when they had been read."""

    @property
    def kept_bytes(self) -> int:
        """What it takes to remember it, about."""
        return self.topic.kept_bytes + len(self.parts) * PARTITION_BYTES

    @property
    def has_data(self) -> bool:
        """Something was found for the answer that is being made."""
        return any(part.size_bytes for part in self.parts)

    def moved(self) -> list[Part]:
        """Of which there may be more since they were read, or since this was asked."""
        moved = [part for part, watch in zip(self.parts, self.watches, strict=True) if watch.has_moved()]
        found = list(dict.fromkeys([*self.behind, *moved]))
        self.behind = []
        return found

    def answers(self) -> FetchTopicResponse:
        """What was found of each partition."""
        found = [part.answer or FetchPartitionResponse(part.asked.partition, 0) for part in self.parts]
        return FetchTopicResponse(self.topic.name, self.topic.topic_id, found)

    def close(self) -> None:
        """Watch nothing any more."""
        for watch in self.watches:
            watch.close()
        self.watches = []
        self.current = False


class FetchMemory:
    """What a connection remembers of its last Fetch. `close` it with the connection."""

    def __init__(self, hold: Hold | None = None) -> None:
        self._hold = hold or Hold(UNBOUNDED, "")
        self._form = (0, 0)
        self._entries: dict[bytes, _Entry] = {}
        self._size_bytes = 0
        """Of the entries, about."""
        self.moved: dict[_Entry, None] = {}
        """Topics where something has moved since they were read."""
        self.waker = Waker()
        self.session: FetchSession | None = None
        """The newest one that was begun on this connection."""

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
                if entry is None or not entry.topic.same:
                    if entry is not None:
                        self._drop(entry)
                    entry = _new_entry(listener, data, form[0])
                    self._size_bytes += entry.kept_bytes
                self._entries[data] = entry
                yield entry
        finally:
            for entry in before.values():
                self._drop(entry)

    def _drop(self, entry: _Entry) -> None:
        entry.close()
        self._size_bytes -= entry.kept_bytes

    def watch(self, entry: _Entry) -> None:
        """Note from now on what moves there."""
        found = entry.topic.found
        assert found is not None
        note = partial(self._note, entry)
        entry.watches = [found.shard.watch(found.topic.number, part.asked.partition, note) for part in entry.parts]

    def _note(self, entry: _Entry) -> None:
        entry.current = False
        self.moved[entry] = None
        self.waker.wake()

    def settle(self) -> None:
        """The answer is packed: remember nothing if it is too much."""
        if len(self._entries) > REMEMBERED_MAX or not self._hold.resize(self._size_bytes):
            self.close()

    def close(self) -> None:
        """Forget everything and watch nothing."""
        for entry in self._entries.values():
            entry.close()
        self._entries = {}
        self.moved.clear()
        self._size_bytes = 0
        self._hold.resize(0)


def _new_entry(listener: ListenerView, data: bytes, version: int) -> _Entry:
    asked = read_topic(data, version)
    topic = AskedTopic(asked.name, asked.topic_id)
    topic.find(listener)
    return _Entry(topic, [Part(topic, one) for one in asked.partitions])


class Poll:
    """One Fetch."""

    def __init__(self, memory: FetchMemory, reading: Reading, form: tuple[int, int]) -> None:
        self._memory = memory
        self._reading = reading
        self._form = form
        self._entries: dict[_Entry, None] = {}
        """What is named twice is answered once."""
        self._looked_at: dict[_Entry, None] = {}

    async def read_all(self, listener: ListenerView, topics: Iterable[bytes]) -> None:
        """Find each topic and read it."""
        pace = Pace()
        for entry in self._memory.take(listener, topics, self._form):
            self._entries[entry] = None
            await pace.turn()
        await self._read({entry: entry.parts for entry in self._entries if not entry.current})

    async def read_moved(self) -> None:
        """Read again where something has moved since."""
        moved = [entry for entry in self._memory.moved if entry.watches]
        self._memory.moved.clear()
        await self._read({entry: entry.moved() if entry in self._looked_at else entry.parts for entry in moved})

    async def wait(self, deadline: float) -> bool:
        """Until something moves; False if nothing did before `deadline` (the loop's time, seconds)."""
        memory = self._memory
        if not memory.moved:
            await memory.waker.wait(deadline)
        return bool(memory.moved) and asyncio.get_running_loop().time() < deadline

    @property
    def topics(self) -> int:
        """How many topics were asked for."""
        return len(self._entries)

    def answers(self) -> Iterator[FetchTopicResponse | bytes]:
        """What was found, in the order of the request."""
        for entry in self._entries:
            yield entry.packed or entry.answers()

    def settle(self) -> None:
        """The answer is packed, or given up: keep no batches until the next request."""
        for entry in self._looked_at:
            for part in entry.parts:
                part.forget()
        self._memory.settle()

    async def _read(self, entries: dict[_Entry, list[Part]]) -> None:
        """Read these parts of topics of which all others were read before."""
        self._looked_at |= dict.fromkeys(entries)
        for entry in entries:
            entry.packed = b""
        await self._reading.read(part for parts in entries.values() for part in parts)
        pace = Pace()
        for entry, parts in entries.items():
            self._settle(entry, parts)
            await pace.turn()

    def _settle(self, entry: _Entry, parts: list[Part]) -> None:
        """A topic is watched if there is nothing to read, or not enough in all; without anything to read its answer is
        kept until it moves. `parts` were read now."""
        has_data = entry.has_data
        if (has_data and self._reading.enough) or any(part.answer is None or part.answer.error for part in parts):
            return
        if not entry.watches:
            self._memory.watch(entry)
        entry.behind = [part for part in parts if not part.at_end]
        if entry.behind:
            self._memory.moved[entry] = None  # it moved while it was read, or there was no room for it
        elif not has_data:
            entry.packed = pack_topic(entry.answers(), *self._form)
            entry.current = True
