"""`format("fairlead")` in a real Spark, on a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from examples.ships import ais, analytics
from pyspark.sql import SparkSession

from tests.spark.running_server import RunningServer
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark


def test_found_without_registration(spark: SparkSession, server: RunningServer) -> None:
    """All columns of Spark's Kafka source and origin, with its types."""
    server.post("/rest/stream/create", path="/plain")
    server.produce("a", ["x", "y"], "/plain")
    found = spark.read.format("fairlead").option("server", server.http).load("/plain")
    assert [field.simpleString() for field in found.schema] == [
        *("key:binary", "value:binary", "topic:string", "partition:int", "offset:bigint", "timestamp:timestamp"),
        *("timestampType:int", "headers:array<struct<key:string,value:binary>>", "origin:string"),
    ]
    rows = found.orderBy("offset").collect()
    assert [(bytes(row.value), row.topic, row.partition, row.offset) for row in rows] == [
        (b"x", "a", 0, 0),
        (b"y", "a", 0, 1),
    ]
    assert [(h.key, bytes(h.value)) for h in rows[0].headers] == [("h", b"1")]
    assert len(rows[0].origin) == 32


def test_options_narrow_what_is_read(spark: SparkSession, server: RunningServer) -> None:
    """Topics, offsets, columns, and filters that Spark hands down."""
    server.post("/rest/stream/create", path="/narrow")
    for topic in ("a", "b"):
        server.produce(topic, [f"{topic}{n}" for n in range(5)], "/narrow")

    def values(filter: str = "true", **options: str) -> list[str]:
        reader = spark.read.format("fairlead").options(server=server.http, **options)
        return sorted(bytes(row.value).decode() for row in reader.load("/narrow").where(filter).collect())

    assert values(topics="a") == ["a0", "a1", "a2", "a3", "a4"]
    assert values(topicPattern="b|c", startingOffsets='{"b": {"0": 3}}') == ["b3", "b4"]
    assert values(endingOffsets='{"a": {"0": 2}}', columns="value") == ["a0", "a1"]
    assert values("topic = 'b' and offset > 2", pushFilters="true") == ["b3", "b4"]


def test_a_stream_restarts_from_its_checkpoint_after_merging(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    """Each record once, over three runs of a query, while merging replaces every object below it."""
    server.post("/rest/stream/create", path="/going")

    def run() -> None:
        reader = spark.readStream.format("fairlead").options(
            server=server.http, startingOffsets="earliest", maxOffsetsPerTrigger="50", columns="value,topic,offset"
        )
        query = (
            reader.load("/going")
            .writeStream.format("parquet")
            .options(checkpointLocation=str(tmp_path / "checkpoint"), path=str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(WAIT_SECONDS))
        assert query.exception() is None

    for batch in range(3):
        merged = server.segments()
        for part in range(4):
            server.produce("a", [f"{batch}/{part}/{n}" for n in range(30)], "/going")
        if batch == 1:
            wait_until(lambda: server.segments() > merged, "a segment more")  # noqa: B023
        run()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.offset for row in rows) == list(range(360))


def test_errors_name_what_is_wrong(spark: SparkSession, server: RunningServer) -> None:
    """An unknown stream and an unknown option reach the user in one line."""
    with pytest.raises(Exception, match="stream /nowhere does not exist in cluster port"):
        spark.read.format("fairlead").option("server", server.http).load("/nowhere").count()
    with pytest.raises(Exception, match="option startingofsets is not known"):
        spark.read.format("fairlead").options(server=server.http, startingOfsets="earliest").load("/default").count()


def test_the_guide_on_ships(spark: SparkSession, server: RunningServer) -> None:
    """Messages a second, messages by type, the ten fastest ships: the same as counted in Python."""
    server.post("/rest/stream/create", path="/ships")
    sent = ais.decode(ais.generate(20, 300))
    for message in sent:
        assert message.topic.startswith("ship-")
    producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 20})
    for index, message in enumerate(sent):
        producer.produce(f"/ships:{message.topic}", message.value(index), timestamp=1_790_000_000_000 + 10 * index)
    assert producer.flush(WAIT_SECONDS) == 0
    found = analytics.messages(spark, "/ships", server.http).cache()
    assert [row.messages for row in analytics.messages_a_second(found).collect()] == [100, 100, 100]
    by_type = {row.type: row.messages for row in analytics.messages_by_type(found).collect()}
    assert by_type == {kind: sum(m.kind == kind for m in sent) for kind in {m.kind for m in sent}}
    speeds: dict[int, float] = {}
    for message in sent:
        speed = json.loads(message.value(0)).get("speed", 0.0)
        speeds[message.ship] = max(speeds.get(message.ship, 0.0), speed)
    fastest = sorted(speeds.items(), key=lambda item: (-item[1], item[0]))[:10]
    assert [(row.mmsi, row.knots) for row in analytics.fastest_ships(found).collect()] == fastest
