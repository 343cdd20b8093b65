"""Hourly summaries of the environment: for analysts with every container, for shops and recipients coarser.

In: readings. Out: a row for each hour and container, or for each hour and place.
"""

from __future__ import annotations

from examples.shipping.pipelines.readings import LATE
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

WINDOW = "1 hour"


def hourly(readings: DataFrame, *by: str) -> DataFrame:
    """`hour`, the columns of `by` (`container` and `place` if none is named), and what was measured.

    A reading comes up to a month late; later ones are left out of a streaming query.
    """
    chosen = by or ("container", "place")
    windows = readings.withWatermark("when", LATE).groupBy(*chosen, f.window("when", WINDOW))
    found = windows.agg(
        f.round(f.avg("celsius"), 2).alias("celsius"),
        f.round(f.avg("humidity"), 2).alias("humidity"),
        f.max("g").alias("g_max"),
        f.count("*").alias("readings"),
        f.count_if("clock_wrong").alias("wrong_clocks"),
    )
    measured = ("celsius", "humidity", "g_max", "readings", "wrong_clocks")
    return found.select(f.col("window.start").alias("hour"), *chosen, *measured)
