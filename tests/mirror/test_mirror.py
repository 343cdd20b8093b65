"""What a mirror does with topics of clusters in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.configs import Setting
from fairlead.mirror.names import positions_topic
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import LATEST, Place, Topic
from fairlead.mirror.running.mirror import Mirror
from fairlead.model.errors import (
    BadRequest,
    FairleadError,
    Fenced,
    InvalidValue,
    NotAllowed,
    TryAgain,
    UnknownPartition,
    Unreachable,
)
from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch, set_offset
from tests.mirror.fake import FakeCluster
from tests.mirror.world import QUICK, World
from tests.support.waiting import a_quiet_while, in_time, until


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def stopped(mirror: Mirror) -> str:
    """Why the one partition stands still."""
    assert len(mirror.tally.stops) == 1, mirror.tally.stops
    return next(iter(mirror.tally.stops.values()))


async def test_everything_that_is_there_is_mirrored_once(world: World) -> None:
    """With its values, in its partitions, in order; the topic is made like the source's."""
    world.a.make("t", 3, retention_ms="1000", message_timestamp_type="LogAppendTime")
    for partition in range(3):
        world.a.put("t", partition, [b"%d-%d" % (partition, number) for number in range(10)])
    mirror = await world.once()
    for partition in range(3):
        assert world.b.values("t", partition) == [b"%d-%d" % (partition, number) for number in range(10)]
    assert mirror.tally.clean
    assert mirror.tally.records == 30
    made = world.b.made["t"].configs
    assert made["retention.ms"] == Setting("1000", True)
    assert "message.timestamp.type" not in made
    assert int(made["message.timestamp.after.max.ms"].value) == 2**63 - 1


async def test_a_second_run_goes_on_where_the_first_ended(world: World) -> None:
    """By the positions at the destination, whatever became of the group's offsets at the source."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 2))
    await world.once()
    world.a.group_offsets.clear()
    world.a.put("t", 0, numbers(2, 3))
    await world.once()
    assert world.b.values("t") == numbers(0, 3)


async def test_what_comes_while_it_runs_is_mirrored(world: World) -> None:
    """Records, partitions and topics."""
    world.a.make("t")
    async with world.running() as mirror:
        world.a.put("t", 0, [b"1"])
        await until(lambda: world.b.values("t") == [b"1"])
        await world.a.grow("t", 2)
        world.a.put("t", 1, [b"2"])
        world.a.make("u")
        world.a.put("u", 0, [b"3"])
        await until(lambda: len(world.b.made["t"].logs) == 2 and world.b.values("t", 1) == [b"2"])
        await until(lambda: world.b.values("u") == [b"3"])
    assert "keys have other partitions" in mirror.tally.notes["t"]


async def test_a_topic_that_grew_while_the_mirror_was_off_grows_with_the_next_start(world: World) -> None:
    """It was mirrored before, so its partitions follow the source's."""
    world.a.make("t")
    await world.once()
    await world.a.grow("t", 3)
    world.a.put("t", 2, [b"x"])
    await world.once()
    assert world.b.values("t", 2) == [b"x"]


async def test_new_partitions_are_waited_for_until_the_brokers_show_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker hears of them after the controller, and another one later still."""
    shown_late = [True, True, True]
    topics, offsets = world.b.topics, world.b.offsets

    async def late_topics(names: Iterable[str] | None) -> Mapping[str, Topic]:
        found = dict(await topics(names))
        if names is not None and "t" in found and found["t"].partitions == 2 and len(shown_late) > 1:
            shown_late.pop()
            found["t"] = found["t"]._replace(partitions=1)
        return found

    async def late_offsets(places: Iterable[Place], at: int) -> Mapping[Place, int]:
        places = list(places)
        if Place("t", 1) in places and shown_late:
            assert len(shown_late) == 1
            shown_late.pop()
            raise UnknownPartition("topic t, partition 1: the topic has 1 partitions")
        return await offsets(places, at)

    monkeypatch.setattr(world.b, "topics", late_topics)
    monkeypatch.setattr(world.b, "offsets", late_offsets)
    world.a.make("t")
    await world.once()
    await world.a.grow("t", 2)
    world.a.put("t", 1, [b"x"])
    await world.once()
    assert world.b.values("t", 1) == [b"x"]
    assert not shown_late


@pytest.mark.parametrize("applied", [True, False])
async def test_partitions_that_were_added_without_an_answer_are_not_refused_when_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    """Kafka refuses the same number. If there are too few all the same, the topic stands still."""
    grow = world.b.grow

    async def grow_again(topic: str, partitions: int) -> None:
        if applied:
            await grow(topic, partitions)
        raise InvalidValue(f"topic {topic}: INVALID_PARTITIONS")

    monkeypatch.setattr(world.b, "grow", grow_again)
    world.a.make("t")
    await world.once()
    await world.a.grow("t", 2)
    world.a.put("t", 1, [b"x"])
    mirror = await world.once()
    assert ["INVALID_PARTITIONS" in why for why in mirror.tally.stops.values()] == [True] * (not applied)
    assert len(world.b.made["t"].logs) == 1 + applied


async def test_a_topic_gets_as_many_replicas_as_are_asked_for(world: World) -> None:
    """The mirror's own books get what is usual there."""
    world.a.make("t")
    await world.once(replication=3)
    assert world.b.replicas["t"] == 3
    assert world.b.replicas["fairlead-mirror.m.internal"] == -1


async def test_a_partition_that_the_destination_lacks_stops_where_its_number_is_to_be_kept(world: World) -> None:
    """The original dropped its records. The others go on."""
    world.a.make("t", 3)
    world.b.make("t", 2)
    for partition in range(3):
        world.a.put("t", partition, [b"%d" % partition])
    mirror = await world.once(preserve_partitions=True)
    assert "topic t, partition 2" in mirror.tally.stops
    assert "t has 2 partitions" in stopped(mirror)
    assert [world.b.values("t", partition) for partition in range(2)] == [[b"0"], [b"1"]]
    assert not mirror.tally.clean


async def test_partitions_are_kept_where_that_is_asked_for(world: World) -> None:
    """Also in a topic that has more."""
    world.a.make("t", 2)
    world.b.make("t", 5)
    for partition in range(2):
        world.a.put("t", partition, numbers(0, 9), key=b"same")
    await world.once(preserve_partitions=True)
    assert [len(world.b.values("t", partition)) for partition in range(5)] == [9, 9, 0, 0, 0]


async def test_a_key_chooses_the_partition_where_there_are_others(world: World) -> None:
    """As Java's producers do: all records of a key lie in one partition, in order."""
    world.a.make("t", 2)
    world.b.make("t", 5)
    world.a.put("t", 0, numbers(0, 9), key=b"one")
    world.a.put("t", 1, numbers(0, 9), key=b"other")
    await world.once()
    found = [world.b.records("t", partition) for partition in range(5)]
    for key in (b"one", b"other"):
        assert [
            [record.value for record in part if record.key == key] for part in found if key in {r.key for r in part}
        ] == [numbers(0, 9)]


async def test_a_prefix_stands_before_the_names_at_the_destination(world: World) -> None:
    """Within one cluster too, where copies are not copied again."""
    world.a.make("t")
    world.a.put("t", 0, [b"1"])
    await world.once(prefix="dc1_")
    assert world.b.values("dc1_t") == [b"1"]
    for _ in range(2):
        await world.once(to=world.a, name="within", prefix="mirror_", begin="earliest")
    assert world.a.values("mirror_t") == [b"1"]
    assert "mirror_mirror_t" not in world.a.made


async def test_other_topics_are_left_alone(world: World) -> None:
    """What the whitelist does not match, what the blacklist matches."""
    for topic in ("ships", "weather"):
        world.a.make(topic)
    await world.once(whitelist="ship.")
    assert "weather" not in world.b.made
    await world.once(name="other", whitelist=None, blacklist="ship.")
    assert "weather" in world.b.made


async def test_records_of_aborted_transactions_are_left_out_and_counted(world: World) -> None:
    """And so are the markers; the position goes over them."""
    world.a.make("t")
    log = world.a.made["t"].logs[0]
    data = build_batch([(b"k", b"gone")], producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    log.append(data)
    abort = build_batch([(bytes(4), bytes(6))], producer_id=7, producer_epoch=0, attributes=TRANSACTIONAL | CONTROL)
    log.append(abort)
    log.aborted.append((7, 0))
    world.a.put("t", 0, [b"there"])
    mirror = await world.once()
    assert world.b.values("t") == [b"there"]
    assert mirror.tally.aborted_records == 1
    assert mirror.left == 0


async def test_an_open_transaction_is_not_passed(world: World) -> None:
    """A mirror that ends with what is there does not wait for it either."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    world.a.made["t"].logs[0].held_at = 3
    await world.once()
    assert world.b.values("t") == numbers(0, 3)
    world.a.made["t"].logs[0].held_at = None
    await world.once()
    assert world.b.values("t") == numbers(0, 5)


# ---------------------------------------------------------------- where partitions begin


@pytest.mark.parametrize(("begin", "found"), [("earliest", 6), ("latest", 0), ("group", 2), ("1970-01-01T00:00:02", 3)])
async def test_a_partition_without_a_position_begins_where_it_is_told(world: World, begin: str, found: int) -> None:
    """And goes on from there: after a restart too, though nothing was mirrored yet."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    log = world.a.made["t"].logs[0]
    for number in range(3, 6):
        log.append(build_batch([(b"k", b"%d" % number)], timestamp_ms=2_000))
    world.a.group_offsets["g"] = {Place("t", 0): (4, -1)}
    await world.once(begin=begin)
    assert world.b.values("t") == numbers(6 - found, 6)
    world.a.put("t", 0, numbers(6, 8))
    await world.once(begin=begin)
    assert world.b.values("t") == numbers(6 - found, 8)


async def test_topics_that_appear_later_are_mirrored_from_their_start(world: World) -> None:
    """Whatever `--from` says of those that were there."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with world.running(begin="latest"):
        await until(lambda: "t" in world.b.made)
        world.a.make("new")
        world.a.put("new", 0, numbers(0, 3))
        await until(lambda: world.b.values("new") == numbers(0, 3))
    assert world.b.values("t") == []


async def test_a_topic_that_appears_while_the_destination_is_away_for_a_moment_is_mirrored_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made there, and its settings could not be read: the next look begins it, from its start."""
    away = [True]
    configs = world.b.configs

    async def sometimes(topics: Iterable[str]) -> Mapping[str, Mapping[str, Setting] | FairleadError]:
        topics = list(topics)
        if "new" in topics and away:
            away.pop()
            raise Unreachable("cluster b does not answer")
        return await configs(topics)

    monkeypatch.setattr(world.b, "configs", sometimes)
    world.a.make("t")
    async with world.running(begin="latest"):
        await until(lambda: "t" in world.b.made)
        world.a.make("new")
        world.a.put("new", 0, numbers(0, 3))
        await until(lambda: world.b.values("new") == numbers(0, 3))
    assert not away


# ---------------------------------------------------------------- losses at the source


async def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(world: World) -> None:
    """Its offsets mean other records: it stands still until somebody has looked, then begins at its start."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    await world.once()
    del world.a.made["t"]
    world.a.make("t")
    world.a.put("t", 0, [b"new"])
    for _ in range(2):
        mirror = await world.once()
        assert "made again" in stopped(mirror)
        assert world.b.values("t") == numbers(0, 5)
    await world.once(on_recreated="continue")
    assert world.b.values("t") == [*numbers(0, 5), b"new"]
    assert (await world.once()).tally.clean


async def test_a_topic_that_is_made_again_while_the_mirror_runs_is_noticed(world: World) -> None:
    """By its id."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    async with world.running() as mirror:
        await until(lambda: world.b.values("t") == numbers(0, 5))
        world.a.made["t"].topic_id = uuid.uuid4().bytes
        await until(lambda: mirror.tally.stops)
        assert "made again" in stopped(mirror)
        world.a.made["t"].logs[0].batches.clear()
        world.a.put("t", 0, [b"new"])
        await a_quiet_while()
    assert world.b.values("t") == numbers(0, 5)


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_partition_whose_topic_was_not_known_for_a_moment_goes_on(world: World, exactly_once: bool) -> None:
    """It has its id still, so nothing of it is another's."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with world.running(exactly_once=exactly_once) as mirror:
        await until(lambda: world.b.values("t") == numbers(0, 3))
        world.a.unknown[Place("t", 0)] = 2
        world.a.put("t", 0, numbers(3, 5))
        await until(lambda: world.a.unknown[Place("t", 0)] == 0)
        world.a.put("t", 0, numbers(5, 8))
        await until(lambda: len(world.b.values("t")) >= 8)
        await a_quiet_while()
    assert world.b.values("t") == numbers(0, 8)
    assert mirror.tally.clean


async def test_a_topic_that_was_deleted_before_it_was_mirrored_is_said_to_be_lost(world: World) -> None:
    """One of which everything was mirrored is only noted."""
    for topic in ("t", "u"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 5))
    async with world.running() as mirror:
        await until(lambda: world.b.values("t") == world.b.values("u") == numbers(0, 5))
        del world.a.made["t"]
        world.a.made["u"].logs[0].held_at = 5
        world.a.put("u", 0, numbers(5, 9))
        await until(lambda: "t" in mirror.tally.notes)
        assert not mirror.tally.stops
    assert mirror.tally.notes["t"] == "it was deleted at the source"


@pytest.mark.parametrize("diverged_at", [None, 3])
async def test_a_source_that_lost_what_was_mirrored_stops_the_partition(world: World, diverged_at: int | None) -> None:
    """After an unclean election its log ends below the position; what comes then is not silently left out.

    A source that does not say where the two part is mirrored from its start: twice is better than not at all.
    """
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    await world.once()
    log = world.a.made["t"].logs[0]
    del log.batches[3:]
    log.diverged_at = diverged_at
    for _ in range(2):
        async with world.running() as mirror:
            await until(partial(bool, mirror.tally.stops))
            assert "lost records that were mirrored" in stopped(mirror)
    world.a.put("t", 0, [b"other"])
    again = numbers(0, 3) if diverged_at is None else []
    async with world.running(on_truncated="continue") as mirror:
        await until(lambda: world.b.values("t") == [*numbers(0, 5), *again, b"other"])
    assert not mirror.tally.clean


async def test_where_a_source_that_lost_records_goes_on_ahead_nothing_is_stepped_over(world: World) -> None:
    """Its leader has no record of the last epoch, and says that an older one ends beyond the position: where the two
    part it does not say."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    await world.once()
    log = world.a.made["t"].logs[0]
    others = [b"other%d" % number for number in range(8)]
    log.batches = [bytes(set_offset(build_batch([(b"k", each)]), n, 2)) for n, each in enumerate(others)]
    log.diverged_at, log.lost_epoch = 8, 0
    async with world.running() as mirror:
        await until(partial(bool, mirror.tally.stops))
        assert "lost records that were mirrored" in stopped(mirror)
    async with world.running(on_truncated="continue") as mirror:
        await until(lambda: others[-1] in world.b.values("t"))
    assert world.b.values("t") == [*numbers(0, 5), *others]
    assert not mirror.tally.clean


async def test_a_topic_that_is_gone_at_the_destination_is_mirrored_from_its_start(world: World) -> None:
    """What was mirrored went with it."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    await world.once()
    del world.b.made["t"]
    await world.once()
    assert world.b.values("t") == numbers(0, 3)


async def test_nothing_lands_before_what_was_refused(world: World) -> None:
    """What was under way behind it comes with it, once the reason is mended."""
    world.a.make("t")
    values = [b"%060000d" % number for number in range(40)]
    world.a.put("t", 0, values)
    world.b.held = {"t"}
    async with world.running() as mirror:
        await until(lambda: [copy.records_under_way for copy in each_copy(mirror)] == [40])
        world.b.refuses = lambda topic, partition, outgoing: "no" if values[9] in bytes(outgoing.body) else None
        world.b.held.clear()
        world.b.change()
        await until(lambda: mirror.tally.stops)
    assert world.b.values("t") == values[: len(world.b.values("t"))]
    world.b.refuses = lambda topic, partition, outgoing: None
    await world.once()
    assert world.b.values("t") == values


def each_copy(mirror: Mirror) -> list[Standing]:
    """What it carries."""
    return [copy for source in mirror.sources for copy in source.copies.values()]


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_topic_that_the_destination_does_not_show_for_a_moment_is_not_mirrored_again(
    world: World, monkeypatch: pytest.MonkeyPatch, exactly_once: bool
) -> None:
    """A broker that has just begun, or is cut off from its cluster, has not heard of it: it is there as it is made."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    await world.once(exactly_once=exactly_once)
    named, hidden = world.b.topics, {"t"}

    async def topics(names: Iterable[str] | None) -> Mapping[str, Topic]:
        return {name: each for name, each in (await named(names)).items() if names is not None or name not in hidden}

    monkeypatch.setattr(world.b, "topics", topics)
    async with world.running(exactly_once=exactly_once):
        await until(lambda: any("there after all" in said for said in world.said))
        hidden.clear()
        world.a.put("t", 0, numbers(3, 5))
        await until(lambda: world.b.values("t")[-1] == b"4")
    assert world.b.values("t") == numbers(0, 5)


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_topic_that_is_made_again_begins_anew_also_if_its_answers_are_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, exactly_once: bool
) -> None:
    """The next try finds it there, and empty."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    await world.once(exactly_once=exactly_once)
    del world.b.made["t"]
    create = world.b.create

    async def lost(topic: str, *given: Any) -> bool:
        await create(topic, *given)
        raise TryAgain("no answer")

    monkeypatch.setattr(world.b, "create", lost)
    async with world.running(exactly_once=exactly_once):
        await until(lambda: world.b.values("t") == numbers(0, 3))


async def test_a_partition_that_came_while_the_mirror_was_down_is_mirrored_from_its_start(world: World) -> None:
    """Whatever `--from` says, which is for those that were there at the first start."""
    world.a.make("t", 2)
    world.a.put("t", 0, numbers(0, 3))
    await world.once(begin="latest")
    world.a.put("t", 0, numbers(3, 5))
    await world.a.grow("t", 3)
    world.a.put("t", 2, numbers(0, 4))
    await world.once(begin="latest")
    assert [world.b.values("t", number) for number in range(3)] == [numbers(3, 5), [], numbers(0, 4)]


async def test_a_partition_of_which_nobody_can_tell_where_it_begins_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it judged by another topic of its name."""
    monkeypatch.setattr("fairlead.mirror.settling.insisting", partial(insisting, pause_seconds=0.01))
    for topic in ("t", "u"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 5))
    old, offsets = world.a.made["t"], world.a.offsets
    asked: list[Place] = []

    async def without_leader(places: Iterable[Place], at: int) -> Mapping[Place, int]:
        places = list(places)
        if Place("t", 0) in places and old.logs[0].start and world.a.made.get("t", old) is old:
            asked.append(Place("t", 0))
            raise Unreachable("topic t, partition 0 has no leader")
        return await offsets(places, at)

    monkeypatch.setattr(world.a, "offsets", without_leader)
    async with world.running(on_truncated="continue", on_recreated="continue") as mirror:
        await until(lambda: world.b.values("t") == world.b.values("u") == numbers(0, 5))
        world.a.put("t", 0, numbers(5, 9))
        old.logs[0].expire(7)
        await until(lambda: len(asked) > 1)
        world.a.put("u", 0, numbers(5, 9))
        await until(lambda: world.b.values("u") == numbers(0, 9))
        del world.a.made["t"]
        world.a.make("t")
        world.a.put("t", 0, [b"new"])
        await until(lambda: world.b.values("t") == [*numbers(0, 5), b"new"])
        await a_quiet_while()
    assert world.b.values("t") == [*numbers(0, 5), b"new"]
    assert mirror.tally.notes["t"] == "it was deleted at the source"
    assert mirror.tally.clean


# ---------------------------------------------------------------- a mirror that ends by itself


async def test_a_topic_that_was_not_known_for_a_moment_holds_up_no_end(world: World) -> None:
    """What was there of it is mirrored."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    world.a.unknown[Place("t", 0)] = 1
    async with in_time():
        mirror = await world.once()
    assert world.b.values("t") == numbers(0, 3)
    assert mirror.tally.clean


@pytest.mark.parametrize("again", [False, True])
async def test_a_topic_that_is_deleted_before_a_mirror_ends_is_said_to_be_lost(world: World, again: bool) -> None:
    """And waited for no longer, whether one of its name was made again or not; the others are mirrored."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 40))
    world.a.make("u")
    world.a.put("u", 0, numbers(0, 40))

    def deletes(topic: str, partition: int, outgoing: Outgoing) -> None:
        if topic == "t" and world.a.made.pop("t", None) is not None and again:
            world.a.make("t")

    world.b.refuses = deletes
    async with in_time():
        mirror = await world.once(queue_records=5)
    assert "the topic was deleted at the source, and up to" in stopped(mirror)
    assert "topic t, partition 0" in mirror.tally.stops
    assert world.b.values("u") == numbers(0, 40)


async def test_a_source_that_loses_what_was_to_be_mirrored_holds_up_no_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can mirror up to where its log ended when the mirror began; the loss is said, and the others go on."""
    for topic in ("t", "u"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 8))
    offsets = world.a.offsets
    lost: list[bytes] = []

    async def cut_afterwards(places: Iterable[Place], at: int) -> Mapping[Place, int]:
        found = await offsets(places, at)
        if at == LATEST and not lost:
            log = world.a.made["t"].logs[0]
            lost.extend(log.batches[5:])
            del log.batches[5:]
        return found

    monkeypatch.setattr(world.a, "offsets", cut_afterwards)
    async with in_time():
        mirror = await world.once()
    assert "offsets 5 to 7 were gone at the source before they were mirrored" in stopped(mirror)
    assert "topic t, partition 0" in mirror.tally.stops
    assert mirror.tally.lost_offsets == len(lost) == 3
    assert (world.b.values("t"), world.b.values("u")) == (numbers(0, 5), numbers(0, 8))
    world.a.put("t", 0, [b"next"])
    assert (await world.once()).tally.clean
    assert world.b.values("t") == [*numbers(0, 5), b"next"]


# ---------------------------------------------------------------- clusters that are away


async def test_a_source_that_is_away_stops_no_other(world: World) -> None:
    """At the start and later; it is mirrored once it is back."""
    c = FakeCluster("c")
    c.make("of-c")
    c.put("of-c", 0, numbers(0, 3))
    c.away = True
    world.a.make("of-a")
    async with world.running(c, world.a):
        world.a.put("of-a", 0, numbers(0, 3))
        await until(lambda: world.b.values("of-a") == numbers(0, 3))
        c.come_back()
        await until(lambda: world.b.values("of-c") == numbers(0, 3))
        c.away = True
        world.a.put("of-a", 0, numbers(3, 6))
        await until(lambda: world.b.values("of-a") == numbers(0, 6))
        await until(lambda: any("waits: cluster c" in line for line in world.said))
        c.away = False
        c.put("of-c", 0, numbers(3, 6))
        await until(lambda: world.b.values("of-c") == numbers(0, 6))
    assert c.open == 0


@pytest.mark.parametrize("what", ["commit", "limits"])
async def test_a_start_that_is_cut_off_in_the_middle_takes_no_partition_twice(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The coordinator of the source's group is away for a moment, or the destination once topics were made."""
    away = [True]
    commit, configs = world.a.commit, world.b.configs

    async def commits(group: str, offsets: Mapping[Place, tuple[int, int]]) -> None:
        if what == "commit" and away:
            away.pop()
            raise Unreachable("the coordinator of group g does not answer")
        await commit(group, offsets)

    async def reads(topics: Iterable[str]) -> Mapping[str, Mapping[str, Setting] | FairleadError]:
        if what == "limits" and away:
            away.pop()
            raise Unreachable("cluster b does not answer")
        return await configs(topics)

    monkeypatch.setattr(world.a, "commit", commits)
    monkeypatch.setattr(world.b, "configs", reads)
    world.a.make("t", 3)
    for partition in range(3):
        world.a.put("t", partition, numbers(0, 9))
    async with world.running(sync_group_offsets="false"):
        await until(lambda: all(world.b.values("t", partition)[-1:] == [b"8"] for partition in range(3)))
        await a_quiet_while()
        for partition in range(3):
            world.a.put("t", partition, numbers(9, 12))
        await until(lambda: all(world.b.values("t", partition)[-1:] == [b"11"] for partition in range(3)))
        taken = None if world.engine is None else sum(each.kinds["Open"] for each in world.engine.attempts.values())
    assert not away
    assert [world.b.values("t", partition) for partition in range(3)] == [numbers(0, 12)] * 3
    assert taken in (None, 3)


async def test_a_mirror_that_ends_by_itself_does_not_wait_for_a_source(world: World) -> None:
    """It says who is away."""
    world.a.away = True
    with pytest.raises(TryAgain, match="cluster a"):
        await world.once()


# ---------------------------------------------------------------- one at a time


async def test_a_second_process_of_a_mirror_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it takes over; then the first ends, and says why. After an end in order nobody waits."""
    world.a.make("t")
    monkeypatch.setattr("fairlead.mirror.running.holding._is_dead", lambda holder: False)
    first = world.mirror()
    running = asyncio.create_task(first.run())
    await until(lambda: "t" in world.b.made)
    with pytest.raises(NotAllowed, match="is run by process"):
        await world.once()
    async with world.running(takeover=True):
        with pytest.raises(Fenced, match="taken over"):
            await running
        world.a.put("t", 0, [b"1"])
        await until(lambda: world.b.values("t") == [b"1"])
    await world.once()


async def test_who_is_started_again_after_a_kill_need_not_wait(world: World) -> None:
    """The process that held the mirror is no more on this machine."""
    world.a.make("t")
    async with world.killed():
        await until(lambda: "t" in world.b.made)
    await world.once()


async def test_a_group_with_members_is_somebody_elses(world: World) -> None:
    """A MirrorMaker that still runs in it would be disturbed, and everything would come twice."""
    world.a.make("t")
    world.a.members.add("g")
    with pytest.raises(NotAllowed, match="has members"):
        await world.once()


async def test_the_group_at_the_source_shows_how_far_the_mirror_is(world: World) -> None:
    """So the lag that every tool shows is the mirror's."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    await world.once()
    assert world.a.group_offsets["g"][Place("t", 0)][0] == 3
    world.a.group_offsets.clear()
    await world.once(group=None)
    assert world.a.group_offsets == {}


async def test_a_topic_that_is_deleted_ends_no_commit_of_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the mirror knows of topics is some seconds old: it names one that is gone to the group's coordinator."""
    monkeypatch.setattr("tests.mirror.world.QUICK", replace(QUICK, topics=60.0))
    for topic in ("t", "u"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 3))
    async with world.running():
        await until(lambda: world.b.values("t") == world.b.values("u") == numbers(0, 3))
        del world.a.made["t"]
        world.a.put("u", 0, numbers(3, 5))
        await until(lambda: world.a.group_offsets["g"].get(Place("u", 0), (0, 0))[0] == 5)
    assert world.b.values("u") == numbers(0, 5)


async def test_a_group_that_takes_no_commit_ends_no_mirror(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told what it waits for."""
    world.a.make("t")
    async with world.running():
        await until(lambda: "g" in world.a.group_offsets)

        async def refused(group: str, offsets: object) -> None:
            raise BadRequest(f"group {group}: OFFSET_METADATA_TOO_LARGE")

        monkeypatch.setattr(world.a, "commit", refused)
        await until(lambda: any("OFFSET_METADATA_TOO_LARGE" in line for line in world.said))
        world.a.put("t", 0, numbers(0, 3))
        await until(lambda: world.b.values("t") == numbers(0, 3))


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_start_reads_the_books_though_a_broker_has_not_heard_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch, exactly_once: bool
) -> None:
    """Else all would be mirrored again."""
    topics, books = world.b.topics, positions_topic("m")
    unknown = [2]

    async def not_all(names: Iterable[str] | None) -> Mapping[str, Topic]:
        found = dict(await topics(names))
        if unknown[0] and names is not None and books in found:
            del found[books]
            unknown[0] -= 1
        return found

    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    await world.once(exactly_once=exactly_once)
    monkeypatch.setattr(world.b, "topics", not_all)
    await world.once(exactly_once=exactly_once)
    assert world.b.values("t") == numbers(0, 5)
    assert unknown == [0]


async def test_books_of_another_program_stop_the_mirror(world: World) -> None:
    """It does not write over them."""
    world.a.make("t")
    world.b.make("fairlead-mirror.m.internal", 16)
    world.b.put("fairlead-mirror.m.internal", 0, [b"x"])
    with pytest.raises(BadRequest, match="another version or program"):
        await world.once()


# ---------------------------------------------------------------- loops


async def test_a_ring_of_three_brings_all_to_all_and_comes_to_rest(world: World) -> None:
    """With equal names: what was first written at a cluster does not come back to it."""
    c = FakeCluster("c")
    ring = [world.a, world.b, c]
    for cluster in ring:
        cluster.make("t")
    pairs = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    for _ in range(4):
        for source, destination in pairs:
            source.put("t", 0, [f"{source.id} {uuid.uuid4()}".encode()])
            await world.once(source, to=destination, name=f"from-{source.id}")
    for _ in range(3):
        for source, destination in pairs:
            await world.once(source, to=destination, name=f"from-{source.id}")
    everything = {value for cluster in ring for value in cluster.values("t")}
    assert len(everything) == 12
    for cluster in ring:
        assert sorted(map(bytes, filter(None, cluster.values("t")))) == sorted(map(bytes, filter(None, everything)))


async def test_a_ring_with_prefixes_makes_no_topics_without_end(world: World) -> None:
    """The topics that a record came through are known by the clusters, not by their names."""
    c = FakeCluster("c")
    ring = [world.a, world.b, c]
    world.a.make("t")
    for _ in range(5):
        for source, destination in zip(ring, [*ring[1:], ring[0]], strict=True):
            await world.once(source, to=destination, name=f"from-{source.id}", prefix=f"{source.id}_")
    kept = [{topic for topic in cluster.made if not topic.endswith(".internal")} for cluster in ring]
    assert kept == [{"t"}, {"a_t"}, {"b_a_t"}]


# ---------------------------------------------------------------- people


async def test_a_dry_run_changes_nothing_and_says_what_would_be(world: World) -> None:
    """Topics, from where, how much, and what stands in the way."""
    world.a.make("t", 2)
    world.a.put("t", 1, numbers(0, 7))
    world.a.make("__consumer_offsets")
    await world.once(dry_run=True, prefix="p_")
    assert world.b.made == {}
    assert world.a.group_offsets == {}
    text = "\n".join(world.said)
    assert "t → p_t (2 partitions, to be made)" in text
    assert "topic t, partition 1: from 0 (new), 7 to mirror" in text
    assert "__consumer_offsets" not in text


async def test_streams_without_partitions_are_said(world: World) -> None:
    """The seed: some will be idle."""
    world.a.make("t")
    await world.once(streams=5)
    assert any("1 of 5 streams" in line for line in world.said)


async def test_streams_without_partitions_carry_what_appears_later() -> None:
    """As in the original, where they idled. Of the mirror itself, whose streams fetch each on its own."""
    world = World()
    world.a.make("t")
    world.a.put("t", 0, [b"1"])
    async with world.running(streams=4):
        await until(lambda: world.b.values("t") == [b"1"])
        world.a.answers_max = 1  # who has fetched that fetches no more
        world.a.make("new", 16)
        for partition in range(16):
            world.a.put("new", partition, [b"2"])
        await until(lambda: any(world.b.values("new", partition) for partition in range(16)))
    world.check_closed()


async def test_positions_that_an_end_cuts_off_are_written_at_the_end(world: World) -> None:
    """However the end meets the second's writing: a run after it mirrors nothing again."""
    world.a.make("t")
    for number in range(15):
        world.a.put("t", 0, numbers(number, number + 1))
        async with world.running():
            await until(lambda number=number: len(world.b.values("t")) > number)  # type: ignore[misc]
    assert world.b.values("t") == numbers(0, 15)
