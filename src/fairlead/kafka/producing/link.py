"""One of a producer's connections to a broker: a request has at most one batch of each partition, and at most so many
requests are under way.

Answers come in the order of the requests, so a partition's batches are acknowledged in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Final, NamedTuple, Protocol

from fairlead.kafka.configuration.settings import ProduceSettings
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.versions import PRODUCE
from fairlead.kafka.producing.lanes import Lane, Waiting
from fairlead.model.errors import Aborted, FairleadError, Fenced
from fairlead.protocol.client_produce import VERSIONS, Piece, Produced, Topic, read_response, write_request
from fairlead.protocol.produce import TOPIC_IDS_FROM
from fairlead.protocol.wire import ZERO_UUID, Malformed

Sent = dict[tuple[Topic, int], tuple[Lane, Waiting]]


class Terms(NamedTuple):
    """On which batches are sent."""

    transactional_id: str | None = None
    version_max: int = VERSIONS[-1]
    """From version 12 on a batch joins its partition to the transaction."""


NO_TRANSACTION: Final = Terms()


class Owner(Protocol):
    """The producer."""

    def landed(self, lane: Lane) -> None:
        """Nothing of the lane flies, and not all of it was taken."""
        ...

    def goes_on(self, lane: Lane) -> None:
        """A batch was taken."""
        ...

    def unreachable(self, link: ProducerLink, why: str) -> None:
        """There is no connection; no lane flies."""
        ...

    def failed(self, error: Fenced | Aborted) -> None:
        """The producer must stop, or its transaction."""
        ...


class ProducerLink:
    """Connects when it is first needed, and again."""

    def __init__(
        self, owner: Owner, brokers: Brokers, node: int, settings: ProduceSettings, terms: Terms = NO_TRANSACTION
    ) -> None:
        self.lanes: set[Lane] = set()
        self._terms = terms
        self._owner = owner
        self._brokers = brokers
        self._node = node
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Lane] = deque()
        self._connection: Connection | None = None
        self._in_flight = 0
        self._scheduled = False
        self._needed = asyncio.Event()
        self._by_name = False
        """A topic has no id: all are named."""
        self._quiet_until = 0.0
        """The broker asked to be left alone."""
        self._task = self._loop.create_task(self._run(), name=f"kafka-produce-{node}")

    def adopt(self, lane: Lane) -> None:
        """Send the lane's batches from now on."""
        self.lanes.add(lane)
        lane.link = self
        lane.meet()
        self._by_name = self._by_name or lane.topic_id == ZERO_UUID
        self.offer(lane)

    def leave(self, lane: Lane) -> None:
        """Send no more of it; nothing of it flies."""
        self.lanes.discard(lane)
        lane.link = None
        if lane.ready:
            self._queue.remove(lane)
            lane.ready = False

    def offer(self, lane: Lane) -> None:
        if lane.may_send and not lane.ready:
            lane.ready = True
            self._queue.append(lane)
            self._schedule()

    async def close(self) -> None:
        """End the connection."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._queue.clear()
        if self._connection is not None:
            self._connection.close()

    async def _run(self) -> None:
        while True:
            await self._needed.wait()
            if self._connection is not None:
                self._connection.close()
            try:
                self._connection = await self._brokers.connect(self._node)
                self._connection.versions.of(PRODUCE)
            except FairleadError as error:
                self._owner.unreachable(self, str(error))
            else:
                for lane in self.lanes:
                    lane.meet()
            self._needed.clear()  # also where one more was needed meanwhile: this is it
            self._schedule()

    def _schedule(self) -> None:
        """Send soon: what is handed in meanwhile goes along."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        connection = self._connection
        if connection is None or not connection.open:
            if self._queue and not self._in_flight:
                self._needed.set()
            return
        wait = self._quiet_until - self._loop.time()
        if wait > 0:
            self._scheduled = True
            self._loop.call_later(wait, self._pump)
            return
        while self._queue and self._in_flight < self._settings.in_flight_max:
            self._send(connection)

    def _send(self, connection: Connection) -> None:
        version = min(connection.versions.of(PRODUCE), self._terms.version_max)
        if self._by_name:
            version = min(version, TOPIC_IDS_FROM - 1)
        topics: dict[Topic, dict[int, list[Piece]]] = {}
        sent: Sent = {}
        room = self._settings.request_bytes_max
        for _ in range(len(self._queue)):  # so that a lane that has more stands behind these
            lane = self._queue[0]
            if lane.may_send:
                size = lane.waiting[0].batch.size_bytes
                if sent and size > room:
                    break
                room -= size
                topic = lane.topic_id if version >= TOPIC_IDS_FROM else lane.place.topic
                waiting, pieces = lane.depart()
                topics.setdefault(topic, {})[lane.place.partition] = pieces
                sent[topic, lane.place.partition] = (lane, waiting)
            self._queue.popleft()
            lane.ready = False
            self.offer(lane)
        if sent:
            self._in_flight += 1
            transactional_id = self._terms.transactional_id
            body = write_request(topics, version, self._settings.timeout_ms, transactional_id=transactional_id)
            answer = connection.send(PRODUCE, version, body)
            answer.add_done_callback(partial(self._answered, connection, version, sent))

    def _answered(self, connection: Connection, version: int, sent: Sent, answer: asyncio.Future[memoryview]) -> None:
        self._in_flight -= 1
        try:
            produced = _read(answer.result(), version, sent, connection)
            self._quiet_until = self._loop.time() + produced.throttle_ms / 1000
            for key, outcome in produced.outcomes.items():
                lane, waiting = sent[key]
                lane.answered(waiting, outcome)
                if lane.failures and not lane.landing:
                    self._owner.goes_on(lane)
        except (Fenced, Aborted) as error:
            self._owner.failed(error)
            return
        except FairleadError as error:
            for lane, _ in sent.values():
                lane.lost(str(error))
        for lane, _ in sent.values():
            if lane.down:
                self._owner.landed(lane)
            elif lane.link is self:
                self.offer(lane)
        self._schedule()


def _read(data: memoryview, version: int, sent: Sent, connection: Connection) -> Produced:
    """The answer, if it says of each batch what became of it, and of nothing else."""
    try:
        produced = read_response(data, version)
    except Malformed as error:
        raise connection.refuse(f"its answer to produce is none: {error}") from None
    if produced.outcomes.keys() != sent.keys():
        raise connection.refuse("its answer to produce is about other partitions")
    return produced
