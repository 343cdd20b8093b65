"""Reads what one grant names of a Kafka cluster, and hands it on as frames.

In: a `KafkaGrant`. Out: encoded frames, and reports of what keeps the grant, or one of its partitions, from going on.
Always true: a frame begins where the one before ended, so a frame that is lost is noticed; a partition is read on from
behind what was handed on of it, whatever ends the reading; of a partition that has stopped nothing more is sent; that
Kafka's log is another is told once the replica has all that was handed on and not lost. It reads as far as the
replica has room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import structlog

from fairlead.kafka import EARLIEST, LATEST, Cluster, Fetched, Fetcher, FetchSettings, TopicPartition
from fairlead.kafka.errors import OFFSET_OUT_OF_RANGE
from fairlead.kafka.opening import open_by_file
from fairlead.model.errors import FairleadError, TryAgain, UnknownPartition, UnknownTopic
from fairlead.replication.carried.addresses import FrameAddress
from fairlead.replication.credit import CreditWindow
from fairlead.replication.from_kafka.rows import At, Unreadable, batches_of, row_of, start_of
from fairlead.spark.packets import Packet
from fairlead.streamlog.frames.codec import encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.numbers import mask_of
from fairlead.streamlog.rows import Kind, Row
from fairlead.wire.apply import ApplyHello
from fairlead.wire.control import KafkaGrant, KafkaReport, KafkaStopped
from fairlead.wire.first_of import first_of
from fairlead.wire.link_protocol import PROTOCOL

HandOn = Callable[[Packet], Awaitable[None]]
Send = Callable[[object], Awaitable[None]]
OpenKafka = Callable[[str, str], Awaitable[Cluster]]
"""By a file of settings, the Kafka cluster with that id."""

FETCH: Final = FetchSettings(max_bytes=16_000_000, partition_bytes=4_000_000)
"""An answer is held while the replica has no room, one of each broker."""
AGAIN_SECONDS_MAX: Final = 10.0
ARRIVES_SECONDS_MAX: Final = 60.0
"""What was handed on and is not answered by then was lost on the way; nothing comes behind it that would show that."""
WATCH_SECONDS: Final = 1.0
"""How often it is looked whether the brokers answer."""

log = structlog.get_logger("fairlead.replication.from_kafka")


class KafkaReader:
    """One grant, until it is cancelled; made on the loop that runs it."""

    def __init__(
        self,
        grant: KafkaGrant,
        credit: CreditWindow,
        send: Send,
        hand_on: HandOn,
        frame_bytes: int = 4_000_000,
        open_kafka: OpenKafka = open_by_file,
    ) -> None:
        self.grant = grant
        self.credit = credit
        self._send = send
        self._hand_on = hand_on
        self._frame_bytes = frame_bytes
        self._open = open_kafka
        self._of = {TopicPartition(each.topic, each.partition): each for each in grant.partitions}
        self._places = {(each.number, each.partition): place for place, each in self._of.items()}
        self._at = {place: At(each.end, each.epoch) for place, each in self._of.items()}
        """Behind what was handed on."""
        self._begins: dict[TopicPartition, int] = {}
        """Where the logs of partitions begin that are read from there, until their first batch has come."""
        self._next = min(grant.slices.values(), default=0)
        self._first_to = max(grant.slices.values(), default=0) + 1
        self._slices = mask_of(grant.slices)
        self._topics = {each.number: FrameTopic(each.topic_id, each.topic) for each in grant.partitions}
        hello = ApplyHello(PROTOCOL, grant.link, grant.run, grant.source, grant.destination.stream, 0)
        self._address = FrameAddress(hello, grant.destination).to_json()
        self._told = ""
        self._handing = asyncio.Lock()

    @property
    def caught_up(self) -> bool:
        """Whether everything that was handed on was answered."""
        return self.credit.settled

    def report(self) -> None:
        """What it has to tell it tells at once."""

    async def run(self) -> None:
        """Read until cancelled. What goes wrong is told, and tried again."""
        await self._send(KafkaReport(self.grant.grant, "", ()))
        failures = 0
        while True:
            try:
                await self._read()
            except FairleadError as error:
                failures += 1
                await self._tell(str(error))
            await asyncio.sleep(min(0.2 * 2.0 ** min(failures, 10), AGAIN_SECONDS_MAX))

    async def _tell(self, waits_for: str) -> None:
        if waits_for != self._told:
            self._told = waits_for
            await self._send(KafkaReport(self.grant.grant, waits_for[:500], ()))

    async def _stop(self, place: TopicPartition, why: str, *, parted: bool = False) -> None:
        log.warning("partition stopped", topic=place.topic, partition=place.partition, why=why)
        if parted:  # what is cut here is kept, and what is on its way then is not: Kafka may have lost it
            with suppress(TimeoutError):
                async with asyncio.timeout(ARRIVES_SECONDS_MAX):
                    await self.credit.until_settled()
        stopped = KafkaStopped(self._of[place].topic_id, place.partition, why[:500], parted)
        await self._send(KafkaReport(self.grant.grant, self._told, (stopped,)))
        # Not before it is told: what fails meanwhile ends this reading, and the next one meets it again.
        self._at.pop(place, None)
        self._begins.pop(place, None)

    async def _read(self) -> None:
        cluster = await self._open(self.grant.config_file, self.grant.kafka_cluster)
        fetcher = cluster.fetcher(FETCH, committed=True)
        beginning = {place for place, at in self._at.items() if not at.end or place in self._begins}
        for place, at in self._at.items():
            if place not in beginning:
                fetcher.assign(place, at.end, at.epoch, self._of[place].topic_id)
        try:
            await first_of(
                self._watch(fetcher),
                self._begin_all(cluster, fetcher, sorted(beginning)),
                self._take_all(cluster, fetcher),
            )
        finally:
            await fetcher.close()
            await cluster.close()

    async def _take_all(self, cluster: Cluster, fetcher: Fetcher) -> None:
        while True:
            await self._take(cluster, fetcher, await fetcher.next())

    async def _watch(self, fetcher: Fetcher) -> None:
        while True:
            await self._tell(fetcher.down or "")
            await asyncio.sleep(WATCH_SECONDS)

    # ------------------------------------------------------------ where partitions begin

    async def _begin_all(self, cluster: Cluster, fetcher: Fetcher, places: Sequence[TopicPartition]) -> None:
        """Begin with these, all at once; where one of them has no leader, each by itself, while others are read."""
        left = list(places)
        if left:
            with suppress(TryAgain):
                await self._begin(cluster, fetcher, left)
                left = []
        while left:
            left = [place for place in left if not await self._has_begun(cluster, fetcher, place)]
        await asyncio.Event().wait()

    async def _has_begun(self, cluster: Cluster, fetcher: Fetcher, place: TopicPartition) -> bool:
        try:
            await self._begin(cluster, fetcher, [place])
        except TryAgain:
            return False
        except (UnknownPartition, UnknownTopic) as error:
            await self._stop(place, str(error))
        return True

    async def _begin(self, cluster: Cluster, fetcher: Fetcher, places: Sequence[TopicPartition]) -> None:
        """Read these partitions from where their logs begin. One that is empty begins there at once."""
        if not places:
            return
        firsts, ends = await cluster.offsets(places, EARLIEST), await cluster.offsets(places, LATEST)
        rows: list[Row] = []
        for place in places:
            at, first, end = self._at[place], firsts[place].offset, ends[place].offset
            if first == at.end:
                self._begins.pop(place, None)
            elif first >= end:
                rows.append(start_of(self.grant.source.stream, self._of[place], at, first, 0))
            else:
                self._begins[place] = first
        await self._hand(rows)
        for place in places:
            fetcher.assign(place, firsts[place].offset, topic_id=self._of[place].topic_id)

    async def _out_of_range(self, cluster: Cluster, fetcher: Fetcher, place: TopicPartition) -> None:
        """Either retention has overtaken the replica, which is a gap, or the log is shorter than it was, or its leader
        does not know the epoch that is here: then Kafka says the same of an offset that it has."""
        first = (await cluster.offsets([place], EARLIEST))[place].offset
        end = (await cluster.offsets([place], LATEST))[place].offset
        at = self._at[place]
        if first > at.end:
            await self._begin(cluster, fetcher, [place])
        elif end < at.end:
            why = f"Kafka's log ends at {end}, and what is here at {at.end}: it was truncated there"
            await self._stop(place, why, parted=True)
        elif at.epoch >= 0 and (await cluster.end_of_epoch(place, at.epoch))[0] < 0:
            why = f"its leader does not know the epoch {at.epoch} of the record before offset {at.end} here"
            await self._stop(place, why, parted=True)
        else:
            fetcher.assign(place, at.end, at.epoch, self._of[place].topic_id)

    # ------------------------------------------------------------ what is fetched

    async def _take(self, cluster: Cluster, fetcher: Fetcher, found: Sequence[Fetched]) -> None:
        """Trouble of a partition comes after the rows of the others, which do not wait for what is asked about it."""
        rows: list[Row] = []
        troubled: list[Fetched] = []
        unreadable: dict[TopicPartition, str] = {}
        for each in found:
            if each.place not in self._at:
                continue
            if each.diverging is not None or each.error:
                troubled.append(each)
                continue
            try:
                rows += self._rows(each)  # what came before it stays
            except Unreadable as error:
                fetcher.remove(each.place)
                unreadable[each.place] = str(error)
        await self._hand(rows)
        for place, why in unreadable.items():
            await self._stop(place, why)
        for each in troubled:
            await self._trouble(cluster, fetcher, each)

    async def _trouble(self, cluster: Cluster, fetcher: Fetcher, found: Fetched) -> None:
        if found.diverging is not None:
            epoch, end = found.diverging
            why = f"Kafka's log goes on otherwise from offset {end} on, after epoch {epoch}"
            await self._stop(found.place, why, parted=True)
        elif found.error == OFFSET_OUT_OF_RANGE:
            await self._out_of_range(cluster, fetcher, found.place)
        else:
            await self._stop(found.place, found.detail)

    def _rows(self, found: Fetched) -> Iterator[Row]:
        """Raises: Unreadable: nothing from there on is taken."""
        place, origin = found.place, self.grant.source.stream
        at, of = self._at[place], self._of[place]
        begins = self._begins.get(place)
        for header, batch in batches_of(found.records, max(at.end, begins or 0), found.aborted):
            if begins is not None:
                start = min(header.base_offset, begins)
                yield start_of(origin, of, at, start, begins if start < begins else 0)
                at, begins = At(start, at.epoch), None
            yield row_of(origin, of, at, header, batch)
            at = At(header.last_offset + 1, header.leader_epoch)

    # ------------------------------------------------------------ frames

    async def _hand(self, rows: Sequence[Row]) -> None:
        async with self._handing:  # frames are numbered as they are made, and go in that order
            for part in in_parts(rows, min(self._frame_bytes, self.credit.frame_bytes_max)):
                end = max(self._first_to, self._next + 1)
                data = self._frame(part, end)
                await self.credit.take(len(data))
                try:
                    await self._hand_on(Packet(self._address, data, len(data)))
                except BaseException:
                    self.credit.give_back(len(data))
                    raise
                self._next = end
                for row in part:
                    self._handed(row)

    def _handed(self, row: Row) -> None:
        place = self._places[row.topic, row.partition]
        if row.kind == Kind.START:
            self._at[place] = At(row.base_offset, self._at[place].epoch)
            self._begins.pop(place, None)
        else:
            self._at[place] = At(row.last_offset + 1, row.epoch)

    def _frame(self, rows: Sequence[Row], end: int) -> bytes:
        grant, first = self.grant, self._next
        placed = [row._replace(commit=first, row=place) for place, row in enumerate(rows)]
        topics = {number: self._topics[number] for number in {row.topic for row in rows}}
        frame = Frame(
            *(
                grant.link,
                grant.run,
                grant.source.stream,
                0,
                self._slices,
                first,
                end,
                bytes(16),
                topics,
                placed,
            ),
            end=end,
        )
        return encode_frame(frame)


def in_parts(rows: Sequence[Row], size_bytes: int) -> Iterator[list[Row]]:
    """Rows in their order, in parts of about so many bytes."""
    part: list[Row] = []
    part_bytes = 0
    for row in rows:
        if part and part_bytes + len(row.batch) > size_bytes:
            yield part
            part, part_bytes = [], 0
        part.append(row)
        part_bytes += len(row.batch)
    if part:
        yield part
