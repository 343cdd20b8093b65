"""Condition breaches: containers whose cargo is out of what it bears for longer than a door is open.

In: readings. Out: a row for each container and half-day in which at least three readings were out of its limits.
"""

from __future__ import annotations

from collections.abc import Iterable

from examples.shipping.cargo import CARGO, Container
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

READINGS_MIN = 3
WINDOW = "12 hours"
LATE = "24 hours"


def breaches(readings: DataFrame, manifest: Iterable[Container]) -> DataFrame:
    """`container`, `cargo`, `since`, `until`, `readings` out of limits, and the worst `celsius`, `humidity` and `g`."""
    cargo_of = {each.number: each.cargo for each in manifest}
    cargo = f.element_at(_map(cargo_of), f.col("container"))
    known = readings.where(f.col("container").isin(*cargo_of)).withColumn("cargo", cargo)
    out = known.withWatermark("when", LATE).where(_out_of_limits())
    windows = out.groupBy("container", "cargo", f.window("when", WINDOW)).agg(
        f.count("*").alias("readings"),
        f.max("celsius").alias("celsius"),
        f.max("humidity").alias("humidity"),
        f.max("g").alias("g"),
    )
    since, until = f.col("window.start").alias("since"), f.col("window.end").alias("until")
    found = windows.where(f.col("readings") >= READINGS_MIN)
    return found.select("container", "cargo", since, until, "readings", "celsius", "humidity", "g")


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


def _map(values: dict[str, str]) -> Column:
    return f.create_map(*(f.lit(text) for pair in values.items() for text in pair))
