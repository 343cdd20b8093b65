"""The pipelines at work, in one Spark: each reads streams of a cluster and writes what it finds into a stream.

What keeps a state (lost containers, movements) is a streaming query that writes by `format("fairlead")`, exactly once.
What sums up runs over what is there (`availableNow`) when it is asked for, in a query with a checkpoint too, and writes
each of its batches by `foreachBatch`, once by `txnAppId` and `txnVersion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path

from examples.ships.analytics import session
from examples.ships.sites import Site
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = "value,timestamp"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TRIGGER = "300 milliseconds"
"""How long after a reading, at most, the query of lost containers looks again."""
FRUGAL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""It lives for minutes, beside nine clusters: Java compiles once, and leaves the processors to the others."""
TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


def small_session() -> SparkSession:
    """Spark for some thousand records: one shuffle partition, state as `transformWithState` needs it, UTC."""
    spark = session(
        spark_driver_memory="1g",
        spark_driver_extraJavaOptions=FRUGAL,
        spark_sql_shuffle_partitions="1",
        spark_sql_session_timeZone="UTC",
        spark_sql_streaming_stateStore_providerClass=STATE_STORE,
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Analysts:
    """People with a Spark; checkpoints lie in `folder`, by the names of queries."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = folder

    def now(self, site: Site, *streams: str) -> DataFrame:
        """The records that some streams of a cluster hold now."""
        return _all(self._load(site, stream) for stream in streams)

    def following(self, site: Site, *streams: str, since_ms: int = 0) -> DataFrame:
        """Records of some streams from a time on, and what comes."""
        source = self.spark.readStream.format("fairlead").option("startingTimestamp", since_ms)
        return _all(source.options(server=site.http, columns=COLUMNS).load(stream) for stream in streams)

    def write(self, name: str, found: DataFrame, site: Site, stream: str, topic: str, key: str) -> StreamingQuery:
        """Begin a query that writes every row into a topic, as JSON, exactly once."""
        rows = as_records(found, f.lit(topic), key)
        writer = rows.writeStream.format("fairlead").option("server", site.http).queryName(name)
        return writer.option("checkpointLocation", self._checkpoint(name)).trigger(processingTime=TRIGGER).start(stream)

    def write_once(self, name: str, found: DataFrame, site: Site, stream: str, topic: str, key: str) -> None:
        """The same over what is there now."""
        rows = as_records(found, f.lit(topic), key)
        writer = rows.writeStream.format("fairlead").option("server", site.http).queryName(name)
        writer.option("checkpointLocation", self._checkpoint(name)).trigger(availableNow=True).start(
            stream
        ).awaitTermination()

    def sum_up(self, name: str, found: DataFrame, site: Site, stream: str, topic: str | Column, key: str) -> None:
        """What a query that groups says now: each group that has changed since it was asked last, as a record."""
        named = f.lit(topic) if isinstance(topic, str) else topic
        query = (
            found.writeStream.outputMode("update")
            .foreachBatch(self._into(name, site, stream, named, key))
            .option("checkpointLocation", self._checkpoint(name))
            .trigger(availableNow=True)
            .queryName(name)
        )
        query.start().awaitTermination()

    def _into(self, name: str, site: Site, stream: str, topic: Column, key: str) -> Callable[[DataFrame, int], None]:
        options = {"server": site.http, "txnAppId": name, "stagingLocation": str(self._folder / f"{name}-staged")}

        def write(batch: DataFrame, number: int) -> None:
            writer = as_records(batch, topic, key).write.format("fairlead").options(**options)
            writer.option("txnVersion", number).mode("append").save(stream)

        return write

    def _load(self, site: Site, stream: str) -> DataFrame:
        return self.spark.read.format("fairlead").options(server=site.http, columns=COLUMNS).load(stream)

    def _checkpoint(self, name: str) -> str:
        return str(self._folder / name)


def as_records(rows: DataFrame, topic: Column, key: str) -> DataFrame:
    """Rows as JSON, with a column of theirs as the key."""
    value = f.to_json(f.struct("*"), {"timestampFormat": TIMES})
    return rows.select(topic.alias("topic"), f.col(key).cast("string").alias("key"), value.alias("value"))


def _all(parts: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, parts)
