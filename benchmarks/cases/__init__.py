"""The cases of the bench, in the order in which they run. Each module has a `CASE`."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.cases import (
    backlog,
    backlog_topics,
    connections,
    consume,
    copy,
    decode,
    fan_out,
    forwarding,
    hostile,
    java_consume,
    java_latency,
    java_produce,
    latency,
    produce,
    replicator,
    soak,
    spark_read,
    steady,
    takeover,
    topics,
    transfer,
)

ALL: tuple[Case, ...] = (
    produce.CASE,
    consume.CASE,
    latency.CASE,
    java_produce.CASE,
    java_consume.CASE,
    java_latency.CASE,
    backlog.CASE,
    backlog_topics.CASE,
    copy.CASE,
    steady.CASE,
    topics.CASE,
    transfer.CASE,
    takeover.CASE,
    forwarding.CASE,
    soak.CASE,
    connections.CASE,
    hostile.CASE,
    decode.CASE,
    fan_out.CASE,
    spark_read.CASE,
    replicator.CASE,
)
