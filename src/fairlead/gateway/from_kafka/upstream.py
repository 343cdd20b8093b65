"""One Kafka cluster whose topics a stream keeps, as it runs.

Every few seconds Kafka is asked which topics there are, where they end and what groups have committed. Topics and
cursors are brought in line, and what is to be read is given to reader tasks when it, or who reads, has changed. While
Kafka does not answer, what was given stands: its readers wait for it themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import compress

import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka import topics
from fairlead.gateway.from_kafka.cursors import kept_of, put_cursors, unread
from fairlead.gateway.from_kafka.ends import note_ends
from fairlead.gateway.from_kafka.giving import Giving
from fairlead.gateway.from_kafka.granting import KafkaGranting, Wanted
from fairlead.gateway.from_kafka.known import GONE_BROKERS, Counts, KafkaTiming, Known
from fairlead.gateway.from_kafka.looks import Heard, Looks, is_lost
from fairlead.gateway.from_kafka.notes import clear_notes, is_set_aside
from fairlead.gateway.from_kafka.parting import cut_all, note_returned
from fairlead.gateway.from_kafka.starts import follow_starts, keeps_all
from fairlead.kafka import Cluster as Kafka
from fairlead.kafka.errors import PASSING
from fairlead.kafka.opening import open_by_file
from fairlead.model.errors import FairleadError, InvalidValue, NotAllowed, TryAgain
from fairlead.protocol.wire import ZERO_UUID
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.values import GrantRun, Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.control import KafkaReport, Progress
from fairlead.wire.first_of import first_of

log = structlog.get_logger()


class RunningUpstream:
    """`start` and `close` enclose its life; `record` may be changed, then `wake` it."""

    def __init__(self, cluster: Cluster, record: KafkaUpstream, granting: KafkaGranting, timing: KafkaTiming) -> None:
        self.record = record
        self.counts = Counts()
        self.known = Known()
        self.error: FairleadError | None = None
        self.since_ms = 0
        """When `error` began, by the wall clock."""
        self.reached_end = False
        """All that there was has been read once since this server started."""
        self._cluster = cluster
        self._granting = granting
        self._timing = timing
        self._configs: dict[bytes, Mapping[str, str]] = {}
        self._kept: dict[bytes, bool] = {}
        """Topics, by id, of which no record gets too old in Kafka."""
        self._configs_ms: int | None = None
        self._woken = asyncio.Event()
        self._anew = asyncio.Event()
        """What is under way is to end, and the file to be read again."""
        self._giving = Giving(granting, timing.again_s, self._woken.set)
        self._looks = Looks()
        self._task: asyncio.Task[None] | None = None

    @property
    def stream(self) -> Stream | None:
        """The replica."""
        return self._cluster.stream_by_id(self.record.stream)

    @property
    def waits_for(self) -> str:
        """What keeps a reader of it from reading; empty if all read."""
        return self._giving.waits_for

    @property
    def lag(self) -> int:
        """Offsets that Kafka's committed records have and the replica's logs lack, as they were at the last look."""
        return sum(self.lag_of(*at) for at in self.known.ends)

    def lag_of(self, topic_id: bytes, partition: int) -> int:
        """The same of one partition."""
        stream, end = self.stream, self.known.ends.get((topic_id, partition), 0)
        return 0 if stream is None else max(end - end_here(stream, topic_id, partition), 0)

    def start(self) -> None:
        """Run."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"kafka-{self.record.name}")

    async def close(self) -> None:
        """Read no more."""
        self._giving.take_back(self.record, "removed")
        self._giving.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def stands(self, run: GrantRun) -> bool:
        """Something that was given under this run, or before, is read still."""
        return self._granting.has(self.record, run)

    def change(self, record: KafkaUpstream) -> None:
        """The record says something else; felt at once."""
        before, self.record = self.record, record
        if (record.config_file, record.paused) != (before.config_file, before.paused):
            self.begin_anew()
        self.wake()

    def begin_anew(self) -> None:
        """Read the file of settings again, at once: by what it said before perhaps nobody answers any more."""
        self._giving.change()
        self._anew.set()
        self.wake()

    def wake(self) -> None:
        """Look at once."""
        self._woken.set()

    async def look_again(self) -> Heard:
        """Look once more, at what Kafka has from now on; what it has answered in time."""
        wanted = self._looks.coming
        self.wake()
        record, seconds = self.record, self._timing.answer_s
        lost = is_lost(record.config_file, record.kafka_cluster, seconds)
        is_silent, is_whole = await asyncio.gather(lost, self._looks.told_all(wanted, seconds))
        if is_whole:
            return Heard.ALL
        return Heard.NOTHING if is_silent else Heard.SOME

    @property
    def heard_ago_ms(self) -> int | None:
        """How long ago Kafka has told all that it is asked; None: not since this server started."""
        heard = self.known.heard_ms
        return None if heard is None else self._cluster.clock.monotonic_ms() - heard

    def lacking(self, incarnation: bytes) -> str:
        """What of a topic Kafka has and the replica lacks, as they were at the last look; empty if nothing is."""
        stopped = [(place[1], why) for place, why in self.known.stopped.items() if place[0] == incarnation]
        for partition, why in stopped:
            return f"partition {partition} has stopped: {why}"
        for topic_id, partition in self.known.ends:
            lag = self.lag_of(topic_id, partition) if topic_id == incarnation else 0
            if lag:
                return f"{lag:,} records of partition {partition} are still to come from {self.record.path}"
        for (topic_id, partition), count in self.known.held_back.items():
            if topic_id == incarnation:
                return (
                    f"a transaction is open in Kafka, and {count:,} offsets of partition {partition} wait for its end"
                )
        return ""

    def unknown(self, topic: Topic) -> str:
        """Why nobody can tell what of a topic is still to come; empty if that was heard at the last look."""
        known, id = self.known, topic.incarnation
        if id in known.gone:
            return ""
        if id not in known.topics and not all(self.record.filter.passing([topic.home or topic.name])):
            return f"-topics of {self.record.path} leaves it out, so it is not read"
        for partition in range(topic.partitions):
            if (id, partition) in known.silent:
                return f"partition {partition}: {known.silent[id, partition]}"
            if (id, partition) not in known.ends:
                return f"{self.record.path} has not said where it ends since this server started"
        return known.groups_unread

    def progress(self, message: Progress) -> None:
        """The replica has recorded this."""
        self.counts.frames += message.frames
        self.counts.records += message.records
        self.counts.size_bytes += message.size_bytes
        self.counts.duplicates += message.duplicates
        if message.records:
            self._giving.came()
        if message.behind:
            self.give_anew()

    def give_anew(self) -> None:
        """Something was refused or lost: give all anew, from where the logs end."""
        self._giving.refused(self.record)

    def told(self, message: KafkaReport) -> None:
        """A reader tells how a grant is that stands. Where Kafka's log is another by now, something is done at once."""
        self._giving.told(message)
        self.known.stopped.update({(each.topic_id, each.partition): each.why for each in message.stopped})
        self.known.parted |= {(each.topic_id, each.partition) for each in message.stopped if each.parted}
        if self.known.parted:
            self.wake()

    def note_error(self, error: FairleadError) -> None:
        """It has this error now."""
        if self.error is None:
            self.since_ms = self._cluster.clock.wall_ms()
        if str(error) != str(self.error):
            log.warning("Kafka upstream", name=self.record.name, stream=self.record.stream.hex(), error=str(error))
        self.error = error

    # ------------------------------------------------------------ its life

    async def _run(self) -> None:
        while True:
            self._begin()
            try:
                await self._serve()
            except FairleadError as error:
                self.note_error(error)
            except Exception as error:
                log.exception("a bug in a Kafka upstream")
                self.note_error(FairleadError(f"a bug ({type(error).__name__}: {error}); the server's log tells more"))
            await self._wait(self._timing.again_s)

    async def _serve(self) -> None:
        self._anew.clear()
        if self.record.paused:
            self._giving.take_back(self.record, "paused")
        else:
            await first_of(self._look_at_times(), self._until_anew())

    async def _until_anew(self) -> None:
        await self._anew.wait()

    async def _look_at_times(self) -> None:
        kafka = await open_by_file(self.record.config_file, self.record.kafka_cluster)
        try:
            while True:
                self._begin()
                await self._look(kafka)
                await self._wait(self._timing.look_s)
        finally:
            await kafka.close()

    def _begin(self) -> None:
        self._woken.clear()
        self._looks.begin()

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    # ------------------------------------------------------------ one look

    async def _look(self, kafka: Kafka) -> None:
        stream = self.stream
        if stream is None:
            return
        found = await kafka.topics()
        names = [each.name for each in found.values() if not each.internal]
        passing = [found[name] for name, passes in zip(names, self.record.filter.passing(names), strict=True) if passes]
        if any(each.topic_id == ZERO_UUID for each in passing):
            raise InvalidValue(
                f"{self.record.path}: its brokers give topics no ids; a stream keeps topics of Kafka 2.8 on"
            )
        self.known.topics = {each.topic_id: each for each in passing}
        await self._put_topics(kafka, stream)
        await self._note_gone(kafka, stream, {each.topic_id for each in found.values()})
        owned = self._owned(stream)
        stop_reading = partial(self._giving.take_back, self.record, "Kafka's log went on otherwise")
        await cut_all(kafka, stream, self.record, self.known, owned, stop_reading)
        await note_returned(kafka, self.record, self.known, owned)
        wanted = self._wanted(owned)
        returned = self.known.returned
        await self._give(stream, tuple(each for each in wanted if (each.topic_id, each.partition) not in returned))
        await note_ends(kafka, self.known, wanted, self._timing.leaders_s)
        await self._cursors(kafka, stream, owned)
        await self._starts(kafka, owned)
        silent = self.known.silent
        self.reached_end = self.reached_end or not (self.lag or silent)
        self.known.heard_ms = self._cluster.clock.monotonic_ms()
        if silent:
            why = min(silent.values())
            self.note_error(TryAgain(f"where partitions end is not known, of {len(silent)} of them: {why}"))
        else:
            self.error = None
        self._looks.was_whole()

    async def _put_topics(self, kafka: Kafka, stream: Stream) -> None:
        now_ms = self._cluster.clock.monotonic_ms()
        is_due = self._configs_ms is None or now_ms - self._configs_ms >= self._timing.configs_s * 1000
        asked = {id: each for id, each in self.known.topics.items() if is_due or id not in self._configs}
        if asked:
            configs = await kafka.describe_configs(each.name for each in asked.values())
            self._configs |= {id: topics.own_configs(configs.get(each.name, {})) for id, each in asked.items()}
            self._kept |= {id: keeps_all(configs.get(each.name, {})) for id, each in asked.items()}
        if is_due:
            self._configs_ms = now_ms
        for id, each in self.known.topics.items():
            await topics.put_topic(stream, self.record, each, self._configs[id])

    async def _note_gone(self, kafka: Kafka, stream: Stream, there: set[bytes]) -> None:
        """Topics of Kafka's that are here and that Kafka has no more."""
        now_ms = self._cluster.clock.monotonic_ms()
        owned = [each for each in stream.topics() if each.owner == self.record.source]
        self.known.diverged = tuple(each.name for each in owned if parent_of(each) is not None)
        kept = [each for each in owned if each.incarnation not in there and parent_of(each) is None]
        self.known.gone = {each.incarnation: self.known.gone.get(each.incarnation, now_ms) for each in kept}
        if self.record.deletes == "follow":
            names = [each.home or each.name for each in kept]
            for each in compress(kept, self.record.filter.passing(names)):
                is_long = now_ms - self.known.gone[each.incarnation] >= self._timing.gone_s * 1000
                if is_long and await self._is_gone(kafka, each):
                    await topics.delete_topic(stream, self.record, each)

    async def missed(self, topics: Iterable[Topic]) -> set[bytes]:
        """Ids of those that the last look has not found, though its brokers do not all say that Kafka has them no more
        when they are asked for them."""
        away = [each for each in topics if each.incarnation in self.known.gone]
        if not away:
            return set()
        try:
            kafka = await open_by_file(self.record.config_file, self.record.kafka_cluster)
        except FairleadError:
            return {each.incarnation for each in away}
        try:
            return {each.incarnation for each in away if not await self._is_gone(kafka, each)}
        finally:
            await kafka.close()

    async def _is_gone(self, kafka: Kafka, topic: Topic) -> bool:
        """Whether so many brokers say so when they are asked for the topic itself: a list lacks those that we may not
        see, and one broker alone may be behind the others."""
        try:
            said = await kafka.topics_by_several([topic.home or topic.name], GONE_BROKERS)
        except (NotAllowed, TryAgain):
            return False
        return all(each.topic_id != topic.incarnation for found in said for each in found.values())

    def _owned(self, stream: Stream) -> dict[bytes, tuple[Shard, Topic]]:
        """The topics that are here, by id, that Kafka owns still."""
        found = {id: stream.by_incarnation(id) for id in self.known.topics}
        return {id: each for id, each in found.items() if each is not None and each[1].owner == self.record.source}

    def _wanted(self, owned: Mapping[bytes, tuple[Shard, Topic]]) -> tuple[Wanted, ...]:
        return tuple(
            Wanted(topic.name, id, partition)
            for id, topic in sorted(self.known.topics.items())
            if id in owned
            for partition in range(min(len(topic.partitions), owned[id][1].partitions))
            if not is_set_aside(owned[id][0], self.record.link, id, partition)
        )

    async def _give(self, stream: Stream, wanted: tuple[Wanted, ...]) -> None:
        if self._giving.is_due(self.record, wanted):
            self._giving.take_back(self.record, "given anew")
            await clear_notes(stream, self.record.link)
            self.known.stopped, self.known.parted = dict(self.known.returned), set()
            self._giving.give(self.record, stream, wanted)

    async def _cursors(self, kafka: Kafka, stream: Stream, owned: Mapping[bytes, tuple[Shard, Topic]]) -> None:
        if self.record.cursors == "none":
            self.known.unread = {}
            return
        groups = await kafka.groups()
        kept = kept_of(self.record.cursors, list(groups))
        commits = await kafka.all_committed({name: groups[name].node for name in kept})
        its = {self.known.topics[id].name: found for id, found in owned.items()}
        self.counts.cursors += await put_cursors(stream, self.record, its, commits)
        self.known.unread = unread(commits)
        for found in commits.values():
            if isinstance(found, PASSING):
                raise found

    async def _starts(self, kafka: Kafka, owned: Mapping[bytes, tuple[Shard, Topic]]) -> None:
        is_followed = self.record.deletes == "follow"
        silent = {id for id, _ in self.known.silent}
        told = [self.known.topics[id] for id in owned if (is_followed or self._kept.get(id)) and id not in silent]
        its = {each.name: owned[each.topic_id] for each in told}
        await follow_starts(kafka, self.record, its, {each.name: len(each.partitions) for each in told})


def end_here(stream: Stream, topic_id: bytes, partition: int) -> int:
    """Where a partition of a Kafka topic ends in the replica."""
    found = stream.by_incarnation(topic_id)
    return 0 if found is None else found[0].state.partition(found[1].number, partition).end
