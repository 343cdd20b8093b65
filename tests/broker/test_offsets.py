"""Offsets by end, time and epoch; producer ids; the cluster's description."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.broker import RunningBroker
from tests.support.hot_requests import produce_request
from tests.support.kafka_wire import WireClient

from fairlead.protocol.batch import build_batch
from fairlead.protocol.messages import known_versions
from fairlead.protocol.produce import ProducePartition, ProduceRequest, ProduceTopic
from fairlead.protocol.records import Record
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.topics import put_topic
from fairlead.streamlog.writing.draft import Draft

PRODUCE, LIST_OFFSETS, INIT_PRODUCER_ID, EPOCH_ENDS, DESCRIBE_CLUSTER = 0, 2, 22, 23, 60


def publish(client: Any, topic: str, *times: Any, codec: int = 0) -> None:
    """One batch with a record for each time."""
    batch = build_batch([Record(i, time, None, b"v") for i, time in enumerate(times)], codec=codec)
    request = ProduceRequest(None, -1, 1000, [ProduceTopic(topic, None, [ProducePartition(0, memoryview(batch))])])
    (answered,) = client.exchange(PRODUCE, 9, produce_request(request, 9)).responses
    assert answered.partition_responses[0].error_code == 0


def offset_of(client: Any, topic: str, timestamp: Any, version: int = 11, partition: int = 0, epoch: int = -1) -> Any:
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    response = client.call(
        LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": topic, "partitions": [asked]}],
        timeout=timedelta(seconds=5),
    )
    (found,) = response.topics[0].partitions
    return found


@pytest.fixture
def client(running_broker: RunningBroker) -> Iterator[Any]:
    running_broker.call(running_broker.cluster.stream("/default").create_topic("t"))
    with WireClient(running_broker.address) as wire:
        yield wire


@pytest.mark.parametrize("version", known_versions(LIST_OFFSETS))
def test_ends_and_times_are_found_in_every_version(client: Any, version: int) -> None:
    """Also inside compressed batches; times may go back."""
    publish(client, "t", 1000, 3000, 2000, codec=4)
    publish(client, "t", 5000, 4000)
    for timestamp, offset, found_time in (
        (-1, 5, -1),
        (-2, 0, -1),
        (-3, 3, 5000),
        (-4, 0, -1),
        (-5, -1, -1),
        (-6, -1, -1),
        (0, 0, 1000),
        (1001, 1, 3000),
        (3001, 3, 5000),
        (5001, -1, -1),
    ):
        found = offset_of(client, "t", timestamp, version)
        assert (found.error_code, found.offset, found.timestamp) == (0, offset, found_time)
        assert getattr(found, "leader_epoch", 0) == (0 if offset >= 0 or version < 4 else -1)


def test_an_empty_partition_begins_and_ends_at_nothing(client: Any) -> None:
    """There is no record of any time."""
    assert [offset_of(client, "t", timestamp).offset for timestamp in (-1, -2, -3, 0)] == [0, 0, -1, -1]


def test_offsets_that_cannot_be_found_have_kafka_s_codes(client: Any) -> None:
    """Unknown topic, partition, epoch and number below zero."""
    assert offset_of(client, "none", -1).error_code == 3
    assert offset_of(client, "t", -1, partition=1).error_code == 3
    assert offset_of(client, "t", -1, epoch=1).error_code == 75
    assert offset_of(client, "t", -7).error_code == 35


@pytest.mark.parametrize("version", known_versions(EPOCH_ENDS))
def test_a_consumer_checks_its_epoch(client: Any, version: int) -> None:
    """The newest epoch ends at the log's end."""
    publish(client, "t", 1, 2, 3)
    asked = [{"partition": n, "current_leader_epoch": e, "leader_epoch": 0} for n, e in ((0, 0), (1, 0), (0, 9))]
    response = client.call(EPOCH_ENDS, version, replica_id=-1, topics=[{"topic": "t", "partitions": asked}])
    answers = [(p.error_code, p.leader_epoch, p.end_offset) for p in response.topics[0].partitions]
    assert answers == [(0, 0, 3), (3, -1, -1), (75, -1, -1)]


def test_a_consumer_in_a_tail_that_was_cut_is_led_to_where_histories_part(
    running_broker: RunningBroker, client: Any
) -> None:
    """Its epoch ends at the cut and others follow; ends, times and the newest record are those that can be read."""
    publish(client, "t", 1000, 2000)
    publish(client, "t", 9000)
    publish(client, "t", 3000)
    shard, topic = running_broker.cluster.stream("/default").topic("t")
    own = shard.state.topic(topic.number)
    assert own is not None
    changed = own._replace(epoch=5, version=own.version + 1, since=((2, ((0, 0),)),))

    def taken_over(draft: Draft) -> None:
        put_topic(draft, changed, changed.owner, None)
        cut(draft, topic.number, 0, 2, "takeover", 5, None)

    async def submitted() -> None:
        await shard.submit(taken_over)

    running_broker.call(submitted())
    publish(client, "t", 4000)
    asked = [{"partition": 0, "current_leader_epoch": 5, "leader_epoch": epoch} for epoch in (0, 4, 5)]
    response = client.call(EPOCH_ENDS, 4, replica_id=-1, topics=[{"topic": "t", "partitions": asked}])
    assert [(p.leader_epoch, p.end_offset) for p in response.topics[0].partitions] == [(0, 2), (0, 2), (5, 3)]
    found = {time: (offset_of(client, "t", time).offset, offset_of(client, "t", time).leader_epoch) for time in TIMES}
    assert found == {-1: (3, 5), -3: (2, 5), 2500: (2, 5), 5000: (-1, -1), 1500: (1, 0)}


TIMES = (-1, -3, 2500, 5000, 1500)
"""The end, the newest record, and times."""


@pytest.mark.parametrize("version", known_versions(INIT_PRODUCER_ID))
def test_producer_ids_are_random(client: Any, version: int) -> None:
    """Positive, never the same; a producer that asks again keeps its id with the next epoch."""

    def ask(**fields: Any) -> Any:
        return client.call(INIT_PRODUCER_ID, version, transaction_timeout=timedelta(0), **fields)

    first, second = ask(), ask()
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert 0 <= first.producer_id != second.producer_id >= 0
    assert first.producer_id.bit_length() > 32 or second.producer_id.bit_length() > 32
    if version >= 3:
        again = ask(producer_id=first.producer_id, producer_epoch=4)
        assert (again.producer_id, again.producer_epoch) == (first.producer_id, 5)
    refused = ask(transactional_id="t")
    assert (refused.error_code, refused.producer_id) == (53, -1)


@pytest.mark.parametrize("version", known_versions(DESCRIBE_CLUSTER))
def test_the_cluster_is_one_node(client: Any, running_broker: RunningBroker, version: int) -> None:
    """At the address the client came in on; controllers cannot be asked for."""
    ask = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    response = client.call(DESCRIBE_CLUSTER, version, **ask)
    (node,) = response.brokers
    assert (node.broker_id, node.host, node.port) == (1, *running_broker.address)
    assert response.controller_id == 1
    if version >= 1:
        assert client.call(DESCRIBE_CLUSTER, version, endpoint_type=2, **ask).error_code == 115
