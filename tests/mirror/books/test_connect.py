"""What Kafka Connect's topic of offsets says of where a MirrorMaker 2 ended."""

from __future__ import annotations

import json

import pytest
from tests.mirror.fake import FakeCluster

from fairlead.mirror.books.connect import ends_of, mirrormaker_ends
from fairlead.mirror.ports import Place
from fairlead.model.errors import BadRequest
from fairlead.protocol.batch import build_batch

CONNECTOR = "MirrorSourceConnector"
PLACES = [Place("t", 0), Place("never mirrored", 0)]


def entry(
    cluster: str, topic: str, partition: int, offset: int | None, connector: str = CONNECTOR
) -> tuple[bytes, bytes | None]:
    """As MirrorMaker 2 writes it; None: a tombstone."""
    key = [connector, {"cluster": cluster, "partition": partition, "topic": topic}]
    return json.dumps(key).encode(), None if offset is None else json.dumps({"offset": offset}).encode()


def write(cluster: FakeCluster, topic: str, *entries: tuple[bytes, bytes | None]) -> None:
    cluster.make(topic)
    for each in entries:
        cluster.made[topic].logs[0].append(build_batch([each], timestamp_ms=1_000))


def test_the_next_offset_is_behind_the_last_one_that_was_copied() -> None:
    """Of each partition the newest record counts; a tombstone forgets it; -1 is none."""
    records = [entry("A", "t", 0, 4), entry("A", "t", 1, 9), entry("A", "t", 0, 7), entry("A", "u", 0, -1)]
    assert ends_of(records, "A") == {Place("t", 0): {CONNECTOR: 8}, Place("t", 1): {CONNECTOR: 10}}
    assert ends_of([*records, entry("A", "t", 1, None)], "A") == {Place("t", 0): {CONNECTOR: 8}}


def test_other_clusters_and_other_connectors_are_passed_over() -> None:
    """Connect keeps the heartbeats' and checkpoints' offsets in the same topic, and whatever else runs in it."""
    others: list[tuple[bytes | None, bytes | None]] = [
        entry("B", "t", 0, 4),
        (b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', b'{"offset":0}'),
        (b'["MirrorCheckpointConnector",{"group":"g","topic":"t","partition":0}]', b'{"offset":0}'),
        (b"\x00\x01", b"\x02"),
        (None, b"{}"),
        (b'["files",{"filename":"/x"}]', b'{"position":3}'),
    ]
    assert ends_of(others, "A") == {}


async def test_the_alias_is_that_of_the_one_topic_that_is_there() -> None:
    """It need not be told."""
    cluster = FakeCluster("b")
    write(cluster, "mm2-offsets.east.internal", entry("east", "t", 0, 4))
    assert await mirrormaker_ends(cluster, PLACES, None, None) == {Place("t", 0): 5}


async def test_of_several_the_alias_must_be_told() -> None:
    """The error names them."""
    cluster = FakeCluster("b")
    write(cluster, "mm2-offsets.east.internal", entry("east", "t", 0, 4))
    write(cluster, "mm2-offsets.west.internal", entry("west", "t", 0, 6))
    with pytest.raises(BadRequest, match="east, west"):
        await mirrormaker_ends(cluster, PLACES, None, None)
    assert await mirrormaker_ends(cluster, PLACES, "west", None) == {Place("t", 0): 7}


async def test_connect_may_keep_them_in_a_topic_of_its_own() -> None:
    """Where MirrorMaker 2 ran as connectors of a Connect cluster."""
    cluster = FakeCluster("b")
    write(cluster, "connect-offsets", entry("east", "t", 0, 4), entry("west", "t", 0, 6))
    assert await mirrormaker_ends(cluster, PLACES, "east", "connect-offsets") == {Place("t", 0): 5}


def test_what_one_connector_forgets_another_one_still_says() -> None:
    """A connector was made anew under another name, and what the old one had left was deleted then."""
    records = [entry("A", "t", 0, 4, "old"), entry("A", "t", 0, 9, "new"), entry("A", "t", 0, None, "old")]
    assert ends_of(records, "A") == {Place("t", 0): {"new": 10}}


async def test_of_connectors_that_ended_at_different_offsets_one_must_be_told() -> None:
    """They may have mirrored to different clusters: to go on where the other one ended would lose records."""
    cluster = FakeCluster("b")
    ours, others = entry("A", "t", 0, 4, "to-b"), entry("A", "t", 0, 9, "to-c")
    write(cluster, "connect-offsets", ours, others, entry("A", "u", 0, 2, "to-c"))
    assert await mirrormaker_ends(cluster, [Place("u", 0)], "A", "connect-offsets") == {Place("u", 0): 3}
    with pytest.raises(BadRequest, match=r"topic t, partition 0: to-b at 5, to-c at 10; write .*mm2:A,TOPIC,CONNECTOR"):
        await mirrormaker_ends(cluster, PLACES, "A", "connect-offsets")
    assert await mirrormaker_ends(cluster, PLACES, "A", "connect-offsets", "to-b") == {Place("t", 0): 5}
    with pytest.raises(BadRequest, match="no offsets of a cluster A and a connector none"):
        await mirrormaker_ends(cluster, PLACES, "A", "connect-offsets", "none")


async def test_without_offsets_it_does_not_begin_at_the_start_unasked() -> None:
    """Whoever says --from mm2 and has no offsets there would copy everything again."""
    cluster = FakeCluster("b")
    with pytest.raises(BadRequest, match="--from mm2:ALIAS,TOPIC"):
        await mirrormaker_ends(cluster, PLACES, None, None)
    with pytest.raises(BadRequest, match=r"no topic mm2-offsets\.A\.internal"):
        await mirrormaker_ends(cluster, PLACES, "A", None)
    write(cluster, "mm2-offsets.A.internal", entry("B", "t", 0, 4))
    with pytest.raises(BadRequest, match="no offsets of a cluster A"):
        await mirrormaker_ends(cluster, PLACES, "A", None)
