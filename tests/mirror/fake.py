"""A Kafka cluster in memory, as a mirror sees one: it can be away, hold back answers, refuse batches, lose records."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from fairlead.kafka import Acl
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.configs import Setting
from fairlead.mirror.ports import (
    CLUSTERS_OWN,
    EARLIEST,
    LATEST,
    LEADERS_SECONDS,
    LOG_END,
    Answer,
    Commit,
    Group,
    Place,
    Topic,
    Trouble,
)
from fairlead.model.errors import (
    Aborted,
    BadRequest,
    BatchTooLarge,
    FairleadError,
    Fenced,
    InvalidValue,
    NotAllowed,
    NotTried,
    SwitchedOff,
    TryAgain,
    UnknownTopic,
    Unreachable,
)
from fairlead.protocol.batch import build_batch, read_header, records_of, set_offset
from fairlead.protocol.records import Record

_ids = count(1)
DEFAULTS = {"max.message.bytes": "1048588", "retention.ms": "604800000", "cleanup.policy": "delete"}


@dataclass
class Log:
    """One partition."""

    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    aborted: list[tuple[int, int]] = field(default_factory=list)
    diverged_at: int | None = None
    """Where it went on otherwise, for whoever stands beyond."""
    lost_epoch: int | None = None
    """It went on otherwise for whoever has read a record of this epoch, too: it has none of it."""
    held_at: int | None = None
    """The last stable offset, while a transaction is open."""

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).last_offset + 1 if self.batches else self.start

    @property
    def stable(self) -> int:
        return self.end if self.held_at is None else self.held_at

    def append(self, batch: bytes) -> int:
        base = self.end
        self.batches.append(bytes(set_offset(batch, base, 0)))
        return base

    def expire(self, until: int) -> None:
        """Records below are gone."""
        self.start = until
        self.batches = [batch for batch in self.batches if read_header(batch).last_offset >= until]


@dataclass
class MadeTopic:
    topic_id: bytes
    logs: list[Log]
    configs: dict[str, Setting]


class FakeCluster:
    """Its topics lie in `made`."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.made: dict[str, MadeTopic] = {}
        self.group_offsets: dict[str, dict[Place, tuple[int, int]]] = {}
        """Of groups: offset and leader epoch."""
        self.metadata: dict[tuple[str, Place], str] = {}
        self.known_acls: list[Acl] | None = None
        """None: it has no authorizer."""
        self.refuses_acls: set[str] = set()
        """Of these topics none is made."""
        self.unknown_settings: set[str] = set()
        """They are refused."""
        self.hides_configs: set[str] = set()
        """Topics whose settings may not be read."""
        self.may_not_make: set[str] = set()
        """Topics that may not be made, and get no more partitions."""
        self.altered: list[Mapping[str, Mapping[str, str | None]]] = []
        self.hidden: set[str] = set()
        """Groups that may not be read."""
        self.unlisted: set[str] = set()
        """Groups that no broker lists: they are on their way to another one."""
        self.members: set[str] = set()
        """Groups that have members."""
        self.away = False
        self.holds_answers = False
        """What is produced is durable, and nobody is told."""
        self.refuses: Callable[[str, int, Outgoing], str | None] = lambda topic, partition, outgoing: None
        """Why a batch is refused for good."""
        self.too_large = 0
        """Batches that were refused, since their topics take smaller ones."""
        self.replicas: dict[str, int] = {}
        """What was asked for of each topic that was made."""
        self.transactions = True
        """It has transactions."""
        self.owners: dict[str, int] = {}
        """Transactional id → epoch."""
        self.fails: Callable[[str], FairleadError | None] = lambda transactional_id: None
        """Why the commit of a transaction fails."""
        self.opened_id: Callable[[str], None] = lambda transactional_id: None
        """Called when a transactional id has another producer."""
        self.transaction_seconds = 60.0
        """So long may a transaction be open."""
        self.commits: list[str] = []
        """Transactional ids, in the order of their commits."""
        self.leaderless: set[Place] = set()
        """They cannot be asked where they end."""
        self.held: set[str] = set()
        """Topics of which that holds which `holds_answers` says of all."""
        self.unknown: Counter[Place] = Counter()
        """So many times is who fetches them told that there is no such topic, though there is."""
        self.silent: set[Place] = set()
        """Who fetches them waits."""
        self.answers_max: int | None = None
        """So often is each who fetches answered."""
        self.fetched: set[Place] = set()
        """What was ever asked for."""
        self.new_id: Callable[[], bytes] = lambda: uuid.uuid4().bytes
        """Of a topic that is made."""
        self.open = 0
        """Feeds and senders that are not closed."""
        self._changed = asyncio.Event()

    # ------------------------------------------------------------ for tests

    def make(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """A topic, with these settings of its own (`_` for `.`)."""
        own = {name.replace("_", "."): Setting(value, True) for name, value in configs.items()}
        defaults = {name: Setting(value, False) for name, value in DEFAULTS.items()}
        self.made[topic] = MadeTopic(self.new_id(), [Log() for _ in range(partitions)], {**defaults, **own})
        self.change()

    def make_setting(self, topic: str, name: str, value: str | None) -> None:
        """Set it, or let it have its default again."""
        configs = self.made[topic].configs
        if value is not None:
            configs[name] = Setting(value, True)
        elif name in DEFAULTS:
            configs[name] = Setting(DEFAULTS[name], False)
        else:
            configs.pop(name)

    def put(self, topic: str, partition: int, values: Iterable[bytes], key: bytes | None = b"k", **fields: int) -> None:
        """A batch for each value."""
        for value in values:
            self.made[topic].logs[partition].append(build_batch([(key, value)], timestamp_ms=1_000, **fields))
        self.change()

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        """What lies there."""
        if topic not in self.made:
            return []
        log = self.made[topic].logs[partition]
        return [record for batch in log.batches for record in records_of(batch) if record.offset >= log.start]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """Their values."""
        return [record.value for record in self.records(topic, partition)]

    async def latency(self) -> None:
        """How long what is asked is on its way, and its answer: nothing."""

    def change(self) -> None:
        """Whoever waits looks again."""
        self._changed.set()

    def come_back(self) -> None:
        """It is away no more."""
        self.away = False
        self.change()

    async def changed(self) -> None:
        """Wait for a change."""
        self._changed.clear()
        await self._changed.wait()

    def refusal(self, topic: str, partition: int, outgoing: Outgoing) -> BadRequest | None:
        """Why a batch is refused for good, if it is."""
        if (why := self.refuses(topic, partition, outgoing)) is not None:
            return BadRequest(why)
        made = self.made.get(topic)
        if made is not None and outgoing.size_bytes > int(made.configs["max.message.bytes"].value):
            self.too_large += 1
            return BatchTooLarge(f"topic {topic}, partition {partition}: MESSAGE_TOO_LARGE")
        return None

    # ------------------------------------------------------------ what a mirror asks

    def _answers(self) -> None:
        if self.away:
            raise Unreachable(f"cluster {self.id} does not answer")

    async def topics(self, names: Iterable[str] | None) -> Mapping[str, Topic]:
        self._answers()
        wanted = list(self.made) if names is None else [name for name in names if name in self.made]
        return {
            name: Topic(name, self.made[name].topic_id, len(self.made[name].logs), name.startswith("__"))
            for name in wanted
        }

    async def offsets(self, places: Iterable[Place], at: int) -> Mapping[Place, int]:
        self._answers()
        return {place: self._offset(self._log(place), at) for place in places}

    async def told_offsets(
        self, places: Iterable[Place], at: int, seconds: float = LEADERS_SECONDS
    ) -> Mapping[Place, int | FairleadError]:
        found: dict[Place, int | FairleadError] = {}
        for place in places:
            try:
                found |= await self.offsets([place], at)
            except FairleadError as error:
                found[place] = error
        return found

    def _log(self, place: Place) -> Log:
        if place in self.leaderless:
            raise TryAgain(f"topic {place.topic}, partition {place.partition}: LEADER_NOT_AVAILABLE")
        if place.topic not in self.made:
            raise TryAgain(f"topic {place.topic}, partition {place.partition} is not there")
        return self.made[place.topic].logs[place.partition]

    def _offset(self, log: Log, at: int) -> int:
        if at == EARLIEST:
            return log.start
        if at == LATEST:
            return log.stable
        if at == LOG_END:
            return log.end
        later = (record.offset for batch in log.batches for record in records_of(batch) if record.timestamp >= at)
        return next(later, log.stable)

    async def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, Setting] | FairleadError]:
        self._answers()
        return {topic: self._configs(topic) for topic in topics}

    def _configs(self, topic: str) -> Mapping[str, Setting] | FairleadError:
        if topic not in self.made:
            return UnknownTopic(f"topic {topic}: UNKNOWN_TOPIC_OR_PARTITION")
        if topic in self.hides_configs:
            return NotAllowed(f"topic {topic}: TOPIC_AUTHORIZATION_FAILED")
        return dict(self.made[topic].configs)

    async def alter_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> Mapping[str, FairleadError]:
        self._answers()
        self.altered.append(changes)
        refused: dict[str, FairleadError] = {}
        for topic, values in changes.items():
            if bad := self.unknown_settings & values.keys():
                refused[topic] = InvalidValue(f"topic {topic}: INVALID_CONFIG (unknown: {min(bad)})")
                continue
            for name, value in values.items():
                made = self.made[topic].configs
                made[name] = Setting(DEFAULTS.get(name, ""), False) if value is None else Setting(value, True)
        return refused

    async def acls(self) -> Sequence[Acl]:
        self._answers()
        if self.known_acls is None:
            raise SwitchedOff(f"cluster {self.id}, the ACLs of topics: SECURITY_DISABLED")
        return list(self.known_acls)

    async def create_acls(self, acls: Sequence[Acl]) -> Mapping[Acl, FairleadError]:
        await self.acls()
        assert self.known_acls is not None
        self.known_acls += [acl for acl in acls if acl.topic not in self.refuses_acls]
        return {
            acl: NotAllowed(f"an ACL of topic {acl.topic}: POLICY_VIOLATION")
            for acl in acls
            if acl.topic in self.refuses_acls
        }

    async def groups(self) -> Mapping[str, Group]:
        self._answers()
        names = {*self.group_offsets, *self.members} - self.unlisted
        states = {name: "Stable" if name in self.members else "Empty" for name in names}
        return {name: Group(0, "consumer", state, "classic") for name, state in states.items()}

    async def commits_of(self, groups: Mapping[str, Group]) -> Mapping[str, Mapping[Place, Commit] | FairleadError]:
        self._answers()
        return {name: self._commits(name) for name in groups}

    def _commits(self, group: str) -> Mapping[Place, Commit] | FairleadError:
        if group in self.hidden:
            return NotAllowed(f"group {group}: GROUP_AUTHORIZATION_FAILED")
        found = self.group_offsets.get(group, {})
        return {place: Commit(at[0], self.metadata.get((group, place), "")) for place, at in found.items()}

    async def commit_for(self, group: str, commits: Mapping[Place, Commit]) -> None:
        await self.commit(group, {place: (commit.offset, -1) for place, commit in commits.items()})
        self.metadata |= {(group, place): commit.metadata for place, commit in commits.items()}

    async def create(
        self, topic: str, partitions: int, configs: Mapping[str, str], replication: int = CLUSTERS_OWN
    ) -> bool:
        self._answers()
        self._may_make(topic)
        self.replicas[topic] = replication
        if topic in self.made:
            return False
        self.make(topic, partitions)
        self.made[topic].configs.update({name: Setting(value, True) for name, value in configs.items()})
        return True

    def _may_make(self, topic: str) -> None:
        if topic in self.may_not_make:
            raise NotAllowed(f"topic {topic}: POLICY_VIOLATION")

    async def grow(self, topic: str, partitions: int) -> None:
        self._answers()
        self._may_make(topic)
        logs = self.made[topic].logs
        logs += [Log() for _ in range(partitions - len(logs))]
        self.change()

    async def committed(self, group: str, places: Iterable[Place]) -> Mapping[Place, int]:
        found = self.group_offsets.get(group, {})
        return {place: found[place][0] for place in places if place in found}

    async def commit(self, group: str, offsets: Mapping[Place, tuple[int, int]]) -> None:
        self._answers()
        if group in self.members:
            raise NotAllowed(f"group {group} has members")
        known = {place: at for place, at in offsets.items() if place.topic in self.made}
        self.group_offsets.setdefault(group, {}).update(known)
        for place in offsets.keys() - known.keys():
            raise UnknownTopic(f"group {group}, topic {place.topic}: UNKNOWN_TOPIC_OR_PARTITION")

    async def opened(self) -> FakeCluster:
        """As a mirror opens a source."""
        self._answers()
        return self

    def feed(self, *, committed: bool = True) -> FakeFeed:
        return FakeFeed(self, committed=committed)

    async def has_transactions(self) -> bool:
        self._answers()
        return self.transactions

    def transactional(self, transactional_id: str, on_id: Callable[[int], Awaitable[None]] | None) -> FakeTransactional:
        return FakeTransactional(self, transactional_id, on_id)

    async def sender(self, on_id: Callable[[int], Awaitable[None]] | None) -> FakeSender:
        self._answers()
        return FakeSender(self, on_id)

    async def close(self) -> None:
        pass


class FakeFeed:
    """Gives batch by batch, a round of partitions at a time. One that cannot be fetched from where it stands is not
    fetched until it is assigned again."""

    def __init__(self, cluster: FakeCluster, *, committed: bool = True) -> None:
        self._cluster = cluster
        self._committed = committed
        self._at: dict[Place, tuple[bytes, int, int]] = {}
        """Topic id, offset, and the epoch of the last record that was read before, -1 if it is not known."""
        self._paused: set[Place] = set()
        self._answered = 0
        self.batches_max = 4
        cluster.open += 1

    @property
    def down(self) -> str | None:
        return f"cluster {self._cluster.id} does not answer" if self._cluster.away else None

    def assign(self, place: Place, topic_id: bytes, offset: int, epoch: int) -> None:
        self._at[place] = (topic_id, offset, epoch)
        self._cluster.fetched.add(place)
        self._cluster.change()

    def pause(self, place: Place) -> None:
        self._paused.add(place)

    def resume(self, place: Place) -> None:
        self._paused.discard(place)
        self._cluster.change()

    def remove(self, place: Place) -> None:
        self._at.pop(place, None)
        self._paused.discard(place)

    async def next(self) -> Sequence[Answer]:
        while True:
            await asyncio.sleep(0)
            if not self._cluster.away and self._answered != self._cluster.answers_max:
                found = [answer for place in list(self._at) if (answer := self._answer(place)) is not None]
                for answer in found:
                    if answer.trouble is not None:
                        self.remove(answer.place)
                if found:
                    self._answered += 1
                    return found
            await self._cluster.changed()

    def _answer(self, place: Place) -> Answer | None:
        topic_id, offset, epoch = self._at[place]
        made = self._cluster.made.get(place.topic)
        if place in self._paused or place in self._cluster.silent:
            return None
        unknown = self._cluster.unknown
        unknown[place] -= (is_unknown := unknown[place] > 0)
        if made is None or made.topic_id != topic_id or is_unknown:
            return Answer(place, memoryview(b""), (), -1, Trouble.UNKNOWN_TOPIC)
        log = made.logs[place.partition]
        beyond = log.diverged_at is not None and (offset > log.diverged_at or epoch == log.lost_epoch)
        if log.diverged_at is not None and beyond and epoch >= 0:
            return Answer(place, memoryview(b""), (), log.stable, Trouble.TRUNCATED, diverged_at=log.diverged_at)
        if not log.start <= offset <= log.end:
            return Answer(place, memoryview(b""), (), log.stable, Trouble.OUT_OF_RANGE)
        heads = [(read_header(batch), batch) for batch in log.batches]
        data = [
            b
            for head, b in heads
            if head.last_offset >= offset and head.base_offset < (log.stable if self._committed else log.end)
        ]
        data = data[: self.batches_max]
        if not data:
            return None
        self._at[place] = (topic_id, read_header(data[-1]).last_offset + 1, -1)
        return Answer(place, memoryview(b"".join(data)), log.aborted, log.stable)

    async def close(self) -> None:
        self._cluster.open -= 1


_Queued = tuple[str, int, Outgoing, bool, "asyncio.Future[int | None]"]


class FakeSender:
    """Writes into the cluster's logs; what is sent while the cluster is away waits, in order."""

    def __init__(self, cluster: FakeCluster, on_id: Callable[[int], Awaitable[None]] | None) -> None:
        self._cluster = cluster
        self._on_id = on_id
        self.producer_id = 1_000 + next(_ids)
        self._queue: asyncio.Queue[_Queued] = asyncio.Queue()
        self._task = asyncio.create_task(self._run())
        cluster.open += 1

    @property
    def down(self) -> str | None:
        return f"cluster {self._cluster.id} does not answer" if self._cluster.away else None

    def send(
        self, topic: str, partition: int, outgoing: Outgoing, *, in_order: bool = False
    ) -> asyncio.Future[int | None]:
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((topic, partition, outgoing, in_order, future))
        return future

    async def _run(self) -> None:
        if self._on_id is not None:
            await self._on_id(self.producer_id)
        while True:
            topic, partition, outgoing, in_order, future = await self._queue.get()
            await self._cluster.latency()
            while self._cluster.away:
                await self._cluster.changed()
            error = self._cluster.refusal(topic, partition, outgoing)
            if error is not None:
                future.set_exception(error)
                if in_order:
                    self._give_up_behind(topic, partition)
                continue
            head = outgoing.of_producer(self.producer_id, 0, 0)
            offset = self._cluster.made[topic].logs[partition].append(head + bytes(outgoing.body))
            self._cluster.change()
            await self._cluster.latency()
            while self._cluster.holds_answers or topic in self._cluster.held:
                await self._cluster.changed()
            if not future.done():
                future.set_result(offset)

    def _give_up_behind(self, topic: str, partition: int) -> None:
        for _ in range(self._queue.qsize()):
            queued = self._queue.get_nowait()
            *place, _, in_order, future = queued
            if in_order and place == [topic, partition]:
                future.set_exception(NotTried("it lies behind what was refused"))
            else:
                self._queue.put_nowait(queued)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._cluster.open -= 1


class FakeTransactional:
    """Writes what was sent into the cluster's logs with the commit; acknowledges it at once."""

    def __init__(
        self, cluster: FakeCluster, transactional_id: str, on_id: Callable[[int], Awaitable[None]] | None
    ) -> None:
        self.timeout_seconds = cluster.transaction_seconds
        self.producer_id = 1_000 + next(_ids)
        self._cluster = cluster
        self.id = transactional_id
        self._on_id = on_id
        self._epoch: int | None = None
        self._sent: list[tuple[str, int, Outgoing]] = []
        self._failed: FairleadError | None = None

    @property
    def down(self) -> str | None:
        return f"cluster {self._cluster.id} does not answer" if self._cluster.away else None

    async def open(self) -> None:
        await self._cluster.topics(())  # it must not be away; this takes a latency, where there is one
        if self._epoch is None:
            self._cluster.open += 1
        self._epoch = self._cluster.owners[self.id] = self._cluster.owners.get(self.id, -1) + 1
        self._sent.clear()
        self._failed = None
        self._cluster.opened_id(self.id)
        if self._on_id is not None:
            await self._on_id(self.producer_id)

    def send(self, topic: str, partition: int, outgoing: Outgoing) -> asyncio.Future[int | None]:
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        if self._epoch != self._cluster.owners[self.id]:
            self._failed = self._failed or Fenced(f"{self.id} has another producer")
        error = self._cluster.refusal(topic, partition, outgoing)
        if self._failed is not None:
            future.set_exception(self._failed)
        elif error is not None:
            future.set_exception(error)
            self._failed = Aborted(f"a batch was refused: {error}")
        else:
            self._sent.append((topic, partition, outgoing))
            future.set_result(None)
        return future

    async def flush(self) -> None:
        await asyncio.sleep(0)

    async def commit(self) -> None:
        await self._cluster.latency()
        while self._cluster.away:
            await self._cluster.changed()
        if self._epoch != self._cluster.owners[self.id]:
            raise Fenced(f"{self.id} has another producer")
        failed = self._failed or self._cluster.fails(self.id)
        if failed is not None:
            self._failed = failed
            raise failed
        for topic, partition, outgoing in self._sent:
            head = outgoing.of_producer(self.producer_id, 0, 0, transactional=True)
            self._cluster.made[topic].logs[partition].append(head + bytes(outgoing.body))
        self._sent.clear()
        self._cluster.commits.append(self.id)
        self._cluster.change()
        await self._cluster.latency()

    async def close(self) -> None:
        if self._epoch is not None:
            self._cluster.open -= 1
        self._epoch = None
