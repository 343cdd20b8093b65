"""A connection that says the same Fetch again and again: what is remembered, and when it holds no more."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.test_connections import LONG_MS, fetch_body, make_topic, one_record, partition_of, produce_body
from tests.support.broker import RunningBroker
from tests.support.kafka_wire import WireClient, read_response

from fairlead.protocol.batch import read_header

PRODUCE, FETCH = 0, 1
ZERO = timedelta(0)


def fetch(client: Any, topic: str, offset: int, **options: Any) -> Any:
    options = {"wait_ms": 0} | options
    return partition_of(client.exchange(FETCH, 12, fetch_body(topic, offset, **options)))


def watched(broker: RunningBroker) -> Any:
    shard = broker.cluster.stream("/default").shards[0]
    return broker.do(lambda: shard.watched)


@pytest.fixture
def client(running_broker: RunningBroker) -> Iterator[Any]:
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as wire:
        yield wire


@pytest.fixture
def writer(running_broker: RunningBroker) -> Iterator[Any]:
    with WireClient(running_broker.address) as wire:
        yield wire


def publish(writer: Any, topic: str = "line", **options: Any) -> None:
    assert partition_of(writer.exchange(PRODUCE, 9, produce_body(topic, one_record(), **options))).error_code == 0


def test_the_same_question_gets_the_new_record(client: Any, writer: Any) -> None:
    """Whether it came before, between or while it is asked."""
    for _ in range(3):
        assert fetch(client, "line", 0).records == b""
    publish(writer)
    for _ in range(3):
        assert read_header(fetch(client, "line", 0).records).record_count == 1
    for _ in range(3):
        assert fetch(client, "line", 1).high_watermark == 1
    client.send(FETCH, 12, fetch_body("line", 1, wait_ms=LONG_MS))
    publish(writer)
    _, data = client.receive()
    assert read_header(partition_of(read_response(FETCH, 12, data)).records).base_offset == 1


def test_an_end_that_moves_without_being_read_is_told(client: Any, writer: Any) -> None:
    """A reader at the end sees the high watermark of its own answer."""
    assert fetch(client, "line", 0).high_watermark == 0
    publish(writer)
    assert fetch(client, "line", 1).high_watermark == 1


def test_a_topic_made_anew_is_another_topic(client: Any, writer: Any, running_broker: RunningBroker) -> None:
    """Under the same name, with a log that begins again."""
    publish(writer)
    assert fetch(client, "line", 1).high_watermark == 1
    running_broker.call(running_broker.cluster.stream("/default").delete_topic("line"))
    assert fetch(client, "line", 1).error_code == 3
    make_topic(running_broker, "line")
    assert fetch(client, "line", 0).high_watermark == 0
    assert fetch(client, "line", 1).error_code == 1


def test_partitions_may_be_added_while_a_reader_waits(client: Any, writer: Any, running_broker: RunningBroker) -> None:
    """It goes on waiting and gets its record; the new partition can be asked for."""
    assert fetch(client, "line", 0).high_watermark == 0
    assert fetch(client, "line", 0, partition=1).error_code == 3
    client.send(FETCH, 12, fetch_body("line", 0, wait_ms=LONG_MS))
    writer.call(18, 0)
    running_broker.call(running_broker.cluster.stream("/default").set_partitions("line", 2))
    publish(writer)
    _, data = client.receive()
    assert partition_of(read_response(FETCH, 12, data)).high_watermark == 1
    assert fetch(client, "line", 0, partition=1).error_code == 0


def test_other_forms_are_not_mixed_up(client: Any, writer: Any) -> None:
    """The same connection may change its version."""
    assert fetch(client, "line", 0).high_watermark == 0
    body = fetch_body("line", 0, wait_ms=0)
    client.send(FETCH, 12, body)
    client.receive()
    old = client.call(
        FETCH,
        4,
        replica_id=-1,
        max_wait=ZERO,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        topics=[{"topic": "line", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}],
    )
    assert old.responses[0].partitions[0].high_watermark == 0
    assert fetch(client, "line", 0).high_watermark == 0


def test_what_is_not_asked_for_again_is_forgotten(client: Any, writer: Any, running_broker: RunningBroker) -> None:
    """No watch outlives its question, or its connection."""
    make_topic(running_broker, "other")
    assert watched(running_broker) == 0
    fetch(client, "line", 0)
    assert watched(running_broker) == 1
    fetch(client, "other", 0)
    assert watched(running_broker) == 1
    publish(writer)
    fetch(client, "line", 0)
    assert watched(running_broker) == 0
    fetch(client, "line", 1)
    client.socket.close()
    while watched(running_broker):
        writer.call(18, 0)


def test_too_much_is_not_remembered(
    client: Any, running_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound each request is read anew."""
    monkeypatch.setattr("fairlead.broker.fetching.poll.REMEMBERED_MAX", 0)
    fetch(client, "line", 0)
    assert watched(running_broker) == 0
    assert fetch(client, "line", 0).high_watermark == 0
