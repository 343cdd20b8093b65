"""What of a topic follows its source, between clusters in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from fairlead.kafka import Acl
from fairlead.mirror.configs import Copied, Setting
from fairlead.mirror.following.acls import copy_of
from fairlead.mirror.following.settings import changes_of
from fairlead.model.errors import FairleadError, UnknownTopic
from fairlead.protocol.batch import build_batch
from tests.mirror.fake import FakeCluster
from tests.mirror.world import World
from tests.support.waiting import until

READ, WRITE, ALL, DESCRIBE = 3, 4, 2, 8
DENY, ALLOW = 2, 3
USER = "User:u"


def setting(cluster: FakeCluster, name: str, topic: str = "t") -> Setting | None:
    return cluster.made[topic].configs.get(name)


# ---------------------------------------------------------------- settings


async def test_settings_that_change_later_follow_their_source(world: World) -> None:
    """Set, changed, and given their default again."""
    world.a.make("t", retention_ms="1000")
    async with world.running() as mirror:
        await until(lambda: "t" in world.b.made)
        assert setting(world.b, "retention.ms") == Setting("1000", True)
        world.a.make_setting("t", "retention.ms", "2000")
        world.a.make_setting("t", "segment.bytes", "777777")
        await until(lambda: setting(world.b, "segment.bytes") == Setting("777777", True))
        assert setting(world.b, "retention.ms") == Setting("2000", True)
        world.a.make_setting("t", "retention.ms", None)
        await until(lambda: setting(world.b, "retention.ms") == Setting("604800000", False))
    assert mirror.tally.settings_changed == 3


async def test_settings_of_a_topic_that_was_there_before_follow_too(world: World) -> None:
    """But for those that belong to a place, and those that are excluded by the user."""
    world.a.make("t", retention_ms="1000", min_insync_replicas="2", segment_ms="5")
    world.b.make("t", retention_ms="9", min_insync_replicas="1", flush_ms="3")
    await world.once(config_properties_exclude="segment.*, flush.*, min.*")
    assert setting(world.b, "retention.ms") == Setting("1000", True)
    assert setting(world.b, "min.insync.replicas") == Setting("1", True)
    assert setting(world.b, "flush.ms") == Setting("3", True)
    assert setting(world.b, "segment.ms") is None


@pytest.mark.parametrize("turned", [False, True])
async def test_of_a_topic_that_is_mirrored_both_ways_what_is_set_at_one_end_goes_to_the_other(
    world: World, turned: bool
) -> None:
    """Whichever of the two mirrors looks first: what comes from the other end does not take it back."""
    here, there = (world.b, world.a) if turned else (world.a, world.b)
    world.a.make("t", retention_ms="1000", flush_ms="1")
    world.b.make("t", retention_ms="1000", flush_ms="2")
    back: dict[str, Any] = {"to": world.a, "name": "back", "group": "y"}
    await world.once(sync_topic_configs="false")
    await world.once(world.b, sync_topic_configs="false", **back)
    async with world.running(), world.running(world.b, **back):
        await until(lambda: sum("is mirrored both ways" in line for line in world.said) == 2)
        for number in range(1, 20):
            value = str(1000 + number)
            here.make_setting("t", "retention.ms", value)
            here.make_setting("t", "segment.bytes", value)
            await until(lambda value=value: setting(there, "segment.bytes") == Setting(value, True))  # type: ignore[misc]
            assert setting(here, "retention.ms") == setting(there, "retention.ms") == Setting(value, True)
        here.make_setting("t", "retention.ms", None)
        await until(lambda: setting(there, "retention.ms") == Setting("604800000", False))
    assert setting(here, "retention.ms") == Setting("604800000", False)
    assert (setting(world.a, "flush.ms"), setting(world.b, "flush.ms")) == (Setting("1", True), Setting("2", True))


async def test_of_a_topic_that_is_mirrored_both_ways_nothing_is_set_that_differed_before(world: World) -> None:
    """Nobody knows which end is right, so it is told."""
    for cluster, value in ((world.a, "1"), (world.b, "2")):
        cluster.make("t", retention_ms=value)
    await world.once(world.b, to=world.a, name="back", group="y", sync_topic_configs="false")
    await world.once()
    assert setting(world.b, "retention.ms") == Setting("2", True)
    assert any("is mirrored both ways" in line and "retention.ms" in line for line in world.said)


async def test_nothing_follows_when_that_is_asked_for(world: World) -> None:
    world.a.make("t", retention_ms="1000")
    world.b.make("t", retention_ms="9")
    await world.once(sync_topic_configs="false")
    assert setting(world.b, "retention.ms") == Setting("9", True)


async def test_the_defaults_of_the_source_are_brought_when_that_is_asked_for(world: World) -> None:
    """As settings of the topic."""
    world.a.make("t")
    world.a.made["t"].configs["retention.ms"] = Setting("5", False)
    await world.once()
    assert setting(world.b, "retention.ms") == Setting("604800000", False)
    await world.once(use_defaults_from="source")
    assert setting(world.b, "retention.ms") == Setting("5", True)


async def test_what_is_equal_is_not_written_again(world: World) -> None:
    world.a.make("t", retention_ms="1000")
    await world.once()
    world.b.altered.clear()
    await world.once()
    assert not world.b.altered


async def test_a_setting_that_the_destination_refuses_is_told_once_and_the_others_follow(world: World) -> None:
    """By name; it is no failure."""
    world.a.make("t", retention_ms="1000", strange_setting="1")
    world.b.make("t")
    world.b.unknown_settings.add("strange.setting")
    async with world.running() as mirror:
        await until(lambda: setting(world.b, "retention.ms") == Setting("1000", True))
        world.a.make_setting("t", "retention.ms", "2000")
        await until(lambda: setting(world.b, "retention.ms") == Setting("2000", True))
    told = [line for line in world.said if "strange.setting" in line]
    assert len(told) == 1
    assert "topic t does not get the source's strange.setting = 1: topic t: INVALID_CONFIG" in told[0]
    assert mirror.tally.clean


@pytest.mark.parametrize("side", ["a", "b"])
async def test_settings_of_a_topic_that_are_not_told_hold_up_no_others(world: World, side: str) -> None:
    """That is told once."""
    for topic in ("t", "u"):
        world.a.make(topic)
    async with world.running() as mirror:
        await until(lambda: {"t", "u"} <= world.b.made.keys())
        (world.a if side == "a" else world.b).hides_configs = {"t"}
        for number in ("1000", "2000"):
            for topic in ("t", "u"):
                world.a.make_setting(topic, "retention.ms", number)
            await until(lambda number=number: setting(world.b, "retention.ms", "u") == Setting(number, True))  # type: ignore[misc]
        assert setting(world.b, "retention.ms") == Setting("604800000", False)
    assert len([line for line in world.said if "settings of 1 topics do not follow" in line]) == 1
    assert mirror.tally.clean


async def test_a_dry_run_shows_what_differs(world: World) -> None:
    """And changes nothing."""
    world.a.make("t", retention_ms="1000")
    world.b.make("t", segment_ms="5")
    await world.mirror(dry_run=True).run()
    assert "  t: retention.ms = 1000" in world.said
    assert "  t: segment.ms gets its default" in world.said
    assert not world.b.altered


def test_what_stands_in_a_brokers_file_is_no_default_of_a_source() -> None:
    """As MirrorMaker 2 has it."""
    there = {"a": Setting("1", False, True), "b": Setting("2", False)}
    there["message.timestamp.after.max.ms"] = Setting("3", True)
    assert changes_of(there, {}, Copied(defaults_of_source=True)) == {"b": "2"}


# ---------------------------------------------------------------- access rules


@pytest.mark.parametrize(
    ("acl", "copy"),
    [
        (Acl("t", USER, "*", READ, ALLOW), Acl("a.t", USER, "*", READ, ALLOW)),
        (Acl("t", USER, "*", WRITE, ALLOW), None),
        (Acl("t", USER, "*", WRITE, DENY), Acl("a.t", USER, "*", WRITE, DENY)),
        (Acl("t", USER, "h", ALL, ALLOW), Acl("a.t", USER, "h", READ, ALLOW)),
        (Acl("t", USER, "*", ALL, DENY), Acl("a.t", USER, "*", ALL, DENY)),
        (Acl("other", USER, "*", READ, ALLOW), None),
        (Acl("*", USER, "*", READ, ALLOW), None),
    ],
)
def test_rules_are_copied_as_mirrormaker_2_has_it(acl: Acl, copy: Acl | None) -> None:
    """No right to write goes along; all rights become the right to read."""
    assert copy_of(acl, {"t": "a.t"}) == copy


async def test_access_rules_follow_when_that_is_asked_for(world: World) -> None:
    """Each once, however often is looked."""
    world.a.make("t")
    world.a.known_acls = [Acl("t", USER, "*", ALL, ALLOW), Acl("t", USER, "*", READ, ALLOW)]
    world.b.known_acls = []
    await world.once(prefix="a.")
    assert not world.b.known_acls
    async with world.running(prefix="a.", sync_topic_acls=True) as mirror:
        await until(lambda: world.b.known_acls == [Acl("a.t", USER, "*", READ, ALLOW)])
        world.a.known_acls.append(Acl("t", USER, "*", DESCRIBE, DENY))
        await until(lambda: len(world.b.known_acls or ()) == 2)
    assert mirror.tally.acls_made == 2


async def test_a_rule_that_is_refused_holds_up_no_others(world: World) -> None:
    """It is tried again with each look, and told once."""
    for topic in ("t", "u"):
        world.a.make(topic)
    world.a.known_acls = [Acl(topic, USER, "*", READ, ALLOW) for topic in ("t", "u")]
    world.b.known_acls = []
    world.b.refuses_acls = {"t"}
    async with world.running(sync_topic_acls=True) as mirror:
        await until(lambda: any("1 of them are refused; the first: an ACL of topic t" in line for line in world.said))
        assert [acl.topic for acl in world.b.known_acls] == ["u"]
        assert mirror.tally.acls_made == 1
        world.b.refuses_acls.clear()
        await until(lambda: len(world.b.known_acls or ()) == 2)
    assert len([line for line in world.said if "are refused" in line]) == 1


async def test_a_cluster_without_an_authorizer_is_told_once(world: World) -> None:
    """The mirror goes on."""
    world.a.make("t")
    async with world.running(sync_topic_acls=True) as mirror:
        await until(lambda: any("SECURITY_DISABLED" in line for line in world.said))
        world.a.put("t", 0, [b"1"])
        await until(lambda: world.b.values("t") == [b"1"])
    assert len([line for line in world.said if "SECURITY_DISABLED" in line]) == 1
    assert (mirror.tally.clean, mirror.tally.failing) == (True, {})
    assert (await world.once(sync_topic_acls=True)).clean


@pytest.mark.parametrize("refuses", ["makes", "settings", "limits"])
async def test_a_topic_that_is_refused_is_named_and_the_others_are_mirrored(world: World, refuses: str) -> None:
    """Those that are there, and those that come; with a start as with a look. It is tried again, and goes then."""
    for topic in ("t", "bad"):
        world.a.make(topic)
        world.a.put(topic, 0, [b"1"])
    world.b.may_not_make = {"bad", "worse"} if refuses == "makes" else set()
    world.a.hides_configs = {"bad", "worse"} if refuses == "settings" else set()
    world.b.hides_configs = {"bad", "worse"} if refuses == "limits" else set()
    for _ in range(2):
        mirror = await world.once()
        assert list(mirror.tally.stops) == ["topic bad"]
    async with world.running() as mirror:
        await until(lambda: world.b.values("t") == [b"1"])
        for topic in ("worse", "u"):
            world.a.make(topic)
            world.a.put(topic, 0, [b"2"])
        await until(lambda: world.b.values("u") == [b"2"])
        await until(lambda: "topic worse" in mirror.tally.stops)
        assert sorted(mirror.tally.stops) == ["topic bad", "topic worse"]
        assert any(name in mirror.tally.stops["topic bad"] for name in ("POLICY_VIOLATION", "AUTHORIZATION_FAILED"))
        for names in (world.b.may_not_make, world.a.hides_configs, world.b.hides_configs):
            names.clear()
        await until(lambda: world.b.values("bad") == [b"1"] and world.b.values("worse") == [b"2"])
    assert mirror.tally.clean


async def test_a_topic_that_gets_no_more_partitions_is_named_and_the_others_go_on(world: World) -> None:
    """So do the partitions that it has."""
    for topic in ("t", "u"):
        world.a.make(topic)
    async with world.running() as mirror:
        await until(lambda: {"t", "u"} <= world.b.made.keys())
        world.b.may_not_make = {"t"}
        for topic in ("t", "u"):
            await world.a.grow(topic, 2)
            for partition in (0, 1):
                world.a.put(topic, partition, [b"1"])
        await until(lambda: "topic t" in mirror.tally.stops and len(world.b.made["u"].logs) == 2)
        await until(lambda: world.b.values("u", 0) == world.b.values("u", 1) == world.b.values("t", 0) == [b"1"])
        assert len(world.b.made["t"].logs) == 1


@pytest.mark.parametrize(("side", "number"), [("a", 2), ("b", 1)])
async def test_a_topic_that_goes_between_the_look_and_a_question_is_looked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch, side: str, number: int
) -> None:
    """It ends nothing; what came beside it is mirrored. `number`: of the question, of those that name the topic."""
    cluster = world.a if side == "a" else world.b
    configs = cluster.configs
    asked: list[str] = []

    async def goes(topics: Iterable[str]) -> Mapping[str, Mapping[str, Setting] | FairleadError]:
        topics = list(topics)
        asked.extend({"going"} & set(topics))
        found = await configs(topics)
        if "going" in topics and len(asked) == number:
            return {**found, "going": UnknownTopic("topic going: UNKNOWN_TOPIC_OR_PARTITION")}
        return found

    monkeypatch.setattr(cluster, "configs", goes)
    async with world.running() as mirror:
        await until(lambda: any("nothing behind" in line for line in world.said))
        for topic in ("going", "t"):
            world.a.make(topic)
            world.a.put(topic, 0, [b"1"])
        await until(lambda: world.b.values("going") == world.b.values("t") == [b"1"])
    assert len(asked) > number
    assert mirror.tally.clean


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_topic_that_takes_less_than_before_gets_smaller_batches(
    world: World, exactly_once: bool, partitions: int
) -> None:
    """Its setting follows the source while what it is mirrored to is known from before. Of one record alone nothing can
    be made smaller."""
    world.a.make("t")
    world.b.make("t", partitions)
    log = world.a.made["t"].logs[0]
    values = [b"%03d" % number + bytes(100) for number in range(90)]

    def put(some: list[bytes]) -> None:
        log.append(build_batch([(b"k", value) for value in some], timestamp_ms=1_000))
        world.a.change()

    def found() -> list[bytes | None]:
        return [value for number in range(partitions) for value in world.b.values("t", number)]

    async with world.running(exactly_once=exactly_once) as mirror:
        put(values[:30])
        await until(lambda: found() == values[:30])
        world.a.make_setting("t", "max.message.bytes", "1200")
        await until(lambda: world.b.made["t"].configs["max.message.bytes"].value == "1200")
        put(values[30:60])
        put(values[60:])
        await until(lambda: len(found()) >= 90)
        assert world.b.too_large
        assert mirror.tally.clean
        refused = world.b.too_large
        put(values)
        await until(lambda: len(found()) >= 180)
        assert world.b.too_large == refused
        put([bytes(2_000)])
        await until(lambda: mirror.tally.stops)
    assert found() == [*values, *values]
    assert "max.message.bytes" in next(iter(mirror.tally.stops.values()))
