"""Condition breaches: containers whose cargo is out of what it bears for longer than a door is open.

In: readings. Out: a row for each container and day in which a quarter of its readings were out of its limits, and more
than one. That is a share and no count, since sensors are heard each hour in port and twice a day on a long passage.
"""

from __future__ import annotations

from collections.abc import Iterable

from examples.shipping.cargo import CARGO, Container
from examples.shipping.pipelines.readings import LATE, looked_up
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

OUT_MIN = 2
SHARE_MIN = 0.25
WINDOW = "1 day"


def breaches(readings: DataFrame, manifest: Iterable[Container]) -> DataFrame:
    """`container`, `cargo`, `since`, `until`; of `readings` those `out` of limits, and how far these went."""
    cargo_of = {each.number: each.cargo for each in manifest}
    known = readings.where(f.col("container").isin(*cargo_of)).withColumn("cargo", looked_up(cargo_of, "container"))
    is_out = _out_of_limits()
    windows = known.withWatermark("when", LATE).groupBy("container", "cargo", f.window("when", WINDOW))
    found = windows.agg(
        f.count("*").alias("readings"),
        f.count_if(is_out).alias("out"),
        f.min(f.when(is_out, f.col("celsius"))).alias("celsius_min"),
        f.max(f.when(is_out, f.col("celsius"))).alias("celsius_max"),
        f.max(f.when(is_out, f.col("humidity"))).alias("humidity_max"),
        f.max(f.when(is_out, f.col("g"))).alias("g_max"),
    )
    since, until = f.col("window.start").alias("since"), f.col("window.end").alias("until")
    breached = found.where((f.col("out") >= OUT_MIN) & (f.col("out") >= SHARE_MIN * f.col("readings")))
    worst = ("celsius_min", "celsius_max", "humidity_max", "g_max")
    return breached.select("container", "cargo", since, until, "readings", "out", *worst)


def _out_of_limits() -> Column:
    parts = [
        (f.col("cargo") == name)
        & (
            ~f.col("celsius").between(limits.celsius_min, limits.celsius_max)
            | (f.col("humidity") > limits.humidity_max)
            | (f.col("g") > limits.g_max)
        )
        for name, limits in CARGO.items()
    ]
    either = parts[0]
    for part in parts[1:]:
        either = either | part
    return either
