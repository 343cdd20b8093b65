"""How a mirror ends, and what it says of what has not come by then."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.mirror.books.book import HOLDER_KEY, holder_of
from fairlead.mirror.destination import HOLDER_LANE
from fairlead.mirror.flowing import Flowing
from fairlead.mirror.names import positions_topic
from fairlead.mirror.ports import Place, Topic
from fairlead.mirror.report import summary
from fairlead.mirror.run import _until_ended
from fairlead.mirror.running.mirror import Mirror
from fairlead.model.errors import NotAllowed, TryAgain
from tests.mirror.fake import FakeCluster
from tests.mirror.test_mirror import numbers
from tests.mirror.world import QUICK, World
from tests.support.waiting import QUIET_SECONDS, a_quiet_while, in_time, until


def lines(mirror: Mirror) -> list[str]:
    """Of the summary."""
    return summary(mirror.tally, mirror.left, mirror.equal_from).split("\n")


def is_released(world: World) -> bool:
    """Whether the last who ran the mirror has said that it runs no more."""
    records = world.b.records(positions_topic("m"), HOLDER_LANE)
    said = [holder_of(record.value) for record in records if record.key == HOLDER_KEY and record.value is not None]
    return said[-1].released


@pytest.mark.parametrize("limit", ["of the mirror", "of the worker"])
async def test_what_was_not_acknowledged_at_the_end_is_said_and_is_no_success(world: World, limit: str) -> None:
    """Positions of the rest are written, and the next start need not wait for this process to be silent."""
    short, longer = 0.05, 0.3
    if limit == "of the mirror" or not world.has_workers:
        world.paces = replace(QUICK, drain=short)
    for topic in ("t", "u"):
        world.a.make(topic)
    mirror = world.mirror()
    if world.engine is not None:
        world.engine.grace_seconds = short if limit == "of the worker" else longer
    running = asyncio.create_task(mirror.run())
    await until(lambda: {"t", "u"} <= world.b.made.keys())
    world.b.held = {"t"}
    for topic in ("t", "u"):
        world.a.put(topic, 0, numbers(0, 3))
    await until(lambda: mirror.bytes_under_way > 0)
    mirror.stop()
    await running
    assert mirror.tally.unacknowledged
    assert not mirror.clean
    assert any(line.startswith("NOT ACKNOWLEDGED") for line in lines(mirror))
    assert any("has not acknowledged everything" in line for line in world.said)
    assert is_released(world)
    world.b.held.clear()


async def test_an_end_in_time_is_a_success(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with world.running() as mirror:
        await until(lambda: world.b.values("t") == numbers(0, 3))
    assert mirror.clean
    assert is_released(world)


# ---------------------------------------------------------------- while it begins


@pytest.mark.parametrize("is_away", [True, False])
async def test_a_mirror_that_cannot_begin_heeds_that_it_is_to_end(
    world: World, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """Its destination is away, or takes no positions from the first one on; it says how far it is all the same."""
    world.a.make("t")
    topics = world.a.topics

    async def last(names: Iterable[str] | None) -> Mapping[str, Topic]:
        world.b.held = {positions_topic("m")}
        return await topics(names)

    monkeypatch.setattr(world.a, "topics", last)
    monkeypatch.setattr("fairlead.mirror.running.ending._LAST_WRITE_SECONDS", 0.05)
    world.b.away = is_away
    mirror = world.mirror()
    running = asyncio.create_task(mirror.run())
    told = "the destination is away: cluster b does not answer" if is_away else "nothing behind"
    await until(lambda: any(told in line for line in world.said))
    mirror.stop()
    async with in_time():
        await running


async def test_positions_of_a_source_are_written_while_another_one_begins(world: World) -> None:
    """Which does not answer at all."""
    mute = FakeCluster("c")

    async def never() -> FakeCluster:
        await asyncio.Event().wait()
        return mute

    mute.opened = never  # type: ignore[method-assign]
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with world.running(world.a, mute):
        await until(lambda: world.b.values("t") == numbers(0, 3))
        await until(lambda: world.a.group_offsets.get("g", {}).get(Place("t", 0), (0, 0))[0] == 3)
    assert (await world.once()).tally.records == 0


# ---------------------------------------------------------------- with --once


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("settings of topics do not follow", "following.settings.Settings.differences"),
        ("ACLs of topics do not follow", "following.acls.Acls.missing"),
        ("consumer groups", "groups.syncing.GroupSync.matching"),
    ],
)
async def test_what_goes_along_has_come_with_once_or_the_run_has_failed(
    world: World, monkeypatch: pytest.MonkeyPatch, times: int, what: str, call: str
) -> None:
    """What passes by itself is tried again; what does not pass is named."""
    left, nothing = [times], dict[str, str]()

    async def away(*_given: object) -> object:
        if left[0]:
            left[0] -= 1
            raise TryAgain("it does not answer")
        return nothing

    monkeypatch.setattr(f"fairlead.mirror.{call}", away)
    world.a.known_acls, world.b.known_acls = [], []
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    world.paces = replace(QUICK, groups=100.0)
    mirror = await world.once(sync_topic_acls=True)
    assert world.b.values("t") == numbers(0, 3)
    assert mirror.clean is (times == 1)
    failing = [line for line in lines(mirror) if line.startswith("NOT BROUGHT")]
    assert failing == ([] if times == 1 else [f"NOT BROUGHT: a, {what}: it does not answer"])
    assert world.said.count(f"a, {what}: it does not answer") == 1


@pytest.mark.parametrize("refused", [True, False])
async def test_a_group_that_could_not_be_moved_fails_a_run_with_once(world: World, refused: bool) -> None:
    """Each is named; the others are moved."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    for group in ("good", "bad"):
        world.a.group_offsets[group] = {Place("t", 0): (2, -1)}
    world.a.hidden = {"bad"} if refused else set()
    mirror = await world.once()
    assert world.b.group_offsets["good"][Place("t", 0)][0] == 2
    assert mirror.clean is not refused
    why = "a, consumer groups: group bad: group bad: GROUP_AUTHORIZATION_FAILED"
    assert (f"NOT BROUGHT: {why}" in lines(mirror)) is refused
    assert world.said.count(why) == refused


async def test_what_fails_for_a_while_is_told_and_is_forgotten_once_it_goes(world: World) -> None:
    """And said again when it fails again."""
    world.a.make("t")
    world.a.group_offsets["bad"] = {Place("t", 0): (0, -1)}
    async with world.running() as mirror:
        for turn in (1, 2):
            world.a.hidden = {"bad"}
            await until(lambda: mirror.tally.failing)
            world.a.hidden = set()
            await until(lambda: not mirror.tally.failing)
            assert len([line for line in world.said if "GROUP_AUTHORIZATION_FAILED" in line]) == turn
    assert mirror.clean


async def test_a_last_commit_that_fails_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the group by which people see the mirror's lag at the source."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with world.running() as mirror:
        await until(lambda: world.b.values("t") == numbers(0, 3) and mirror.left == 0)

        async def refused(group: str, offsets: Mapping[Place, tuple[int, int]]) -> None:
            raise NotAllowed(f"group {group} has members")

        monkeypatch.setattr(world.a, "commit", refused)
    assert "a, the offsets of group g there: group g has members" in world.said


async def test_once_says_that_it_writes_nothing_for_tools_of_mirrormaker_2(world: World) -> None:
    """They read what comes again and again."""
    world.a.make("t")
    await world.once(heartbeats=True, offset_syncs=True, source_aliases=["A"], target_alias="B")
    assert "a: --once writes no heartbeats and no offset syncs" in world.said
    world.said.clear()
    await world.once(source_aliases=["A"], target_alias="B")
    assert not any("writes no" in line for line in world.said)


# ---------------------------------------------------------------- signals


class Flow:
    """One of the process, around a mirror."""

    def __init__(self, world: World, mirror: Mirror, *, once: bool) -> None:
        self.label = "A->B"
        self.flow = SimpleNamespace(options=SimpleNamespace(once=once, dry_run=False), label="A->B")
        self.mirror = mirror

    was_cut_off = Flowing.was_cut_off

    def stop(self) -> None:
        self.mirror.stop()

    async def run(self) -> None:
        await self.mirror.run()


@pytest.mark.parametrize(
    ("once", "number", "code"),
    [(True, signal.SIGTERM, 143), (True, signal.SIGINT, 130), (False, signal.SIGTERM, 0), (True, None, 0)],
)
async def test_a_signal_that_ends_once_before_its_end_is_no_success(
    world: World, once: bool, number: int | None, code: int
) -> None:
    """Without `--once` it is how a mirror ends."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    mirror = world.mirror(once=once)
    mirror.pause(number is not None)
    ended = asyncio.create_task(_until_ended([Flow(world, mirror, once=once)]))  # type: ignore[list-item]
    if number is not None:
        await until(lambda: "t" in world.b.made)
        os.kill(os.getpid(), number)
    assert await ended == code


async def test_a_second_signal_ends_at_once(world: World) -> None:
    """Though what is under way has no answer; nothing is waited for, and asyncio has nothing to tell of it."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    world.a.make("t")
    mirror = world.mirror()
    if world.engine is not None:
        world.engine.grace_seconds = 3 * QUIET_SECONDS  # nobody kills these workers
    ended = asyncio.create_task(_until_ended([Flow(world, mirror, once=False)]))  # type: ignore[list-item]
    await until(lambda: "t" in world.b.made)
    world.b.held = {"t"}
    world.a.put("t", 0, numbers(0, 3))
    await until(lambda: mirror.bytes_under_way > 0)
    os.kill(os.getpid(), signal.SIGINT)
    await a_quiet_while()
    assert not ended.done()
    os.kill(os.getpid(), signal.SIGINT)
    assert await ended == 130
    del ended
    gc.collect()
    assert told == []
    world.b.held.clear()
