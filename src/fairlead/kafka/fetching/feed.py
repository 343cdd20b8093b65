"""One leader's half of a fetcher: a connection, a session, and at most one answer that has not been taken."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from fairlead.kafka.configuration.settings import FetchSettings
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.versions import FETCH
from fairlead.kafka.errors import error_of
from fairlead.kafka.fetching.fetch_session import FetchSession, Key
from fairlead.kafka.values import TopicPartition
from fairlead.model.errors import FairleadError
from fairlead.protocol.client_fetch import Answer, Answered, Asked, Bounds, read_response, write_request
from fairlead.protocol.fetch import TOPIC_IDS_FROM
from fairlead.protocol.wire import Malformed

_SESSION_UNKNOWN: Final = int(ErrorCode.fetch_session_id_not_found)
_SESSION_ELSEWHERE: Final = frozenset(
    map(
        int,
        (
            ErrorCode.invalid_fetch_session_epoch,
            ErrorCode.fetch_session_topic_id_error,
            ErrorCode.inconsistent_topic_id,
        ),
    )
)
_SESSIONS_LOST_MAX: Final = 3
"""In a row, before the broker counts as one that does not answer."""


class Reading:
    """A partition that is read."""

    def __init__(self, place: TopicPartition, offset: int, epoch: int, topic_id: bytes | None, max_bytes: int) -> None:
        self.place = place
        self.offset = offset
        self.epoch = epoch
        self.topic_id = topic_id
        """The topic whose partition it is; None until metadata has named one, or where there are no ids."""
        self.max_bytes = max_bytes
        self.paused = False
        self.feed: Feed | None = None
        self.key: Key | None = None
        """Under which its feed's session has it."""
        self.asked_offset = offset
        """What the request said that is under way."""
        self.leader_epoch = -1
        self.failures = 0
        self.missing = 0
        """So many times in a row metadata did not have its topic."""


class Found(NamedTuple):
    """What an answer has of one partition, and the offset that was asked for."""

    reading: Reading
    asked_offset: int
    answered: Answered


class Owner(Protocol):
    """Who takes the answers."""

    def arrived(self, feed: Feed) -> None:
        """There is an answer to take."""
        ...

    def failed(self, feed: Feed, why: str) -> None:
        """There is none; all readings are to leave the feed."""
        ...


class Feed:
    """Asks one broker, again and again."""

    def __init__(self, owner: Owner, brokers: Brokers, node: int, settings: FetchSettings, *, committed: bool) -> None:
        self.readings: dict[TopicPartition, Reading] = {}
        self._owner = owner
        self._brokers = brokers
        self.node = node
        self._bounds = Bounds(settings.max_wait_ms, settings.min_bytes, settings.max_bytes)
        self._apart_seconds = settings.apart_ms / 1000
        self._committed = committed
        self._session = FetchSession()
        self._changed: dict[TopicPartition, Reading] = {}
        self._by_key: dict[Key, Reading] = {}
        self._by_id = True
        self._found: list[Found] = []
        self._news = asyncio.Event()
        """Something is wanted, or an answer was taken."""
        self._connection: Connection | None = None
        self._sessions_lost = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"kafka-fetch-{node}")

    def add(self, reading: Reading) -> None:
        """This broker leads it now."""
        reading.feed = self
        self.readings[reading.place] = reading
        if not reading.paused:
            self.ask(reading)

    def leave(self, reading: Reading) -> None:
        """It is read elsewhere, or not at all."""
        self.drop(reading)
        self.readings.pop(reading.place, None)
        reading.feed = None

    def ask(self, reading: Reading) -> None:
        """Ask for it from where it stands now."""
        self._changed[reading.place] = reading
        self._news.set()

    def drop(self, reading: Reading) -> None:
        """Ask for it no more; it may be asked for again."""
        self._changed.pop(reading.place, None)
        if reading.key is not None:
            self._session.drop(reading.key)
            self._by_key.pop(reading.key, None)
            reading.key = None

    def take(self) -> list[Found]:
        """The answer that has arrived."""
        found, self._found = self._found, []
        return found

    def go_on(self) -> None:
        """The answer has been dealt with."""
        self._news.set()

    async def close(self) -> None:
        """Ask no more."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._connection is not None:
            self._connection.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        asked_at = -self._apart_seconds
        while True:
            if (early_seconds := asked_at + self._apart_seconds - loop.time()) > 0:
                await asyncio.sleep(early_seconds)
            await self._may_ask()
            asked_at = loop.time()
            try:
                throttle_ms = await self._exchange(await self._connected())
            except FairleadError as error:
                self._begin_anew()
                self._owner.failed(self, str(error))
                continue
            if throttle_ms:
                await asyncio.sleep(throttle_ms / 1000)
            if self._found:
                self._owner.arrived(self)

    async def _may_ask(self) -> None:
        while self._found or not (self._changed or len(self._session)):
            self._news.clear()
            await self._news.wait()

    async def _connected(self) -> Connection:
        if self._connection is None or not self._connection.open:
            if self._connection is not None:
                self._connection.close()
                self._begin_anew()
            self._connection = await self._brokers.connect(self.node)
        return self._connection

    async def _exchange(self, connection: Connection) -> int:
        """Ask once; for how long the broker wants to be left alone."""
        version = self._told_version(connection)
        question = self._session.question()
        session, topics, forgotten = question
        body = write_request(version, self._bounds, session, topics, forgotten, committed=self._committed)
        data = await connection.send(FETCH, version, [body])
        try:
            answer = read_response(data, version)
        except Malformed as error:
            raise connection.refuse(f"its answer to fetch is none: {error}") from None
        if answer.error:
            self._session_lost(answer.error, connection)
        else:
            self._sessions_lost = 0
            self._session.answered(answer.session_id)
            self._found = self._named(answer)
        return answer.throttle_ms

    def _named(self, answer: Answer) -> list[Found]:
        """What an answer has; partitions that have been dropped meanwhile are passed over."""
        readings = self._by_key
        return [
            Found(readings[key], readings[key].asked_offset, answered)
            for key, answered in answer.partitions.items()
            if key in readings
        ]

    def _session_lost(self, error: int, connection: Connection) -> None:
        self._sessions_lost += 1
        if self._sessions_lost > _SESSIONS_LOST_MAX or (error != _SESSION_UNKNOWN and error not in _SESSION_ELSEWHERE):
            raise error_of(error, f"{connection.who}, fetch")
        if error == _SESSION_UNKNOWN:
            self._session.forget()
        else:
            self._session.lost()

    def _told_version(self, connection: Connection) -> int:
        """Tell the session what has changed; the version in which to ask."""
        highest = connection.versions.of(FETCH)
        by_id = highest >= TOPIC_IDS_FROM and all(reading.topic_id for reading in self._changed.values())
        if by_id != self._by_id and (not by_id or not self._by_key):
            self._begin_anew()
            self._by_id = by_id
        for reading in self._changed.values():
            self._tell(reading)
        self._changed = {}
        return highest if self._by_id else min(highest, TOPIC_IDS_FROM - 1)

    def _tell(self, reading: Reading) -> None:
        place = reading.place
        topic = reading.topic_id if self._by_id and reading.topic_id is not None else place.topic
        reading.key = (topic, place.partition)
        reading.asked_offset = reading.offset
        self._by_key[reading.key] = reading
        asked = Asked(place.partition, reading.leader_epoch, reading.offset, reading.epoch, reading.max_bytes)
        self._session.want(reading.key, asked)

    def _begin_anew(self) -> None:
        """A new session, of all that is read here."""
        self._session = FetchSession()
        self._by_key = {}
        self._found = []
        self._sessions_lost = 0
        for reading in self.readings.values():
            reading.key = None
            if not reading.paused:
                self._changed[reading.place] = reading
