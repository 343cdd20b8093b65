"""`format("fairlead")` in a real Spark, for writing, on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.running_server import RunningServer, running
from tests.support.records import read_all
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def write(rows: DataFrame, server: RunningServer, path: str = "/default", **options: str) -> None:
    rows.write.format("fairlead").options(server=server.http, **options).mode("append").save(path)


def values(server: RunningServer, topic: str) -> list[int]:
    """What a client reads of a topic, sorted."""
    found = read_all(server.kafka, [topic], prefix="/default:")
    return sorted(int(content.value or b"-1") for content in found.values())


def test_all_columns_are_written_and_read_again(spark: SparkSession, server: RunningServer) -> None:
    """By the same format: key, value, headers and time of each record, in the partition that it names."""
    server.post("/rest/stream/topic/create", path="/default", topic="columns", partitions=3)
    rows = spark.range(300).selectExpr(
        "'columns' topic",
        "cast(id % 3 as int) partition",
        "cast(id as string) key",
        "concat('v', id) value",
        "timestamp_millis(1700000000000 + id) timestamp",
        "array(struct('h' as key, cast('x' as binary) as value)) headers",
    )
    write(rows, server, compression="zstd")
    back = (
        spark.read.format("fairlead")
        .options(server=server.http, topics="columns")
        .load("/default")
        .selectExpr(
            *("topic", "partition", "cast(key as string) key", "cast(value as string) value"), "timestamp", "headers"
        )
    )
    assert back.exceptAll(rows).count() == 0
    assert rows.exceptAll(back).count() == 0


def test_a_stream_is_written_exactly_once_over_restarts(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    """A query that is stopped in the middle goes on from its checkpoint; records come in whatever tasks."""
    server.post("/rest/stream/topic/create", path="/default", topic="once", partitions=2)
    server.produce("numbers", [str(number) for number in range(2_000)])
    found = spark.readStream.format("fairlead").options(
        server=server.http, topics="numbers", startingOffsets="earliest"
    )
    rows = found.option("maxOffsetsPerTrigger", 300).load("/default").selectExpr("'once' topic", "key", "value")
    sink = rows.repartition(3).writeStream.format("fairlead").option("checkpointLocation", str(tmp_path / "c"))
    for enough in (1, 700):
        query = sink.option("server", server.http).start("/default")
        wait_until(lambda enough=enough: len(values(server, "once")) >= enough, "the query has written some")  # type: ignore[misc]
        query.stop()
    query = sink.option("server", server.http).trigger(availableNow=True).start("/default")
    query.awaitTermination()
    assert query.exception() is None
    assert values(server, "once") == list(range(2_000))


def test_a_write_that_is_made_again_adds_nothing(spark: SparkSession, server: RunningServer, tmp_path: Path) -> None:
    """With an id and a number, as `foreachBatch` has them."""
    rows = spark.range(100).selectExpr("'again' topic", "cast(id as string) value")
    for version in ("0", "0", "1", "1", "0"):
        write(rows, server, txnAppId="job", txnVersion=version, stagingLocation=str(tmp_path))
    assert values(server, "again") == sorted([*range(100)] * 2)


def test_one_id_and_number_may_write_to_several_targets(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    """Each once, however often they are made."""
    rows = spark.range(10).selectExpr("cast(id as string) value")
    for topic in ("one", "two", "one", "two"):
        write(rows, server, topic=topic, txnAppId="job", txnVersion="0", stagingLocation=str(tmp_path))
    assert values(server, "one") == values(server, "two") == [*range(10)]


def test_a_failed_task_leaves_nothing_in_the_topic(spark: SparkSession, server: RunningServer) -> None:
    """Also nothing of the tasks that went well."""
    rows = spark.range(1_000).selectExpr(
        "'failed' topic", "cast(id as string) value", "cast(if(id = 999, 7, 0) as int) partition"
    )
    with pytest.raises(PySparkException, match="a row names partition 7 of topic /default:failed, which has 1"):
        write(rows.repartition(4), server)
    assert values(server, "failed") == []


def test_a_full_disk_is_said_in_one_line_and_the_batch_is_there_once_when_there_is_room(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The query ends; started again, it writes the batch that was refused."""
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "one.txt").write_text("".join(f"{number}\n" for number in range(500)))
    rows = spark.readStream.text(str(texts)).selectExpr("'full' topic", "value")
    sink = rows.writeStream.format("fairlead").option("checkpointLocation", str(tmp_path / "c"))
    with running(tmp_path, reserve_bytes=str(2**61)) as server:
        server.post("/rest/stream/topic/create", path="/default", topic="full")
        query = sink.options(server=server.http, deliveryTimeoutMs=5_000).trigger(availableNow=True).start("/default")
        said = r"the cluster took 0 records and then none for 5 s \(.*bytes are free and .* are kept in reserve.*\);"
        with pytest.raises(PySparkException, match=said):
            query.awaitTermination()
        assert values(server, "full") == []
    with running(tmp_path) as server:
        query = sink.options(server=server.http, deliveryTimeoutMs=60_000).trigger(availableNow=True).start("/default")
        query.awaitTermination()
        assert values(server, "full") == list(range(500))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["value"], {}, "no topic: give a column topic, or the option topic for all records"),
        (["'t' topic", "value"], {"path": "/nosuch"}, "stream /nosuch does not exist in cluster port"),
        (["cast(null as string) topic", "value"], {}, "a row has no topic"),
        (["'t' topic", "value", "array(struct('h' as name, value)) headers"], {}, "have a column headers of type list"),
        (["'t' topic", "value", "1700000000000 timestamp"], {}, "have a column timestamp of type int64"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(
    spark: SparkSession, server: RunningServer, columns: Sequence[str], options: dict[str, Any], message: str
) -> None:
    rows = spark.range(3).selectExpr("cast(id as string) value").selectExpr(*columns)
    with pytest.raises(PySparkException, match=message):
        write(rows, server, **options)


def test_records_are_never_replaced(spark: SparkSession, server: RunningServer) -> None:
    rows = spark.range(3).selectExpr("'t' topic", "cast(id as string) value")
    with pytest.raises(PySparkException, match="records are never replaced; write with mode append"):
        rows.write.format("fairlead").option("server", server.http).mode("overwrite").save("/default")
