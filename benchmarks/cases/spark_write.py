"""Spark writes to a topic: Fairlead's sink, Spark's own Kafka sink on Kafka, and the same on Fairlead's listener.

Fairlead's writes each row exactly once and is durable (`fdatasync`); Spark's Kafka sink is at least once, with its
defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.spark_read import connector
from benchmarks.load.launch import run
from benchmarks.systems import System, fairlead, kafka
from benchmarks.systems.common import STREAM

LISTENER = "kafka-sink-on-fairlead"


def measure_fairlead(folder: Path, point: Point) -> Figures:
    """By the format of its own."""
    with fairlead(folder) as system:
        system.create_topics(2)
        names = {plain: system.topic(number) for number, plain in enumerate(("t000000", "t000001"))}
        given = {"format": "fairlead", "options": {"server": system.site.url}, "path": STREAM}
        return _figures(system, point, names, given)


def measure_kafka(folder: Path, point: Point) -> Figures:
    """Spark's own sink on Kafka."""
    with kafka(folder) as system:
        return _by_connector(system, point)


def measure_listener(folder: Path, point: Point) -> Figures:
    """Spark's own sink on Fairlead."""
    with fairlead(folder) as system:
        return _by_connector(system, point)


def _by_connector(system: System, point: Point) -> Figures:
    system.create_topics(2)
    names = {system.topic(number): system.topic(number) for number in range(2)}
    options = {"kafka.bootstrap.servers": system.bootstrap}
    return _figures(system, point, names, {"format": "kafka", "options": options, "jars": connector()})


def _figures(system: System, point: Point, names: dict[str, str], given: dict[str, Any]) -> Figures:
    found = run("spark_write", {**given, **point.settings, "names": names, "bootstrap": system.bootstrap})
    return {"spark MB/s": found["MB/s"], "spark records/s": found["records"] / found["seconds"]}


def _point(name: str, records: int, record_bytes: int) -> Point:
    return Point(name, {"records": records, "record_bytes": record_bytes})


CASE = Case(
    "spark_write",
    {HOME: measure_fairlead, "kafka": measure_kafka, LISTENER: measure_listener},
    points=(_point("100B", 5_000_000, 100), _point("1KB", 500_000, 1_000)),
    quick=(_point("100B", 200_000, 100),),
)
