"""Heartbeats in MirrorMaker 2's form."""

from __future__ import annotations

import pytest

from fairlead.mirror.books.heartbeats import heartbeat
from fairlead.model.errors import BadRequest
from tests.mirror.fake import FakeCluster
from tests.mirror.world import World
from tests.support.waiting import until


def test_a_heartbeat_has_the_bytes_that_java_reads() -> None:
    """Big-endian; texts behind their lengths; version 0."""
    key, value = heartbeat("A", "Bé", 0x0102030405060708)
    assert key == b"\x00\x01A\x00\x03B\xc3\xa9"
    assert value == b"\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08"


async def test_heartbeats_are_written_at_both_ends_and_mirrored(world: World) -> None:
    """That of the flow at the destination; at the source that of the way back, which comes as `A.heartbeats`."""
    asked = {"heartbeats": True, "source_aliases": ["A"], "target_alias": "B", "whitelist": "no-such-topic"}
    async with world.running(**asked) as mirror:
        await until(lambda: world.b.values("A.heartbeats") != [])
        await until(lambda: world.b.values("heartbeats") != [])
    assert {record.key for record in world.b.records("heartbeats")} == {heartbeat("A", "B", 0)[0]}
    assert {record.key for record in world.b.records("A.heartbeats")} == {heartbeat("B", "A", 0)[0]}
    assert world.a.made["heartbeats"].configs["cleanup.policy"].value == "compact"
    assert mirror.tally.clean


class WithoutHeartbeats(FakeCluster):
    """Refuses to make that topic."""

    async def create(self, topic: str, *given: object) -> bool:
        if topic == "heartbeats":
            raise BadRequest("not allowed")
        return await super().create(topic, *given)  # type: ignore[arg-type]


async def test_where_heartbeats_are_refused_records_are_mirrored_all_the_same(world: World) -> None:
    """It is told: at a source one often may only read."""
    world.a = WithoutHeartbeats("a")
    world.a.make("t")
    async with world.running(heartbeats=True, source_aliases=["A"], target_alias="B") as mirror:
        world.a.put("t", 0, [b"x"])
        await until(lambda: world.b.values("t") == [b"x"])
        await until(lambda: world.b.values("heartbeats") != [])
    assert mirror.tally.clean
    assert any("heartbeats at the source" in what and "not allowed" in why for what, why in mirror.tally.notes.items())


def test_heartbeats_name_the_clusters(world: World) -> None:
    """So the clusters need names."""
    with pytest.raises(BadRequest, match=r"--source\.alias"):
        world.mirror(heartbeats=True)
    with pytest.raises(BadRequest, match=r"--emit\.heartbeats\.interval\.seconds 0"):
        world.mirror(heartbeats=True, source_aliases=["a"], heartbeats_seconds=0)
