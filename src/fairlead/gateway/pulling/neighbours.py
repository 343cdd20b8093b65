"""The direct neighbours of a stream: those to which it has a link, and those that it accepts as upstreams."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.topic_filter import ALL_TOPICS, TopicFilter
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.apply.agreement import admission, global_path
from fairlead.gateway.links.running.running_link import urls_of
from fairlead.model.errors import NotAgreed, UnknownStream
from fairlead.model.names import StreamPath
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.values import Topic
from fairlead.wire.link_protocol import StreamPlace


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stream that is bound to one of ours, by its id."""

    path: StreamPath
    """Global."""
    stream: bytes
    urls: tuple[str, ...]
    """Its gateways; empty: not known."""
    admission: Admission
    """What it may bring to each of our shards."""
    own: bool
    """It is one's own, not a partner's."""

    def check_answers(self, cluster: str, stream: bytes) -> None:
        """It is this neighbour that says who it is so. Raises: UnknownStream."""
        if (cluster, stream) != (self.path.cluster, self.stream):
            raise UnknownStream(f"{self.path}: another stream answers there than the one that is bound here")


def neighbours(cluster: Cluster, stream: Stream) -> list[Neighbour]:
    """The neighbours of a stream, by path. One that is not bound to an id yet is none, nor is the source of a copy."""
    links = [link for link in cluster.links.standing(stream.id) if link.replica_stream is not None]
    found: dict[bytes, Neighbour] = {}
    for link in links:
        assert link.replica_stream is not None
        held = _of_replica(stream, link)
        found[link.replica_stream] = Neighbour(
            link.replica_path, link.replica_stream, urls_of(cluster, link), held, link.peer == "own"
        )
    for upstream in cluster.links.standing_upstreams(stream.id):
        source = upstream.source_stream
        if source is None:
            continue
        urls = found[source].urls if source in found else cluster.urls_at(upstream.path, upstream.source_urls)
        may = admission(upstream, source, cluster.settings, len(stream.shards))
        if source in found and may.origins is not None:
            may = replace(may, origins=may.origins | {stream.id})
        found[source] = Neighbour(upstream.path, source, urls, may, upstream.peer == "own")
    return sorted(found.values(), key=lambda each: str(each.path))


def _of_replica(stream: Stream, link: LinkRecord) -> Admission:
    """A replica that is no upstream gives back what is ours; whether it may name other owners, the link says."""
    return Admission(frozenset({stream.id}), moves_owners=link.moves_owners)


@dataclass(frozen=True, slots=True)
class Share:
    """What of a stream a neighbour may have."""

    owners: frozenset[bytes] | None = None
    """Topics of these alone; None: of all."""
    passing: TopicFilter = ALL_TOPICS
    """A partner hears of no topic that the link to it leaves out. One's own replica asks for what it holds already."""

    def has(self, topic: Topic) -> bool:
        """Whether the topic is in it."""
        return (self.owners is None or topic.owner in self.owners) and self.has_name(topic.name)

    def has_name(self, name: str) -> bool:
        """Whether a topic that is gone was in it, by its name."""
        return not self.passing or self.passing.passes(name)


def may_have(cluster: Cluster, stream: Stream, asker: StreamPlace) -> Share:
    """What a stream that asks may have.

    Raises:
        NotAgreed: it is no neighbour.
    """
    path = global_path(asker)
    links = cluster.links.standing(stream.id)
    link = next((each for each in links if (each.replica_path, each.replica_stream) == (path, asker.stream)), None)
    if link is not None:
        return Share(passing=link.filter) if link.peer == "partner" else Share()
    upstreams = cluster.links.standing_upstreams(stream.id)
    bound = next((each for each in upstreams if (each.path, each.source_stream) == (path, asker.stream)), None)
    if bound is None:
        here = cluster.global_path(stream.path)
        raise NotAgreed(
            f"{path} is bound to {here} by no link; run: fairlead stream replica add -path {here} -replica {path}"
        )
    return Share() if bound.peer == "own" else Share(frozenset({asker.stream}))
