"""Manifest against sensors: what ought to be on board after a call, or on the quay, and what says that it is.

In: the movements of containers (loaded, unloaded, lost) and readings since the call. Out: a row for each container of
either, with `agree` false where the two differ.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

MOVES = "container STRING, ship STRING, port STRING, event STRING, number BIGINT, bay INT"
"""The value of a movement's record, as JSON; `number` counts a container's movements, `bay` is where it stands on a
ship."""


def moves(records: DataFrame) -> DataFrame:
    """The movements of containers in records, with the times of these."""
    parsed = records.select(f.from_json(f.col("value").cast("string"), MOVES).alias("move"), "timestamp")
    return parsed.select("move.*", "timestamp").where(f.col("container").isNotNull())


def aboard(movements: DataFrame, readings: DataFrame, ship: str) -> DataFrame:
    """`container`, `manifest` (its last movement put it on this ship), `sensors` (it was heard on it), `agree`."""
    listed = _last(movements).where((f.col("last.ship") == ship) & (f.col("last.event") == "loaded"))
    return _against(listed, readings, ship)


def ashore(movements: DataFrame, readings: DataFrame, port: str) -> DataFrame:
    """The same of a port's quay: its last movement took it from a ship there, and it was heard there."""
    listed = _last(movements).where((f.col("last.port") == port) & (f.col("last.event") == "unloaded"))
    return _against(listed, readings, port)


def _last(movements: DataFrame) -> DataFrame:
    return movements.groupBy("container").agg(f.max_by(f.struct("event", "ship", "port"), "number").alias("last"))


def _against(listed: DataFrame, readings: DataFrame, place: str) -> DataFrame:
    heard = readings.groupBy("container").agg(f.max_by("place", "seq").alias("place"))
    there = heard.where(f.col("place") == place).select("container", f.lit(True).alias("sensors"))
    both = listed.select("container", f.lit(True).alias("manifest")).join(there, "container", "full")
    found = both.na.fill(False, ["manifest", "sensors"])
    return found.withColumn("agree", f.col("manifest") == f.col("sensors"))
