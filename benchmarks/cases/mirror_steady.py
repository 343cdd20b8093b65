"""Records at a steady rate, as in `steady`, by `fairlead mirror` between two Kafkas, beside MirrorMaker 2, tuned."""

from __future__ import annotations

from functools import partial

from benchmarks.case import HOME, Case, Point
from benchmarks.cases.steady import LOW_LATENCY, measure
from benchmarks.systems import kafka, pair_mirrormaker
from benchmarks.systems.mirror import pair_mirror

CASE = Case(
    name="mirror_steady",
    systems={
        HOME: partial(measure, partial(pair_mirror, opened=kafka)),
        "local": partial(measure, partial(pair_mirror, opened=kafka, options=("--engine", "local"))),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True, overrides=LOW_LATENCY)),
    },
    points=[Point("5000-per-second", {"rate": 5000, "seconds": 30, "warm seconds": 60})],
    quick=[Point("1000-per-second", {"rate": 1000, "seconds": 3, "warm seconds": 2})],
)
