"""Percentiles and buckets of latencies."""

from __future__ import annotations

import numpy as np
from benchmarks.load.latency import spread


def test_percentiles_are_values_that_occurred() -> None:
    found = spread(np.arange(1, 1001) / 1000)
    assert [found[name] for name in ("p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "max_ms")] == [500, 900, 990, 999, 1000]
    assert found["mean_ms"] == 500.5


def test_each_latency_lies_in_the_bucket_below_its_bound() -> None:
    found = spread([0.001, 0.0012, 0.5, 0.0])
    assert sum(count for _, count in found["histogram"]) == found["count"] == 4
    assert [bound for bound, _ in found["histogram"]] == [0.001, 1.0, 1.258925, 501.187234]


def test_nothing_is_a_count_of_none() -> None:
    assert spread([]) == {"count": 0}
