"""Latencies as figures: percentiles, and a histogram of logarithmic buckets that is small enough to keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

PERCENTILES = {"p50_ms": 500, "p90_ms": 900, "p99_ms": 990, "p99_9_ms": 999}
"""Of a thousand latencies so many are not longer."""
_BUCKETS_PER_DECADE = 20
_LEAST_MS = 0.001


def spread(seconds: npt.ArrayLike) -> dict[str, Any]:
    """Count, mean, percentiles (a value that occurred), max, and [upper bound in ms, count] of the filled buckets."""
    found = 1000 * np.asarray(seconds, np.float64)
    if not found.size:
        return {"count": 0}
    found.sort()
    values = [found[-(-found.size * per_mille // 1000) - 1] for per_mille in PERCENTILES.values()]
    buckets = np.ceil(np.log10(np.maximum(found, _LEAST_MS)) * _BUCKETS_PER_DECADE).astype(int)
    numbers, counts = np.unique(buckets, return_counts=True)
    return {
        "count": int(found.size),
        "mean_ms": round(float(found.mean()), 4),
        **{name: round(float(value), 4) for name, value in zip(PERCENTILES, values, strict=True)},
        "max_ms": round(float(found.max()), 4),
        "histogram": [
            [round(10 ** (number / _BUCKETS_PER_DECADE), 6), count]
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        ],
    }


def as_figures(found: dict[str, Any]) -> dict[str, Any]:
    """Of what `spread` made, the figures that bars and charts know."""
    return {
        "p50 ms": found["p50_ms"],
        "p99 ms": found["p99_ms"],
        "p99.9 ms": found["p99_9_ms"],
        "max ms": found["max_ms"],
        "histogram": found["histogram"],
    }
