"""How a topic's owner is reached: what a refusal at a copy tells, as far as this cluster knows it."""

from __future__ import annotations

from itertools import chain

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.model.errors import InvalidName, NotOwner
from fairlead.model.names import parse_stream_path
from fairlead.streamlog.values import Topic


def not_owner(cluster: Cluster, stream: Stream, topic: Topic, name: str | None = None) -> NotOwner:
    """The refusal of what only the owner of a topic may do, naming the owner by its path and how to reach it. `name`:
    how the caller names the topic."""
    return with_way(cluster, name or topic.name, stream.owner_path(topic))


def with_way(cluster: Cluster, name: str, owner: str) -> NotOwner:
    """The same of a topic that the caller names so, with that owner."""
    return NotOwner(name, owner, way_to(cluster, owner))


def way_to(cluster: Cluster, owner: str) -> str:
    """How the cluster of an owner's path is reached: by the HTTP addresses that a link or an upstream of any stream
    here has of it, else by what the user's own address book knows. Empty: the path tells no cluster of this kind."""
    try:
        path = parse_stream_path(owner)
    except InvalidName:  # a Kafka cluster, or a stream of which only the id is known
        return ""
    if path.cluster == cluster.name:
        return "it is in this cluster"
    urls = _urls(cluster, path.cluster)
    if not urls:
        return f"`fairlead cluster list` shows the addresses of {path.cluster}, if your address book has it"
    return (
        f"{path.cluster} is at {', '.join(urls)}; `fairlead cluster add -http {urls[0]}` asks it for its Kafka "
        "addresses, `fairlead cluster list` shows them"
    )


def _urls(cluster: Cluster, name: str | None) -> tuple[str, ...]:
    """Those of the first record that has some."""
    ids = [stream.id for stream in cluster.streams()]
    links = ((link.replica_path, link.replica_urls) for link in cluster.links.all())
    upstreams = ((each.path, each.source_urls) for id in ids for each in cluster.links.standing_upstreams(id))
    return next((urls for path, urls in chain(links, upstreams) if urls and path.cluster == name), ())
