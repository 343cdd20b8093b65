"""The cluster that is mirrored to: its topics, a producer for each origin, and the mirror's books."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fairlead.mirror.books.book import (
    HOLDER_KEY,
    NO_RECORDS,
    Book,
    BookRecords,
    Holder,
    Position,
    holder_of,
    holder_record,
    position_records,
    read_book,
)
from fairlead.mirror.books.journal import Journal
from fairlead.mirror.books.origins import path_record, registry_record
from fairlead.mirror.books.plain import batches_of
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.configs import BOOK_CONFIGS, MESSAGE_BYTES_MAX, Copied, Setting, configs_for
from fairlead.mirror.exactly.beginnings import Beginnings
from fairlead.mirror.exactly.lane import Ground
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.lanes import LANES, Part
from fairlead.mirror.names import REGISTRY, positions_topic
from fairlead.mirror.ports import CLUSTERS_OWN, LOG_END, Cluster, Place, Sender, Topic
from fairlead.model.clock import Clock
from fairlead.model.errors import FairleadError, InvalidValue

HOLDER_LANE = 0
"""The partition of the topic of positions in which the holder stands."""


class Destination:
    """One for each mirror, however many sources it has."""

    def __init__(self, cluster: Cluster, name: str, clock: Clock, replication: int = CLUSTERS_OWN) -> None:
        """`replication`: how many replicas mirrored topics get that are made."""
        self.cluster = cluster
        self.name = name
        self.book = Book({}, None)
        self._clock = clock
        self._replication = replication
        # Read to the end, whatever transactions are open there: nothing that a dead mirror has left hides who runs it.
        self._holders = Journal(cluster, positions_topic(name), HOLDER_LANE, committed=False, made=True)
        self._lanes: Lanes | None = None
        self._beginnings: Beginnings | None = None
        """Where others send in transactions: to write where partitions begin, before they get them."""
        self._by_transactions = False
        """Positions are written with what lies below them."""
        self._topics: dict[str, Topic] = {}
        self._limits: dict[str, Limits] = {}
        self._senders: dict[str, Sender] = {}
        self._opening = asyncio.Lock()
        self._scribe: Sender | None = None
        """The producer of the books."""

    async def read_book(self) -> Book:
        """What the books say now. Before they were opened, they may not be there.

        Raises:
            BadRequest: they are another program's.
            TryAgain
        """
        journal = Journal(self.cluster, positions_topic(self.name), made=self._scribe is not None)
        self.book = read_book(await journal.news(), journal.topic)
        return self.book

    async def holders(self) -> Sequence[Holder]:
        """What holders have said since this was asked last, in order; the books are open. Raises: BadRequest,
        TryAgain."""
        return [
            holder_of(value) for key, value in await self._holders.news() if key == HOLDER_KEY and value is not None
        ]

    async def open_books(self) -> None:
        """Make what the books are written to, and the producer that writes them. Raises: BadRequest, TryAgain."""
        for topic, partitions in ((positions_topic(self.name), LANES), (REGISTRY, 1)):
            if topic not in await self.cluster.topics([topic]):
                await self.cluster.create(topic, partitions, BOOK_CONFIGS)
        self._scribe = await self.cluster.sender(None)

    async def refresh(self) -> Mapping[str, Topic]:
        """The topics that are there now. Raises: TryAgain."""
        self._topics = dict(await self.cluster.topics(None))
        return self._topics

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics, as of the last look."""
        return self._topics

    async def make(
        self, topic: str, partitions: int, source: Mapping[str, Setting], copied: Copied
    ) -> tuple[Topic, bool]:
        """Make a topic like the source's; the topic, and whether it was made, as `Cluster.create` knows it. Raises:
        BadRequest, TryAgain."""
        was_made = await self.cluster.create(topic, partitions, configs_for(source, copied), self._replication)
        return await self._look(topic, 1), was_made

    async def has_records(self, topic: Topic) -> bool:
        """Whether anything was ever written to it. Raises: NotFound, TryAgain."""
        places = [Place(topic.name, number) for number in range(topic.partitions)]
        return any((await self.cluster.offsets(places, LOG_END)).values())

    async def grow(self, topic: str, partitions: int) -> Topic:
        """Give a topic more partitions. Raises: BadRequest, TryAgain."""
        try:
            await self.cluster.grow(topic, partitions)
        except InvalidValue:
            there = (await self.cluster.topics([topic])).get(topic)
            if there is None or there.partitions < partitions:
                raise  # else an attempt before did it, whose answer was lost
        return await self._look(topic, partitions)

    async def _look(self, topic: str, partitions: int) -> Topic:
        """The topic, once the brokers show it whole: they hear of it one after the other, and after the controller."""
        while True:
            found = (await self.cluster.topics([topic])).get(topic)
            if found is not None and found.partitions >= partitions:
                self._topics[topic] = found
                return found
            await asyncio.sleep(0.1)

    async def learn_limits(self, topics: Iterable[str]) -> Mapping[str, FairleadError]:
        """Find out what these topics take, before `limits`; of which that is not told, and why. Raises: TryAgain."""
        missing = [topic for topic in topics if topic not in self._limits]
        refused: dict[str, FairleadError] = {}
        for topic, configs in (await self.cluster.configs(missing) if missing else {}).items():
            if isinstance(configs, FairleadError):
                refused[topic] = configs
            else:
                most = configs.get(MESSAGE_BYTES_MAX)
                self._limits[topic] = Limits() if most is None else Limits(message_bytes_max=int(most.value))
        return refused

    async def limits(self, topics: Sequence[str]) -> Mapping[str, Limits]:
        """What these topics take. Raises: BadRequest, TryAgain."""
        for error in (await self.learn_limits(topics)).values():
            raise error
        return {topic: self._limits.get(topic, Limits()) for topic in topics}

    # ------------------------------------------------------------ exactly once

    async def check_transactions(self) -> None:
        """Raises: InvalidValue: the destination has none; TryAgain."""
        if not await self.cluster.has_transactions():
            raise InvalidValue(
                "--exactly.once needs transactions, and the destination has none; a cluster of Fairlead keeps each "
                "record once by a link: see `stream replica autosetup`"
            )

    async def open_lanes(
        self, permit: Callable[[], Awaitable[None]], told: Callable[[str, int], None], *, here: bool
    ) -> None:
        """End and fence the transactions of whoever ran the mirror before; the book is what they have committed.

        With `here` this process sends everything in transactions from now on; else others do, and write positions too.
        `permit` raises Fenced where another process runs the mirror; `told` hears of transactions that have failed.

        Raises:
            BadRequest, TryAgain
        """
        ground = Ground(self.cluster, self.name, self._clock, self.enter, permit, told)
        beginnings, lanes = Beginnings(ground), Lanes(ground)
        try:
            # Before anything is read: whoever ran the mirror before writes nothing any more behind that.
            await beginnings.open()
            self.book = replace(self.book, positions=await lanes.open())
        except BaseException:
            await lanes.close()
            await beginnings.close()
            raise
        self._by_transactions = True
        if here:
            self._lanes = lanes
            await beginnings.close()
        else:
            self._beginnings = beginnings
            await lanes.close()

    @property
    def lanes(self) -> Lanes | None:
        """What is sent goes through these, if each record is to arrive once."""
        return self._lanes

    # ------------------------------------------------------------ producers

    async def open_sender(self, origin: str) -> None:
        """Make sure that `sender` has the producer of that origin. Raises: BadRequest, TryAgain."""
        async with self._opening:
            if self._lanes is None and origin not in self._senders:
                self._senders[origin] = await self.cluster.sender(lambda number: self.enter(number, origin))

    def sender(self, origin: str) -> Sender:
        """The producer of what was first written in the cluster `origin`."""
        return self._senders[origin]

    async def enter(self, producer_id: int, origin: str) -> None:
        """Say in the registry that what that producer sends was first written in the cluster `origin`."""
        await self._write(REGISTRY, 0, [registry_record(producer_id, origin, self.name)])

    # ------------------------------------------------------------ books

    async def begin(self, positions: Mapping[Part, Position]) -> None:
        """Write where partitions begin, and wait until that is durable."""
        if self._lanes is not None:
            await self._lanes.begin(positions)
        elif self._beginnings is not None:
            await self._beginnings.write(positions)
        else:
            await self.write_positions(positions)

    async def write_positions(self, positions: Mapping[Part, Position], more: BookRecords = NO_RECORDS) -> None:
        """Write positions, unless transactions do, and other records of the books, and wait until they are durable."""
        lanes = position_records({} if self._by_transactions else positions, more)
        topic = positions_topic(self.name)
        await asyncio.gather(*(self._write(topic, lane, records) for lane, records in lanes.items()))

    async def write_holder(self, holder: Holder) -> None:
        """Write who runs the mirror, and wait until it is durable."""
        await self._write(positions_topic(self.name), HOLDER_LANE, [holder_record(holder)])

    async def enter_topic(self, topic: str, through: Sequence[str]) -> None:
        """Say before a topic is made through which clusters its records come."""
        await self._write(REGISTRY, 0, [path_record(topic, through)])

    async def open_topic(self, topic: str) -> None:
        """Make a topic of one partition for records that are kept by their keys, if there is none. Raises: BadRequest,
        TryAgain."""
        if topic not in await self.cluster.topics([topic]):
            await self.cluster.create(topic, 1, BOOK_CONFIGS)

    async def write(self, topic: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write such records to such a topic, and wait until they are durable."""
        await self._write(topic, 0, records)

    async def _write(self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        assert self._scribe is not None
        for batch in batches_of(records, self._clock.wall_ms()):
            await self._scribe.send(topic, partition, batch)

    # ------------------------------------------------------------ the whole

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        senders = [*self._senders.values(), *([] if self._scribe is None else [self._scribe])]
        more = [each for each in (self._lanes, self._beginnings) if each is not None]
        return next((each.down for each in (*senders, *more) if each.down is not None), None)

    async def close(self) -> None:
        """Drop what is not acknowledged, and end."""
        for each in (self._lanes, self._beginnings):
            if each is not None:
                await each.close()
        for sender in (*self._senders.values(), *([] if self._scribe is None else [self._scribe])):
            await sender.close()
        await self.cluster.close()
