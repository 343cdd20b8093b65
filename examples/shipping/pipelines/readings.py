"""Records of container streams as columns: what every pipeline begins with.

In: the columns `value` and `timestamp` of `format("fairlead")`. Out: the fields of a reading, `heard` and `when`, the
time that counts.

Sensors' clocks are not believed blindly: a time from the future, or older than a bad radio keeps readings, is a wrong
clock's. Then the time at which the receiver heard the reading counts, and `clock_wrong` says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

SCHEMA = (
    "container STRING, seq BIGINT, time BIGINT, place STRING, bay INT, lat DOUBLE, lon DOUBLE, celsius DOUBLE, "
    "humidity DOUBLE, g DOUBLE, tilt DOUBLE, wet BOOLEAN, heard BIGINT"
)
KEPT_AT_MOST_MS = 24 * 3_600_000
"""Longer than any radio keeps readings."""
LATE = "30 days"
"""How late what is said may come, for queries that group by time. Ships have no link at sea, the longest passage takes
460 hours, and what is older than this beside the newest from anywhere is dropped."""
AHEAD_AT_MOST_MS = 600_000
"""Clocks are set by hand, some minutes off."""


def readings(records: DataFrame) -> DataFrame:
    """The readings in records; what is no reading is left out."""
    parsed = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("reading"), "timestamp")
    found = parsed.select("reading.*", "timestamp").where(f.col("container").isNotNull() & f.col("heard").isNotNull())
    late = f.col("heard") - f.col("time")
    wrong = (late > KEPT_AT_MOST_MS) | (late < -AHEAD_AT_MOST_MS) | f.col("time").isNull()
    counts = f.when(wrong, f.col("heard")).otherwise(f.col("time"))
    return found.withColumn("clock_wrong", wrong).withColumn("when", f.timestamp_millis(counts))


def looked_up(values: Mapping[str, str], name: str) -> Column:
    """The value for what a column says, null where there is none."""
    return f.element_at(f.create_map(*(f.lit(text) for pair in values.items() for text in pair)), f.col(name))
