"""`/metrics` for Prometheus: read from the cluster when asked, so nothing is counted twice and nothing idles.

Counters of what passed (records, bytes, commits) are kept by the parts that see it pass and are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.gateway.rest.context import RestContext
from fairlead.streamlog.writer import ShardLog

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STREAM = ("stream",)
_LINK = ("stream", "replica")


def render(context: RestContext) -> bytes:
    """The page of this moment; no destination is asked for it."""
    registry = CollectorRegistry(auto_describe=False)
    paths = [stream.path for stream in context.cluster.streams() if context.cluster.links.of(stream.id)]
    links = [(path, each.row()) for path in paths for each in context.links.list(path)]
    registry.register(_ClusterCollector(context, links))
    return generate_latest(registry)


class _ClusterCollector(Collector):
    def __init__(self, context: RestContext, links: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self._context = context
        self._link_rows = links

    def collect(self) -> Iterable[Metric]:
        yield from self._server()
        yield from self._streams()
        yield from self._links()

    def _server(self) -> Iterator[Metric]:
        cluster, listeners = self._context.cluster, self._context.listeners
        yield _gauge("fairlead_streams", "Streams", len(cluster.streams()))
        yield _gauge("fairlead_connections", "Open Kafka connections", listeners.connections)
        yield _gauge("fairlead_storage_free_bytes", "Free space of the storage", cluster.storage.free_bytes())
        uptime = (cluster.clock.monotonic_ms() - self._context.started_ms) / 1000
        yield _gauge("fairlead_uptime_seconds", "Time since the server started", uptime)
        for name, value in sorted(listeners.counters().items()):
            counter = CounterMetricFamily(f"fairlead_{name}", _COUNTERS.get(name, name.replace("_", " ")))
            counter.add_metric((), value)
            yield counter

    def _streams(self) -> Iterator[Metric]:
        topics = GaugeMetricFamily("fairlead_topics", "Topics of a stream", labels=_STREAM)
        commits = GaugeMetricFamily("fairlead_log_end_commits", "Announced end of a stream's logs", labels=_STREAM)
        backlog = GaugeMetricFamily("fairlead_merge_backlog_commits", "Commits that wait for merging", labels=_STREAM)
        stopped = GaugeMetricFamily("fairlead_stopped_shards", "Logs that have stopped for an error", labels=_STREAM)
        for stream in self._context.cluster.streams():
            label = (stream.path,)
            topics.add_metric(label, stream.topic_count)
            commits.add_metric(label, sum(shard.log.end for shard in stream.shards))
            backlog.add_metric(label, sum(_unmerged(shard.log) for shard in stream.shards))
            stopped.add_metric(label, sum(shard.stopped is not None for shard in stream.shards))
        yield from (topics, commits, backlog, stopped)

    def _links(self) -> Iterator[Metric]:
        gauges = {name: GaugeMetricFamily(name, what, labels=_LINK) for name, what in _LINK_GAUGES.items()}
        for path, row in self._link_rows:
            for name, value in _link_values(row).items():
                gauges[name].add_metric((path, row["replicaPath"]), value)
        yield from gauges.values()


_COUNTERS: dict[str, str] = {}
_LINK_GAUGES = {
    "fairlead_link_paused": "1 while the link is paused",
    "fairlead_link_pending_records": "Records that the replica does not have yet",
    "fairlead_link_pending_bytes": "Bytes that the replica does not have yet",
    "fairlead_link_oldest_pending_timestamp_ms": "When the oldest of them was appended",
    "fairlead_link_partitions_behind": "Partitions that are being repaired or are in conflict",
    "fairlead_link_errors": "1 while the link has an error",
}


def _link_values(row: Mapping[str, Any]) -> dict[str, float]:
    return {
        "fairlead_link_paused": float(row["paused"]),
        "fairlead_link_pending_records": float(row["putsPending"]),
        "fairlead_link_pending_bytes": float(row["bytesPending"]),
        "fairlead_link_oldest_pending_timestamp_ms": float(row["minPendingTS"] or 0),
        "fairlead_link_partitions_behind": float(row["partitionsBehind"]),
        "fairlead_link_errors": float(bool(row["errors"])),
    }


def _unmerged(log: ShardLog) -> int:
    """Commits that no segment stands for yet."""
    return log.end - log.manifest.merged_end


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, value=value)
