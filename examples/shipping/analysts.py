"""The pipelines at work, in one Spark: each reads streams of a cluster and writes what it finds into a stream.

What keeps a state (lost containers, movements) is a streaming query that writes by `format("fairlead")`, exactly once.
What sums up runs over what is there (`availableNow`) when it is asked for, in a query with a checkpoint too, and writes
each of its batches by `foreachBatch`, once by `txnAppId` and `txnVersion`. Asked again, it writes each group anew that
has changed, under the same key, which is the whole group: the last record of a key counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from pathlib import Path

from examples.ships.analytics import session
from examples.ships.sites import Site
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

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

    def following(self, site: Site, *streams: str) -> DataFrame:
        """Records of some streams from the first on, and what comes."""
        source = self.spark.readStream.format("fairlead").option("startingOffsets", "earliest")
        return _all(source.options(server=site.http, columns=COLUMNS).load(stream) for stream in streams)

    def write(self, name: str, found: DataFrame, site: Site, stream: str, topic: str, key: str) -> StreamingQuery:
        """Begin a query that writes every row into a topic, as JSON, exactly once."""
        return self._writer(name, found, site, topic, key).trigger(processingTime=TRIGGER).start(stream)

    def write_once(self, name: str, found: DataFrame, site: Site, stream: str, topic: str, key: str) -> None:
        """The same over what is there now."""
        self._writer(name, found, site, topic, key).trigger(availableNow=True).start(stream).awaitTermination()

    def sum_up(self, name: str, found: DataFrame, site: Site, stream: str, topic: str, *key: str) -> None:
        """What a query that groups by the columns of `key` says now: each group that has changed since it was asked
        last, as a record."""
        query = (
            found.writeStream.outputMode("update")
            .foreachBatch(self._into(name, site, stream, topic, key))
            .option("checkpointLocation", self._checkpoint(name))
            .trigger(availableNow=True)
            .queryName(name)
        )
        query.start().awaitTermination()

    def tell(self, found: DataFrame, site: Site, stream: str, topic: str, *key: str) -> None:
        """The rows of a batch as records."""
        as_records(found, topic, *key).write.format("fairlead").option("server", site.http).mode("append").save(stream)

    def _writer(self, name: str, found: DataFrame, site: Site, topic: str, key: str) -> DataStreamWriter:
        rows = as_records(found, topic, key)
        writer = rows.writeStream.format("fairlead").option("server", site.http).queryName(name)
        return writer.option("checkpointLocation", self._checkpoint(name))

    def _into(
        self, name: str, site: Site, stream: str, topic: str, key: Sequence[str]
    ) -> Callable[[DataFrame, int], None]:
        options = {"server": site.http, "txnAppId": name, "stagingLocation": str(self._folder / f"{name}-staged")}

        def write(batch: DataFrame, number: int) -> None:
            writer = as_records(batch, topic, *key).write.format("fairlead").options(**options)
            writer.option("txnVersion", number).mode("append").save(stream)

        return write

    def _load(self, site: Site, stream: str) -> DataFrame:
        return self.spark.read.format("fairlead").options(server=site.http, columns=COLUMNS).load(stream)

    def _checkpoint(self, name: str) -> str:
        return str(self._folder / name)


def as_records(rows: DataFrame, topic: str, *key: str) -> DataFrame:
    """Rows as JSON, with columns of theirs as the key."""
    value = f.to_json(f.struct("*"), {"timestampFormat": TIMES})
    names = f.concat_ws(" ", *(f.col(name).cast("string") for name in key))
    return rows.select(f.lit(topic).alias("topic"), names.alias("key"), value.alias("value"))


def _all(parts: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, parts)
