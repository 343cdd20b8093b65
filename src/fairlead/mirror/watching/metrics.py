"""The status of flows for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from fairlead.mirror.watching.status import FlowStatus, PartitionStatus, TopicStatus

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_FLOW: Final = ("flow",)
_TOPIC: Final = (*_FLOW, "source", "topic")
_PARTITION: Final = (*_TOPIC, "partition")


def render(flows: Sequence[FlowStatus]) -> bytes:
    """The page of this moment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Flows(flows))
    return generate_latest(registry)


class _Flows(Collector):
    def __init__(self, flows: Sequence[FlowStatus]) -> None:
        self._flows = flows

    def collect(self) -> Iterable[Metric]:
        yield from self._of_flows()
        yield from self._of_topics()
        yield from self._of_partitions()

    def _of_flows(self) -> Iterator[Metric]:
        paused = _gauge("paused", "1 while the flow is paused", _FLOW)
        ended = _gauge("ended", "1 once the flow has ended", _FLOW)
        failing = _gauge("failing", "How much does not go along: groups, settings, access rules", _FLOW)
        waiting = _gauge("waiting", "1 while it waits for a cluster that is away", _FLOW)
        under_way = _gauge("underway_bytes", "Bytes that are fetched and not acknowledged", _FLOW)
        looped = _counter("looped_records", "Records left out, as they had come from the destination", _FLOW)
        aborted = _counter("aborted_records", "Records left out, of aborted transactions", _FLOW)
        lost = _counter("lost_offsets", "Offsets lost at the source before they were mirrored", _FLOW)
        for flow in self._flows:
            label = (flow.label,)
            paused.add_metric(label, flow.state == "paused")
            ended.add_metric(label, flow.state == "ended")
            failing.add_metric(label, len(flow.failing))
            waiting.add_metric(label, bool(flow.waits))
            under_way.add_metric(label, flow.underway_bytes)
            looped.add_metric(label, flow.looped)
            aborted.add_metric(label, flow.aborted)
            lost.add_metric(label, flow.lost)
        yield from (paused, ended, failing, waiting, under_way, looped, aborted, lost)

    def _of_topics(self) -> Iterator[Metric]:
        records = _counter("records", "Records that the destination has acknowledged", _TOPIC)
        size = _counter("bytes", "Bytes of their batches", _TOPIC)
        batches = _counter("batches", "These batches, by what was done with them", (*_TOPIC, "how"))
        for label, topic in self._topics():
            records.add_metric(label, topic.records)
            size.add_metric(label, topic.bytes)
            for how, count in sorted(topic.batches.items()):
                batches.add_metric((*label, how), count)
        yield from (records, size, batches)

    def _of_partitions(self) -> Iterator[Metric]:
        lag = _gauge("lag_records", "Offsets that are not mirrored yet, but for those in held_records", _PARTITION)
        lag_bytes = _gauge("lag_bytes", "About so many bytes, going by what was mirrored of the topic", _PARTITION)
        lag_seconds = _gauge("lag_seconds", "How long the first of them has been there", _PARTITION)
        held = _gauge("held_records", "Offsets behind the first open transaction", _PARTITION)
        gone = _gauge("gone_offsets", "Offsets lost before they were mirrored, since the first start", _PARTITION)
        stopped = _gauge("stopped", "1 while the partition does not go on", _PARTITION)
        for label, topic, each in self._partitions():
            lag.add_metric(label, each.lag)
            lag_seconds.add_metric(label, each.lagseconds)
            held.add_metric(label, each.held)
            gone.add_metric(label, each.gone)
            stopped.add_metric(label, each.stopped is not None)
            size = topic.lag_bytes(each.lag)
            if size is not None:
                lag_bytes.add_metric(label, size)
        yield from (lag, lag_bytes, lag_seconds, held, gone, stopped)

    def _topics(self) -> Iterator[tuple[tuple[str, str, str], TopicStatus]]:
        for flow in self._flows:
            for topic in flow.topics:
                yield (flow.label, topic.source, topic.topic), topic

    def _partitions(self) -> Iterator[tuple[tuple[str, str, str, str], TopicStatus, PartitionStatus]]:
        for label, topic in self._topics():
            for each in topic.partitions:
                yield (*label, str(each.partition)), topic, each


def _gauge(name: str, what: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"fairlead_mirror_{name}", what, labels=labels)


def _counter(name: str, what: str, labels: Sequence[str]) -> CounterMetricFamily:
    return CounterMetricFamily(f"fairlead_mirror_{name}", what, labels=labels)
