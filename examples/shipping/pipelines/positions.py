"""Records of ship streams as columns: where ships say that they are. `when` is the time of the position."""

from __future__ import annotations

from examples.shipping.routes import EARTH_NM
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

SCHEMA = "ship STRING, company STRING, time_ms BIGINT, lat DOUBLE, lon DOUBLE, knots DOUBLE, bound STRING"


def positions(records: DataFrame) -> DataFrame:
    """The positions in records; what is none is left out."""
    parsed = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("position"))
    found = parsed.select("position.*").where(f.col("ship").isNotNull() & f.col("time_ms").isNotNull())
    return found.withColumn("when", f.timestamp_millis("time_ms"))


def distance_nm(lat: Column, lon: Column, other_lat: Column, other_lon: Column) -> Column:
    """The great circle between two places, in nautical miles."""
    across = f.cos(f.radians(lat)) * f.cos(f.radians(other_lat)) * f.pow(f.sin(f.radians(other_lon - lon) / 2), 2)
    half = f.pow(f.sin(f.radians(other_lat - lat) / 2), 2) + across
    return 2 * EARTH_NM * f.asin(f.sqrt(half))
