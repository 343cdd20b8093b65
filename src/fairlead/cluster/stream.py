"""One stream: its shards, and what can be done to its topics and cursors.

A stream gives each topic to the shard chosen by its name; every method is one request to that shard's group commit,
and returns when the commit is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from itertools import chain

from fairlead.cluster.arrivals import Arrivals
from fairlead.cluster.consumers import Consumers
from fairlead.cluster.heard import HeardSources
from fairlead.cluster.owner_log import OwnerLog
from fairlead.cluster.partition_room import PartitionRoom
from fairlead.cluster.values import StreamRecord, StreamSettings
from fairlead.model.errors import FairleadError, InvalidValue, NotAllowed, UnknownPartition, UnknownTopic, another
from fairlead.model.names import StreamPath, names_like, shard_of
from fairlead.streamlog.applying.outdated import note_heard, outdated_at
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.requests import cursors, rollback, topics
from fairlead.streamlog.requests.topics import ConfigChange, waits
from fairlead.streamlog.values import PartitionState, Topic
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.news import News, Resolved
from fairlead.streamlog.writing.shard import Shard

CHANGED_TOGETHER = 50
"""Topics or cursors that one request to a shard changes: they share a commit, and evaluating it holds the loop, for two
or three milliseconds. A produce may wait for two such commits. With twice as many topics a hand-over costs no less."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a consumer group commits for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Stream:
    """A stream of this cluster; made by `Cluster`, one object for the whole life of the stream in this process."""

    def __init__(
        self, record: StreamRecord, shards: Sequence[Shard], room: PartitionRoom, cluster: str, consumers: Consumers
    ) -> None:
        self.record = record
        self._consumers = consumers
        self.cluster = cluster
        """Name of the cluster that it is in."""
        self.shards = tuple(shards)
        self._room = room
        self.is_copy = False
        """It has an upstream that is no master beside it."""
        self.heard = HeardSources()
        self.owner_log = OwnerLog(record.id, record.path)
        self.resolved = 0
        """Partitions that links had set aside and that are to be brought, since this server started: their sources are
        to ask."""
        self._superseded: dict[bytes, int] = {}
        self._arrivals = Arrivals()
        self._by_topic_id: tuple[dict[bytes, int], ...] = tuple({} for _ in range(256))
        """Topic number and shard as one number: a million tuples here would keep the garbage collector busy. Parted by
        the first byte of the id: one dict that grows beyond 700,000 entries holds the loop for 25 ms."""

    @property
    def id(self) -> bytes:
        return self.record.id

    @property
    def path(self) -> str:
        return self.record.path

    @property
    def global_path(self) -> str:
        """By which other clusters name it."""
        return str(StreamPath(self.path, self.cluster))

    def owner_path(self, topic: Topic) -> str:
        """Global path of the stream that gives offsets to a topic of this one, as the topic's newest row says it."""
        if topic.owner == self.id:
            return self.global_path
        return topic.owner_at or f"the stream with id {topic.owner.hex()}"

    @property
    def settings(self) -> StreamSettings:
        return self.record.settings

    @property
    def may_autocreate(self) -> bool:
        """Asking for a topic makes it: not in a copy of other streams, where it would be a second topic of that name at
        a second site (case S8). Masters of one another take that on them: of two topics of one name the one without
        records yields."""
        return self.settings.autocreate and not self.is_copy

    @property
    def ends(self) -> tuple[int, ...]:
        """Where each shard ends, as it was announced."""
        return tuple(shard.announced.end for shard in self.shards)

    def shard_for(self, topic: str) -> Shard:
        """The shard in which a topic of this name lives, or would."""
        return self.shards[shard_of(topic, len(self.shards))]

    def falls_into(self, shard: Shard) -> Callable[[str], bool]:
        """Whether a topic of some name lives in this shard."""
        return lambda name: self.shard_for(name) is shard

    @contextmanager
    def placing(self, link: bytes | None = None) -> Iterator[Callable[[bytes, str], int]]:
        """For as long as something is under way that may make topics, a frame of a link or what no link brings: tells,
        by incarnation and name, the number of the shard to which the rows of a topic go. A topic that is not here is
        made where the first of them goes; its name at the source may change meanwhile, and be another by another way.
        Who makes a topic that another site may have must ask, or a stream has the topic in two shards."""
        held: list[bytes] = []

        def place_of(incarnation: bytes, name: str) -> int:
            known = self._place_of(link, incarnation)
            if known is not None:
                return known
            held.append(incarnation)
            return self._arrivals.hold(incarnation, shard_of(name, len(self.shards)))

        try:
            yield place_of
        finally:
            for each in held:
                self._arrivals.release(each)

    def _place_of(self, link: bytes | None, incarnation: bytes) -> int | None:
        """The shard that has an incarnation, or what is remembered of it; else the one in which it waits for a name, on
        any link, since it may be made there in any commit; else the one with the link's notes on it."""
        notes: list[int] = []
        waiting: list[int] = []
        for number, shard in enumerate(self.shards):
            state = shard.state
            if state.number_of_incarnation(incarnation) is not None or state.tombstone(incarnation) is not None:
                return number
            found = {key: state.note(key) for key in state.note_keys(incarnation)}
            if any(note is not None and waits(note) for note in found.values()):
                waiting.append(number)
            if any(key[0] == link for key in found):
                notes.append(number)
        return next(iter([*waiting, *notes]), None)

    @property
    def arriving(self) -> int:
        """Topics that are not here and that frames under way may make."""
        return len(self._arrivals)

    def find_topic(self, name: str) -> tuple[Shard, Topic] | None:
        """The topic of that name and its shard, None if there is none."""
        shard = self.shard_for(name)
        topic = shard.state.by_name(name)
        return None if topic is None else (shard, topic)

    def topic(self, name: str) -> tuple[Shard, Topic]:
        """The topic of that name and its shard.

        Raises:
            UnknownTopic: there is none.
        """
        found = self.find_topic(name)
        if found is None:
            raise UnknownTopic(f"topic {name} does not exist in stream {self.path}")
        return found

    def by_incarnation(self, incarnation: bytes) -> tuple[Shard, Topic] | None:
        """The topic with that incarnation and its shard, None if there is none."""
        for shard in self.shards:
            topic = shard.state.by_incarnation(incarnation)
            if topic is not None:
                return shard, topic
        return None

    def topics(self) -> Iterator[Topic]:
        """All topics, by shard, in no particular order."""
        for shard in self.shards:
            yield from shard.state.topics()

    def topic_names(self) -> Iterator[str]:
        """The names of all topics; those that come or go meanwhile may be missed."""
        for shard in self.shards:
            for name in shard.state.topic_table.names:
                if name is not None:
                    yield name

    @property
    def topic_count(self) -> int:
        return sum(shard.state.topic_count for shard in self.shards)

    def topic_id(self, shard: Shard, topic: Topic) -> bytes:
        """Kafka's id of the topic here: UUIDv5 of stream id and incarnation, so copies of one topic differ in it."""
        return self.id_of(shard, topic.number, topic.incarnation)

    def id_of(self, shard: Shard, number: int, incarnation: bytes) -> bytes:
        """The same for a topic that is known by its number and incarnation."""
        topic_id = uuid5_bytes(self.id, incarnation.hex())
        self._by_topic_id[topic_id[0]][topic_id] = number * len(self.shards) + self.shards.index(shard)
        return topic_id

    def topic_by_id(self, topic_id: bytes) -> tuple[Shard, Topic] | None:
        """The topic whose id a Metadata answer of this process has named; None sends the client to ask again."""
        part = self._by_topic_id[topic_id[0]]
        found = part.get(topic_id)
        if found is None:
            return None
        number, place = divmod(found, len(self.shards))
        shard = self.shards[place]
        topic = shard.state.topic(number)
        if topic is None:
            del part[topic_id]
            return None
        return shard, topic

    def hear(self, news: Sequence[News]) -> None:
        """What a commit has changed."""
        self.resolved += sum(isinstance(each, Resolved) for each in news)
        self.owner_log.tell(news)

    def note_superseded(self, link: bytes, records: int) -> None:
        """So many records of owners before came by a link, and were dropped."""
        self._superseded[link] = self._superseded.get(link, 0) + records
        self.owner_log.superseded(link, records)

    def superseded_of(self, link: bytes) -> int:
        """How many since this server started."""
        return self._superseded.get(link, 0)

    def outdated_at(self, source: bytes, most: int) -> list[Topic]:
        """Topics whose present owner the stream `source` is to be told now: `most` partitions in all, or one topic.
        They are told again until it says that it has heard."""
        told, partitions = list[Topic](), 0
        for topic in chain.from_iterable(outdated_at(shard.state, source) for shard in self.shards):
            partitions += topic.partitions
            if told and partitions > most:
                break
            told.append(topic)
        return told

    async def note_heard(self, source: bytes, epochs: Mapping[bytes, int]) -> None:
        """The stream `source` knows the owners of these topics, each by its incarnation and in this topic epoch."""
        for shard in self.shards:
            here = [each for each in epochs.items() if shard.state.by_incarnation(each[0]) is not None]
            for first in range(0, len(here), CHANGED_TOGETHER):
                await shard.submit(partial(note_heard, source=source, epochs=here[first : first + CHANGED_TOGETHER]))

    @property
    def owned_count(self) -> int:
        """How many topics this stream owns."""
        return sum(shard.state.owned_by(self.id)[0] for shard in self.shards)

    async def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """Make a topic owned by this stream.

        Raises:
            InvalidName, InvalidValue, AlreadyExists, NotAllowed.
        """
        return await self.shard_for(name).submit(self.creation(name, partitions, configs))

    @property
    def partitions_total(self) -> int:
        """Partitions of all topics."""
        return sum(shard.state.partitions_total for shard in self.shards)

    def creation(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None
    ) -> DraftRequest[Topic]:
        """What makes a topic owned by this stream; for `change_topics`."""
        count = self.settings.default_partitions if partitions is None else partitions
        most = self.partitions_max(name)
        return partial(
            topics.create_topic,
            name=name,
            partitions=count,
            configs=configs,
            owner_at=self.global_path,
            partitions_max=most,
        )

    def growth(self, name: str, partitions: int, incarnation: bytes | None = None) -> DraftRequest[Topic]:
        """What gives a topic, if it is of that incarnation, more partitions; for `change_topics`."""
        return partial(
            topics.set_partitions,
            name=name,
            partitions=partitions,
            partitions_max=self.partitions_max(name),
            incarnation=incarnation,
        )

    def partitions_max(self, name: str) -> Callable[[int], int]:
        """How many partitions the log of a topic of that name may have after a commit."""
        return partial(self._room.of_shard, self.shard_for(name), self.shards)

    async def change_topics(self, changes: Sequence[tuple[str, DraftRequest[Topic]]]) -> list[Topic | Exception]:
        """Change topics, each given by its name and what is asked of its shard; many share a commit.

        The answer has the topic or the reason of refusal for each, in order.
        """
        outcomes: list[Topic | Exception] = []
        for first in range(0, len(changes), CHANGED_TOGETHER):
            together = changes[first : first + CHANGED_TOGETHER]
            by_shard: dict[Shard, list[int]] = {}
            for place, (name, _) in enumerate(together):
                by_shard.setdefault(self.shard_for(name), []).append(place)
            found = await asyncio.gather(
                *(_change(shard, [together[place][1] for place in places]) for shard, places in by_shard.items())
            )
            done = {
                place: outcome
                for places, answers in zip(by_shard.values(), found, strict=True)
                for place, outcome in zip(places, answers, strict=True)
            }
            outcomes += (done[place] for place in range(len(together)))
        return outcomes

    @property
    def rolled_back(self) -> bool:
        """The log of a shard was rolled back, and gives no offsets."""
        return any(rollback.ENTRY in shard.state.entries for shard in self.shards)

    async def note_rolled_back(self, replica: str) -> None:
        """A replica, at that global path, has applied commits that this stream does not hold: nothing is written."""
        note = partial(rollback.note_rolled_back, path=self.global_path, replica=replica)
        await asyncio.gather(*(shard.submit(note) for shard in self.shards))

    async def forget_rolled_back(self) -> None:
        """The stream writes again."""
        await asyncio.gather(*(shard.submit(rollback.forget_rolled_back) for shard in self.shards))

    async def delete_topic(self, name: str) -> Topic:
        """Delete a topic with its records and cursors; only at its owner.

        Raises:
            UnknownTopic, NotOwner.
        """
        return await self.shard_for(name).submit(lambda draft: topics.delete_topic(draft, name))

    async def take_topic_again(self, name: str) -> Topic:
        """Take a topic again that was deleted here and is alive at its source; what has its name here is deleted.

        Raises:
            InvalidValue: no such topic came.
            NotAllowed: the name is that of a topic of this stream.
        """
        return await self.shard_for(name).submit(lambda draft: topics.take_again(draft, name))

    async def rename_topic(self, name: str, to: str) -> Topic:
        """Give a topic another name, wherever it is; only at its owner. In a stream of several shards the new name must
        be one of the topic's own shard.

        Raises:
            UnknownTopic, NotOwner, InvalidName, AlreadyExists
            InvalidValue: the name is one of another shard; the error names one that would do.
        """
        self._check_shard(self.shard_for(name), name, to)
        return await self.shard_for(name).submit(lambda draft: topics.rename_topic(draft, name, to))

    async def take_topic_as(self, name: str, to: str) -> Topic:
        """Make the topic that waits for a name which another one holds, or which is none of the shard in which it
        waits, under a name of its own.

        Raises:
            InvalidValue: none waits, or the new name is one of another shard. InvalidName, AlreadyExists
        """
        shard = self._waiting_in(name)
        self._check_shard(shard, name, to)
        return await shard.submit(lambda draft: topics.take_as(draft, name, to))

    def _waiting_in(self, name: str) -> Shard:
        """The shard in which a topic waits for a name: that of the name, but where it waited before for another one,
        which another link would give it."""
        of_name = self.shard_for(name)
        for shard in (of_name, *self.shards):
            if any(topics.waits_for(note, name) for note in shard.state.all_notes().values()):
                return shard
        return of_name

    def _check_shard(self, shard: Shard, name: str, to: str) -> None:
        if self.shard_for(to) is not shard:
            fits = next(other for other in names_like(to) if self.shard_for(other) is shard)
            raise InvalidValue(
                f"{to} is a name of another of the {len(self.shards)} shards of {self.path} than the one with {name}, "
                f"and no topic moves between them; {fits} would do"
            )

    async def set_partitions(self, name: str, partitions: int) -> Topic:
        """Raise the number of partitions; only at the owner.

        Raises:
            UnknownTopic, NotOwner, InvalidValue: not more than now, or above the limit. NotAllowed
        """
        return await self.shard_for(name).submit(self.growth(name, partitions))

    async def set_configs(self, name: str, configs: Mapping[str, str | None]) -> Topic:
        """Set topic settings, or with None take them back to the stream's; only at the owner.

        Raises:
            UnknownTopic, NotOwner, InvalidValue.
        """
        changes = dict(configs)
        return await self.shard_for(name).submit(lambda draft: topics.set_configs(draft, name, changes))

    async def change_configs(self, name: str, change: ConfigChange) -> Topic:
        """Give a topic the settings that `change` makes of its own; only at the owner.

        Raises:
            UnknownTopic, NotOwner, and what `change` raises.
        """
        return await self.shard_for(name).submit(lambda draft: topics.change_configs(draft, name, change))

    async def commit_cursors(
        self,
        group: str,
        offsets: Sequence[CommittedOffset],
        known_cuts: Sequence[int] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> list[Exception | None]:
        """Commit offsets of a group; the answer has None or the reason of refusal for each, in order.

        `known_cuts`, of a member: it knows of the cuts below these commits of the shards, none where one is missing.
        `check` is called before each of the commits that this takes, and may raise.
        """
        outcomes: list[Exception | None] = [None] * len(offsets)
        by_shard: dict[int, list[int]] = {}
        for index, offset in enumerate(offsets):
            by_shard.setdefault(shard_of(offset.topic, len(self.shards)), []).append(index)
        for number, of_shard in by_shard.items():
            for first in range(0, len(of_shard), CHANGED_TOGETHER):
                indexes = of_shard[first : first + CHANGED_TOGETHER]
                chosen = [offsets[index] for index in indexes]
                known = None if known_cuts is None else of_shard_at(known_cuts, number)
                since = self._consumers.nonempty_since(group, self.id, number)
                commit = partial(_commit_each, group=group, offsets=chosen, known_cuts=known, since=since)
                check()
                answers = await self.shards[number].submit(commit)
                for index, answer in zip(indexes, answers, strict=True):
                    outcomes[index] = answer
        return outcomes

    def cursors(self, group: str | None = None) -> Iterator[tuple[str, Topic, int, Cursor]]:
        """(group, topic, partition, cursor as clients are told it) of one group or of all."""
        for name, topic, partition, cursor, state in self._committed(group):
            yield name, topic, partition, cursor.served(state, topic.epoch, self.id)

    def committed(self, group: str) -> Iterator[tuple[Topic, int, Cursor]]:
        """(topic, partition, cursor as it was committed) of a group, which would go on from there."""
        for _, topic, partition, cursor, _ in self._committed(group):
            yield topic, partition, cursor

    def _committed(self, group: str | None) -> Iterator[tuple[str, Topic, int, Cursor, PartitionState]]:
        """The same of one group or of all, with how each partition stands."""
        for place, shard in enumerate(self.shards):
            for name in shard.state.cursor_table.groups() if group is None else (group,):
                since = self._consumers.nonempty_since(name, self.id, place)
                for (number, partition), found in shard.state.cursor_table.of(name).items():
                    topic, cursor = shard.state.topic(number), found.live(since)
                    if topic is not None and cursor is not None:
                        yield name, topic, partition, cursor, shard.state.partition(number, partition)

    async def adopt_cursors(self, group: str, topic: str | None = None, partition: int | None = None) -> int:
        """Let a group go on here from what was committed elsewhere last, in the chosen partitions; answers in how many.

        Raises:
            NotAllowed: it has members here, which would not hear of it.
        """
        count = 0
        for place, shard in enumerate(self.shards):
            if self._consumers.nonempty_since(group, self.id, place) is not None:
                raise NotAllowed(f"consumer group {group} has members in this cluster; stop them first")
            for number, at in shard.state.cursor_table.of(group):
                found = shard.state.topic(number)
                if found is not None and topic in {None, found.name} and partition in {None, at}:
                    count += await shard.submit(partial(cursors.adopt_cursor, group=group, number=number, partition=at))
        return count

    def cursor(self, group: str, shard: Shard, topic: Topic, partition: int) -> Cursor | None:
        """A group's cursor in one partition as clients are told it, None if it has none."""
        found = shard.state.cursors(group, topic.number, partition)
        cursor = found.live(self._consumers.nonempty_since(group, self.id, self.shards.index(shard)))
        if cursor is None:
            return None
        return cursor.served(shard.state.partition(topic.number, partition), topic.epoch, self.id)

    async def delete_cursors(
        self,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> int:
        """Delete the chosen cursors, all of them without a choice; answers how many there were. One that is committed
        meanwhile stays. `check` is called before each of the commits that this takes, and may raise."""
        chosen: list[tuple[str, Topic, int, int]] = []
        for looked_at, (name, found, number, _) in enumerate(self.cursors(group), 1):
            if topic in {None, found.name} and partition in {None, number}:
                chosen.append((name, found, number, self.committed_at(name, found, number)))
            if looked_at % CHANGED_TOGETHER == 0:
                await asyncio.sleep(0)
        await self.delete_each(chosen, check)
        return len(chosen)

    def committed_at(self, group: str, topic: Topic, partition: int) -> int:
        """The commit of the log in which the group's own cursor of a partition stands; -1 if there is none."""
        return self.shard_for(topic.name).state.cursors(group, topic.number, partition).own_at

    async def delete_each(
        self, cursors: Sequence[tuple[str, Topic, int, int]], check: Callable[[], None] = lambda: None
    ) -> None:
        """Delete cursors, given by group, topic, partition and `committed_at`; what is not there need not be."""
        for first in range(0, len(cursors), CHANGED_TOGETHER):
            by_shard: dict[Shard, list[tuple[str, int, int, int]]] = {}
            for group, topic, partition, own_at in cursors[first : first + CHANGED_TOGETHER]:
                by_shard.setdefault(self.shard_for(topic.name), []).append((group, topic.number, partition, own_at))
            for shard, keys in by_shard.items():
                check()
                await shard.submit(partial(_delete_each, keys=keys))


def uuid5_bytes(namespace: bytes, name: str) -> bytes:
    """The bytes of `uuid.uuid5`, in a third of its time: an answer may name a million topics."""
    found = bytearray(sha1(namespace + name.encode(), usedforsecurity=False).digest()[:16])
    found[6] = found[6] & 0x0F | 0x50
    found[8] = found[8] & 0x3F | 0x80
    return bytes(found)


async def _change(shard: Shard, requests: Sequence[DraftRequest[Topic]]) -> Sequence[Topic | Exception]:
    try:
        return await shard.submit(lambda draft: [_run(draft, request) for request in requests])
    except Exception as error:
        return [error] * len(requests)


def _run(draft: Draft, request: DraftRequest[Topic]) -> Topic | Exception:
    try:
        return draft.run(request)
    except FairleadError as error:
        return error


def of_shard_at(numbers: Sequence[int], shard: int) -> int:
    """The number of a shard among those that were noted of a stream's shards; 0 if none was."""
    return numbers[shard] if shard < len(numbers) else 0


def _commit_each(
    draft: Draft, group: str, offsets: Iterable[CommittedOffset], known_cuts: int | None, since: int | None
) -> list[Exception | None]:
    outcomes: list[Exception | None] = []
    for offset in offsets:
        try:
            _commit(draft, group, offset, known_cuts, since)
        except (UnknownTopic, UnknownPartition) as error:
            outcomes.append(another(error))
        else:
            outcomes.append(None)
    return outcomes


def _commit(draft: Draft, group: str, offset: CommittedOffset, known_cuts: int | None, since: int | None) -> None:
    topic = draft.state.by_name(offset.topic)
    if topic is None:
        raise UnknownTopic(f"topic {offset.topic} does not exist")
    cursors.commit_cursor(
        *(draft, group, topic.number, offset.partition, offset.offset, offset.leader_epoch, offset.metadata),
        known_cuts=known_cuts,
        since=since,
    )


def _delete_each(draft: Draft, keys: Iterable[tuple[str, int, int, int]]) -> None:
    for key in keys:
        cursors.delete_cursor(draft, *key)
