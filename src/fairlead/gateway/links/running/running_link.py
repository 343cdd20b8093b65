"""What the source server knows of one link while it runs; the record in `meta/` is all that outlives the process.

Owns that knowledge. It never acts on it: others ask, grant and show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.owner_changes import TopicPlace, owned_ones, unheard_by
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.running.attention import Attention
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.lifecycle import Event, State
from fairlead.gateway.links.running.positions import Positions
from fairlead.model.errors import FairleadError
from fairlead.model.names import StreamPath
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import DeletedTopic, LinkAnswer, LinkRequest, said_to_be_heard

_ENDS_ERROR = {Event.ANSWERED, Event.PAUSE, Event.STAND_ASIDE, Event.GO}


def wire_id(record: LinkRecord) -> bytes:
    """The id by which a destination knows a link: a rescan is another one, without positions; so is a link into which
    topics have come, whose positions the destination itself has noted."""
    if record.rescan == 0 and record.widened is None:
        return record.id
    return hashlib.sha256(record.id + record.rescan.to_bytes(8, "big") + (record.widened or b"")).digest()[:16]


def urls_of(cluster: Cluster, record: LinkRecord) -> tuple[str, ...]:
    """The gateways of a link's destination."""
    return cluster.urls_at(record.replica_path, record.replica_urls)


def place_of(cluster: Cluster, stream: Stream) -> StreamPlace:
    """A stream of this cluster, as other clusters are told of it."""
    return StreamPlace(cluster.name, stream.path, stream.id, tuple(cluster.urls))


def source_of(cluster: Cluster, record: LinkRecord) -> Stream:
    """A link's source stream.

    Raises:
        UnknownStream: it was deleted.
        Damaged: it could not be opened.
    """
    return cluster.stream_of(record.source, record.source_path)


@dataclass(slots=True)
class LinkCounts:
    """What the destination has answered since this server started."""

    frames: int = 0
    records: int = 0
    size_bytes: int = 0
    duplicates: int = 0


@dataclass(slots=True)
class Rate:
    """How fast what was there is carried: from the first report of a sink on, so that the start of Spark is left
    out."""

    began_ms: int | None = None
    last_ms: int = 0
    size_bytes: int = 0

    def note(self, size_bytes: int, now_ms: int) -> None:
        """So much more was recorded at the destination, `now_ms` by the monotonic clock."""
        if self.began_ms is None:
            self.began_ms = now_ms
        else:
            self.size_bytes += size_bytes
        self.last_ms = now_ms

    @property
    def bytes_per_second(self) -> int | None:
        """None: too little was carried to tell."""
        took_ms = 0 if self.began_ms is None else self.last_ms - self.began_ms
        return self.size_bytes * 1000 // took_ms if took_ms else None


@dataclass(slots=True)
class RunningLink:
    """One link, as it runs."""

    record: LinkRecord
    attention: Attention
    gateways: Gateways
    error: FairleadError | None = None
    last_error: str = ""
    """What `error` last said, until something arrives: a destination may answer, and still take nothing."""
    failing_since_ms: int = 0
    """When `error` began, by the wall clock; later errors in a row do not change it."""
    moved_ms: int = 0
    """When something last arrived, or a person last moved it, by the monotonic clock."""
    answer: LinkAnswer | None = None
    positions: Positions = field(default_factory=Positions)
    counts: LinkCounts = field(default_factory=LinkCounts)
    rate: Rate = field(default_factory=Rate)
    """Of what is carried before it has caught up."""
    copy_bytes: int | None = None
    """Backlog when the link began in this process; None once it has been caught up with."""
    began_empty: bool = True
    """The replica held nothing of this link at first contact: what runs is the first copy."""
    held_back: bool = False
    """Nothing is granted: where it and its side copy end is being written down, or that they have."""
    not_sent: int = 0
    """Partitions that the destination has noted behind, of topics that this link leaves out now."""
    repairs: int = 0
    """Repairs in a row after which no less was behind."""
    left_behind: int = 0
    """Partitions behind, conflicts apart, when a repair was last looked for."""
    heard: dict[bytes, int] = field(default_factory=dict)
    """By incarnation, the epochs of topics with other owners that the last answer told of; the destination tells of
    them until it knows that."""
    repaired_to: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By shard of the source, where the last repair of some of many partitions ended."""
    copy_ends: tuple[int, ...] = ()
    """Ends of the source's shards when the link began in this process."""
    passed: tuple[int, ...] = ()
    """By shard of the source, the commit below which every slice is done; deletions are remembered until then."""
    handed_over: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Numbers of the topics that the replica was made the owner of since this server started, and has not heard of yet;
    by shard, and the end of its log then."""
    shares: bytes | None = None
    """A copy to a replica that has a standing link moves that link's positions, so that nothing is sent twice."""

    @property
    def state(self) -> State:
        """What it is doing."""
        return self.attention.state

    def on(self, event: Event) -> None:
        """This has happened to it. An error is shown until the destination answers, or a person does something."""
        if event in _ENDS_ERROR:
            self.error = None
        self.attention.on(event)

    @property
    def wire_id(self) -> bytes:
        """The link's id for its destination."""
        return wire_id(self.record) if self.shares is None else self.shares

    @property
    def pair(self) -> tuple[bytes, StreamPath]:
        """(id of the source stream, path of the replica); a copy may run beside a standing link of the same pair."""
        return self.record.source, self.record.replica_path

    @property
    def conflicts(self) -> int:
        """Partitions set aside at the destination, as it last said."""
        return 0 if self.answer is None else self.answer.conflicts_total

    def deleted_there(self, stream: Stream) -> list[DeletedTopic]:
        """Topics that are alive here and deleted at the destination, which this stream itself had told to: it was
        restored from a copy since."""
        found = () if self.answer is None else self.answer.deleted
        return [each for each in found if stream.by_incarnation(each.incarnation) is not None]

    @property
    def behind(self) -> int:
        """Partitions that the destination has noted behind, conflicts and those of topics that are left out apart."""
        return 0 if self.answer is None else self.answer.behind_total - self.answer.conflicts_total - self.not_sent

    @property
    def copy_is_done(self) -> bool:
        """It is a copy, and all of it has arrived."""
        once = self.record.once
        if once is None or self.answer is None or self.behind > 0:
            return False
        return self.positions.reached(once)

    def request(self, cluster: Cluster) -> LinkRequest:
        """What it says at contact."""
        record = self.record
        source = StreamPlace(cluster.name, record.source_path, record.source, tuple(cluster.urls))
        ext = said_to_be_heard(self.heard)
        return LinkRequest(self.wire_id, source, record.replica_path.path, once=record.once is not None, ext=ext)

    def note_error(self, error: FairleadError, wall_ms: int) -> None:
        """It has this error now; one that follows another keeps its age."""
        if self.error is None:
            self.failing_since_ms = wall_ms
        self.error, self.last_error = error, str(error)

    def note_moved(self, monotonic_ms: int) -> None:
        """Something has arrived, or the link was begun or resumed."""
        self.moved_ms = monotonic_ms
        self.last_error = ""

    def note_behind(self, count: int) -> None:
        """This many partitions are behind now, and no repair is under way."""
        less = 0 < count < self.left_behind
        self.repairs = 0 if count == 0 else 1 if less else self.repairs + 1
        self.left_behind = count

    def note_caught_up(self) -> None:
        """All that was there when the link began has arrived: the copy is over, and does not begin again."""
        if self.copy_ends and self.positions.reached(self.copy_ends):
            self.copy_bytes = None
            self.began_empty = False

    def note_passed(self, shards: int) -> bool:
        """Bring `passed` up to date; whether it changed."""
        before, self.passed = self.passed, self.positions.passed(shards)
        return before != self.passed

    def unconfirmed(self, stream: Stream) -> Iterable[TopicPlace]:
        """Topics that the replica was made the owner of, and may not have heard of: their rows are not there yet. Of
        those of before this server started, all until what was in the log then has passed, but for those of which a
        record has come back. To look at them blocks, if there are many."""
        owner = self.record.replica_stream
        if owner is None or self.record.once is not None:
            return ()
        if not self.copy_ends or not self.positions.reached(self.copy_ends):
            return unheard_by(stream, owner)
        passed = self.positions.passed(len(stream.shards))
        self.handed_over = {key: found for key, found in self.handed_over.items() if passed[key[0]] < key[1]}
        waiting = [(shard, number) for (shard, _), numbers in self.handed_over.items() for number in numbers]
        return owned_ones(stream, owner, waiting)

    def forget(self) -> None:
        """A rescan: nothing is known of where the destination stands."""
        self.positions.forget()
        self.answer = None
        self.copy_bytes = None
        self.copy_ends = ()
        self.passed = ()
