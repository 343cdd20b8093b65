"""`stream replica autosetup --dry-run`: what it would bring and make, asked of both clusters, which change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.cli.calls import call
from fairlead.cli.two_clusters.set_up import Pair, is_there, upstream_of
from fairlead.client.catalog import BY_PATH
from fairlead.client.set_up import is_from_now
from fairlead.model.errors import UnknownStream
from fairlead.model.names import StreamPath, is_topic_name, prefixed

NAMES_MAX = 100
"""Names of topics that are shown."""
_TOPICS = BY_PATH["/rest/stream/topic/list"]
_STREAMS = BY_PATH["/rest/stream/list"]
_LINKS = BY_PATH["/rest/stream/replica/list"]


def outlook(pair: Pair) -> list[dict[str, Any]]:
    """A row for each direction.

    Raises:
        UnknownStream: the source.
    """
    topics = _topics(pair, pair.source)
    if topics is None:
        raise UnknownStream(f"stream {pair.source} does not exist")
    there = _topics(pair, pair.replica)
    rows = [_way(pair, topics, there)]
    if pair.multimaster:
        rows.append(_way(pair.back, there or {}, topics))
    return rows


def _topics(pair: Pair, path: StreamPath) -> dict[str, Mapping[str, Any]] | None:
    """By name; None if the stream is not there."""
    if not is_there(path):
        return None
    chosen = {name: pair.given[name] for name in ("topics", "excludetopics") if pair.given[name]}
    return {row["topic"]: row for row in call(_TOPICS, {"path": str(path), **chosen}).data}


def _way(pair: Pair, topics: Mapping[str, Mapping[str, Any]], there: Mapping[str, Any] | None) -> dict[str, Any]:
    known = {row["incarnation"] for row in (there or {}).values()}
    new = {name: row for name, row in topics.items() if row["incarnation"] not in known}
    size = sum(row["logicalsize"] for row in topics.values())
    brought = 0 if is_from_now(pair.given) else size
    names = {name: prefixed(pair.given["prefix"] or "", name) for name in new}
    rate = _measured(pair)
    return {
        "source": str(pair.source),
        "replica": str(pair.replica),
        "topics": len(topics),
        "bytes": brought,
        "bytesLeftOut": size - brought,
        "alike": len(topics) - len(new),
        "named": sorted(names.values())[:NAMES_MAX],
        "conflicts": sorted(name for name, as_ in names.items() if as_ in (there or {}) or not is_topic_name(as_)),
        "missing": _missing(pair, there is not None),
        "bytesPerSecond": rate,
        "seconds": round(brought / rate, 1) if rate else None,
    }


def _missing(pair: Pair, there: bool) -> list[str]:
    """What is not there yet of this direction, and would be made."""
    if not there:
        return [f"stream {pair.replica}", *_halves(pair)]
    found = []
    if not upstream_of(pair):
        found.append(_halves(pair)[0])
    if str(pair.replica) not in {row["replicaPath"] for row in _links(pair, str(pair.source))}:
        found.append(_halves(pair)[1])
    return found


def _halves(pair: Pair) -> list[str]:
    return [f"upstream {pair.source} of {pair.replica}", f"replica {pair.replica} of {pair.source}"]


def _measured(pair: Pair) -> int | None:
    """Bytes a second of the slowest copy that links from the source's cluster to the replica's made; None: of none."""
    streams = call(_STREAMS, {}, pair.source.cluster)
    rows = [row for each in streams.data if each["numreplicas"] for row in _links(pair, each["path"])]
    rates = [row["bytesPerSecond"] for row in rows if row["cluster"] == pair.replica.cluster and row["bytesPerSecond"]]
    return min(rates, default=None)


def _links(pair: Pair, path: str) -> Sequence[Mapping[str, Any]]:
    return call(_LINKS, {"path": path}, pair.source.cluster).data
