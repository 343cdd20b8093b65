"""A stream keeps the topics of an Apache Kafka at Kafka's offsets, beside a tuned MirrorMaker 2 to another Kafka.

The load is that of `mirror`: 1 KB records over 100 topics. `plain` is the same reader and sink without Spark.
"""

from __future__ import annotations

from functools import partial

from benchmarks.case import HOME, Case
from benchmarks.cases.mirror import OF_JAVA, measure, point
from benchmarks.systems import pair_mirrormaker
from benchmarks.systems.fairlead import PLAIN
from benchmarks.systems.kept import pair_kept

CASE = Case(
    name="upstream",
    systems={
        HOME: partial(measure, pair_kept),
        "plain": partial(measure, partial(pair_kept, carrier=PLAIN)),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True)),
    },
    points=[point("none", 1), point("lz4", 1, "lz4"), point("none-16KB", 0.5, batch_bytes=OF_JAVA)],
    quick=[point("lz4", 0.02, "lz4")],
)
