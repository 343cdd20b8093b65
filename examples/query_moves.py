"""A streaming query that goes on at another site, with the records that it has not written yet.

    python examples/query_moves.py /activity http://127.0.0.1:7660 http://127.0.0.1:7661 TABLE

It writes what the first cluster has into TABLE/0, then goes on at the second one, into TABLE/1. Run again, it goes on
at the second one alone.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def follow(spark: SparkSession, server: str, stream: str, table: str, starting: str = "earliest") -> None:
    """Write the records that are there into a table, each once, with its place; called again, it goes on."""
    source = spark.readStream.format("fairlead").options(server=server, startingOffsets=starting)
    records = source.load(stream).select("topic", "partition", "offset", f.col("value").cast("string").alias("value"))
    writer = records.writeStream.format("parquet").option("checkpointLocation", f"{table}.checkpoint")
    writer.trigger(availableNow=True).start(table).awaitTermination()


def next_offsets(written: DataFrame) -> str:
    """`startingOffsets` behind all that was written, the same at every site; other topics begin at their start."""
    found: dict[str, dict[str, int]] = {}
    for row in written.groupBy("topic", "partition").agg(f.max("offset").alias("last")).collect():
        found.setdefault(row.topic, {})[str(row.partition)] = row["last"] + 1
    return json.dumps(found)


def move(spark: SparkSession, stream: str, first: str, second: str, table: str) -> None:
    """From the first cluster to the second, for good: a table that has begun there would get records twice if more of
    the first one were written."""
    if not Path(f"{table}/1.checkpoint").exists():
        follow(spark, first, stream, f"{table}/0")
    follow(spark, second, stream, f"{table}/1", next_offsets(spark.read.parquet(f"{table}/0")))


if __name__ == "__main__":
    stream, first, second, table = sys.argv[1:]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    move(spark, stream, first, second, table)
    spark.read.parquet(f"{table}/0", f"{table}/1").orderBy("topic", "partition", "offset").show()
    spark.stop()
