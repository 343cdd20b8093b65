"""Spark, in a process of its own with two cores, writes rows to one topic as a batch; then every record is looked at.

A row has a key of 8 bytes and a value that begins with its number and is filled up to `record_bytes`. Spark makes the
rows while it writes them, for both sinks in the same way.

Arguments: format ("fairlead" | "kafka"), options (of all writes), bootstrap, names (topic as the sink takes it → as a
consumer of `bootstrap` names it: the topic to warm up, then the other), records, record_bytes; optional: path (to save
to), jars (paths).
Figures: seconds (of the write), records, MB/s, cpu_seconds (of the driver alone).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main
from benchmarks.load.spark_read import spark_session

_DIGITS = 12
_WARM_RECORDS = 10_000
_WAIT_SECONDS = 120


def prepare(arguments: Arguments) -> Run:
    """Start Spark, and write a little."""
    spark = spark_session(arguments.get("jars", []))
    warm, topic = arguments["names"]
    _write(spark, arguments, warm, _WARM_RECORDS)
    _check(arguments, arguments["names"][warm], _WARM_RECORDS)
    return lambda: _run(spark, arguments, topic)


def _run(spark: SparkSession, arguments: Arguments, topic: str) -> Figures:
    records, size = int(arguments["records"]), int(arguments["record_bytes"])
    began = time.monotonic()
    _write(spark, arguments, topic, records)
    seconds = time.monotonic() - began
    spark.stop()
    _check(arguments, arguments["names"][topic], records)
    return {"seconds": seconds, "records": records, "MB/s": records * size / seconds / 1e6}


def _write(spark: SparkSession, arguments: Arguments, topic: str, records: int) -> None:
    size = int(arguments["record_bytes"])
    rows = spark.range(records).selectExpr(
        "cast(lpad(id, 8, '0') as binary) key", f"cast(rpad(lpad(id, {_DIGITS}, '0'), {size}, 'x') as binary) value"
    )
    writer = rows.write.format(arguments["format"]).options(**arguments["options"], topic=topic).mode("append")
    writer.save(*[arguments["path"]] if "path" in arguments else [])


def _check(arguments: Arguments, topic: str, records: int) -> None:
    """Every number is there once, and its value as it was written. Raises: Unaccounted."""
    settings: dict[str, Any] = {"group.id": "check", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({"bootstrap.servers": arguments["bootstrap"], **settings})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        seen = np.zeros(records, np.int32)
        left, deadline = records, time.monotonic() + _WAIT_SECONDS
        while left > 0:
            found = consumer.consume(10_000, 1)
            for message in found:
                if message.error() is not None:
                    raise KafkaException(message.error())
            if not found and time.monotonic() > deadline:
                raise Unaccounted(f"{left:,} of {records:,} records are missing")
            values = np.frombuffer(b"".join(message.value() or b"" for message in found), np.uint8)
            rows = values.reshape(len(found), int(arguments["record_bytes"]))
            if not (rows[:, _DIGITS:] == ord("x")).all():
                raise Unaccounted("a value is not as it was written")
            numbers = (rows[:, :_DIGITS].astype(np.int64) - ord("0")) @ 10 ** np.arange(_DIGITS - 1, -1, -1)
            np.add.at(seen, numbers, 1)
            left -= len(found)
        if not (seen == 1).all() or consumer.consume(1, 1):
            raise Unaccounted(f"{int((seen != 1).sum()):,} records are missing or there more than once")
    finally:
        consumer.close()


if __name__ == "__main__":
    main(prepare)
