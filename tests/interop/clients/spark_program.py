"""Spark's own Kafka connector, in a process of its own. Arguments: bootstrap address, topic, topic to write, folder of
checkpoints, the connector's jars. It prints how many records and keys a batch query finds, then copies what is there
and what was not copied yet to the other topic, as a streaming query that goes on at its checkpoint."""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession


def main(bootstrap: str, given: str, made: str, checkpoint: str, jars: str) -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraClassPath": jars,
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("interop")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": given, "startingOffsets": "earliest"}
    found = spark.read.format("kafka").options(**options).load().select("key").collect()
    print(json.dumps({"records": len(found), "keys": len({bytes(row["key"]) for row in found})}), flush=True)
    stream = spark.readStream.format("kafka").options(**options).load().select("key", "value")
    writer = stream.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", made)
    for _ in sys.stdin:
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
        print("copied", flush=True)
    spark.stop()


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main(*sys.argv[1:])
