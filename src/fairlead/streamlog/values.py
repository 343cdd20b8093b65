"""The frozen values that the stream log hands out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fairlead.model.errors import UnknownPartition, UnknownTopic
from fairlead.model.names import KAFKA_SCHEME
from fairlead.streamlog.rows import Row

Since = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
"""For each partition (first offset of the topic's epoch, epoch history below it)."""


class Topic(NamedTuple):
    """One incarnation of a topic, as the newest TOPIC row says; made for each look at one."""

    number: int
    name: str
    incarnation: bytes
    """16 random bytes, the same in every cluster."""
    partitions: int
    owner: bytes
    """Id of the one stream that may give offsets to the topic's records."""
    epoch: int = 0
    """Topic epoch: Kafka's leader epoch."""
    configs: Mapping[str, str] = MappingProxyType({})
    """Kafka's topic settings that were set on the topic itself; a stranger's row may hold any."""
    version: int = 0
    """Grows by one with each TOPIC row of this incarnation; a lower or equal one that arrives changes nothing."""
    home: str = ""
    """Its name at its owner: that of its creation, or the one that the owner gave it last."""
    owner_at: str = ""
    """Where the owner is: /mapr/<cluster>/<path>, or kafka://<name>; empty if that is not known."""
    since: Since = ()
    """For each partition the offset from which the owner gives them in this epoch; empty at epoch 0. Partitions that
    are missing began in this epoch."""
    ext: Mapping[str, Any] = MappingProxyType({})
    """What its row says and this program does not know."""
    deleted_to: tuple[int, ...] = ()
    """For each partition the offset below which the owners before this one had deleted all records; empty: of none."""

    @property
    def is_of_kafka(self) -> bool:
        """A Kafka cluster owns it. Its partitions have epochs of their own; the topic's own counts how often the log of
        one of them went on otherwise than it had."""
        return is_kafka(self.owner_at)

    def deleted_before(self, partition: int) -> int:
        """The offset below which the owners before this one had deleted all records of a partition."""
        return self.deleted_to[partition] if partition < len(self.deleted_to) else 0

    def check_partition(self, partition: int) -> None:
        """
        Raises:
            UnknownPartition: the topic has no such partition.
        """
        if not 0 <= partition < self.partitions:
            raise UnknownPartition(f"topic {self.name} has no partition {partition}")


def is_kafka(owner_at: str) -> bool:
    """Whether the owner there is a Kafka cluster."""
    return owner_at.startswith(KAFKA_SCHEME)


def topic_with(topic: Topic | None, number: int, partition: int) -> Topic:
    """The topic that was found under `number`, once it proves to exist and to have that partition.

    Raises:
        UnknownTopic, UnknownPartition
    """
    if topic is None:
        raise UnknownTopic(f"topic {number} does not exist any more")
    topic.check_partition(partition)
    return topic


class Terms(NamedTuple):
    """What of some topics deciding on batches needs, a value for each."""

    number: Sequence[int]
    """-1: there is no such topic, and the other values say nothing."""
    partitions: Sequence[int]
    epoch: Sequence[int]
    owner: Sequence[bytes]
    of_kafka: Sequence[bool]
    since: Mapping[int, Since]
    """By number, of the topics whose owner has changed."""


def terms_of(topics: Sequence[Topic | None]) -> Terms:
    """Those of these topics."""
    found = [topic or _NO_TOPIC for topic in topics]
    return Terms(
        [topic.number for topic in found],
        [topic.partitions for topic in found],
        [topic.epoch for topic in found],
        [topic.owner for topic in found],
        [topic.is_of_kafka for topic in found],
        {topic.number: topic.since for topic in found if topic.since},
    )


_NO_TOPIC: Final = Topic(-1, "", b"", 0, b"")


class PartitionState(NamedTuple):
    """Where one partition's log stands: offsets [start, end) exist or are gaps, everything below `start` is gone."""

    start: int
    """Where the log begins for merging, links and apply: before a batch, in a gap or at the end."""
    end: int
    epoch: int
    """Topic epoch of the newest row; -1 if none was ever appended."""
    history: tuple[tuple[int, int], ...]
    """(topic epoch, its first offset), in order: the epoch history from which OffsetForLeaderEpoch is answered."""
    deleted_to: int = 0
    """The owner has deleted all records below this offset. It never goes back, and may lie inside a batch, or beyond
    the end of a copy that the records have not reached yet."""

    @property
    def log_start(self) -> int:
        """Where the log begins for clients: no record below it is ever served, though its batch may be here."""
        return min(max(self.start, self.deleted_to), self.end) if self.deleted_to else self.start

    def epoch_before(self, offset: int) -> int:
        """Topic epoch of the record just before `offset`; -1 if there is none."""
        found = -1
        for epoch, first in self.history:
            if first >= offset:
                break
            found = epoch
        return found

    def end_of_epoch(self, current: int, asked: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest topic epoch that is not above `asked`; (-1, -1) above the newest one.

        The rule of OffsetForLeaderEpoch (KIP-320), as in Kafka's `LeaderEpochFileCache.endOffsetFor`: an epoch ends
        where the next one began, the newest at the end of the log. Before its first record, the topic's `current` epoch
        begins at the end of the log, as a new leader's does.
        """
        history = self.history
        if not history or history[-1][0] < current:
            history = (*history, (current, self.end))
        if asked < 0 or asked > history[-1][0]:
            return -1, -1
        floor = asked
        for epoch, first in history:
            if epoch > asked:
                return floor, first
            floor = epoch
        return floor, self.end

    def cut_at(self, offset: int) -> PartitionState:
        """The partition without what stands at `offset` and above it; if it begins above, it is empty there. A merged
        log may end below: what stood between is dead by a later, lower cut. What of it is deleted for clients is not
        said of the offsets that are given anew."""
        history = tuple(entry for entry in self.history if entry[1] < offset)
        start = min(self.start, offset)
        return PartitionState(start, offset, history[-1][0] if history else -1, history, min(self.deleted_to, offset))


EMPTY_PARTITION = PartitionState(0, 0, -1, ())


class Cut(NamedTuple):
    """A TRUNCATE row of a partition: what stood at `offset` and above before (commit, row) is dead."""

    offset: int
    commit: int
    row: int
    by_epoch: int
    """Topic epoch of the owner whose history goes on there."""
    keep: bytes | None = None
    """Incarnation of the topic into which the dead batches are still to be copied; until then they stay on disk."""
    history: tuple[tuple[int, int], ...] = ()
    """Epoch history of the log before, while there is something to keep."""


@dataclass(frozen=True, slots=True)
class WriterEpoch:
    """Fence of a shard. `id` is random: two logs that share a number (a restored copy) still differ in it."""

    number: int
    id: bytes


@dataclass(frozen=True, slots=True)
class Opener:
    """Who opens a shard, as its claim says."""

    node: int = 1
    """Number of the server; each cluster has one so far, with the number that Kafka clients are told."""
    run: bytes = bytes(16)
    """Random, of one start of the server; zeros where nobody serves."""


NOBODY: Final = Opener()


@dataclass(frozen=True, slots=True)
class EpochRange:
    """The commits of one writer epoch that count: [first, end); `end` is None while the epoch is the ruling one."""

    number: int
    id: bytes
    first: int
    end: int | None


def epoch_of(epochs: Sequence[EpochRange], commit: int) -> EpochRange | None:
    """The writer epoch in which a commit lies; None if no epoch has it among the commits that count.

    There are two conventions. A commit that is an object belongs to the epoch that wrote it: use this function. A
    position stands for all commits below its `commit` and belongs to the epoch of the last of them: `epoch_before`.
    """
    for epoch in reversed(epochs):
        if commit >= epoch.first and (epoch.end is None or commit < epoch.end):
            return epoch
    return None


def epoch_before(epochs: Sequence[EpochRange], commit: int) -> EpochRange:
    """The writer epoch in which commit - 1 lies, which a position before `commit` remembers; the first one for 0."""
    return epoch_of(epochs, commit - 1) or epochs[0]


@dataclass(frozen=True, slots=True)
class GrantRun:
    """Number of a grant: the writer epoch of the log under `meta/` in the source's cluster, and a counter. It grows
    across restarts (decision 0008)."""

    epoch: int
    counter: int

    def __lt__(self, other: GrantRun) -> bool:
        return (self.epoch, self.counter) < (other.epoch, other.counter)


@dataclass(frozen=True, slots=True)
class LinkPosition:
    """How far a link has been applied: every commit of the source's shard below `commit`, in one slice."""

    commit: int
    epoch_id: bytes
    """Random id of the source's writer epoch in which commit - 1 lies (of the first epoch where commit is 0)."""
    run: GrantRun


HARMED = "crc"
"""Reason of the notes of a partition of which a row came that does not hold together; of the first one, perhaps a row
of the topic itself."""


UNKNOWN_TOPIC = "unknown-topic"
"""Reason of the notes of a partition that is not here: its topic, or that it has so many, has not come."""


CURSOR_FIRST = "cursor-of-unknown-topic"
"""The same, where nothing has come of it but what groups have committed."""


CONFLICT = "conflict"
"""How the reason begins for which a partition is set aside."""
DELETED_HERE = f"{CONFLICT}: deleted here"
"""Reason of the notes of a topic whose deletion the same source had brought that now sends it."""


NAME_HELD = f"{CONFLICT}: another topic holds the name "
"""How the reason of the notes begins of a topic that waits for a name."""


NO_NAME_HERE = "conflict: not a possible name here: "
"""The same, of a topic whose name is too long (with the prefix of its link), has other characters than Kafka allows, or
is one of another shard."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A partition that a link must bring again from `end` by a repair, or that waits for a decision (a conflict)."""

    topic: str
    incarnation: bytes
    partition: int
    end: int
    reason: str
    """`gap`, `crc`, `ownership`, `unknown-topic`, `cursor-of-unknown-topic` or `conflict: …`."""
    noted_at: int
    """Milliseconds since 1970."""

    @property
    def conflict(self) -> bool:
        """Set aside until `topic resolve`; a repair is not tried."""
        return self.reason.startswith(CONFLICT)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start, end) of a partition that are in the source's history but never reached this copy."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class LogObject:
    """An object that a reader may open now: commits [first, end) of a shard, or the segment that stands for a run."""

    name: str
    first: int
    end: int
    segment: bool


@dataclass(slots=True)
class Pending:
    """What a link has not sent yet."""

    records: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    """appended_at of the oldest commit with something to send, milliseconds since 1970."""
    newest_ms: int | None = None

    def add(self, records: int, size_bytes: int, oldest_ms: int, newest_ms: int) -> None:
        """Take in one more commit or segment."""
        self.records += records
        self.bytes += size_bytes
        self.oldest_ms = oldest_ms if self.oldest_ms is None else min(self.oldest_ms, oldest_ms)
        self.newest_ms = newest_ms if self.newest_ms is None else max(self.newest_ms, newest_ms)


PartitionKey = tuple[int, int]
"""(topic number, partition)."""
DeadFrom = tuple[int, int, int, int, int]
"""(topic number, partition, offset, commit, row): what stood there from the offset on before (commit, row) is dead."""
RowKey = tuple[int, int, int]
"""(topic number, partition, an offset)."""


class StoredBatch(NamedTuple):
    """What tells a stored batch from another one at the same offsets."""

    base_offset: int
    last_offset: int
    epoch: int
    origin: bytes | None
    crc: int


def stored(row: Row) -> StoredBatch:
    """What tells this BATCH row from others."""
    return StoredBatch(row.base_offset, row.last_offset, row.epoch, row.origin, row.crc)


class NotLoaded(Exception):
    """A request needs rows that are only on disk; whoever seals loads them and runs the request again.

    It is nobody's answer: the request has added nothing and stays first in its queue.
    """

    def __init__(self, keys: Iterable[RowKey]) -> None:
        self.keys = tuple(keys)
        super().__init__(f"{len(self.keys)} rows are not loaded")
