"""Three questions about ships, asked of a stream with Spark: `docs/guides/spark.md` explains them.

    python -m examples.ships.analytics --path /mapr/sanfrancisco/ships [--server http://HOST:PORT]

The ships come from the demo with `--keep` (start `fairlead up` on the folder that it names), or from any producer of
the same JSON.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from examples.ships.ais import SPEED_UNKNOWN_KNOTS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

MESSAGE = "type INT, mmsi BIGINT, speed DOUBLE, lat DOUBLE, lon DOUBLE, time BIGINT"


def messages(spark: SparkSession, path: str, server: str | None = None) -> DataFrame:
    """The decoded messages of a stream, with the time of each record."""
    reader = spark.read.format("fairlead").option("columns", "value,timestamp")
    if server is not None:
        reader = reader.option("server", server)
    return (
        reader.load(path)
        .select(f.from_json(f.col("value").cast("string"), MESSAGE).alias("message"), "timestamp")
        .select("message.*", "timestamp")
    )


def messages_a_second(found: DataFrame) -> DataFrame:
    """How many messages came in each second."""
    second = f.date_trunc("second", f.col("timestamp")).alias("second")
    return found.groupBy(second).agg(f.count("*").alias("messages")).orderBy("second")


def messages_by_type(found: DataFrame) -> DataFrame:
    """How many there are of each AIS type, the most frequent first."""
    return found.groupBy("type").agg(f.count("*").alias("messages")).orderBy(f.desc("messages"))


def fastest_ships(found: DataFrame, count: int = 10) -> DataFrame:
    """The ships with the highest speed over ground, in knots; `102.3` in a message means that it is not known."""
    known = found.where((f.col("speed") < SPEED_UNKNOWN_KNOTS) & f.col("type").isin(1, 2, 3))
    return known.groupBy("mmsi").agg(f.max("speed").alias("knots")).orderBy(f.desc("knots"), "mmsi").limit(count)


def session(**settings: Any) -> SparkSession:
    """A Spark on this machine that listens on loopback only, to nobody but itself (`spark.authenticate`: its ports are
    open to every user here), and runs the Python that runs this program."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("ships").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.authenticate", "true")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), str(value))
    return builder.getOrCreate()


def main() -> None:
    """Ask all three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--path", default="/mapr/sanfrancisco/ships")
    parser.add_argument("--server", help="HTTP address of a server; else the cluster is looked up in clusters.toml")
    options = parser.parse_args()
    spark = session()
    try:
        found = messages(spark, options.path, options.server).cache()
        messages_a_second(found).show(30)
        messages_by_type(found).show()
        fastest_ships(found).show()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
