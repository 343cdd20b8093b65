"""Topics that the source keeps, and that the destination owns."""

from __future__ import annotations

from uuid import UUID

from fairlead.mirror.configs import Setting
from fairlead.model.errors import NotAllowed
from fairlead.model.kafka_clusters import ORIGIN_CLUSTER, owner_of
from tests.mirror.fake import FakeCluster
from tests.mirror.world import World
from tests.support.waiting import until


def keeps(cluster: FakeCluster, topic: str, of: str) -> None:
    """The topic is one of the Kafka cluster with that id, which a stream keeps."""
    cluster.make(topic)
    cluster.made[topic].configs[ORIGIN_CLUSTER] = Setting(str(UUID(bytes=owner_of(of))), False, True)


async def test_a_topic_that_the_destination_owns_does_not_go_back_there(world: World) -> None:
    """One of another Kafka cluster goes. Under a prefix it would be a new topic there, which the stream keeps too, and
    so on for ever."""
    keeps(world.a, "ours", of="b")
    keeps(world.a, "theirs", of="c")
    world.a.make("own")
    mirror = await world.once()
    assert world.b.made.keys() & {"ours", "theirs", "own"} == {"theirs", "own"}
    assert "the destination owns it" in mirror.tally.notes["topic ours"]
    await world.once(prefix="x.")
    assert "x.own" in world.b.made
    assert "x.ours" not in world.b.made
    assert ORIGIN_CLUSTER not in world.b.made["theirs"].configs


async def test_once_it_is_taken_over_it_goes(world: World) -> None:
    """It is another's topic then."""
    keeps(world.a, "t", of="b")
    async with world.running() as mirror:
        await until(lambda: "topic t" in mirror.tally.notes)
        assert "t" not in world.b.made
        del world.a.made["t"].configs[ORIGIN_CLUSTER]
        await until(lambda: "t" in world.b.made)


async def test_who_hides_the_settings_of_its_topics_is_mirrored_as_ever(world: World) -> None:
    """As Kafka does from those who may only read."""
    for each in (world.a, world.b):
        each.make("t")
    world.a.put("t", 0, [b"a"])
    world.a.refuses_configs = NotAllowed("topic t: TOPIC_AUTHORIZATION_FAILED")
    await world.once(sync_topic_configs="false")
    assert world.b.values("t") == [b"a"]
