"""Consumer groups go with their topics, between clusters in memory."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import pytest
from tests.mirror.fake import FakeCluster
from tests.mirror.joined import Attempt, JoinedEngine
from tests.mirror.world import World
from tests.support.waiting import WAIT_SECONDS, until

from fairlead.mirror.groups import counting, syncing
from fairlead.mirror.ports import Commit, Place
from fairlead.mirror.running.mirror import Mirror
from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch

P0 = Place("t", 0)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def commit(cluster: FakeCluster, group: str, offset: int, place: Place = P0) -> None:
    cluster.group_offsets.setdefault(group, {})[place] = (offset, -1)


def at(cluster: FakeCluster, group: str, place: Place = P0) -> int | None:
    """What a group has committed."""
    found = cluster.group_offsets.get(group, {}).get(place)
    return None if found is None else found[0]


def put_transaction(cluster: FakeCluster, values: Iterable[bytes], *, abort: bool = False) -> None:
    """Records of a transaction, and its marker."""
    log = cluster.made["t"].logs[0]
    producer = first = log.end
    for sequence, value in enumerate(values):
        log.append(
            build_batch(
                [(b"k", value)],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                attributes=TRANSACTIONAL,
                timestamp_ms=1,
            )
        )
    marker = struct.pack(">hh", 0, 0 if abort else 1)
    control = TRANSACTIONAL | CONTROL
    log.append(build_batch([(marker, bytes(6))], producer_id=producer, producer_epoch=0, attributes=control))
    if abort:
        log.aborted.append((producer, first))
    cluster.change()


async def test_a_group_stands_at_the_destination_where_it_has_read_to(world: World) -> None:
    """However far it is behind, and though the topic has other offsets there."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 50))
    world.a.made["t"].logs[0].expire(10)
    for offset in (10, 25, 50):
        commit(world.a, f"behind-{offset}", offset)
    mirror = await world.once()
    assert [at(world.b, f"behind-{offset}") for offset in (10, 25, 50)] == [0, 15, 40]
    assert mirror.tally.groups["a"].matched == 3
    assert mirror.tally.groups["a"].moved >= 3


async def test_metadata_goes_with_the_offset(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    await world.a.commit_for("g1", {P0: Commit(2, "what I wrote")})
    await world.once()
    assert world.b.metadata["g1", P0] == "what I wrote"


async def test_metadata_that_no_checkpoint_can_hold_is_left_out_there(world: World) -> None:
    """It ends nothing, and goes with the commit."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    long = "é" * 20_000
    await world.a.commit_for("g1", {P0: Commit(2, long)})
    await world.once(source_aliases=["A"])
    assert world.b.metadata["g1", P0] == long
    assert world.b.values("A.checkpoints.internal")[-1] == struct.pack(">hqqh", 0, 2, 2, 0)


async def test_transactions_and_their_markers_are_counted_as_what_they_are(world: World) -> None:
    """Records between two places that are remembered are counted at the source; a commit behind the last marker is the
    destination's end."""
    world.a.make("t")
    for turn in range(6):
        put_transaction(world.a, numbers(turn * 3, turn * 3 + 3), abort=turn % 3 == 2)
    end = world.a.made["t"].logs[0].end
    assert end == 24
    for offset in range(end + 1):
        commit(world.a, f"at-{offset}", offset)
    await world.once()
    assert len(world.b.values("t")) == 12
    committed = [*[True] * 3, False, *[True] * 3, False, *[False] * 4] * 2
    assert [at(world.b, f"at-{offset}") for offset in range(end + 1)] == [
        sum(committed[:offset]) for offset in range(end + 1)
    ]


async def test_what_compaction_has_left_is_translated_exactly(world: World) -> None:
    """Holes that were there when it was mirrored."""
    world.a.make("t")
    log = world.a.made["t"].logs[0]
    for number in range(40):
        log.append(build_batch([(b"%d" % number, b"v")], timestamp_ms=1))
    log.batches = [batch for number, batch in enumerate(log.batches) if number % 3 == 0]
    for offset in (0, 1, 3, 20, 40):
        commit(world.a, f"at-{offset}", offset)
    await world.once()
    assert len(world.b.values("t")) == 14
    assert [at(world.b, f"at-{offset}") for offset in (0, 1, 3, 20, 40)] == [0, 1, 1, 7, 14]


async def test_what_compaction_has_removed_since_is_read_again(world: World) -> None:
    """The count is lower than it was, never higher."""
    world.a.make("t")
    for turn in range(4):
        put_transaction(world.a, numbers(turn * 3, turn * 3 + 3))
    await world.once()
    log = world.a.made["t"].logs[0]
    log.batches = [batch for number, batch in enumerate(log.batches) if number not in (8, 9)]
    commit(world.a, "g1", 11)
    commit(world.a, "g2", 16)
    await world.once()
    assert at(world.b, "g1") == 7
    assert at(world.b, "g2") == 12


async def test_markers_of_transactions_at_the_destination_are_stepped_over(world: World) -> None:
    """As a mirror leaves them that writes in transactions."""
    world.a.make("t")
    marker = build_batch([(bytes(4), bytes(6))], producer_id=9, producer_epoch=0, attributes=TRANSACTIONAL | CONTROL)
    async with world.running(sync_group_offsets="false"):
        await until(lambda: "t" in world.b.made)
        log = world.b.made["t"].logs[0]
        for turn in range(30):
            put_transaction(world.a, numbers(turn * 2, turn * 2 + 2))
            await until(lambda turn=turn: len(world.b.values("t")) == turn * 3 + 2)  # type: ignore[misc]
            log.append(marker)
    for offset in range(91):
        commit(world.a, f"at-{offset}", offset)
    await world.once()
    for offset in range(91):
        read = [offset >= number // 2 * 3 + number % 2 + 1 for number in range(60)].count(True)
        place = at(world.b, f"at-{offset}")
        unread = [value for value in world.b.values("t")[place:] if value and len(value) < 4]
        assert unread == numbers(read, 60)


async def test_a_mirror_that_ends_by_itself_moves_groups_for_as_long_as_that_takes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is told to stop does not, and says so."""

    async def commit_slowly(self: FakeCluster, group: str, commits: Mapping[Place, Commit]) -> None:
        await asyncio.sleep(0.01)
        await self.commit(group, {place: (commit.offset, -1) for place, commit in commits.items()})

    monkeypatch.setattr("fairlead.mirror.running.alongside._LAST_MOVE_SECONDS", 0.0)
    monkeypatch.setattr(FakeCluster, "commit_for", commit_slowly)
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    commit(world.a, "g1", 2)
    await world.once()
    assert at(world.b, "g1") == 2
    told = "consumer groups: not all could be moved in 0 s; they are with the next start"
    assert told not in world.said
    async with world.running() as mirror:
        await until(lambda: mirror.equal_from)
        commit(world.a, "g1", 3)
    assert told in world.said


async def test_what_is_gone_at_the_source_is_not_counted(world: World) -> None:
    """Retention has overtaken a group's place of before; what is left is."""
    world.a.make("t")
    for turn in range(4):
        put_transaction(world.a, numbers(turn * 3, turn * 3 + 3))
    await world.once()
    world.a.made["t"].logs[0].expire(5)
    commit(world.a, "g1", 11)
    await world.once()
    assert at(world.b, "g1") in range(6, 10)


async def test_an_idle_group_is_translated_after_a_restart_without_a_new_record(world: World) -> None:
    """By the books: the process that has mirrored it is no more."""
    world.a.make("t")
    for turn in range(4):
        put_transaction(world.a, numbers(turn * 3, turn * 3 + 3))
    await world.once(sync_group_offsets="false")
    assert not world.b.group_offsets
    commit(world.a, "idle", 6)
    await world.once()
    assert at(world.b, "idle") == 5


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_what_the_destination_has_forgotten_is_translated_after_restarts(
    world: World, exactly_once: bool
) -> None:
    """Of a group that idles far behind: each start knows where the records of the one before lie."""
    world.a.make("t")
    for end in range(10, 40, 10):
        world.a.put("t", 0, numbers(end - 10, end))
        commit(world.a, "idle", 3)
        world.b.group_offsets.pop("idle", None)
        mirror = await world.once(exactly_once=exactly_once)
        assert at(world.b, "idle") == 3
        assert mirror.tally.groups["a"].unknown == 0


async def test_a_group_that_goes_on_is_followed(world: World) -> None:
    """While the mirror runs. What it reads ahead of the mirror is at the end there, until it comes."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    commit(world.a, "g1", 2)
    async with world.running():
        await until(lambda: at(world.b, "g1") == 2)
        commit(world.a, "g1", 5)
        await until(lambda: at(world.b, "g1") == 5)
        world.a.put("t", 0, numbers(5, 9))
        commit(world.a, "g1", 9)
        await until(lambda: at(world.b, "g1") == 9)


async def test_a_group_with_members_at_the_destination_is_left_alone(world: World) -> None:
    """It has a place of its own there; once it has no members it is moved, if that is forward."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 9))
    commit(world.a, "g1", 5)
    world.b.members.add("g1")
    async with world.running() as mirror:
        await until(lambda: mirror.tally.groups_of("a").busy == 1)
        assert at(world.b, "g1") is None
        world.b.members.clear()
        await until(lambda: at(world.b, "g1") == 5)


async def test_a_group_is_moved_forward_only_unless_it_is_told_to_rewind(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 9))
    commit(world.a, "g1", 4)
    commit(world.b, "g1", 7)
    await world.once()
    assert at(world.b, "g1") == 7
    await world.once(groups_rewind=True)
    assert at(world.b, "g1") == 4


async def test_a_group_that_no_broker_lists_is_not_moved_backward(world: World) -> None:
    """Its coordinator has gone to another broker just now; it has its offsets all the same."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 9))
    commit(world.a, "g1", 4)
    commit(world.a, "g2", 4)
    commit(world.b, "g1", 7)
    world.b.unlisted.add("g1")
    await world.once()
    assert (at(world.b, "g1"), at(world.b, "g2")) == (7, 4)


async def test_groups_are_chosen_by_name(world: World) -> None:
    """MirrorMaker 2's exclusions by default. The mirror's own group says how far the mirror is, not a reader."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    for group in ("orders", "orders-2", "console-consumer-1", "connect-x", "__internal", "g"):
        commit(world.a, group, 2)
    await world.once()
    assert set(world.b.group_offsets) == {"orders", "orders-2"}
    world.b.group_offsets.clear()
    await world.once(groups="orders.*,connect-.*", groups_exclude="orders-2")
    assert set(world.b.group_offsets) == {"orders", "connect-x"}


async def test_offsets_of_topics_that_are_not_mirrored_are_left_out(world: World) -> None:
    for topic in ("t", "other"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 3))
        commit(world.a, "g1", 2, Place(topic, 0))
    await world.once(whitelist="t")
    assert world.b.group_offsets["g1"].keys() == {P0}


async def test_groups_stay_where_they_are_when_that_is_asked_for(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    commit(world.a, "g1", 2)
    await world.once(sync_group_offsets="false")
    assert not world.b.group_offsets


async def test_a_prefix_is_before_the_topic_of_the_commit_too(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    commit(world.a, "g1", 2)
    await world.once(prefix="a.")
    assert world.b.group_offsets["g1"] == {Place("a.t", 0): (2, -1)}


async def test_an_offset_that_the_destination_no_longer_has_begins_where_its_log_does(world: World) -> None:
    """A commit before the start would be answered by a consumer's `auto.offset.reset`, which may be the end."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 9))
    await world.once()
    world.b.made["t"].logs[0].expire(6)
    commit(world.a, "g1", 2)
    await world.once()
    assert at(world.b, "g1") == 6


async def test_where_a_function_leaves_out_records_nothing_is_counted(world: World) -> None:
    """What is at the source is more than what was sent: a group reads on from the last place that is known."""
    world.a.make("t")
    for turn in range(4):
        put_transaction(world.a, numbers(turn * 3, turn * 3 + 3))
    commit(world.a, "g1", 11)
    await world.once(handler="tests.mirror.test_handler:only_even")
    unread = [value for value in world.b.values("t") if value is not None and int(value) >= 9]
    at_destination = at(world.b, "g1")
    assert at_destination is not None
    assert world.b.values("t")[at_destination:][-len(unread) :] == unread


@pytest.mark.parametrize("restarts", [False, True])
async def test_where_a_function_sorts_records_no_group_skips_any(world: World, restarts: bool) -> None:
    """Any of what one call was given may lie anywhere in what it has made."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    if restarts:
        await world.once(handler="tests.mirror.test_handler:newest_first")
    world.a.made["t"].logs[0].append(build_batch([(b"k", value) for value in numbers(3, 9)], timestamp_ms=1))
    commit(world.a, "g1", 6)
    commit(world.a, "g2", 9)
    await world.once(handler="tests.mirror.test_handler:newest_first")
    place = at(world.b, "g1")
    assert place is not None
    assert set(world.b.values("t")[place:]) >= set(numbers(6, 9))
    assert at(world.b, "g2") == 9


# ---------------------------------------------------------------- topics that are dealt by key


def _unread(world: World, group: str) -> set[bytes | None]:
    """What a group would read at the destination."""
    logs = world.b.made["t"].logs
    return {
        record.value
        for number in range(len(logs))
        for record in world.b.records("t", number)
        if record.offset >= (at(world.b, group, Place("t", number)) or 0)
    }


async def test_where_keys_choose_other_partitions_nothing_is_skipped(world: World) -> None:
    """A group that has read everything is at the end everywhere; one that is behind reads a little again."""
    world.a.make("t", 2)
    world.b.make("t", 3)
    async with world.running():
        for turn in range(6):
            for partition in range(2):
                for number in range(5):
                    key = b"%d" % (number + partition)
                    world.a.put("t", partition, [b"%d-%d-%d" % (turn, partition, number)], key=key)
            await until(lambda turn=turn: sum(len(world.b.values("t", p)) for p in range(3)) == (turn + 1) * 10)  # type: ignore[misc]
            for partition in range(2):
                commit(world.a, "all", (turn + 1) * 5, Place("t", partition))
            await until(lambda turn=turn: not _unread(world, "all"))  # type: ignore[misc]
    for partition in range(2):
        commit(world.a, "behind", 12 + partition, Place("t", partition))
    commit(world.a, "half", 30, Place("t", 1))
    await world.once()
    everything = {b"%d-%d-%d" % (turn, p, n) for turn in range(6) for p in range(2) for n in range(5)}
    behind = _unread(world, "behind")
    assert behind >= {value for value in everything if _place(value) >= 12 + _partition(value)}
    assert len(behind) <= 4 * 10
    assert _unread(world, "half") >= {value for value in everything if _partition(value) == 0}


@pytest.mark.parametrize("world", ["workers"], indirect=True)
async def test_where_keys_choose_a_group_gets_to_the_end_after_workers_have_died(world: World) -> None:
    """Of two, which carry a partition each or both. What they had sent and not told comes again, and is read again."""
    world.a.make("t", 2)
    world.b.make("t", 3)
    async with world.running(streams=2):
        for turn in range(3):
            for partition in range(2):
                for number in range(5):
                    world.a.put("t", partition, [b"%d-%d-%d" % (turn, partition, number)], key=b"%d" % number)
            await until(lambda turn=turn: len(_all_values(world)) == (turn + 1) * 10)  # type: ignore[misc]
            for partition in range(2):
                commit(world.a, "all", (turn + 1) * 5, Place("t", partition))
            await until(lambda: not _unread(world, "all"))
            assert world.engine is not None
            for worker, attempt in list(world.engine.attempts.items()):
                attempt.kill("sink")
                await until(partial(_is_replaced, world.engine, worker, attempt))


async def test_where_keys_chose_before_a_topic_grew_nothing_is_skipped(world: World) -> None:
    """From a start on partitions keep their numbers. What a group has not read of one of them lies in others too, where
    it has read all that came since."""
    world.a.make("t", 2)
    world.b.make("t", 4)
    _put_eight(world, 0, range(2))
    await world.once(sync_group_offsets="false")
    await world.a.grow("t", 4)
    _put_eight(world, 1, range(4))
    _read(world, "all", 16, 16, 8, 8)
    _read(world, "behind", 2, 16, 8, 8)
    for turn in (2, 3):
        await world.once(exactly_once=turn == 2)
        assert _unread(world, "behind") >= {b"0-0-%d" % number for number in range(2, 8)}
        assert _unread(world, "all") == {
            b"%d-%d-%d" % (later, p, n) for later in range(2, turn) for p in range(4) for n in range(8)
        }
        _put_eight(world, turn, range(4))
    _read(world, "behind", 9, 16, 8, 8)
    await world.once()
    assert len(_unread(world, "behind")) == 7 + 2 * 32


async def test_a_topic_that_grows_while_keys_choose_is_dealt_as_before(world: World) -> None:
    """Its new partitions too: else a group would skip what has come from the others."""
    world.a.make("t", 2)
    world.b.make("t", 4)
    async with world.running():
        _put_eight(world, 0, range(2))
        await until(lambda: len(_all_values(world)) == 16)
        await world.a.grow("t", 4)
        _put_eight(world, 1, range(2, 4))
        await until(lambda: len(_all_values(world)) == 32)
        _read(world, "behind", 2, 8, 8, 8)
        _read(world, "all", 8, 8, 8, 8)
        await until(lambda: not _unread(world, "all"))
    assert _unread(world, "behind") >= {b"0-0-%d" % number for number in range(2, 8)}


async def test_a_topic_that_grows_at_both_ends_keeps_its_numbers_while_the_mirror_runs(world: World) -> None:
    """Though the destination has more partitions than the source: else a group would skip what has come from the new
    one."""
    for cluster in (world.a, world.b):
        cluster.make("t", 2)
    async with world.running():
        _put_eight(world, 0, range(2))
        await until(lambda: len(_all_values(world)) == 16)
        await world.b.grow("t", 4)
        await world.a.grow("t", 3)
        _put_eight(world, 1, range(2, 3))
        await until(lambda: len(_all_values(world)) == 24)
        _read(world, "behind", 8, 8, 3)
        await until(lambda: at(world.b, "behind", Place("t", 2)) is not None)
    assert _unread(world, "behind") == {b"1-2-%d" % number for number in range(3, 8)}


def _put_eight(world: World, turn: int, partitions: Iterable[int]) -> None:
    for partition in partitions:
        for number in range(8):
            world.a.put("t", partition, [b"%d-%d-%d" % (turn, partition, number)], key=b"%d" % number)


def _read(world: World, group: str, *offsets: int) -> None:
    for number, offset in enumerate(offsets):
        commit(world.a, group, offset, Place("t", number))


def _is_replaced(engine: JoinedEngine, worker: int, attempt: Attempt) -> bool:
    return engine.attempts[worker] is not attempt


def _all_values(world: World) -> set[bytes | None]:
    numbers = range(len(world.b.made["t"].logs))
    return {value for number in numbers for value in world.b.values("t", number)}


def _place(value: bytes) -> int:
    turn, _, number = value.split(b"-")
    return int(turn) * 5 + int(number)


def _partition(value: bytes) -> int:
    return int(value.split(b"-")[1])


# ---------------------------------------------------------------- both ways


async def test_mirrors_that_face_each_other_skip_nothing_of_either_side(world: World) -> None:
    """With equal names, and records that are written at both sides. A group's place comes to the other side, and what
    comes back from there does not move it."""
    a, b = world.a, world.b
    a.make("t")
    b.make("t")
    commit(a, "g1", 0)
    a.put("t", 0, [b"a0", b"a1", b"a2"])
    async with world.running(name="there", group="x"), world.running(b, to=a, name="back", group="y"):
        await until(lambda: len(b.values("t")) == 3)
        b.put("t", 0, [b"b0"])
        await until(lambda: len(a.values("t")) == 4)
        a.put("t", 0, [b"a3"])
        await until(lambda: len(b.values("t")) == 5)
        b.put("t", 0, [b"b1"])
        await until(lambda: len(a.values("t")) == 6)
        for offset in range(7):
            commit(a, "g1", offset)
            read = set(a.values("t")[:offset])
            place = await _settled_at(b, "g1", {value for value in b.values("t") if value not in read})
            assert place <= offset
            assert at(a, "g1") == offset
    assert b.values("t") == [b"a0", b"a1", b"a2", b"b0", b"a3", b"b1"]


async def test_where_keys_choose_in_both_directions_a_group_stays_before_what_it_has_not_read(world: World) -> None:
    """A record of the destination that has not come to the source yet."""
    world.a.make("t", 2)
    world.b.make("t", 3)
    world.a.put("t", 0, [b"a0", b"a1"])
    await world.once(world.b, to=world.a, name="back", group="y", sync_group_offsets="false")
    for number in range(3):
        world.b.put("t", number, [b"b%d" % number])
    commit(world.a, "g1", 2)
    mirror = await world.once()
    assert _unread(world, "g1") >= {b"b0", b"b1", b"b2"}
    assert mirror.tally.groups["a"].unknown == 1


async def _settled_at(cluster: FakeCluster, group: str, unread: set[bytes | None]) -> int:
    """Where a group stands, once it has moved there: nothing that it has not read lies before."""
    for _ in range(10):
        place = at(cluster, group) or 0
        assert unread <= set(cluster.values("t")[place:])
        await asyncio.sleep(0.01)  # some rounds of the mirrors
    return at(cluster, group) or 0


async def test_a_failback_reads_what_had_not_come_over(world: World) -> None:
    """The first cluster fails with two records that the mirror has not seen; its group goes on at the second one, which
    has records of its own then. Back at the first, it finds both."""
    a, b = world.a, world.b
    a.make("t")
    a.put("t", 0, numbers(0, 10))
    commit(a, "g1", 8)
    await world.once(name="there", group="x")
    assert at(b, "g1") == 8
    a.put("t", 0, [b"late-1", b"late-2"])
    b.put("t", 0, [b"b1", b"b2"])
    commit(b, "g1", 12)
    await world.once(b, to=a, name="back", group="y", groups_rewind=True)
    assert a.values("t")[-4:] == [b"late-1", b"late-2", b"b1", b"b2"]
    place = at(a, "g1")
    assert place is not None
    assert a.values("t")[place:] == [b"late-1", b"late-2", b"b1", b"b2"]


async def test_a_clean_failback_is_exact(world: World) -> None:
    """Everything had come over before the group moved."""
    a, b = world.a, world.b
    a.make("t")
    a.put("t", 0, numbers(0, 10))
    await world.once(name="there", group="x")
    b.put("t", 0, [b"b1", b"b2", b"b3"])
    commit(b, "g1", 12)
    await world.once(b, to=a, name="back", group="y")
    assert at(a, "g1") == 12


# ---------------------------------------------------------------- troubles


async def test_what_the_destination_has_forgotten_is_committed_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster forgets commits of a group without members after seven days. What stands is committed again too, so
    that it is never that old; that is no move."""
    monkeypatch.setattr(syncing, "_AGAIN_SECONDS", 0.0)
    commits = Counter[str]()
    commit_for = FakeCluster.commit_for

    async def counted(self: FakeCluster, group: str, its: Mapping[Place, Commit]) -> None:
        await commit_for(self, group, its)
        commits[group] += 1

    monkeypatch.setattr(FakeCluster, "commit_for", counted)
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    commit(world.a, "g1", 2)
    async with world.running() as mirror:
        await until(lambda: at(world.b, "g1") == 2)
        tally = mirror.tally.groups_of("a")
        moved, before = tally.moved, commits["g1"]
        await until(lambda: commits["g1"] > before + 2)
        assert tally.moved == moved
        del world.b.group_offsets["g1"]
        await until(lambda: at(world.b, "g1") == 2)


async def test_of_a_group_that_is_gone_nothing_is_remembered(world: World) -> None:
    """Names of groups may be made up for each run of a program. One that comes back is as new."""
    place = Place("A.t", 0)
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    commit(world.a, "g1", 2)
    async with world.running(source_aliases=["A"], target_alias="B", prefix="A.") as mirror:
        await until(lambda: at(world.b, "g1", place) == 2)
        tally = mirror.tally.groups_of("a")
        before = tally.checkpoints
        del world.a.group_offsets["g1"], world.b.group_offsets["g1"]
        await until(lambda: tally.matched == 0)
        commit(world.a, "g1", 2)
        await until(lambda: at(world.b, "g1", place) == 2 and tally.checkpoints > before)


async def test_a_topic_that_is_gone_at_the_destination_holds_up_no_other(world: World) -> None:
    """Offsets of its groups in other topics are committed."""
    for topic in ("t", "u"):
        world.a.make(topic)
        world.a.put(topic, 0, numbers(0, 3))
        commit(world.a, "g1", 2, Place(topic, 0))
    async with world.running():
        await until(lambda: at(world.b, "g1") == at(world.b, "g1", Place("u", 0)) == 2)
        del world.b.made["u"]
        for topic in ("t", "u"):
            commit(world.a, "g1", 3, Place(topic, 0))
        await until(lambda: at(world.b, "g1") == 3)
    assert len([line for line in world.said if "groups stay where they are in u, partition 0" in line]) == 1


async def test_groups_move_where_checkpoints_are_refused(world: World) -> None:
    """That is told once."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    commit(world.a, "g1", 2)
    world.b.may_not_make.add("A.checkpoints.internal")
    async with world.running(source_aliases=["A"], target_alias="B", prefix="A."):
        await until(lambda: at(world.b, "g1", Place("A.t", 0)) == 2)
        commit(world.a, "g1", 3)
        await until(lambda: at(world.b, "g1", Place("A.t", 0)) == 3)
    assert len([line for line in world.said if "checkpoints are not written" in line]) == 1


async def test_groups_that_cannot_be_read_are_told_once_and_the_mirror_goes_on(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    commit(world.a, "good", 2)
    commit(world.a, "bad", 2)
    world.a.hidden.add("bad")
    async with world.running() as mirror:
        await until(lambda: at(world.b, "good") == 2)
        commit(world.a, "good", 3)
        await until(lambda: at(world.b, "good") == 3)
    assert len([line for line in world.said if "group bad" in line]) == 1
    assert mirror.tally.clean


async def test_no_more_is_read_for_a_count_than_a_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the group reads a little again; each look counts some more, and those at the end are the only ones here."""
    monkeypatch.setattr(counting, "BYTES_MAX", 1)
    world.paces = replace(world.paces, groups=WAIT_SECONDS)
    world.a.make("t")
    for turn in range(8):
        put_transaction(world.a, numbers(turn * 3, turn * 3 + 3))
    commit(world.a, "g1", 20)
    await world.once()
    place = at(world.b, "g1")
    assert place is not None
    assert 3 <= place < 15


async def test_a_dry_run_says_which_groups_go_along(world: World) -> None:
    """And moves none."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    for group in ("one", "two", "console-consumer-3"):
        commit(world.a, group, 2)
    mirror: Mirror = world.mirror(dry_run=True)
    await mirror.run()
    assert "  2 groups go along: one, two" in world.said
    assert not world.b.group_offsets
