"""A program with Spark that copies a topic to another one by `format("fairlead")`, for the test that kills it.

    python -m tests.crash.sink_query SERVER CHECKPOINT FROM TO [once]

Tasks are dealt out anew by a shuffle, so a batch that runs again has its rows in other tasks. A task that fails runs
again, as on a cluster.
"""

from __future__ import annotations

import sys

from examples.ships import analytics


def main() -> None:
    """Until it is killed; with `once` until all is copied."""
    server, checkpoint, source, target, *how = sys.argv[1:]
    spark = analytics.session(spark_sql_shuffle_partitions="3", spark_master="local[2, 4]")
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.format("fairlead").options(server=server, topics=source, startingOffsets="earliest")
    found = rows.option("maxOffsetsPerTrigger", 1_000).load("/default")
    dealt = found.selectExpr(f"'{target}' topic", "key", "value").repartition(3)
    sink = dealt.writeStream.format("fairlead").options(server=server, checkpointLocation=checkpoint)
    query = (sink.trigger(availableNow=True) if how else sink).start("/default")
    query.awaitTermination()


if __name__ == "__main__":
    main()
