"""Topics that the source keeps, and that the destination owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest

from fairlead.mirror.configs import Setting
from fairlead.mirror.ports import Topic
from fairlead.model.kafka_clusters import ORIGIN_CLUSTER, ORIGIN_TOPIC, owner_of
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


def take_over(cluster: FakeCluster, topic: str, was: bytes) -> None:
    """The topic is the source's own from now on; the Kafka cluster gave it the id `was`."""
    configs = cluster.made[topic].configs
    configs.pop(ORIGIN_CLUSTER, None)
    configs[ORIGIN_TOPIC] = Setting(str(UUID(bytes=was)), False, True)


def keep_at_both(world: World) -> None:
    """A stream keeps `t` of the destination."""
    world.b.make("t")
    keeps(world.a, "t", of="b")
    for each in (world.a, world.b):
        each.put("t", 0, [b"1", b"2"])


async def test_once_it_is_taken_over_it_is_not_written_into_itself(world: World) -> None:
    """The destination has its records already. Under another name it goes, and so it does once it is deleted there."""
    keep_at_both(world)
    world.a.make("u")
    async with world.running() as mirror:
        await until(lambda: "owns it" in mirror.tally.notes.get("topic t", ""))
        take_over(world.a, "t", world.b.made["t"].topic_id)
        await until(lambda: "--from latest" in mirror.tally.notes["topic t"])
        world.a.put("u", 0, [b"x"])
        await until(lambda: world.b.values("u") == [b"x"])
        assert world.b.values("t") == [b"1", b"2"]
    await world.once()
    assert world.b.values("t") == [b"1", b"2"]
    await world.once(prefix="x.", name="other")
    assert world.b.values("x.t") == [b"1", b"2"]
    async with world.running(name="third"):
        del world.b.made["t"]
        await until(lambda: world.b.values("t") == [b"1", b"2"])


async def test_a_destination_that_does_not_name_the_topic_for_a_moment_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there as it is to be made, and nothing is written into it."""
    keep_at_both(world)
    named, hidden = world.b.topics, {"t"}

    async def topics(names: Iterable[str] | None) -> Mapping[str, Topic]:
        return {name: each for name, each in (await named(names)).items() if names is not None or name not in hidden}

    async with world.running() as mirror:
        await until(lambda: "owns it" in mirror.tally.notes.get("topic t", ""))
        monkeypatch.setattr(world.b, "topics", topics)
        take_over(world.a, "t", world.b.made["t"].topic_id)
        await until(lambda: "there after all" in (mirror.sources[0].trouble or ""))
        hidden.clear()
        await until(lambda: "--from latest" in mirror.tally.notes["topic t"])
        assert world.b.values("t") == [b"1", b"2"]


async def test_what_comes_after_it_was_taken_over_goes_where_that_is_asked_for(world: World) -> None:
    """Once: from then on the books know it. A mirror that was running waits until it is started so anew."""
    keep_at_both(world)
    async with world.running(begin="latest") as mirror:
        await until(lambda: "topic t" in mirror.tally.notes)
        take_over(world.a, "t", world.b.made["t"].topic_id)
        await until(lambda: "--from latest" in mirror.tally.notes["topic t"])
    async with world.running(begin="latest") as mirror:
        await until(lambda: any(each.copies for each in mirror.sources))
        world.a.put("t", 0, [b"3"])
        await until(lambda: world.b.values("t") == [b"1", b"2", b"3"])
    world.a.put("t", 0, [b"4"])
    await world.once()
    assert world.b.values("t") == [b"1", b"2", b"3", b"4"]


async def test_a_topic_that_was_taken_over_from_elsewhere_goes(world: World) -> None:
    """Into a topic that happens to have its name too."""
    keep_at_both(world)
    take_over(world.a, "t", b"another topic id")
    await world.once()
    assert world.b.values("t") == [b"1", b"2", b"1", b"2"]


async def test_who_hides_the_settings_of_its_topics_is_mirrored_as_ever(world: World) -> None:
    """As Kafka does from those who may only read. What others say of themselves counts."""
    for each in (world.a, world.b):
        each.make("t")
    keeps(world.a, "ours", of="b")
    world.a.put("t", 0, [b"a"])
    world.a.hides_configs = {"t"}
    await world.once(sync_topic_configs="false")
    assert world.b.values("t") == [b"a"]
    assert "ours" not in world.b.made
