"""Who is near: where an owner's gateways are, and from which replica we take writes. What links and upstreams say."""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream


def urls_of_owner(cluster: Cluster, stream: Stream, owner: bytes) -> tuple[str, ...]:
    """The gateways of the stream with the id `owner`, if it is a direct neighbour of `stream`; else none."""
    return tuple(dict.fromkeys(_urls(cluster, stream, owner)))


def _urls(cluster: Cluster, stream: Stream, owner: bytes) -> Iterator[str]:
    for link in cluster.links.standing(stream.id):
        if link.replica_stream == owner:
            yield from cluster.urls_at(link.replica_path, link.replica_urls)
    for upstream in cluster.links.standing_upstreams(stream.id):
        if upstream.source_stream == owner:
            yield from cluster.urls_at(upstream.path, upstream.source_urls)


def check_accepts(cluster: Cluster, stream: Stream, source: bytes) -> None:
    """Writes to topics of `stream` may come from the stream with the id `source`.

    Raises:
        RefusedRequest: POLICY_VIOLATION; the message is for the person who writes there.
    """
    links = [link for link in cluster.links.standing(stream.id) if link.replica_stream == source]
    if any(link.accept_writes for link in links):
        return
    here = stream.global_path
    if not links:
        raise RefusedRequest(
            ErrorCode.policy_violation,
            f"{here} has no replica with the id {source.hex()}, and takes writes from its replicas only; write there",
        )
    there = links[0].replica_path
    if any(link.peer == "own" for link in links):
        why = f"to allow it run: fairlead stream replica edit -path {here} -replica {there} -acceptwrites true"
    else:
        why = "it is another company's"
    raise RefusedRequest(ErrorCode.policy_violation, f"{here} takes no writes from {there}: {why}")
