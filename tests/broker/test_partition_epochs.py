"""Partitions of a Kafka cluster's topics have epochs of their own, and clients are told them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.broker import RunningBroker
from tests.support.hot_requests import metadata_request
from tests.support.kafka_rows import batch_of_epoch, frame_of, row_of, topic_row
from tests.support.kafka_wire import WireClient

from fairlead.protocol.metadata import Asked
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.rows import Row

FETCH, LIST_OFFSETS, METADATA, EPOCH_ENDS, DESCRIBE = 1, 2, 3, 23, 75
FENCED, UNKNOWN = 74, 75


def brought(broker: RunningBroker, first: int, *rows: Row) -> None:
    """Rows come to the default stream."""
    (shard,) = broker.cluster.stream("/default").shards
    outcome = broker.submit(shard, lambda draft: apply_frame(draft, frame_of(rows, first=first)))
    assert not outcome.behind + outcome.conflicts


def epochs(client: Any, asked: list[Asked] | None) -> list[int]:
    (topic,) = client.exchange(METADATA, 12, metadata_request(asked, 12)).topics
    return [each.leader_epoch for each in topic.partitions]


def fetched(client: Any, epoch: int, offset: int) -> int:
    partition = {"partition": 1, "fetch_offset": offset, "partition_max_bytes": 1000, "current_leader_epoch": epoch}
    answer = client.call(
        FETCH,
        12,
        max_wait=timedelta(0),
        min_bytes=1,
        isolation_level=0,
        topics=[{"topic": "ships", "partitions": [partition]}],
        forgotten_topics_data=[],
    )
    (found,) = answer.responses[0].partitions
    return int(found.error_code)


def test_clients_are_told_the_epoch_of_each_partition(running_broker: RunningBroker) -> None:
    """In Metadata of named topics and of all, also once it has risen; in ListOffsets, OffsetForLeaderEpoch and
    DescribeTopicPartitions; and Fetch is held against it. A Java consumer that has seen a newer epoch would ignore
    metadata with an older one."""
    brought(
        running_broker,
        0,
        topic_row(partitions=2),
        row_of(batch_of_epoch(3, 0, b"a", b"b"), after=(0, -1), partition=1),
    )
    with WireClient(running_broker.address) as client:
        named = [Asked("ships", None)]
        assert epochs(client, None) == epochs(client, named) == [0, 3]
        assert [fetched(client, epoch, 0) for epoch in (2, 3, 4)] == [FENCED, 0, UNKNOWN]
        brought(running_broker, 1, row_of(batch_of_epoch(8, 2, b"c"), after=(2, 3), partition=1))
        assert epochs(client, None) == epochs(client, named) == [0, 8]
        assert [fetched(client, epoch, 3) for epoch in (3, 8)] == [FENCED, 0]
        latest = {"partition_index": 1, "timestamp": -1, "current_leader_epoch": 8}
        (offset,) = (
            client.call(
                LIST_OFFSETS,
                9,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": "ships", "partitions": [latest]}],
                timeout=timedelta(seconds=5),
            )
            .topics[0]
            .partitions
        )
        assert (offset.offset, offset.leader_epoch) == (3, 8)
        asked = {"partition": 1, "current_leader_epoch": 8, "leader_epoch": 3}
        (end,) = (
            client.call(EPOCH_ENDS, 4, replica_id=-1, topics=[{"topic": "ships", "partitions": [asked]}])
            .topics[0]
            .partitions
        )
        assert (end.leader_epoch, end.end_offset) == (3, 2)
        (topic,) = client.call(
            DESCRIBE, 0, topics=[{"name": "ships"}], response_partition_limit=2000, cursor=None
        ).topics
        assert [each.leader_epoch for each in topic.partitions] == [0, 8]
