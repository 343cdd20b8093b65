"""North America's questions, in Spark: all plants' readings as one table, and one query over all of them.

    python -m examples.plants.queries --server http://HOST:PORT [--table FOLDER --checkpoint FOLDER]

Without a table it asks the stream once, as it is now. With one it consolidates: it writes readings into the table as
they come, until it is ended, and goes on where it was when it is started again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from examples.plants.metrics import STREAM, Made
from examples.ships.analytics import session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

VALUE = "units INT, fault STRING, celsius DOUBLE"
COLUMNS = "key,value,topic,partition,offset,timestamp"
"""Those that are decoded."""

PICTURE = """
WITH made AS (
    SELECT plant, line, count(*) AS readings, sum(units) AS units FROM {readings} GROUP BY plant, line
), failed AS (
    SELECT plant, line, count(*) AS faults FROM {readings} WHERE fault IS NOT NULL GROUP BY plant, line
)
SELECT plant, line, readings, units, coalesce(faults, 0) AS faults,
       round(1000 * coalesce(faults, 0) / readings, 2) AS faults_per_1000_readings
FROM made LEFT JOIN failed USING (plant, line)
ORDER BY plant, line
"""
"""Units made and faults by line, joined, of all plants: `{readings}` is the table of them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch."""

    number: int
    ended: float
    """Seconds since 1970."""
    rows: int


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the picture."""

    plant: str
    line: int
    readings: int
    units: int
    faults: int
    faults_per_1000_readings: float

    @property
    def made(self) -> Made:
        """As its plant counts it."""
        return Made(self.readings, self.units, self.faults)


def small_session() -> SparkSession:
    """Spark in half a gigabyte, which is enough to group and join some readings."""
    spark = session(spark_driver_memory="512m", spark_sql_shuffle_partitions="1")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def decoded(records: DataFrame) -> DataFrame:
    """Records of the stream as readings. The prefix of a topic's name is its plant: `asia.line-2` is line 2 of Asia."""
    return records.select(
        f.substring_index("topic", ".", 1).alias("plant"),
        f.substring_index("topic", "-", -1).cast("int").alias("line"),
        f.col("key").cast("string").alias("machine"),
        f.from_json(f.col("value").cast("string"), VALUE).alias("said"),
        *("topic", "partition", "offset", "timestamp"),
    ).select("plant", "line", "machine", "said.*", "topic", "partition", "offset", "timestamp")


def now(spark: SparkSession, server: str) -> DataFrame:
    """The readings that are in the stream now."""
    return decoded(spark.read.format("fairlead").options(server=server, columns=COLUMNS).load(STREAM))


def picture(spark: SparkSession, readings: DataFrame) -> list[Line]:
    """What each line made and how often it failed."""
    return [Line(**row.asDict()) for row in spark.sql(PICTURE, readings=readings).collect()]


def consolidate(spark: SparkSession, server: str, table: Path, checkpoint: Path) -> StreamingQuery:
    """Write readings into a Parquet table as they come: each once, however often this is killed and started again."""
    records = spark.readStream.format("fairlead").options(server=server, columns=COLUMNS, startingOffsets="earliest")
    writer = decoded(records.load(STREAM)).writeStream.format("parquet").trigger(processingTime="1 second")
    return writer.options(path=str(table), checkpointLocation=str(checkpoint)).start()


def finished(query: StreamingQuery, after: int = -1) -> list[Batch]:
    """Its micro-batches with a number above `after`, of the last hundred."""
    return [
        Batch(each["batchId"], _end(each["timestamp"], each["durationMs"]["triggerExecution"]), each["numInputRows"])
        for each in query.recentProgress
        if each["batchId"] > after and each["numInputRows"]
    ]


def _end(began: str, took_ms: int) -> float:
    return datetime.fromisoformat(began).timestamp() + took_ms / 1000


def _tell(query: StreamingQuery) -> None:
    """Print every micro-batch, as a line of JSON, until the query ends."""
    last = -1
    while not query.awaitTermination(1):
        for batch in finished(query, last):
            print(json.dumps(asdict(batch)), flush=True)
            last = batch.number


def main() -> None:
    """Ask, or consolidate."""
    parser = argparse.ArgumentParser(description="All plants' readings, in North America.")
    parser.add_argument("--server", required=True, help="HTTP address of the cluster")
    parser.add_argument("--table", type=Path, help="folder of the table")
    parser.add_argument("--checkpoint", type=Path, help="folder of the table's position in the stream")
    options = parser.parse_args()
    if (options.table is None) != (options.checkpoint is None):
        parser.error("--table and --checkpoint belong together")
    spark = small_session()
    try:
        if options.table is None:
            spark.sql(PICTURE, readings=now(spark, options.server)).show(100)
        else:
            _tell(consolidate(spark, options.server, options.table, options.checkpoint))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
