"""A stream that is there already gets a replica: 1 KB records over 100 topics, as produced with or without lz4.

MirrorMaker 2 is given the benefit: only the time from the first record at the replica to the last counts, not the start
of its JVM and its tasks (`MB/s with start` has it). Fairlead's replicator already carries another stream.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MakePair, copy_what_is_there
from benchmarks.systems import pair_fairlead, pair_mirrormaker

TOPICS = 100
RECORD_BYTES = 1000


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """Fill, carry, check."""
    load = {"compression": point.settings["compression"]}
    return copy_what_is_there(make_pair, folder, point, "producer", RECORD_BYTES, load)


def _point(name: str, gigabytes: float, compression: str, systems: tuple[str, ...] = ()) -> Point:
    records = round(gigabytes * 1e9 / RECORD_BYTES)
    settings = {"topics": TOPICS, "records": records, "compression": compression, "limit seconds": 300}
    return Point(name, settings, systems)


CASE = Case(
    name="backlog",
    systems={
        HOME: partial(measure, pair_fairlead),
        "mirrormaker": partial(measure, partial(pair_mirrormaker, tuned=False)),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True)),
    },
    points=[
        _point("none", 2, "none"),
        _point("lz4", 2, "lz4"),
        _point("none-0.5GB", 0.5, "none", (HOME, "mirrormaker-tuned")),
    ],
    quick=[_point("lz4", 0.05, "lz4")],
)
