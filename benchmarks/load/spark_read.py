"""Spark, in a process of its own with two cores, reads topics as a batch and counts their records by topic.

Arguments: format ("fairlead" | "kafka"), options (of all reads), topics, records (in all), record_bytes; optional:
path (to load), topics_option (what the format calls a list of topics, given for one topic to warm up and, with
name_all, for all), jars (paths), columns (true: a second timed query that asks for the topic column alone).
Figures: seconds (of the action), topic_seconds (with columns: its second form), warm_seconds, records, cpu_seconds (of
the driver alone). Before that, in the warm-up, the values of one topic are checked; counts are of every read.
"""

from __future__ import annotations

import os
import sys
import time
import zlib

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.load.content import Content, as_bytes, topic_names
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main


def prepare(arguments: Arguments) -> Run:
    """Start Spark, read the first topic and check it."""
    spark = spark_session(arguments.get("jars", []))
    topics = topic_names(arguments["topics"])
    records = int(arguments["records"])
    began = time.monotonic()
    first = _read(spark, arguments, topics[:1]).select("topic", f.crc32("value").alias("sum"))
    found = first.groupBy("topic").agg(f.count("*"), f.sum("sum")).collect()
    expected = _expected(int(arguments["record_bytes"]), records // len(topics))
    if [tuple(row)[1:] for row in found] != [expected]:
        raise Unaccounted(f"the first topic has {found}, not {expected}")
    warm_seconds = time.monotonic() - began
    return lambda: _run(spark, arguments, topics, warm_seconds)


def _expected(record_bytes: int, records: int) -> tuple[int, int]:
    """Count and sum of the CRC-32 of the values of topic 0."""
    content, step = Content(record_bytes), 10_000
    total = 0
    for first in range(0, records, step):
        rows = content.values(0, 0, np.arange(first, min(records, first + step)))
        total += sum(map(zlib.crc32, as_bytes(rows)))
    return records, total


def spark_session(jars: list[str]) -> SparkSession:
    """Of two cores, with these jars."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _read(spark: SparkSession, arguments: Arguments, topics: list[str] | None = None, **more: str) -> DataFrame:
    reader = spark.read.format(arguments["format"]).options(**arguments["options"], **more)
    if topics is not None:
        reader = reader.option(arguments["topics_option"], ",".join(topics))
    return reader.load(*[arguments["path"]] if "path" in arguments else [])


def _run(spark: SparkSession, arguments: Arguments, topics: list[str], warm_seconds: float) -> Figures:
    named = topics if arguments.get("name_all") else None
    records = int(arguments["records"])
    figures: Figures = {"warm_seconds": warm_seconds, "records": records}
    figures["seconds"] = _count(_read(spark, arguments, named), topics, records)
    if arguments.get("columns"):
        figures["topic_seconds"] = _count(_read(spark, arguments, named, columns="topic"), topics, records)
    spark.stop()
    return figures


def _count(read: DataFrame, topics: list[str], records: int) -> float:
    """Seconds of the action; its result is looked at after that."""
    began = time.monotonic()
    rows = read.groupBy("topic").count().collect()
    seconds = time.monotonic() - began
    if {row["topic"]: row["count"] for row in rows} != dict.fromkeys(topics, records // len(topics)):
        raise Unaccounted(f"{len(rows)} topics with {sum(row['count'] for row in rows)} of {records} records")
    return seconds


if __name__ == "__main__":
    main(prepare)
