"""DeleteRecords, its answers, and what Fetch and ListOffsets say afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs
from tests.broker.handlers.asking import Asker, a_copy, asking, versions
from tests.support.batches import produced_to

from fairlead.protocol.batch import build_batch
from fairlead.streamlog.requests.ownership import hand_over
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft

LIST_OFFSETS, DELETE_RECORDS = 2, 21
EARLIEST = -2
TEN = build_batch([(None, b"%d" % place) for place in range(10)])


async def delete(asker: Asker, *topics: tuple[str, dict[int, int]], version: int = 2) -> dict[str, list[Any]]:
    """(partition, low watermark, error) by topic."""
    wanted = [
        {"name": name, "partitions": [{"partition_index": p, "offset": offset} for p, offset in offsets.items()]}
        for name, offsets in topics
    ]
    answer = await asker.ask(DELETE_RECORDS, version, topics=wanted, timeout=timedelta(seconds=30))
    return {
        topic.name: [(p.partition_index, p.low_watermark, p.error_code) for p in topic.partitions]
        for topic in answer.topics
    }


async def earliest(asker: Asker, name: str, partition: int = 0) -> int:
    asked = {"partition_index": partition, "timestamp": EARLIEST, "current_leader_epoch": -1}
    answer = await asker.ask(
        LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[{"name": name, "partitions": [asked]}]
    )
    found: int = answer.topics[0].partitions[0].offset
    return found


@pytest.mark.parametrize("version", versions(DELETE_RECORDS))
async def test_each_partition_has_its_own_answer(version: int) -> None:
    """The low watermark is where the log begins now; -1 deletes up to the high watermark, nothing is beyond it."""
    async with asking() as asker:
        for name, partition in (("a", 0), ("a", 1), ("/ships:a", 0)):
            found = asker.listener.find(name)
            await produced_to(found.shard, found.topic.number, partition, TEN)
        answers = await delete(
            asker, ("a", {0: 5, 1: -1, 7: 0}), ("/ships:a", {0: 11}), ("none", {0: 1}), ("a/b", {0: 1}), version=version
        )
        assert answers == {
            "a": [(0, 5, ErrorCode.none), (1, 10, ErrorCode.none), (7, -1, ErrorCode.unknown_topic_or_partition)],
            "/ships:a": [(0, -1, ErrorCode.offset_out_of_range)],
            "none": [(0, -1, ErrorCode.unknown_topic_or_partition)],
            "a/b": [(0, -1, ErrorCode.invalid_topic_exception)],
        }
        assert [await earliest(asker, "a"), await earliest(asker, "a", 1), await earliest(asker, "/ships:a")] == [
            5,
            10,
            0,
        ]
        assert await delete(asker, ("a", {0: 3}), version=version) == {"a": [(0, 5, ErrorCode.none)]}


async def test_elsewhere_than_at_its_owner_a_topic_keeps_its_records_and_the_log_names_the_owner() -> None:
    """The answer has no place for it. The code is one that clients do not try again."""
    async with asking() as asker:
        await a_copy(asker, "/ships", "copy", owner="/default")
        with capture_logs() as lines:
            assert await delete(asker, ("/ships:copy", {0: 0})) == {
                "/ships:copy": [(0, -1, ErrorCode.policy_violation)]
            }
        assert [line["why"] for line in lines] == [
            (
                "topic /ships:copy is owned by /mapr/site/default; this copy is read-only, write and change it there: "
                "it is in this cluster"
            )
        ]


async def test_a_topic_that_is_handed_over_meanwhile_is_refused_with_its_new_owner() -> None:
    """When the request came it was our own: to be told so would send whoever asks to where they are."""
    async with asking() as asker:
        found = asker.listener.find("a")

        def hand(draft: Draft) -> Topic:
            owner = (b"n" * 16, "/mapr/newyork/ships")
            return hand_over(draft, "a", to=owner[0], owner_at=owner[1], writer_epoch_id=found.shard.epoch.id)

        handing = found.shard.submit(hand)
        with capture_logs() as lines:
            assert await delete(asker, ("a", {0: 0})) == {"a": [(0, -1, ErrorCode.policy_violation)]}
        await handing
        assert "topic a is owned by /mapr/newyork/ships; this copy is read-only" in lines[0]["why"]


async def test_partitions_of_a_request_share_commits() -> None:
    """Kafka Streams names all its repartition topics in one request."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        await stream.create_topic("many", 1200)
        shard, topic = stream.topic("many")
        await produced_to(shard, topic.number, 3, TEN)
        before = shard.announced.end
        found = await delete(asker, ("many", dict.fromkeys(range(1200), -1)))
        assert [low for _, low, _ in found["many"]] == [10 if p == 3 else 0 for p in range(1200)]
        assert shard.announced.end == before + 1
