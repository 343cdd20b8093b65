"""The destination's half of the two-way agreement: may this source bring its frames here, and where does it stand?

Data flows only if the replica names its upstream, or granted one copy to one link. An upstream is bound to the
source stream's id at first contact; from then on another stream at the same path is refused (case S12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, product
from math import ceil

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import ALIAS, UpstreamRecord
from fairlead.model.errors import NotAgreed, NotAllowed, UnknownStream
from fairlead.model.names import StreamPath
from fairlead.model.settings import Settings
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.frame import forget_link
from fairlead.streamlog.numbers import masks_alike
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import Behind, Gap, LinkPosition, Topic
from fairlead.wire.apply import ApplyHello
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import BehindPartition, DeletedTopic, GapRange, LinkAnswer, LinkRequest, SlicesPosition
from fairlead.wire.urls import named

LISTED_MAX = 10_000
"""Partitions behind and gaps that one answer lists; the totals are always whole."""


def admit(cluster: Cluster, hello: ApplyHello) -> tuple[Stream, Admission]:
    """The destination stream of a sink's hello, and what its source may bring there.

    Raises:
        UnknownStream, NotAgreed, NotAllowed.
    """
    stream = cluster.stream_by_id(hello.destination)
    if stream is None:
        raise UnknownStream(f"no stream with id {hello.destination.hex()} in cluster {cluster.name}")
    kafka = cluster.kafka.by_link(hello.link)
    if kafka is not None and (kafka.stream, kafka.source) == (stream.id, hello.source.stream):
        return stream, Admission(frozenset({kafka.source}))
    upstream = known_upstream_of(cluster, stream, hello.source, hello.link)
    may = admission(upstream, hello.source.stream, cluster.settings, len(stream.shards))
    return stream, replace(may, aliases=stream.settings.conflicts == ALIAS, prefix=hello.topic_prefix)


def admission(upstream: UpstreamRecord, source: bytes, settings: Settings, shards: int) -> Admission:
    """What an upstream may bring to each of so many shards."""
    if upstream.peer == "own":
        return Admission(moves_owners=upstream.moves_owners)
    limits = (settings.partner_topics_max, settings.partner_partitions_max, settings.partner_notes_max)
    topics, partitions, notes = (ceil(most / shards) for most in limits)
    origins = frozenset({source, *upstream.origins})
    return Admission(origins, topics, partitions, notes, upstream.moves_owners)


async def answer_contact(cluster: Cluster, request: LinkRequest) -> LinkAnswer:
    """Check the agreement, bind the upstream to the source's id and addresses, and say where the replica stands.

    Raises:
        UnknownStream, NotAgreed, NotAllowed.
    """
    stream = cluster.stream(request.path)
    upstream = upstream_of(cluster, stream, request.source, request.link)
    # A stranger's server could name any address for us to call.
    urls = named(request.source.urls) if upstream.peer == "own" else ()
    if upstream.source_stream is None or upstream.source_urls != urls:
        await cluster.links.bind_upstream(upstream, request.source.stream, urls)
    await bind_link(cluster, stream, upstream, request.link)
    stream.heard.note(request.source.stream, cluster.clock.wall_ms())
    stream.heard.note_link(request.link, request.source.stream)
    await stream.note_heard(request.source.stream, request.heard)
    told = stream.outdated_at(request.source.stream, LISTED_MAX)
    return replace(stand(cluster, stream, request.link), superseded=tuple(map(_superseded, told)))


async def bind_link(cluster: Cluster, stream: Stream, upstream: UpstreamRecord, link: bytes) -> None:
    """Let a partner's link bring frames. It has a few at a time: for a new one the oldest is forgotten.

    Raises:
        NotFound: the partner is accepted no more.
    """
    if upstream.knows(link):
        return
    # The sessions of those that are gone have ended with that commit.
    await forget(stream, await cluster.links.bind_link(upstream, link))


async def forget(stream: Stream, links: Iterable[bytes]) -> None:
    """Forget where links stand, and what they have noted."""
    for link, shard in product(links, stream.shards):
        while await shard.submit(partial(forget_link, link=link)):
            pass


def known_upstream_of(cluster: Cluster, stream: Stream, source: StreamPlace, link: bytes) -> UpstreamRecord:
    """As `upstream_of`, of a link that has said whose it is.

    Raises:
        NotAllowed, NotAgreed.
    """
    upstream = upstream_of(cluster, stream, source, link)
    if not upstream.knows(link):
        raise NotAgreed(f"link {link.hex()} is to ask first where it stands")
    return upstream


def upstream_of(cluster: Cluster, stream: Stream, source: StreamPlace, link: bytes) -> UpstreamRecord:
    """The upstream entry by which this source may write here.

    Raises:
        NotAllowed: the source is the stream itself, or has the link of another one.
        NotAgreed: there is no entry; the message is the command that makes it.
            It is also raised, with other commands, where the entry is bound to another stream of that path.
    """
    if source.stream == stream.id:
        raise NotAllowed(f"{cluster.global_path(stream.path)} cannot be a replica of itself")
    if stream.heard.source_of(link) not in {None, source.stream}:
        raise NotAllowed(f"link {link.hex()} is another source's")
    path = global_path(source)
    found = [u for u in cluster.links.upstreams(stream.id) if u.path == path and u.once_link in {None, link}]
    replica = cluster.global_path(stream.path)
    if not found:
        raise NotAgreed(f"run: fairlead stream upstream add -path {replica} -upstream {path}")
    for upstream in found:
        if upstream.source_stream in {None, source.stream}:
            return upstream
    raise NotAgreed(
        f"{path} is another stream than the upstream of {replica}; to accept it run: fairlead stream upstream remove "
        f"-path {replica} -upstream {path}, then: fairlead stream upstream add -path {replica} -upstream {path}"
    )


def global_path(place: StreamPlace) -> StreamPath:
    """The global path of a stream."""
    return StreamPath(place.path, place.cluster)


def stand(cluster: Cluster, stream: Stream, link: bytes) -> LinkAnswer:
    """Positions, partitions behind and gaps of a replica, for one link."""
    behind = [each for shard in stream.shards for each in shard.state.behind(link)]
    gaps = [each for shard in stream.shards for each in shard.state.gaps()]
    deleted = (DeletedTopic(each.topic, each.incarnation) for s in stream.shards for each in s.state.deleted_here(link))
    return LinkAnswer(
        cluster=cluster.name,
        path=stream.path,
        stream=stream.id,
        positions=tuple(recorded_positions(stream, link)),
        behind=tuple(map(_behind, islice(_in_turn(cluster, behind), LISTED_MAX))),
        behind_total=len(behind),
        conflicts_total=sum(each.conflict for each in behind),
        gaps=tuple(map(_gap, islice(gaps, LISTED_MAX))),
        gaps_total=len(gaps),
        deleted=tuple(islice(deleted, LISTED_MAX)),
        superseded_records=stream.superseded_of(link),
    )


def _in_turn(cluster: Cluster, behind: Sequence[Behind]) -> Iterable[Behind]:
    """Conflicts last. Of the others more may be noted than are listed, and some for ever, as the source does not send
    their topics any more: so each answer begins somewhere else."""
    missing = [each for each in behind if not each.conflict]
    at = int.from_bytes(cluster.randomness.id16()) % len(missing) if len(missing) > LISTED_MAX else 0
    return chain(missing[at:], missing[:at], (each for each in behind if each.conflict))


def recorded_positions(stream: Stream, link: bytes) -> Iterable[SlicesPosition]:
    """A position for every (shard, slice) of the source that every shard of the replica has recorded; slices of a shard
    that stand alike are one."""
    by_shard = [shard.state.positions(link) for shard in stream.shards]
    everywhere = [key for key in by_shard[0] if all(key in others for others in by_shard[1:])]
    lowest = (((shard, _lowest([each[shard, slice] for each in by_shard])), slice) for shard, slice in everywhere)
    for (shard, position), mask in masks_alike(lowest).items():
        yield SlicesPosition(shard, mask, position.commit, position.epoch_id, position.run)


def _lowest(found: list[LinkPosition]) -> LinkPosition:
    """Each shard of the replica has its own position, in the commit of its data; all data below the lowest is here."""
    lowest = min(found, key=lambda position: position.commit)
    run = max((position.run for position in found), key=lambda run: (run.epoch, run.counter))
    return LinkPosition(lowest.commit, lowest.epoch_id, run)


def _behind(note: Behind) -> BehindPartition:
    return BehindPartition(note.topic, note.incarnation, note.partition, note.end, note.reason)


def _superseded(topic: Topic) -> TopicPayload:
    return replace(payload_of(topic), ext=dict(topic.ext))


def _gap(gap: Gap) -> GapRange:
    return GapRange(gap.topic, gap.partition, gap.start, gap.end, gap.reason)
