"""Frozen values of a cluster's own log, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from fairlead.cluster.keys import VERSION
from fairlead.cluster.topic_filter import LinkTopics, TopicFilter, check_expression
from fairlead.model.errors import InvalidValue
from fairlead.model.kafka_clusters import owner_of
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX, SHARDS_PER_STREAM_MAX, TTL_SECONDS_MAX
from fairlead.model.names import KAFKA_SCHEME, StreamPath, check_prefix, parse_stream_path
from fairlead.model.strict_json import AsText, Id, JsonForm
from fairlead.streamlog.numbers import counter_of_number, slice_of_number

COMPRESSIONS = ("off", "lz4", "lzf", "zlib")
TIMESTAMP_TYPES = ("createtime", "logappendtime")
TTL_SECONDS_DEFAULT = 604_800
PEERS = ("own", "partner")
FORWARDS = ("all", "own")
SET_ASIDE, ALIAS = "setaside", "alias"
DELETES = ("keep", "follow")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings of one stream; names, defaults and ranges are those of `stream create` of the original."""

    ttl_seconds: int = TTL_SECONDS_DEFAULT
    """Life of a record after its append in this cluster; 0 keeps it for ever."""
    autocreate: bool = True
    """A topic is made when it is first asked for (not in a stream with an upstream that is no master beside it)."""
    default_partitions: int = 1
    compression: str = "off"
    """Stored and shown; batches stay as their producers made them."""
    timestamp_type: str = "createtime"
    pid_expiry_seconds: int = 604_800
    produceperm: str = ""
    consumeperm: str = ""
    topicperm: str = ""
    copyperm: str = ""
    adminperm: str = ""
    shards: int = 1
    """Fixed at creation."""
    created_at: int = 0
    """Milliseconds since 1970."""
    forward_writes: bool = False
    """A produce to a topic that a neighbour owns is passed on to it."""
    pending: bool = False
    """While that neighbour cannot be reached, it is put aside, in a topic of ours."""
    conflicts: str = SET_ASIDE
    """What becomes of a topic that arrives while another one with records has its name. `setaside`: it waits for
    somebody to decide; `alias`: it gets the name `<topic>.at.<cluster of its owner>` here."""

    def __post_init__(self) -> None:
        _in_range("ttl", self.ttl_seconds, 0, TTL_SECONDS_MAX)
        _in_range("defaultpartitions", self.default_partitions, 1, PARTITIONS_PER_TOPIC_MAX)
        _in_range("pidexpirysecs", self.pid_expiry_seconds, 1, 2**31 - 1)
        _in_range("shards", self.shards, 1, SHARDS_PER_STREAM_MAX)
        _one_of("compression", self.compression, COMPRESSIONS)
        _one_of("defaulttimestamptype", self.timestamp_type, TIMESTAMP_TYPES)
        if self.pending and not self.forward_writes:
            raise InvalidValue(
                "pending is for streams that pass writes on; set forwardwrites true too, or pending false"
            )
        _one_of("conflicts", self.conflicts, (SET_ASIDE, ALIAS))

    def owned_by(self, user: str) -> StreamSettings:
        """The same with every empty permission set to its default, `u:<creator>`."""
        empty: dict[str, Any] = {name: f"u:{user}" for name in PERMISSIONS if not getattr(self, name)}
        return replace(self, **empty)


PERMISSIONS = ("produceperm", "consumeperm", "topicperm", "copyperm", "adminperm")


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream as the cluster's log names it."""

    id: bytes
    path: str
    settings: StreamSettings


@dataclass(frozen=True, slots=True)
class SideCopy:
    """What makes a link a side copy: it brings, beside another link of the same two streams, the past of topics that
    come in there."""

    of: Id
    """The link that it helps."""
    topics: str | None = None
    """Topics that pass these two come by that link: its own expressions, when the side copy began."""
    exclude_topics: str | None = None
    until: tuple[int, ...] = ()
    """As of that link's `filter_next`."""


@dataclass(frozen=True, slots=True)
class FilterNext:
    """What a link will leave out once a side copy has brought the past of the topics that come in."""

    side: Id
    """The side copy."""
    topics: str | None = None
    exclude_topics: str | None = None
    until: tuple[int, ...] = ()
    """By shard of the source, the commit from which the new expressions hold; empty: the side copy is still far behind.
    Neither sends anything from there on until both have come as far."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a replica begins in a shard of its source, which does not send it what was there before."""

    commit: int
    """Batches of earlier commits are not sent."""
    counters: tuple[int, ...]
    """By slice, the counter in the number of the next topic: those with a lower one were there."""


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """One source stream of this cluster to one replica stream, with its options."""

    id: bytes
    source: bytes
    """Id of the source stream, here."""
    source_path: str
    replica_path: Annotated[StreamPath, AsText(parse_stream_path)]
    """Global: with its cluster."""
    replica_urls: tuple[str, ...]
    """HTTP addresses of the replica's cluster, tried in turn."""
    paused: bool
    created_at: int
    """Milliseconds since 1970."""
    forward: str = "all"
    """`all`: what this stream received is sent on; `own`: only what was first written here."""
    replica_stream: bytes | None = None
    """Id of the replica stream, bound at first contact."""
    once: tuple[int, ...] | None = None
    """For `copystream`: the end of each shard when it began; the link is removed when they are reached."""
    rescan: int = 0
    """How many times the whole log was to be read again; grows with each `resume -rescan`."""
    created: tuple[int, ...] = ()
    """Where each shard of the source ended when the link was made; empty: not known."""
    peer: str = "own"
    """Whose the replica is, `own` or `partner`."""
    ownership: bool | None = None
    """Whether the replica's answers may say that our topics have another owner; None: one of our own may."""
    accept_writes: bool = False
    """Whether the replica may pass on to us what is produced there to topics of ours."""
    topics: str | None = None
    """Only topics whose whole names this regular expression matches are sent; None: all."""
    exclude_topics: str | None = None
    """No topic is sent whose whole name this regular expression matches."""
    cursors: str = "all"
    """Cursors of which groups go over the link: `all`, `none`, or a regular expression that must match the whole name
    of a group."""
    filter_next: FilterNext | None = None
    """The two expressions that hold next, while topics that come in are brought."""
    side_copy: SideCopy | None = None
    """It is no link that people made, but brings topics that come into one."""
    widened: bytes | None = None
    """The side copy by which topics came in last: since then the replica knows the link by another id, under which it
    has recorded nothing unless it has what that side copy brought."""
    prefix: str = ""
    """Stands at the replica before the names of topics that the link brings first."""
    begin: tuple[Begin, ...] = ()
    """By shard of the source, where the replica begins (`-from now`); empty: it gets all records that there are."""

    def __post_init__(self) -> None:
        check_expression("-topics", self.topics)
        check_expression("-excludetopics", self.exclude_topics)
        check_expression("-cursors", self.cursors)
        check_prefix(self.prefix)
        _one_of("forward", self.forward, FORWARDS)
        _one_of("peer", self.peer, PEERS)
        if self.accept_writes and self.peer != "own":
            raise InvalidValue(
                f"{self.replica_path} is a partner, and writes are taken from replicas of your own only; leave out "
                "-acceptwrites"
            )

    @property
    def filter(self) -> TopicFilter:
        """Which topics are sent."""
        return TopicFilter(self.topics, self.exclude_topics)

    @property
    def told_groups(self) -> str:
        """Cursors of which groups go over the link; a partner takes none."""
        return self.cursors if self.peer == "own" else "none"

    @property
    def brings(self) -> LinkTopics:
        """The same; of a side copy, only what it is there for."""
        side = self.side_copy
        if side is None:
            return LinkTopics(self.filter)
        return LinkTopics(self.filter, TopicFilter(side.topics, side.exclude_topics))

    @property
    def until(self) -> tuple[int, ...]:
        """By shard of the source, the commit from which on nothing is sent yet; empty: none."""
        following = self.filter_next or self.side_copy
        return self.once or (() if following is None else following.until)

    def begins_at(self, shard: int) -> int:
        """The commit of a shard of the source from which on the replica gets records."""
        return self.begin[shard].commit if shard < len(self.begin) else 0

    def leaves_past_of(self, shard: int, number: int) -> bool:
        """Whether a topic of a shard of the source was there before the replica began."""
        if shard >= len(self.begin):
            return False
        return counter_of_number(number) < self.begin[shard].counters[slice_of_number(number)]

    @property
    def standing(self) -> bool:
        """People made it, and it goes on."""
        return self.once is None and self.side_copy is None

    @property
    def moves_owners(self) -> bool:
        """Whether the replica's answers may say that our topics have another owner."""
        return _moves_owners(self.peer, self.ownership)


@dataclass(frozen=True, slots=True)
class UpstreamRecord:
    """One source that a replica stream of this cluster accepts."""

    stream: bytes
    """Id of the replica stream, here."""
    path: Annotated[StreamPath, AsText(parse_stream_path)]
    """Global path of the source."""
    source_stream: bytes | None = None
    """Id of the source stream, bound at first contact."""
    once_link: bytes | None = None
    """For `copystream`: the link that is allowed, and no other."""
    peer: str = "own"
    """Whose the source is. `own`: it brings topics of any owner. `partner`: only its own, and those of `origins`."""
    origins: tuple[Id, ...] = ()
    """Ids of the streams whose topics a partner may bring beside its own."""
    ownership: bool | None = None
    """Whether it may give our topics, and others' that are none of its origins, another owner; None: one of our own
    may."""
    source_urls: tuple[str, ...] = ()
    """HTTP addresses of the source's cluster, as its last contact named them; of one of our own only."""
    multimaster: bool = False
    """The two feed each other, and each makes and writes topics of its own."""
    links: tuple[Id, ...] = ()
    """Ids of the links by which a partner has asked where they stand, the newest last."""

    def __post_init__(self) -> None:
        _one_of("peer", self.peer, PEERS)
        if self.origins and self.peer != "partner":
            raise InvalidValue("origins are for -peer partner; an upstream of your own brings topics of any owner")
        if self.multimaster and self.peer != "own":
            raise InvalidValue(f"{self.path} is a partner, and no master of one's own; leave out -multimaster")

    @property
    def moves_owners(self) -> bool:
        """Whether it may give our topics, and others' that are none of its origins, another owner."""
        return _moves_owners(self.peer, self.ownership)

    def knows(self, link: bytes) -> bool:
        """Whether it may bring frames of this link. What a partner leaves here is bounded for each of its links."""
        return self.peer != "partner" or self.once_link == link or link in self.links


@dataclass(frozen=True, slots=True)
class CopyPermission:
    """One source that may copy into a stream of this cluster, once."""

    stream: bytes
    """Id of the stream, here."""
    path: Annotated[StreamPath, AsText(parse_stream_path)]
    """Global path of the source."""
    allowed_at: int
    """Milliseconds since 1970."""
    peer: str = "own"
    """As an upstream's."""

    def __post_init__(self) -> None:
        _one_of("peer", self.peer, PEERS)


@dataclass(frozen=True, slots=True)
class KafkaUpstream:
    """A Kafka cluster whose topics a stream of this cluster keeps, at Kafka's offsets."""

    stream: bytes
    """Id of the replica stream, here."""
    name: str
    """What the Kafka cluster is called here: kafka://name."""
    link: bytes
    """Random; under this id the replica records how far it has come."""
    config_file: str
    """Path, on this server's machine, of Kafka's settings of a consumer. What is in it is kept nowhere else."""
    kafka_cluster: str
    """The Kafka cluster's own id."""
    topics: str
    """Topics whose whole names this regular expression matches are kept."""
    exclude_topics: str | None = None
    """No topic is kept whose whole name this regular expression matches."""
    cursors: str = "all"
    """Offsets of which groups are kept: all, none, or a regular expression that must match a group's whole name."""
    deletes: str = "keep"
    """What becomes of a topic that is deleted in Kafka: `keep`, with an alarm, or `follow`."""
    paused: bool = False
    created_at: int = 0
    """Milliseconds since 1970."""

    def __post_init__(self) -> None:
        check_expression("-topics", self.topics)
        check_expression("-excludetopics", self.exclude_topics)
        check_expression("-cursors", self.cursors)
        _one_of("deletes", self.deletes, DELETES)

    @property
    def path(self) -> StreamPath:
        """As commands name it."""
        return StreamPath(KAFKA_SCHEME + self.name)

    @property
    def source(self) -> bytes:
        """The id by which it owns topics: the same wherever a stream keeps topics of that Kafka cluster."""
        return owner_of(self.kafka_cluster)

    @property
    def filter(self) -> TopicFilter:
        """Which topics are kept."""
        return TopicFilter(self.topics, self.exclude_topics)


def _in_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidValue(f"{name} {value}: use a number from {low:,} to {high:,}")


def _moves_owners(peer: str, ownership: bool | None) -> bool:
    """What is said of it counts; if nothing is, whose the other side is."""
    return peer == "own" if ownership is None else ownership


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidValue(f"{name} {value!r}: use one of {', '.join(allowed)}")


_SETTINGS: Final = JsonForm(StreamSettings)
_LINK: Final = JsonForm(LinkRecord)
_UPSTREAM: Final = JsonForm(UpstreamRecord)
_PERMISSION: Final = JsonForm(CopyPermission)
_KAFKA: Final = JsonForm(KafkaUpstream)


def stream_json(record: StreamRecord) -> dict[str, Any]:
    """The entry `stream/<id>`."""
    return {"v": VERSION, "path": record.path, **_SETTINGS.to_plain(record.settings)}


def stream_from_json(id: bytes, entry: Mapping[str, Any]) -> StreamRecord:
    """The inverse of `stream_json`; a field that a later version added is left out."""
    return StreamRecord(id, entry["path"], _SETTINGS.from_plain(entry))


def link_json(link: LinkRecord) -> dict[str, Any]:
    """The entry `link/<id>`, whose key is its id."""
    return _without("id", _LINK.to_plain(link))


def link_from_json(id: bytes, entry: Mapping[str, Any]) -> LinkRecord:
    """The inverse of `link_json`."""
    return _LINK.from_plain({**entry, "id": id.hex()})


def upstream_json(upstream: UpstreamRecord) -> dict[str, Any]:
    """The entry `upstream/<stream id>/<global path of the source>`."""
    return _without("stream", _UPSTREAM.to_plain(upstream))


def upstream_from_json(stream: bytes, entry: Mapping[str, Any]) -> UpstreamRecord:
    """The inverse of `upstream_json`."""
    return _UPSTREAM.from_plain({**entry, "stream": stream.hex()})


def permission_json(permission: CopyPermission) -> dict[str, Any]:
    """The entry `allowed/<stream id>/<global path of the source>`."""
    return _without("stream", _PERMISSION.to_plain(permission))


def permission_from_json(stream: bytes, entry: Mapping[str, Any]) -> CopyPermission:
    """The inverse of `permission_json`."""
    return _PERMISSION.from_plain({**entry, "stream": stream.hex()})


def kafka_json(upstream: KafkaUpstream) -> dict[str, Any]:
    """The entry `kafka/<stream id>/<name>`."""
    return _without("stream", _KAFKA.to_plain(upstream))


def kafka_from_json(stream: bytes, entry: Mapping[str, Any]) -> KafkaUpstream:
    """The inverse of `kafka_json`."""
    return _KAFKA.from_plain({**entry, "stream": stream.hex()})


def _without(key: str, plain: Mapping[str, Any]) -> dict[str, Any]:
    """An entry: the version, and all but what its key says."""
    return {"v": VERSION, **{name: value for name, value in plain.items() if name != key}}
