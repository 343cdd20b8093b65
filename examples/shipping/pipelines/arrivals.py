"""Arrival estimates: when a ship comes to the port that it is bound for, by the way left and how fast it was of late.

In: positions. Out: a row for each ship and six hours, with `arrives` null for a ship that makes no way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from examples.shipping.pipelines.positions import distance_nm
from examples.shipping.pipelines.readings import LATE
from examples.shipping.routes import PORTS, Place
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

WINDOW = "6 hours"
KNOTS_MIN = 1.0
"""Slower is drifting, or lying at anchor."""


def arrivals(positions: DataFrame, ways: Mapping[str, Sequence[Place]] | None = None) -> DataFrame:
    """`ship`, `bound`, `since` (of the six hours), `at`, `miles_left`, `knots`, `arrives`.

    `ways` names the points that a ship bound for a port has still to pass, the port the last; without it the port
    alone. A point counts while it lies nearer to the port than the ship does.
    """
    points = ways or {name: (place,) for name, place in PORTS.items()}
    here = f.max(f.struct("when", "lat", "lon")).alias("here")
    windows = positions.withWatermark("when", LATE).groupBy("ship", "bound", f.window("when", WINDOW))
    found = windows.agg(here, f.avg("knots").alias("mean")).where(f.col("bound").isin(*points))
    left = f.coalesce(*(f.when(f.col("bound") == name, _left(way)) for name, way in points.items()))
    seconds = f.col("miles_left") / f.col("mean") * 3600
    arrives = f.when(f.col("mean") >= KNOTS_MIN, f.timestamp_seconds(f.unix_timestamp("here.when") + seconds))
    return found.withColumn("miles_left", left).select(
        *("ship", "bound", f.col("window.start").alias("since"), f.col("here.when").alias("at")),
        *(f.round("miles_left", 1).alias("miles_left"), f.round("mean", 1).alias("knots"), arrives.alias("arrives")),
    )


def _left(way: Sequence[Place]) -> Column:
    """From here over the points that are nearer to the end than this place is, to the end."""
    end = way[-1]
    lat, lon = f.col("here.lat"), f.col("here.lon")
    to_end = _to(lat, lon, end)
    left = to_end
    for index in range(len(way) - 2, -1, -1):
        rest = sum((_plain(one, other) for one, other in zip(way[index:], way[index + 1 :], strict=False)), 0.0)
        left = f.when(f.lit(_plain(way[index], end)) < to_end, _to(lat, lon, way[index]) + rest).otherwise(left)
    return left


def _to(lat: Column, lon: Column, place: Place) -> Column:
    return distance_nm(lat, lon, f.lit(place[0]), f.lit(place[1]))


def _plain(one: Place, other: Place) -> float:
    from examples.shipping.routes import distance_nm as plain

    return plain(one, other)
