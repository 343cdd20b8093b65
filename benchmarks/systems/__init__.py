"""What is measured: Fairlead, Apache Kafka, and each of them as a replicating pair. All are context managers.

    with kafka(folder) as system:
        system.create_topics(100)
        ...
    with pair_mirrormaker(folder, tuned=True) as pair:
        pair.source.create_topics(100)
        pair.start_replication(100)

`folder` is an empty directory that the caller removes. Apache Kafka needs `scripts/bench-setup` once.
"""

from __future__ import annotations

from benchmarks.systems.common import Pair, Stoppable, System
from benchmarks.systems.fairlead import fairlead, pair_fairlead
from benchmarks.systems.kafka import kafka
from benchmarks.systems.mirrormaker import pair_mirrormaker
from benchmarks.systems.processes import Io, Sample, Sampler, asked_bytes, cpu_seconds, io_bytes, own_bytes, rss_bytes

__all__ = [
    "Io",
    "Pair",
    "Sample",
    "Sampler",
    "Stoppable",
    "System",
    "asked_bytes",
    "cpu_seconds",
    "fairlead",
    "io_bytes",
    "kafka",
    "own_bytes",
    "pair_fairlead",
    "pair_mirrormaker",
    "rss_bytes",
]
