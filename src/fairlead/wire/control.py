"""What a source server says with the tasks that read and deliver for it, and with its replicator, as frozen values.

Text messages of WebSockets; `messages` writes and reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fairlead.model.strict_json import AS_ARRAY, FileName, Words
from fairlead.streamlog.values import DeadFrom, EpochRange, GrantRun, LogObject
from fairlead.wire.link_protocol import StreamPlace

# ---------------------------------------------------------------- reader task → source server


@dataclass(frozen=True, slots=True)
class ReaderHello:
    """First message. The server may give up to `slots` grants to this worker at a time."""

    worker: str
    slots: int


@dataclass(frozen=True, slots=True)
class ListObjects:
    """An object was missing: name the objects from this commit on again (answered by Announce with `reset`)."""

    source: bytes
    shard: int
    from_commit: int


@dataclass(frozen=True, slots=True)
class TopicsWanted:
    """What do these topic numbers mean?"""

    source: bytes
    shard: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PassingWanted:
    """Which of these topics does that grant bring? Asked of a grant that is `filtered`."""

    source: bytes
    shard: int
    grant: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadReport:
    """How far a grant has been scanned; at most every 200 ms, and only when it changed."""

    grant: int
    slices: Mapping[int, int]
    """By slice: every commit below this one has been read and its rows handed on."""
    emitted: Mapping[int, int] = field(default_factory=dict)
    """By slice: `to_commit` of the last frame handed on, if any. Once the destination has recorded it, all that was
    read has been applied, though an empty stretch after it moves no position."""


@dataclass(frozen=True, slots=True)
class Locate:
    """Repair: which objects hold rows of this partition from `offset` on?"""

    source: bytes
    shard: int
    number: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Done:
    """A repair grant is finished, or a grant with `until` has been read to its end; the slot is free."""

    grant: int


# ---------------------------------------------------------------- source server → reader task


@dataclass(frozen=True, slots=True)
class Grant:
    """Read these slices of this shard for this link, until withdrawn."""

    grant: int
    """Number of the grant on this server, for ReadReport, Done and Withdraw."""
    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    source: StreamPlace
    shard: int
    destination: StreamPlace
    forward: str
    """`all`: also rows that came by another link; `own`: only those first written in the source stream."""
    data_root: FileName
    """Directory of the server's storage, for executors on the same host."""
    prefix: str
    """Objects of the shard lie below `<prefix>/`."""
    slices: Mapping[int, int]
    """By slice, the commit to start with: the destination's recorded position."""
    epochs: tuple[EpochRange, ...]
    end: int
    """Announced end of the shard: commits below it may be read."""
    until: int | None = None
    """A link that ends (copystream): commits below this one only."""
    created: int | None = None
    """Where the shard ended when the link was made, if that is known; goes into its frames."""
    read_from: Mapping[int, int] = field(default_factory=dict)
    """By slice, the commit below which an earlier grant has found nothing more to send; frames begin at `slices`."""
    cursors: str = "all"
    """Of which consumer groups cursors go: `all`, `none`, or those that a regular expression matches."""
    filtered: bool = False
    """Only topics that the server names (PassingWanted): no row of another one is sent."""
    record_end: bool = False
    """With `until`: at the end an empty frame, so that the destination records that all was read."""
    topic_prefix: str = ""
    """Stands before the names of topics that the link brings first."""
    begin: int = 0
    """Of batches of commits below this one only goes where they end (`-from now`)."""

    @property
    def starts(self) -> dict[int, int]:
        """By slice, the first commit that is read."""
        return {**self.slices, **self.read_from}


@dataclass(frozen=True, slots=True)
class RepairPartition:
    """A partition to bring again, from offset `end` (the replica's log end)."""

    number: int
    partition: int
    end: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RepairGrant:
    """Bring these partitions, by Locate, with frames that carry `repair`; then Done."""

    grant: int
    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    source: StreamPlace
    shard: int
    destination: StreamPlace
    forward: str
    data_root: FileName
    prefix: str
    partitions: tuple[RepairPartition, ...]
    epochs: tuple[EpochRange, ...]
    end: int
    created: int | None = None
    cursors: str = "all"
    topic_prefix: str = ""
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Announce:
    """The announced end of a shard and the objects up to it that were not named on this connection before.

    After a Grant the first one begins at the lowest granted commit. With `reset` it replaces what was named before,
    from the first object's first commit on.
    """

    source: bytes
    shard: int
    end: int
    objects: tuple[LogObject, ...]
    reset: bool = False
    cuts: tuple[DeadFrom, ...] = ()
    """What these commits make dead, in them and before."""


@dataclass(frozen=True, slots=True)
class TopicName:
    """What a topic number means."""

    number: int
    incarnation: bytes
    name: str


@dataclass(frozen=True, slots=True)
class Topics:
    """Answer to TopicsWanted; numbers that are unknown are left out."""

    source: bytes
    shard: int
    topics: tuple[TopicName, ...]


@dataclass(frozen=True, slots=True)
class Passing:
    """Answer to PassingWanted: those of its numbers that the grant brings. A deleted topic is one of them if its
    deletion is to be told; what was never a topic is none."""

    source: bytes
    shard: int
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """Answer to Locate: the objects in commit order, and the announced end up to which they were looked for."""

    source: bytes
    shard: int
    number: int
    partition: int
    offset: int
    objects: tuple[LogObject, ...]
    end: int
    cuts: tuple[DeadFrom, ...] = ()
    """Where the partition was cut."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Stop this grant at once; what it has handed on may be dropped by anyone."""

    grant: int
    reason: Words


@dataclass(frozen=True, slots=True)
class Credit:
    """How much of what this grant has handed on its destination has answered, in all since the grant began: what the
    Progress messages of its run add up to, passed on as they come. The reader stays within a bound of it, so that a
    thin link neither fills memory nor makes its neighbours wait."""

    grant: int
    frames: int
    size_bytes: int


# ---------------------------------------------------------------- server of a replica of a Kafka cluster ⇄ reader task


@dataclass(frozen=True, slots=True)
class KafkaPartition:
    """A partition that is to be read, and how far the replica has come in it."""

    number: int
    """Of its topic in the frames of the grant, in the partition's slice of the link."""
    topic: str
    topic_id: bytes
    """Kafka's; no other topic of that name is read."""
    partition: int
    end: int
    """Where the replica's log ends: the next record to read."""
    epoch: int
    """Leader epoch of the record before; -1: there is none."""
    topic_epoch: int
    """The topic's, as the replica has it."""


@dataclass(frozen=True, slots=True)
class KafkaGrant:
    """Read these partitions of a Kafka cluster for a replica in this cluster, until withdrawn."""

    grant: int
    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    source: StreamPlace
    """The Kafka cluster, as if it were a stream: kafka://name, and its id."""
    kafka_cluster: str
    """Its own id; no other cluster is read."""
    destination: StreamPlace
    config_file: FileName
    """Kafka's settings of a consumer, on the server's machine. What is in it never leaves the file otherwise."""
    slices: Mapping[int, int]
    """By slice, how many frames of the link the replica has recorded."""
    partitions: tuple[KafkaPartition, ...]


@dataclass(frozen=True, slots=True)
class KafkaStopped:
    """A partition of a Kafka cluster that is read no further, and why."""

    topic_id: bytes
    partition: int
    why: Words
    parted: bool
    """Kafka's log has other records, or none, where the replica has some."""


@dataclass(frozen=True, slots=True)
class KafkaReport:
    """How a grant of a Kafka cluster's partitions is: at once, and when it changes."""

    grant: int
    waits_for: Words
    """What keeps it from reading; empty while it reads."""
    stopped: tuple[KafkaStopped, ...]
    """Partitions that have stopped since the last report."""


# ---------------------------------------------------------------- sink task ⇄ source server


@dataclass(frozen=True, slots=True)
class SinkHello:
    """First message."""

    worker: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What a destination has answered; counts are since the Progress before this one."""

    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    shard: int
    slices: Mapping[int, int]
    """Recorded positions by slice, those that changed."""
    frames: int = 0
    """Frames answered: applied or refused."""
    records: int = 0
    size_bytes: int = 0
    """Length of the frames answered."""
    behind: int = 0
    """Partitions newly noted behind."""
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The frames of this link and shard up to this run were dropped: the destination does not answer, is slow or said
    no."""

    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    shard: int
    reason: str
    """`unreachable`, `slow`, or the `code` of the gateway's Error (`not_agreed`, `unknown_stream`, …)."""
    message: Words


@dataclass(frozen=True, slots=True)
class SlicesRefused:
    """The gateway refused a frame of these slices, and answered with the lowest position that it has recorded."""

    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    shard: int
    slices: int
    position: int


@dataclass(frozen=True, slots=True)
class WithdrawRun:
    """Drop what waits for this link and shard of runs up to and including this one."""

    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    shard: int


# ---------------------------------------------------------------- source server ⇄ replicator


@dataclass(frozen=True, slots=True)
class LinksActive:
    """How many links want to move data; 0 needs no Spark. Sent at once and at each change of that."""

    links: int
    waiting: int
    """Of how many of them nothing can be carried as it stands: the destination does not answer, or a person must mend
    something."""


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """What one link has to carry in a catch-up (`--once`)."""

    link: bytes
    ends: tuple[int, ...]
    """By shard of the source, the commit below which it is to carry all."""


@dataclass(frozen=True, slots=True)
class LeftWanted:
    """Asks what a catch-up has left."""

    since: tuple[LinkEnds, ...] | None
    """The ends that it was told when it began; null: it begins now."""


@dataclass(frozen=True, slots=True)
class LinksLeft:
    """The answer."""

    ends: tuple[LinkEnds, ...]
    """Of all links that are not paused, as they were when it began."""
    links: int
    """Of these, links that lack something."""
    commits: int
    """Below the ends, and not carried by these links."""
    partitions: int
    """That their replicas have noted behind, conflicts apart."""


@dataclass(frozen=True, slots=True)
class ReplicatorState:
    """How the replicator is. Sent at once and at each change, and as its last words before it gives up."""

    process: bytes
    """Random, made when the process begins."""
    since: int
    """When that was, milliseconds since 1970."""
    doing: str
    """`waiting` (no link has work: no Spark), `starting` (Spark), `carrying`, `failed`."""
    failures: int
    """How often this process has lost Spark or its query, or could not start it."""
    error: Words
    """The last reason of that; empty once the query has run for a while."""
