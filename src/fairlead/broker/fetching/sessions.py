"""Fetch sessions (KIP-227): a client says only what has changed since its last request, and is told only what has.

A session knows the partitions that its client reads, and where. Each is watched, so a request looks only at those that
are due: where something has moved, where the last answer left something, what the client moved itself, and what failed.
A request of ten thousand idle partitions costs as much as one of a single partition.

What is always true: a partition that is not due has been read to its end, its watch is open, and the client knows its
end and its start. Of an answer nobody knows whether it came; if it did not, the client begins a new session.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fairlead.broker.fetching.parts import PARTITION_BYTES, AskedTopic, Part, Reading, Waker
from fairlead.broker.fetching.remembered import SHARE, Hold, Remembered
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.topics import ListenerView
from fairlead.model.clock import Randomness
from fairlead.protocol.fetch import FetchPartition, FetchPartitionResponse, FetchTopic, FetchTopicResponse
from fairlead.streamlog.writing.watches import Watch

EVICTION_SECONDS: Final = 120.0
"""Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS: a session that was not used for longer leaves for any other, and
one that is older for a larger one."""
_EPOCH_MAX: Final = 2**31 - 1
_NEVER: Final = (-2, -2, -2)
TopicKey = str | bytes
"""A topic's name, or from version 13 on its id."""


class Owner(NamedTuple):
    """Who may use a session: in Kafka whoever knows its number."""

    listener: ListenerView
    host: str


class _Topic(AskedTopic):
    __slots__ = ("parts",)

    def __init__(self, name: str | None, topic_id: bytes | None) -> None:
        super().__init__(name, topic_id)
        self.parts: dict[int, _Part] = {}


class _Part(Part):
    """A partition of a session."""

    __slots__ = ("_session", "_watch", "told")

    topic: _Topic

    def __init__(self, session: FetchSession, topic: _Topic, asked: FetchPartition) -> None:
        super().__init__(topic, asked)
        self._session = session
        self._watch: Watch | None = None
        self.told = _NEVER
        """End and start as the client knows them."""

    def watch(self) -> None:
        """Watch the topic as it was found last."""
        self.unwatch()
        if (found := self.topic.found) is not None:
            self._watch = found.shard.watch(found.topic.number, self.asked.partition, self._moved)

    def unwatch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _moved(self) -> None:
        self._session.note(self)

    @property
    def is_news(self) -> bool:
        """The client must be told."""
        answer = self.answer
        return answer is not None and bool(answer.error or answer.batches or self._bounds(answer) != self.told)

    def note_told(self) -> None:
        """The answer is on its way. After an error the client is told anew."""
        if self.answer is not None:
            self.told = _NEVER if self.answer.error else self._bounds(self.answer)

    @staticmethod
    def _bounds(answer: FetchPartitionResponse) -> tuple[int, int, int]:
        return answer.high_watermark, answer.log_start, answer.stable_end


class FetchSession:
    """What one client reads, from Fetch to Fetch."""

    def __init__(self, owner: Owner, by_id: bool, hold: Hold) -> None:
        self.owner = owner
        self.by_id = by_id
        self.number = 0
        """The client's name for it; 0 until it is kept."""
        self.epoch = 1
        """Which request comes next."""
        self.begun = self.used = 0.0
        self.closed = False
        self.lock = asyncio.Lock()
        """Held by the request that is answered."""
        self.due: dict[_Part, None] = {}
        """What is to be looked at, in this order."""
        self.size = 0
        """Its partitions."""
        self.waker = Waker()
        self._hold = hold
        self._topics: dict[TopicKey, _Topic] = {}
        self._topics_bytes = 0

    def put(self, asked: FetchTopic) -> None:
        """Add partitions, or read them from elsewhere from now on."""
        key = asked.name or asked.topic_id or b""
        topic = self._topics.get(key)
        if topic is None:
            topic = self._topics[key] = _Topic(asked.name, asked.topic_id)
            self._topics_bytes += topic.kept_bytes
        for one in asked.partitions:
            part = topic.parts.get(one.partition)
            if part is None:
                part = topic.parts[one.partition] = _Part(self, topic, one)
                self.size += 1
                if topic.found is not None:
                    part.watch()
            part.asked = one
            self.due[part] = None

    def drop(self, key: TopicKey, partitions: Iterable[int]) -> None:
        """Forget partitions."""
        topic = self._topics.get(key)
        if topic is None:
            return
        for number in partitions:
            part = topic.parts.pop(number, None)
            if part is not None:
                part.unwatch()
                self.due.pop(part, None)
                self.size -= 1
        if not topic.parts:
            del self._topics[key]
            self._topics_bytes -= topic.kept_bytes

    def count(self) -> bool:
        """Hold the memory of what it is now; False if there is no room for that."""
        return self._hold.resize(self._topics_bytes + self.size * PARTITION_BYTES)

    def note(self, part: _Part) -> None:
        """Something moved there."""
        self.due[part] = None
        self.waker.wake()

    def next_epoch(self) -> None:
        """A request of the epoch that was expected has come; one that still waits is not."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        self.waker.wake()

    def close(self) -> None:
        """Watch nothing any more."""
        self.closed = True
        for topic in self._topics.values():
            for part in topic.parts.values():
                part.unwatch()
        self._topics, self._topics_bytes, self.due, self.size = {}, 0, {}, 0
        self.count()
        self.waker.wake()


class SessionPoll:
    """One Fetch of a session. Its lock is held."""

    def __init__(self, session: FetchSession, reading: Reading, *, everything: bool) -> None:
        """`everything`: the first one, which says all about each partition."""
        self.session = session
        self._reading = reading
        self._everything = everything
        self._epoch = session.epoch
        self._taken: dict[_Part, None] = {}

    @property
    def over(self) -> bool:
        """The session was closed, or its client has asked again."""
        return self.session.closed or self.session.epoch != self._epoch

    async def read(self) -> None:
        """Look at what is due."""
        due, self.session.due = self.session.due, {}
        self._taken |= due
        for part in due:
            if not part.size_bytes:
                part.forget()  # it moved since: what was found says no longer that there is nothing
        await self._find(due)
        await self._reading.read(self._unread(due))
        if not self._reading.enough:
            self.session.due |= {part: None for part in due if part.size_bytes and not part.at_end}

    def _unread(self, due: Iterable[_Part]) -> Iterator[_Part]:
        for part in due:
            if self._reading.exhausted and not self._everything:
                return
            yield part

    async def _find(self, due: Iterable[_Part]) -> None:
        """Find topics that are new or have changed."""
        pace = Pace()
        changed = set()
        for topic in {part.topic: None for part in due}:
            if not topic.same and not self.over:
                changed.add(topic)
                topic.find(self.session.owner.listener)
                for part in topic.parts.values():
                    part.watch()
            await pace.turn()
        for part in due if changed else ():
            if part.topic in changed:
                self._reading.give_back(part)

    async def wait(self, deadline: float) -> bool:
        """Until something moves; False if nothing did before `deadline` (the loop's time, seconds), or it is over."""
        session = self.session
        if not session.due and not self.over:
            await session.waker.wait(deadline)
        return bool(session.due) and not self.over and asyncio.get_running_loop().time() < deadline

    def answers(self) -> list[FetchTopicResponse]:
        """What the client is to be told."""
        found: dict[_Topic, list[FetchPartitionResponse]] = {}
        for part in self._taken:
            if part.answer is not None and (self._everything or part.is_news):
                found.setdefault(part.topic, []).append(part.answer)
        return [FetchTopicResponse(topic.name, topic.topic_id, parts) for topic, parts in found.items()]

    def settle(self, *, told: bool) -> None:
        """Keep for the next request what is not done: what was not reached, then what has moved, and last what had its
        data in this answer, so that everything has its turn. `told`: the answer was made."""
        if self.session.closed:
            return
        unreached: dict[_Part, None] = {}
        answered: dict[_Part, None] = {}
        for part in self._taken:
            if told:
                part.note_told()
            if part.size_bytes:
                answered[part] = None
            elif not (told and part.is_done):
                unreached[part] = None
            part.forget()
        due = unreached | self.session.due
        for part in answered:
            due.pop(part, None)
            due[part] = None
        self.session.due = due


class FetchSessions:
    """The sessions of one server, by Kafka's rules, and none of an address that has its share. Everything runs on its
    event loop."""

    def __init__(self, slots: int, remembered: Remembered, randomness: Randomness) -> None:
        self._slots = slots
        self._remembered = remembered
        self._randomness = randomness
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """The one that was not used for longest first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, number: int, owner: Owner) -> FetchSession | None:
        """The session of that number, if it is the asker's."""
        session = self._sessions.get(number)
        return session if session is not None and session.owner == owner else None

    def begin(self, owner: Owner, by_id: bool) -> FetchSession:
        """A session that is not kept yet; `keep` or close it."""
        return FetchSession(owner, by_id, Hold(self._remembered, owner.host))

    def keep(self, session: FetchSession, now: float) -> bool:
        """Keep a new session with what it has been given; False if there is no room. `now` is the loop's time."""
        host, size = session.owner.host, session.size
        if self._slots < 1 or not self._make_place(host, size, now):
            return False
        while not session.count():
            if not self._evict_stale(list(self._sessions.values()), now):
                return False
        session.begun = session.used = now
        session.number = self._new_number()
        self._sessions[session.number] = session
        return True

    def touch(self, session: FetchSession, now: float) -> bool:
        """It is used. False if it has grown and there is no room: then it is gone."""
        session.used = now
        self._sessions.move_to_end(session.number)
        while not session.count():
            if not self._evict_stale([one for one in self._sessions.values() if one is not session], now):
                self.remove(session)
                return False
        return True

    def remove(self, session: FetchSession) -> None:
        """End it."""
        if self._sessions.get(session.number) is session:
            del self._sessions[session.number]
        session.close()

    def forget(self, listener: ListenerView | None = None) -> None:
        """End all sessions of a listener, or of all."""
        for session in list(self._sessions.values()):
            if listener is None or session.owner.listener is listener:
                self.remove(session)

    def _make_place(self, host: str, size: int, now: float) -> bool:
        mine = [session for session in self._sessions.values() if session.owner.host == host]
        if len(mine) >= max(1, int(self._slots * SHARE)):
            return self._evict(mine, size, now)
        return len(self._sessions) < self._slots or self._evict(list(self._sessions.values()), size, now)

    def _evict(self, among: list[FetchSession], size: int, now: float) -> bool:
        """One that is stale, or an old one that is smaller."""
        if self._evict_stale(among, now):
            return True
        old = [session for session in among if now - session.begun > EVICTION_SECONDS]
        smallest = min(old, key=lambda session: session.size, default=None)
        if smallest is None or smallest.size >= size:
            return False
        self.remove(smallest)
        return True

    def _evict_stale(self, among: list[FetchSession], now: float) -> bool:
        if not among or now - among[0].used <= EVICTION_SECONDS:
            return False
        self.remove(among[0])
        return True

    def _new_number(self) -> int:
        while True:
            number = int.from_bytes(self._randomness.id16()[:4], "big") & 0x7FFFFFFF
            if number and number not in self._sessions:
                return number
