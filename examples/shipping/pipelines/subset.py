"""The manufacturer's subset: what a maker of toys is told of his containers, and nothing of others.

In: readings. Out: a row for each of his containers: where it is, how it fared, and its fate.
"""

from __future__ import annotations

from collections.abc import Iterable

from examples.shipping.cargo import Container
from examples.shipping.pipelines.readings import looked_up
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

CARGO = "ducks"


def report(readings: DataFrame, manifest: Iterable[Container], alerts: DataFrame | None = None) -> DataFrame:
    """`container`, `bound`, `readings`, `place`, `celsius_min`, `celsius_max`, `humidity_max`, `g_max`, `fate`.

    `alerts` are those of the pipeline of lost containers; `fate` is `lost` or `on its way`, or `arrived` where a
    container is at the port that it is bound for.
    """
    bound = {each.number: each.bound for each in manifest if each.cargo == CARGO}
    fared = (
        readings.where(f.col("container").isin(*bound))
        .groupBy("container")
        .agg(
            f.count("*").alias("readings"),
            f.max_by("place", "seq").alias("place"),
            f.min("celsius").alias("celsius_min"),
            f.max("celsius").alias("celsius_max"),
            f.max("humidity").alias("humidity_max"),
            f.max("g").alias("g_max"),
        )
        .withColumn("bound", looked_up(bound, "container"))
    )
    arrived = f.when(f.col("place") == f.col("bound"), "arrived").otherwise("on its way")
    columns = ("container", "bound", "readings", "place", "celsius_min", "celsius_max", "humidity_max", "g_max")
    if alerts is None:
        return fared.select(*columns, arrived.alias("fate"))
    lost = alerts.where(f.col("kind") == "overboard").select("container", f.lit(True).alias("lost")).distinct()
    fate = f.when(f.col("lost"), "lost").otherwise(arrived)
    return fared.join(lost, "container", "left").select(*columns, fate.alias("fate"))
