"""Spark counts the records of a hundred topics: Fairlead's data source beside Spark's own Kafka connector on Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.case import Case, Figures, Point
from benchmarks.load.launch import run
from benchmarks.systems import System, fairlead, kafka

JARS = Path(__file__).parents[2] / ".make" / "bench" / "spark-jars"
"""Spark's Kafka connector, see scripts/bench-setup."""
TOPICS = 100
BATCH_RECORDS = 1000
STREAM = "/bench"


def measure_fairlead(folder: Path, point: Point) -> Figures:
    """With every column, as Spark's connector reads them; and, apart, with the one column that the query needs."""
    with fairlead(folder) as system:
        _fill(system, point)
        names = {"format": "t{:06d}", "count": TOPICS}
        given = {"format": "fairlead", "options": {"server": system.site.url}, "path": STREAM, "columns": True}
        found = _read(point, names, given | {"topics_option": "topics"})
        return _figures(found) | {"spark records/s, topic column": found["records"] / found["topic_seconds"]}


def measure_kafka(folder: Path, point: Point) -> Figures:
    """The connector is used as it comes."""
    jars = connector()
    with kafka(folder) as system:
        _fill(system, point)
        options = {"kafka.bootstrap.servers": system.bootstrap, "startingOffsets": "earliest"}
        given = {"format": "kafka", "options": options, "topics_option": "subscribe", "name_all": True, "jars": jars}
        return _figures(_read(point, {"format": "t{:06d}", "count": TOPICS}, given))


def connector() -> list[str]:
    """The jars of Spark's Kafka connector."""
    jars = [str(jar) for jar in sorted(JARS.glob("*.jar"))]
    if not jars:
        raise FileNotFoundError("Spark's Kafka connector; run scripts/bench-setup")
    return jars


def _fill(system: System, point: Point) -> None:
    system.create_topics(TOPICS)
    run(
        "raw_produce",
        {
            "bootstrap": system.bootstrap,
            "topics": [system.topic(number) for number in range(TOPICS)],
            "record_bytes": point.settings["record_bytes"],
            "records": point.settings["records"],
            "batch_records": BATCH_RECORDS,
            "topics_per_request": 10,
            "encode_ahead": False,
        },
    )


def _read(point: Point, topics: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    sizes = {name: point.settings[name] for name in ("records", "record_bytes")}
    return run("spark_read", {**given, **sizes, "topics": topics})


def _figures(found: dict[str, Any]) -> dict[str, float]:
    return {"spark records/s": found["records"] / found["seconds"], "first query s": found["warm_seconds"]}


def _point(name: str, records: int) -> Point:
    return Point(name, {"records": records, "record_bytes": 100, "topics": TOPICS})


CASE = Case(
    "spark_read",
    {"fairlead": measure_fairlead, "kafka": measure_kafka},
    points=(_point("20M-100B", 20_000_000),),
    quick=(_point("1M-100B", 1_000_000),),
)
