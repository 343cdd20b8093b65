"""`/metrics` for Prometheus: read from the cluster when asked, so nothing is counted twice and nothing idles.

Counters of what passed (records, bytes, commits) are kept by the parts that see it pass and are read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.cluster.owner_changes import OwnerChanges, owner_changes
from fairlead.gateway.apply.session import ApplyCounts
from fairlead.gateway.rest.clock import hold_of
from fairlead.gateway.rest.context import RestContext
from fairlead.process.machine import allocated, resident_bytes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STREAM = ("stream",)
_LINK = ("stream", "replica")


async def render(context: RestContext, applied: ApplyCounts) -> bytes:
    """The page of this moment; `applied` is what links have brought. No destination is asked for it."""
    loop, lookups = asyncio.get_running_loop(), context.cluster.lookups
    changes = {
        each.path: await loop.run_in_executor(lookups, owner_changes, each) for each in context.cluster.streams()
    }
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ClusterCollector(context, applied, context.links.rows(), changes))
    return generate_latest(registry)


class _ClusterCollector(Collector):
    def __init__(
        self,
        context: RestContext,
        applied: ApplyCounts,
        links: Sequence[tuple[str, Mapping[str, Any]]],
        changes: Mapping[str, OwnerChanges],
    ) -> None:
        self._changes = changes
        self._context = context
        self._applied = applied
        self._link_rows = links

    def collect(self) -> Iterable[Metric]:
        yield from self._server()
        yield from self._replicator()
        yield from self._streams()
        yield from self._cursors()
        yield from self._owner_changes()
        yield from self._links()
        yield from self._kafka()

    def _kafka(self) -> Iterator[Metric]:
        """Kafka clusters whose topics streams keep."""
        shown: dict[str, tuple[str, Callable[[Mapping[str, Any]], float]]] = {
            "errors": ("1 while it has an error, or something of it has stopped", lambda row: bool(row["errors"])),
            "lag_offsets": (
                "Offsets that Kafka has and the replica lacks, at the last look",
                lambda row: row["putsPending"],
            ),
            "paused": ("1 while it is paused", lambda row: row["paused"]),
            "heard_seconds": ("How long ago Kafka has told all that is asked", lambda row: row["heardSeconds"] or 0),
            "stopped": (
                "Partitions that are read no further, and topics that are gone",
                lambda row: row["stoppedTotal"],
            ),
            "conflicts": ("Partitions that are set aside", lambda row: row["conflicts"]),
            "gaps": ("Ranges of offsets that Kafka had deleted before they came", lambda row: row["gapsTotal"]),
            "diverged": ("Topics here that keep what Kafka has lost", lambda row: row["divergedTotal"]),
        }
        rows = list(self._context.kafka.all_rows())
        for name, (what, value) in shown.items():
            metric = GaugeMetricFamily(f"fairlead_kafka_upstream_{name}", what, labels=("kafka", "replica"))
            for row in rows:
                metric.add_metric((row["source"], row["replicaPath"]), value(row))
            yield metric

    def _server(self) -> Iterator[Metric]:
        cluster, listeners = self._context.cluster, self._context.listeners
        yield _gauge("fairlead_streams", "Streams", len(cluster.streams()))
        yield _gauge("fairlead_connections", "Open Kafka connections", listeners.connections)
        yield _gauge("fairlead_storage_free_bytes", "Free space of the storage", cluster.storage.free_bytes())
        running = sum(job.running for job in cluster.jobs.all())
        yield _gauge("fairlead_running_jobs", "Commands that touch many topics and have not ended", running)
        uptime = (cluster.clock.monotonic_ms() - self._context.started_ms) / 1000
        yield _gauge("fairlead_uptime_seconds", "Time since the server started", uptime)
        yield from self._memory()
        yield from _counters("kafka", listeners.counters())
        yield from _counters("applied", asdict(self._applied))

    def _memory(self) -> Iterator[Metric]:
        """What the parts say that they hold, and what the process has of the system's."""
        parts = GaugeMetricFamily("fairlead_memory_bytes", "Memory by what it is for", labels=("owner",))
        for owner, size_bytes in {**self._context.cluster.memory(), **self._context.listeners.memory()}.items():
            parts.add_metric((owner,), size_bytes)
        process = GaugeMetricFamily("fairlead_process_memory_bytes", "Memory of the process", labels=("kind",))
        heap = allocated()
        kinds = {
            "resident": resident_bytes(),
            "arrow": pa.total_allocated_bytes(),
            "heap_used": heap.used_bytes,
            "heap_free": heap.free_bytes,
        }
        for kind, size_bytes in kinds.items():
            process.add_metric((kind,), size_bytes)
        yield from (parts, process)

    def _replicator(self) -> Iterator[Metric]:
        now = self._context.links.replicator.now()
        yield _gauge("fairlead_replicator_up", "1 while the replicator is connected", now.alive)
        yield _gauge("fairlead_replicator_state_seconds", "Since when it is up, or down", now.age_ms / 1000)
        yield _gauge("fairlead_replicator_failing", "1 while its last start or query failed", bool(now.error))
        again = CounterMetricFamily(
            "fairlead_replicator_restarts", "How often it, Spark or its query was started again"
        )
        again.add_metric((), now.started_again)
        yield again
        yield _gauge("fairlead_damaged_streams", "Streams that could not be opened", len(self._context.cluster.damaged))

    def _streams(self) -> Iterator[Metric]:
        topics = GaugeMetricFamily("fairlead_topics", "Topics of a stream", labels=_STREAM)
        owned = GaugeMetricFamily("fairlead_owned_topics", "Topics that the stream itself owns", labels=_STREAM)
        commits = GaugeMetricFamily("fairlead_log_end_commits", "Announced end of a stream's logs", labels=_STREAM)
        backlog = GaugeMetricFamily("fairlead_merge_backlog_commits", "Commits that wait for merging", labels=_STREAM)
        stopped = GaugeMetricFamily("fairlead_stopped_shards", "Logs that have stopped for an error", labels=_STREAM)
        failures = CounterMetricFamily(
            "fairlead_upkeep_failures",
            "Merges, deletions and copies of what was cut off that failed and are tried again",
            labels=_STREAM,
        )
        failing = GaugeMetricFamily(
            "fairlead_upkeep_failing",
            "Logs of which the last merge, deletion or copy of what was cut off failed",
            labels=_STREAM,
        )
        jump = GaugeMetricFamily(
            "fairlead_clock_jump_ms", "How far the clock is ahead while it is not believed", labels=_STREAM
        )
        held = GaugeMetricFamily(
            "fairlead_expiry_held_seconds",
            "Nothing expires for so long, since the clock is not believed",
            labels=_STREAM,
        )
        for stream in self._context.cluster.streams():
            label = (stream.path,)
            topics.add_metric(label, stream.topic_count)
            owned.add_metric(label, stream.owned_count)
            commits.add_metric(label, sum(stream.ends))
            backlog.add_metric(label, sum(shard.announced.unmerged_commits for shard in stream.shards))
            stopped.add_metric(label, sum(shard.stopped is not None for shard in stream.shards))
            chores = [shard.chores for shard in stream.shards]
            failing.add_metric(label, sum(any(each.error is not None for each in found) for found in chores))
            failures.add_metric(label, sum(each.failures for found in chores for each in found))
            hold = hold_of(stream)
            jump.add_metric(label, 0 if hold is None else hold.ahead_ms)
            held.add_metric(label, 0 if hold is None else hold.left_ms / 1000)
        yield from (topics, owned, commits, backlog, stopped, failing, failures, jump, held)

    def _cursors(self) -> Iterator[Metric]:
        """Where consumer groups are, as links tell it."""
        told = CounterMetricFamily(
            "fairlead_told_cursors", "Rows that told links what groups have committed here", labels=_STREAM
        )
        untold = GaugeMetricFamily(
            "fairlead_untold_cursors", "Committed offsets that links are to be told of", labels=_STREAM
        )
        waiting = GaugeMetricFamily(
            "fairlead_untold_cursors_seconds", "How long the oldest of them has waited, at most", labels=_STREAM
        )
        apart = GaugeMetricFamily(
            "fairlead_apart_groups",
            "Groups that go their own way here, as they are at work elsewhere too",
            labels=_STREAM,
        )
        news = self._context.links.cursor_news
        for stream in self._context.cluster.streams():
            label = (stream.path,)
            told.add_metric(label, news.told(stream))
            untold.add_metric(label, news.untold(stream))
            waiting.add_metric(label, news.untold_ms(stream) / 1000)
            groups = {group for shard in stream.shards for group in shard.state.cursor_table.groups_apart()}
            apart.add_metric(label, len(groups))
        yield from (told, untold, waiting, apart)

    def _owner_changes(self) -> Iterator[Metric]:
        pending = GaugeMetricFamily(
            "fairlead_pending_topics", "Topics that the stream owns and cannot write yet", labels=_STREAM
        )
        cut = GaugeMetricFamily(
            "fairlead_cut_partitions", "Partitions with a tail that was not in the owner's history", labels=_STREAM
        )
        uncopied = GaugeMetricFamily(
            "fairlead_uncopied_partitions", "Those whose tail is not in a diverged topic yet", labels=_STREAM
        )
        diverged = GaugeMetricFamily(
            "fairlead_diverged_topics", "Topics that keep tails which were cut off", labels=_STREAM
        )
        aside = GaugeMetricFamily(
            "fairlead_put_aside_topics", "Topics that keep what was put aside for an owner", labels=_STREAM
        )
        unclaimed = GaugeMetricFamily(
            "fairlead_put_aside_unclaimed_records", "Records in these that were not claimed yet", labels=_STREAM
        )
        for path, found in self._changes.items():
            aside.add_metric((path,), found.put_aside_topics)
            unclaimed.add_metric((path,), found.unclaimed_records)
            diverged.add_metric((path,), found.diverged_topics)
            pending.add_metric((path,), found.pending_topics)
            cut.add_metric((path,), found.cut_partitions)
            uncopied.add_metric((path,), found.uncopied_partitions)
        yield from (pending, cut, uncopied, diverged, aside, unclaimed)

    def _links(self) -> Iterator[Metric]:
        gauges = {name: GaugeMetricFamily(name, what, labels=_LINK) for name, what in _LINK_GAUGES.items()}
        for path, row in self._link_rows:
            for name, value in _link_values(row).items():
                gauges[name].add_metric((path, row["replicaPath"]), value)
        yield from gauges.values()


_COUNTERS = {
    "kafka_requests": "Requests of Kafka clients",
    "kafka_received_bytes": "Bytes received from Kafka clients",
    "kafka_sent_bytes": "Bytes sent to Kafka clients",
    "kafka_produced_batches": "Record batches that were produced here",
    "kafka_produced_records": "Records that were produced here",
    "kafka_produced_bytes": "Bytes of record batches that were produced here",
    "kafka_fetched_bytes": "Bytes of record batches that consumers fetched",
    "kafka_refused_connections": "Connections above the limit",
    "kafka_forwarded_batches": "Record batches passed on to an owner elsewhere, which took them",
    "kafka_forwarded_bytes": "Bytes of these",
    "kafka_put_aside_batches": "Record batches put aside, since their owner could not be reached",
    "kafka_put_aside_bytes": "Bytes of these",
    "kafka_forward_failures": "Record batches that were to be passed on and were refused, or got no answer",
    "applied_frames": "Frames that links brought",
    "applied_size_bytes": "Bytes of frames that links brought",
    "applied_records": "Rows that links appended",
    "applied_duplicates": "Rows of links that were here already",
    "applied_behind": "Partitions that were noted behind",
    "applied_superseded": "Records of owners of before that links brought, and that were dropped",
    "applied_refused": "Frames that did not follow the recorded position",
    "applied_cursors": "Committed offsets of other sites that links brought and that were news here",
}
"""By the name of the counter of the Kafka listeners (`broker/traffic.py`) or of the gateway (`ApplyCounts`)."""
_LINK_GAUGES = {
    "fairlead_link_paused": "1 while the link is paused",
    "fairlead_link_pending_records": "Records that the replica does not have yet",
    "fairlead_link_pending_bytes": "Bytes that the replica does not have yet",
    "fairlead_link_oldest_pending_timestamp_ms": "When the oldest of them was appended",
    "fairlead_link_oldest_pending_seconds": "How long the oldest of them has waited",
    "fairlead_link_cursors_pending_seconds": "How long the oldest cursor that is not there has waited, at most",
    "fairlead_link_position_commits": "Commits below this are at the replica (sum of the stream's logs)",
    "fairlead_link_partitions_behind": "Partitions that are being repaired or are in conflict",
    "fairlead_link_conflicts": "Those of them that wait until somebody decides",
    "fairlead_link_unconfirmed_topics": "Topics that the replica was made the owner of and has not heard of yet",
    "fairlead_link_superseded_records": "Records of an owner before that the replica dropped since its start",
    "fairlead_link_errors": "1 while the link has an error",
    "fairlead_link_error_seconds": "How long it has had it",
}


def _link_values(row: Mapping[str, Any]) -> dict[str, float]:
    return {
        "fairlead_link_paused": float(row["paused"]),
        "fairlead_link_pending_records": float(row["putsPending"]),
        "fairlead_link_pending_bytes": float(row["bytesPending"]),
        "fairlead_link_oldest_pending_timestamp_ms": float(row["minPendingTS"] or 0),
        "fairlead_link_oldest_pending_seconds": float(row["oldestPendingSeconds"]),
        "fairlead_link_cursors_pending_seconds": float(row["cursorsPendingSeconds"]),
        "fairlead_link_position_commits": float(sum(position["lowest"] for position in row["positions"])),
        "fairlead_link_partitions_behind": float(row["partitionsBehind"]),
        "fairlead_link_conflicts": float(row["conflicts"]),
        "fairlead_link_unconfirmed_topics": float(row["unconfirmedOwner"]),
        "fairlead_link_superseded_records": float(row["superseded"]),
        "fairlead_link_errors": float(bool(row["errors"])),
        "fairlead_link_error_seconds": float(row["errors"].get("Seconds", 0)),
    }


def _counters(kind: str, values: Mapping[str, float]) -> Iterator[Metric]:
    for name, value in values.items():
        counter = CounterMetricFamily(f"fairlead_{kind}_{name}", _COUNTERS.get(f"{kind}_{name}", f"{kind} {name}"))
        counter.add_metric((), value)
        yield counter


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, value=value)
