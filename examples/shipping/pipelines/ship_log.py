"""The ship's log: an entry for each watch of four hours.

In: positions. Out: ship, watch, the last position in it, miles made good since its first, mean and top speed.
"""

from __future__ import annotations

from examples.shipping.pipelines.positions import distance_nm
from examples.shipping.pipelines.readings import LATE
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

WATCH = "4 hours"


def ship_log(positions: DataFrame) -> DataFrame:
    """`ship`, `watch`, `lat`, `lon`, `miles`, `knots`, `knots_max`, `reports`."""
    here = f.struct("when", "lat", "lon")
    watches = (
        positions.withWatermark("when", LATE)
        .groupBy("ship", f.window("when", WATCH))
        .agg(
            f.min(here).alias("first"),
            f.max(here).alias("last"),
            f.avg("knots").alias("mean"),
            f.max("knots").alias("knots_max"),
            f.count("*").alias("reports"),
        )
    )
    made = distance_nm(f.col("first.lat"), f.col("first.lon"), f.col("last.lat"), f.col("last.lon"))
    return watches.select(
        *("ship", f.col("window.start").alias("watch"), f.col("last.lat").alias("lat"), f.col("last.lon").alias("lon")),
        *(f.round(made, 1).alias("miles"), f.round("mean", 1).alias("knots"), "knots_max", "reports"),
    )
