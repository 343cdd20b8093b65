"""Every message of the link protocol, as a frozen value; `docs/formats/link-protocol.md` tells the whole conversation.

    source server  ⇄  reader task      WebSocket /control/reader       READER_SAYS, READER_HEARS
    source server  ⇄  sink task        WebSocket /control/sink         SINK_SAYS, SINK_HEARS
    source server  →  replicator       WebSocket /control/replicator   REPLICATOR_HEARS
    sink task      ⇄  gateway          Upgrade /gateway/apply          APPLY_SAYS, APPLY_HEARS (and frames)
    source server  →  gateway          POST /gateway/link              LinkRequest, LinkAnswer
    source server  →  gateway          POST /gateway/pulse             ServerStart
    source server  →  gateway          POST /gateway/transfer          TransferRequest, TransferAnswer
    server         →  gateway          POST /gateway/pull              PullRequest, PullAnswer (and frames)
    server         →  gateway          POST /gateway/standing          StandingRequest, StandingAnswer
    server         →  gateway          POST /gateway/compare           CompareRequest, CompareAnswer
    server         →  gateway          POST /gateway/owned             OwnedRequest, OwnedAnswer

`to_json(message)` and `from_json(text, READER_SAYS)` are each other's inverse. Text messages carry the name of their
kind as `type`. Ids are bytes here and hex in JSON. Commits are half-open: a position `commit` means all below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

from annotated_types import MaxLen

from fairlead.model.errors import InvalidValue
from fairlead.model.strict_json import AS_ARRAY, FileName, JsonForm, NotAnObject, Unreadable, Words
from fairlead.streamlog.frames.frame import FEATURES
from fairlead.streamlog.payloads import History, TopicPayload
from fairlead.streamlog.ranges import Epoch, Offset, Partition, Partitions, ShardNumber, SliceMask
from fairlead.streamlog.values import DeadFrom, EpochRange, GrantRun, LogObject

PROTOCOL = 4
"""Version of the link protocol that a source speaks."""
PROTOCOL_OLDEST = 4
"""A gateway takes the versions from this one to `PROTOCOL`."""


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A stream somewhere: by name for people, by id for everything else."""

    cluster: str
    path: str
    stream: bytes
    urls: tuple[str, ...] = ()
    """HTTP addresses of the cluster's gateways, for example `http://127.0.0.1:7660`."""


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
    """How many links want to move data; 0 needs no Spark. Sent at once and at each change."""

    links: int


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


# ---------------------------------------------------------------- sink task ⇄ gateway


@dataclass(frozen=True, slots=True)
class ApplyHello:
    """First message on /gateway/apply, for one shard of the source; frames may follow after Ok."""

    protocol: int
    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    source: StreamPlace
    destination: bytes
    """Id of the destination stream."""
    shard: ShardNumber
    """Of the source."""
    features: tuple[str, ...] = FEATURES
    """What rows may need, as the source knows it; see `streamlog/frames/frame.py`."""
    ext: Mapping[str, Any] = field(default_factory=dict)
    """What a later version says that may be passed over."""


@dataclass(frozen=True, slots=True)
class Ok:
    """Go on; the gateway stops reading while more than this many bytes of frames wait to be applied."""

    window_bytes: int
    features: tuple[str, ...] = FEATURES
    """What rows may need, as the destination knows it."""
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Error:
    """No, and the connection is closed. `code` is the error's class in snake case."""

    code: str
    message: Words
    urls: tuple[str, ...] = ()
    """With `moved`: the gateways that take this now."""


@dataclass(frozen=True, slots=True)
class SlicesAt:
    """A recorded position of some slices, given as a mask: bit s for slice s."""

    slices: SliceMask
    commit: int


@dataclass(frozen=True, slots=True)
class Applied:
    """Cumulative: frames 1 to `through` of this connection are answered (applied, or refused by a Refused before)."""

    through: int
    slices: tuple[SlicesAt, ...]
    """Positions that changed since the last Applied."""
    records: int
    """Rows appended, duplicates dropped and partitions noted behind, since the connection began."""
    duplicates: int
    behind: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Frame `frame` (counted from 1) was refused, and so are later ones of its slices on this connection and run."""

    frame: int
    slices: SliceMask
    position: int
    """The lowest recorded position of these slices (0 if none)."""
    reason: str
    """`from` (a frame is missing before it) or `run` (a newer grant has been seen)."""


# ---------------------------------------------------------------- source server → gateway, HTTP


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """First contact of a link and whenever the source wants to know where the replica stands. Changes nothing, except
    that a stream which names its upstream without an id is bound to this id."""

    link: bytes
    source: StreamPlace
    path: str
    """Path of the replica stream in the destination cluster."""
    once: bool = False
    """A copy that needs a one-time grant, not a standing agreement; at its end: one with positions of its own."""
    protocol: int = PROTOCOL
    features: tuple[str, ...] = FEATURES
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlicesPosition:
    """A recorded position of a mask of slices, with what the source checks it by."""

    shard: int
    slices: SliceMask
    commit: int
    epoch_id: bytes
    run: Annotated[GrantRun, AS_ARRAY]


@dataclass(frozen=True, slots=True)
class BehindPartition:
    """A partition that the replica has noted behind for this link."""

    topic: str
    incarnation: bytes
    partition: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class GapRange:
    """Offsets [start, end) that this replica will never have, and why."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A topic that was deleted at the replica."""

    topic: str
    incarnation: bytes


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    """Where the replica stands; lists are cut at 10,000, the totals are whole."""

    cluster: str
    path: str
    stream: bytes
    positions: tuple[SlicesPosition, ...]
    behind: tuple[BehindPartition, ...]
    behind_total: int
    conflicts_total: int
    gaps: tuple[GapRange, ...]
    gaps_total: int
    deleted: tuple[DeletedTopic, ...] = ()
    """What the source had deleted at the replica and has sent again. If it is alive there, the source was restored from
    a copy; else its deletion is still to come."""
    superseded: tuple[TopicPayload, ...] = ()
    """Topics of which the source has sent rows of an owner of before, as they are at the replica: a source that hears
    of the present owner by no other way hears it so. Each is told once for each frame with such rows."""
    urls: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By shard of the source, gateways that are to get its frames; the usual ones where a shard is not named."""
    features: tuple[str, ...] = FEATURES
    ext: Mapping[str, Any] = field(default_factory=dict)
    superseded_records: int = 0
    """Of the link, dropped since the destination's server started, as they are of an owner before the present one."""


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """Could these topics be handed over to the replica of a link? Changes nothing."""

    contact: LinkRequest
    """As at the link's contact."""
    incarnations: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class HeldTopic:
    """How a topic stands at the replica."""

    held: bool
    """It is there, and is no deleted one."""
    ends: int = 0
    """Sum of the ends of its partitions' logs."""
    conflict: str = ""
    """Why it is set aside there; empty if it is not."""
    epoch: int = 0
    """Topic epoch: whether it has heard of a change of owner."""


@dataclass(frozen=True, slots=True)
class TransferAnswer:
    """Of the topics that were asked for, in their order."""

    cluster: str
    stream: bytes
    way_back: str
    """What is wrong with the replica's link back to the source; empty if it carries."""
    topics: tuple[HeldTopic, ...]
    refuses: str = ""
    """Why the replica takes no records at all now, as where its disk is full; empty if it takes them."""


@dataclass(frozen=True, slots=True)
class WantedPartition:
    """A partition of which a stream lacks the rest, and what it has of it."""

    incarnation: bytes
    partition: Partition
    end: Offset
    """Where its log ends there."""
    epoch: int
    """Topic epoch there; -1: the topic is not there at all."""
    version: int


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A stream asks a neighbour for what follows of some partitions. Changes nothing."""

    asker: StreamPlace
    path: str
    """Path of the stream that is asked."""
    wanted: tuple[WantedPartition, ...]
    protocol: int = PROTOCOL
    features: tuple[str, ...] = FEATURES
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PullAnswer:
    """What stands before the frames of an answer: repairs, one or more of each partition that had its turn, the others
    are asked for again."""

    cluster: str
    stream: bytes
    frames: tuple[int, ...]
    """Length of each, in order."""
    lacking: tuple[bytes, ...] = ()
    """Incarnations that were asked for, and are not there or not for the asker."""
    ext: Mapping[str, Any] = field(default_factory=dict)


OffsetRange = tuple[Offset, Offset]
"""[first, end)."""


@dataclass(frozen=True, slots=True)
class ComparedPartition:
    """A partition that a stream compares with a neighbour's, and of which ranges it wants the digests."""

    incarnation: bytes
    partition: Partition
    ranges: Annotated[tuple[OffsetRange, ...], MaxLen(64)] = ()
    without: Annotated[tuple[OffsetRange, ...], MaxLen(10_000)] = ()
    """What begins in these does not count."""


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """How do these partitions stand at a neighbour, and what are the digests of their batches? Changes nothing."""

    asker: StreamPlace
    path: str
    """Path of the stream that is asked."""
    compared: tuple[ComparedPartition, ...]
    protocol: int = PROTOCOL
    features: tuple[str, ...] = FEATURES
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """How a partition stands there."""

    held: bool
    """It is there, and for the asker."""
    epoch: int = -1
    """Of the topic."""
    start: Offset = 0
    end: Offset = 0
    history: tuple[tuple[Epoch, Offset], ...] = ()
    gaps: tuple[OffsetRange, ...] = ()
    deleted_to: Offset = 0
    """The owner had deleted all records below this offset, as far as is known there."""
    digests: tuple[int, ...] = ()
    deleted: bool = False
    """The topic is not there as it was deleted, in this epoch."""


@dataclass(frozen=True, slots=True)
class CompareAnswer:
    """Of the partitions that were asked for, in their order; the last ones may be missing, and are asked for again."""

    cluster: str
    stream: bytes
    partitions: tuple[HeldPartition, ...]
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnedRequest:
    """Which topics that the asker owns does a neighbour have? Changes nothing."""

    asker: StreamPlace
    path: str
    shard: ShardNumber = 0
    """Of the stream that is asked: topics from this one on, with numbers from the next on."""
    number: int = 0
    protocol: int = PROTOCOL
    features: tuple[str, ...] = FEATURES
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnedTopic:
    """A topic of the asker's."""

    incarnation: bytes
    name: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class OwnedAnswer:
    """Topics that the asker owns, in order of shard and number; where the next ones begin, None after the last."""

    cluster: str
    stream: bytes
    topics: tuple[OwnedTopic, ...]
    next: tuple[int, int] | None
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandingRequest:
    """A stream asks a neighbour how topics stand there, before it takes them over. Changes nothing."""

    asker: StreamPlace
    path: str
    """Path of the stream that is asked."""
    incarnations: tuple[bytes, ...]
    protocol: int = PROTOCOL
    features: tuple[str, ...] = FEATURES
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionAt:
    """How far a partition goes, and by which epochs."""

    end: Offset
    history: History


@dataclass(frozen=True, slots=True)
class StandingTopic:
    """A topic as it stands at a neighbour."""

    topic: TopicPayload
    partitions: tuple[PartitionAt, ...]


@dataclass(frozen=True, slots=True)
class StandingAnswer:
    """Of the first `asked` of the incarnations, those topics that are there, and that the asker may have."""

    cluster: str
    stream: bytes
    asked: int
    topics: tuple[StandingTopic, ...]
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerStart:
    """Tells one start of a destination's server from every other."""

    start: bytes
    """Id of the writer epoch of its own log."""


# ---------------------------------------------------------------- text

Kinds = Mapping[str, JsonForm[Any]]
"""What one side of a connection says, by `type`."""


def _kinds(kinds: Mapping[str, type[Any]]) -> Kinds:
    return {name: JsonForm(kind, head={"type": name}, unknown="forbid") for name, kind in kinds.items()}


READER_SAYS = _kinds(
    {
        "hello": ReaderHello,
        "list": ListObjects,
        "topics": TopicsWanted,
        "read": ReadReport,
        "locate": Locate,
        "done": Done,
    }
)
READER_HEARS = _kinds(
    {
        "grant": Grant,
        "repair": RepairGrant,
        "announce": Announce,
        "topics": Topics,
        "located": Located,
        "withdraw": Withdraw,
        "credit": Credit,
    }
)
SINK_SAYS = _kinds({"hello": SinkHello, "progress": Progress, "failed": Failed, "refused": SlicesRefused})
SINK_HEARS = _kinds({"withdraw": WithdrawRun})
REPLICATOR_HEARS = _kinds({"links": LinksActive})
REPLICATOR_SAYS = _kinds({"state": ReplicatorState})
APPLY_SAYS = _kinds({"hello": ApplyHello})
APPLY_HEARS = _kinds({"ok": Ok, "error": Error, "applied": Applied, "refused": Refused})

_ALL = (READER_SAYS, READER_HEARS, SINK_SAYS, SINK_HEARS, REPLICATOR_HEARS, REPLICATOR_SAYS, APPLY_SAYS, APPLY_HEARS)
_COMPARING: Final[tuple[type[Any], ...]] = (CompareRequest, CompareAnswer, OwnedRequest, OwnedAnswer)
_BODIES: Final[tuple[JsonForm[Any], ...]] = tuple(
    JsonForm(kind, unknown="forbid")
    for kind in (
        LinkRequest,
        LinkAnswer,
        ServerStart,
        TransferRequest,
        TransferAnswer,
        PullRequest,
        PullAnswer,
        StandingRequest,
        StandingAnswer,
        *_COMPARING,
    )
)
_FORMS: Final = {form.kind: form for form in (*_BODIES, *(form for kinds in _ALL for form in kinds.values()))}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Head:
    """What every message has."""

    type: Any = None


_HEAD: Final = JsonForm(_Head)


def prepare() -> None:
    """Load what reading and writing needs, for a process whose forks are to share it."""
    for form in (_HEAD, *_FORMS.values()):
        form.prepare()


def to_json(message: object) -> str:
    """The text of any message above; bodies of HTTP requests and answers have no `type`."""
    return _FORMS[type(message)].write(message).decode()


def from_json(text: str | bytes, kinds: Kinds) -> Any:
    """Read a text message of one direction of one connection, for example `from_json(text, READER_SAYS)`.

    Raises:
        InvalidValue: not JSON, another `type`, or a field that is missing, unknown or of another type.
    """
    name = read(text, _HEAD).type
    form = kinds.get(name) if isinstance(name, str) else None
    if form is None:
        raise InvalidValue(f"message of type {name!r}: expected one of {', '.join(sorted(kinds))}")
    return read(text, form)


def body_from_json(text: str | bytes, kind: type[T]) -> T:
    """Read the body of an HTTP request or answer.

    Raises:
        InvalidValue: as `from_json`.
    """
    body: T = read(text, _FORMS[kind])
    return body


@dataclass(frozen=True, slots=True)
class _Spoken:
    """What a first message and each request has, whatever its version."""

    protocol: Any = PROTOCOL


_SPOKEN: Final = JsonForm(_Spoken)


def check_protocol(text: str | bytes) -> None:
    """Refuse a hello or request of another version of the link protocol, before the fields of that version are judged.

    Raises:
        InvalidValue: not JSON, or a version that this gateway does not take; the message names both.
    """
    check_version(read(text, _SPOKEN).protocol)


def check_version(version: object) -> None:
    """Refuse another version of the link protocol. Raises: InvalidValue, which names both."""
    if type(version) is not int or not PROTOCOL_OLDEST <= version <= PROTOCOL:
        raise InvalidValue(f"the source speaks version {version!r:.20} of the link protocol, this gateway {PROTOCOL}")


def read(text: str | bytes, form: JsonForm[T]) -> T:
    """Read what another process has written. Raises: InvalidValue, which names the kind and the field."""
    try:
        return form.read(text)
    except NotAnObject as error:
        raise InvalidValue(f"message is {error}") from error
    except Unreadable as error:
        where = f"{form.kind.__name__}.{error.place}" if error.place else form.kind.__name__
        raise InvalidValue(f"{where}: {error.why}") from error
