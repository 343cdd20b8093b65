"""What transactions cost: `fairlead mirror --exactly.once` beside the same mirror at least once, between two Kafkas.

A backlog as in `mirror`, and records at a steady rate, which a reader of committed records sees when their transaction
is committed: every 200 ms.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases import steady
from benchmarks.cases.mirror import RECORD_BYTES, TOPICS
from benchmarks.cases.replicas import copy_what_is_there
from benchmarks.systems import kafka
from benchmarks.systems.mirror import pair_mirror

AT_LEAST_ONCE = "at-least-once"


def measure(options: tuple[str, ...], folder: Path, point: Point) -> Figures:
    """A backlog or a steady rate, by a mirror with these options."""
    make_pair = partial(pair_mirror, opened=kafka, options=(*options, "--engine", "local"))
    if "rate" in point.settings:
        return steady.measure(make_pair, folder, point)
    load = {key: point.settings[key] for key in ("compression", "batch_bytes")}
    return copy_what_is_there(make_pair, folder, point, "producer", RECORD_BYTES, load)


def _backlog(name: str, gigabytes: float, compression: str = "none") -> Point:
    settings = {
        "topics": TOPICS,
        "records": round(gigabytes * 1e9 / RECORD_BYTES),
        "warm records": round(gigabytes / 4 * 1e9 / RECORD_BYTES),
        "compression": compression,
        "batch_bytes": 1_000_000,
        "limit seconds": 250,
    }
    return Point(name, settings)


CASE = Case(
    name="mirror_exactly_once",
    systems={HOME: partial(measure, ("--exactly.once",)), AT_LEAST_ONCE: partial(measure, ())},
    points=[
        _backlog("none", 2),
        _backlog("lz4", 2, "lz4"),
        Point("5000-per-second", {"rate": 5000, "seconds": 30, "warm seconds": 60}),
    ],
    quick=[_backlog("lz4", 0.02, "lz4")],
)
