"""An idempotent producer of whole batches: those of a partition take effect in the order of `send`, each once.

What passes by itself is tried again until it is closed. What a broker refuses for good fails alone, and the batches
behind it go on, unless they are to be in order. In a transaction a batch whose topic is not there any more is refused
too. Batches are not copied: their bytes go to the socket as they are, behind a head with this producer's id.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.retrying import again
from fairlead.kafka.asking.seeking import Seeker
from fairlead.kafka.configuration.settings import IN_FLIGHT_MAX, ProduceSettings
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import INIT_PRODUCER_ID
from fairlead.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, check, error_of
from fairlead.kafka.producing.lanes import Batch, Lane, Waiting
from fairlead.kafka.producing.link import NO_TRANSACTION, ProducerLink, Terms
from fairlead.kafka.values import TopicPartition
from fairlead.model.errors import Aborted, Closed, Fenced, InvalidValue, another

_NOT_THERE_PAUSES: Final = 15
"""A topic must be away for so many of the longest pauses, 15 s by default: a broker that has just begun may not
know all of them, nor any one that was only just made. It is less than a transaction may take."""

OnId = Callable[[int, int], Awaitable[None]]
"""Called with a producer id and its epoch before anything is sent under it."""


class Identity(NamedTuple):
    """What a producer keeps from one process to the next."""

    producer_id: int
    epoch: int
    first: Mapping[TopicPartition, int]
    """The sequence numbers with which it goes on; 0 where it sends for the first time."""


class Producer:
    """Made by `Cluster.producer`, which gives it an id."""

    def __init__(
        self,
        brokers: Brokers,
        metadata: Metadata,
        settings: ProduceSettings,
        connections: int,
        on_id: OnId | None = None,
        terms: Terms = NO_TRANSACTION,
        join: Callable[[Lane], None] | None = None,
        identity: Identity | None = None,
    ) -> None:
        """`join` is called with each lane that has something to send and whose partition has to be joined to a
        transaction before; whoever does so calls `joined`. `identity`: it has an id already, and takes no other."""
        if not 1 <= settings.in_flight_max <= IN_FLIGHT_MAX:
            raise InvalidValue(f"at most {IN_FLIGHT_MAX} requests can be in flight, and at least one")
        self._identity = identity
        self.producer_id = -1 if identity is None else identity.producer_id
        self._epoch = -1 if identity is None else identity.epoch
        self._brokers = brokers
        self._metadata = metadata
        self._settings = settings
        self._connections = connections
        self._on_id = on_id
        self._terms = terms
        self._join = join
        self._lanes: dict[TopicPartition, Lane] = {}
        self._links: dict[tuple[int, int], ProducerLink] = {}
        self._pending = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended: Fenced | Aborted | Closed | None = None
        self._loop = asyncio.get_running_loop()
        self._seeker: Seeker[Lane] = Seeker(metadata, brokers.settings, self._settle, self._refuse)

    async def renew_id(self) -> None:
        """Get an id that nobody had before.

        Raises:
            TryAgain: no broker gives one.
        """
        self.producer_id, self._epoch = await again(self._brokers.settings, self._ask_id)
        if self._on_id is not None:
            await self._on_id(self.producer_id, self._epoch)

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Go on under an id that somebody else got, in another transaction if there are any; nothing is under way."""
        changed = (producer_id, epoch) != (self.producer_id, self._epoch)
        self.producer_id, self._epoch = producer_id, epoch
        for lane in self._lanes.values():
            lane.joined = self._join is None
            if changed:
                lane.adopt(producer_id, epoch)

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self._epoch

    @property
    def error(self) -> Fenced | Aborted | Closed | None:
        """Why nothing more is sent, if so."""
        return self._ended

    @property
    def down(self) -> str | None:
        """What it waits for; None if all is taken."""
        return self._seeker.trouble

    def send(self, topic: str, partition: int, batch: Batch, *, in_order: bool = False) -> asyncio.Future[int | None]:
        """Queue a batch. The future has its base offset once all replicas in sync have it (None: they had it already,
        at an offset that is not told), or why it was refused: a kind of BadRequest; Fenced. One that is to be
        `in_order` fails by NotTried where another such one of its partition that was sent before it is refused."""
        done: asyncio.Future[int | None] = self._loop.create_future()
        if self._ended is not None:
            done.set_exception(another(self._ended))
            return done
        self._pending += 1
        self._idle.clear()
        done.add_done_callback(self._one_done)
        place = TopicPartition(topic, partition)
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = self._lane(place)
        if lane.ended is not None:
            done.set_exception(another(lane.ended))
            return done
        lane.waiting.append(Waiting(batch, done, in_order=in_order))
        if self._join is not None and not lane.joined:
            self._join(lane)
        if lane.link is None:
            self._seeker.seek(lane, "")
        else:
            lane.link.offer(lane)
        return done

    def joined(self, lane: Lane) -> None:
        """The partition is part of the transaction."""
        lane.joined = True
        lane.missing_since = None
        if lane.link is not None:
            lane.link.offer(lane)

    def is_gone(self, lane: Lane) -> bool:
        """Whether a partition that is not there now was not there for long; else brokers may still hear of it."""
        now = self._loop.time()
        since = lane.missing_since = now if lane.missing_since is None else lane.missing_since
        return now - since >= _NOT_THERE_PAUSES * self._brokers.settings.retry_backoff_max_ms / 1000

    def _lane(self, place: TopicPartition) -> Lane:
        if self._identity is not None:
            return Lane(place, self.producer_id, self._epoch, self._identity.first.get(place, 0), steady=True)
        transactional = self._terms.transactional_id is not None
        lane = Lane(place, self.producer_id, self._epoch, transactional=transactional)
        lane.joined = self._join is None
        return lane

    async def flush(self) -> None:
        """Wait until all that was sent has been acknowledged or refused."""
        await self._idle.wait()

    async def close(self) -> None:
        """Drop what is not acknowledged: its futures are cancelled."""
        self._ended = self._ended or Closed("the producer is closed")
        await self._seeker.close()
        for lane in self._lanes.values():
            lane.fail(None)
        for link in self._links.values():
            await link.close()

    def _one_done(self, _: object) -> None:
        self._pending -= 1
        if not self._pending:
            self._idle.set()

    async def _ask_id(self) -> tuple[int, int]:
        connection = await self._brokers.any()
        nobody = {"transactional_id": None, "transaction_timeout": timedelta(minutes=1)}
        answer = await connection.call(INIT_PRODUCER_ID, nobody)
        check(answer.error_code, f"{connection.who}, a producer id")
        return answer.producer_id, answer.producer_epoch

    # ------------------------------------------------------------ from links

    def landed(self, lane: Lane) -> None:
        """Nothing of the lane flies, and not all of it was taken."""
        if self._ended is not None:
            return
        why = lane.landed()
        if why or lane.needs_id:
            if lane.link is not None:
                lane.link.leave(lane)
            self._seeker.seek(lane, why)
        elif lane.link is not None:
            lane.link.offer(lane)

    def goes_on(self, lane: Lane) -> None:
        """A batch was taken."""
        self._seeker.goes_on(lane)

    def unreachable(self, link: ProducerLink, why: str) -> None:
        """No lane of the link flies. Those that have nothing to send find another one when they have."""
        for lane in list(link.lanes):
            link.leave(lane)
            if lane.waiting:
                self._seeker.seek(lane, why)

    def failed(self, error: Fenced | Aborted) -> None:
        """Another has this producer's id, or its transaction cannot go on: all that is under way fails."""
        self._ended = self._ended or error
        for lane in self._lanes.values():
            lane.fail(error)

    # ------------------------------------------------------------ who leads what

    async def _settle(self, lane: Lane) -> None:
        """Send the lane's batches to whoever leads the partition now."""
        place = lane.place
        if lane.link is not None:
            return
        if lane.needs_id:
            await self.renew_id()
            lane.adopt(self.producer_id, self._epoch)
        topic = self._metadata.topic(place.topic)
        leader = self._metadata.leader(place)
        if topic is None or place.partition >= len(topic.partitions):
            self._missed(lane)
            return
        lane.missing_since = None
        if leader is None:
            self._seeker.seek(lane, f"{place} has no leader")
            return
        lane.topic_id = topic.topic_id
        key = (leader.leader, zlib.crc32(f"{place.topic} {place.partition}".encode()) % self._connections)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = ProducerLink(self, self._brokers, leader.leader, self._settings, self._terms)
        link.adopt(lane)

    def _missed(self, lane: Lane) -> None:
        """The partition is not there. A transaction does not wait for it for long: its time would run out, while all of
        it waits for this batch."""
        if self._terms.transactional_id is None or not self.is_gone(lane):
            self._seeker.seek(lane, f"{lane.place} is not there")
            return
        self._seeker.drop(lane.place)
        self._refuse(lane, UNKNOWN_TOPIC_OR_PARTITION)

    def _refuse(self, lane: Lane, code: int) -> None:
        """Nothing can be sent to the partition, so all that waits for it fails."""
        if lane.link is not None:
            return
        error = error_of(code, str(lane.place))
        lane.refuse(error)
        if self._terms.transactional_id is not None:
            self.failed(Aborted(f"a partition of the transaction was refused: {error}"))
