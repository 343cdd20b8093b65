"""What servers of different clusters ask one another over HTTP, as frozen values: bodies of requests and answers, which
`messages` writes and reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from annotated_types import MaxLen, MinLen

from fairlead.model.strict_json import AS_ARRAY, Id
from fairlead.streamlog.frames.frame import FEATURES
from fairlead.streamlog.payloads import History, TopicPayload
from fairlead.streamlog.ranges import Commit, Counter, Epoch, Offset, Partition, Partitions, ShardNumber, SliceMask
from fairlead.streamlog.values import GrantRun
from fairlead.wire.link_protocol import PROTOCOL, StreamPlace

HEARD: Final = "heard"
ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """First contact of a link and whenever the source wants to know where the replica stands. Changes nothing, except
    that a stream which names its upstream without an id is bound to this id, and that what was heard is not told again.
    """

    link: bytes
    source: StreamPlace
    path: str
    """Path of the replica stream in the destination cluster."""
    once: bool = False
    """A copy that needs a one-time grant, not a standing agreement; at its end: one with positions of its own."""
    protocol: int = PROTOCOL
    features: tuple[str, ...] = FEATURES
    ext: Mapping[str, Any] = field(default_factory=dict)
    """`heard`: by the incarnation of each topic that the last answer has in `superseded`, its epoch there. The source
    has taken that, or may not: it need not be told again."""

    @property
    def heard(self) -> dict[bytes, int]:
        """What `ext` says of it; what cannot be understood is passed over."""
        said = self.ext.get(HEARD)
        epochs = said.items() if isinstance(said, Mapping) else ()
        return {bytes.fromhex(key): epoch for key, epoch in epochs if _is_hex(key) and type(epoch) is int}


def said_to_be_heard(epochs: Mapping[bytes, int]) -> dict[str, Any]:
    """What `LinkRequest.ext` says of topics, given by their incarnations and epochs."""
    return {HEARD: {incarnation.hex(): epoch for incarnation, epoch in epochs.items()}} if epochs else {}


def _is_hex(text: str) -> bool:
    return ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class SideCopyEnd:
    """A side copy and its link have come to the same commits: from there on the link goes on under another id, with the
    notes of both. Coming again it changes nothing."""

    contact: LinkRequest
    """Of the side copy."""
    link: bytes
    """The link whose topics it has brought."""
    into: bytes
    """Its next id."""
    until: Annotated[tuple[Commit, ...], MinLen(1)]
    """By shard of the source, the commit below which all is here of both."""
    epoch_ids: tuple[Id, ...]
    """Of the writer epochs in which the last of those commits lie."""
    over: bool = False
    """The link goes on under its next id: what is known under the others is forgotten."""
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class SlicesPosition:
    """A recorded position of a mask of slices, with what the source checks it by."""

    shard: ShardNumber
    slices: SliceMask
    commit: Commit
    epoch_id: bytes
    run: Annotated[GrantRun, AS_ARRAY]


@dataclass(frozen=True, slots=True)
class BehindPartition:
    """A partition that the replica has noted behind for this link."""

    topic: str
    incarnation: bytes
    partition: Partition
    end: Offset
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
    of the present owner by no other way hears it so. Each is told until the source says that it has heard."""
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
    """Tells one start of a destination's server from every other, and whether anything was decided there since."""

    start: bytes
    """Id of the writer epoch of its own log."""
    resolved: Counter = 0
    """So many partitions that links had set aside are to be brought since then."""
