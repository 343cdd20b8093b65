"""What a mirror with `--exactly.once` does between clusters in memory: each record once, whatever fails and whoever is
killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import pytest

from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.exactly import strand
from fairlead.mirror.names import REGISTRY, positions_topic
from fairlead.mirror.ports import EARLIEST, Answer, Place, Topic, Trouble
from fairlead.mirror.workers.sink import Sink
from fairlead.model.errors import Aborted, FairleadError, Fenced, InvalidValue
from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch
from fairlead.spark.control import Control
from tests.mirror.fake import FakeCluster, FakeFeed, FakeTransactional
from tests.mirror.joined import Attempt
from tests.mirror.world import QUICK, World
from tests.support.waiting import WAIT_SECONDS, a_quiet_while, in_time, until

POSITIONS = positions_topic("m")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions of some milliseconds, so that there are many."""
    monkeypatch.setattr(strand, "TRANSACTION_SECONDS", 0.005)
    monkeypatch.setattr(strand, "IDLE_SECONDS", 0.02)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def offsets(cluster: FakeCluster) -> dict[int, int]:
    """The positions that stand in the books, by partition."""
    found: dict[int, int] = {}
    for lane in range(16):
        for record in cluster.records(POSITIONS, lane):
            key = json.loads(record.key or b"")
            if key["of"] == "position":
                found[key["partition"]] = json.loads(record.value or b"")["offset"]
    return found


def targets(cluster: FakeCluster) -> set[str]:
    """The topics that positions in the books are of."""
    values = [json.loads(record.value or b"") for lane in range(16) for record in cluster.records(POSITIONS, lane)]
    return {value["to"] for value in values if "to" in value}


def of_origins(transactional_ids: Iterable[str]) -> set[str]:
    """The origins that some of these are of."""
    ends = {each.removeprefix("fairlead-mirror.m.") for each in transactional_ids}
    return {end.split(".", 1)[1] for end in ends if "." in end}


def failing(times: int, error: Callable[[], FairleadError]) -> Callable[[str], FairleadError | None]:
    """So many commits of data fail."""
    left = [times]

    def fails(transactional_id: str) -> FairleadError | None:
        if transactional_id.endswith(".a") and left[0]:
            left[0] -= 1
            return error()
        return None

    return fails


async def test_all_is_mirrored_once_with_its_positions(world: World) -> None:
    """By a second run too, which has nothing to do."""
    world.a.make("t", 3)
    for partition in range(3):
        world.a.put("t", partition, numbers(0, 20))
    mirror = await world.once(exactly_once=True)
    assert mirror.tally.clean
    assert mirror.tally.records == 60
    assert [world.b.values("t", partition) for partition in range(3)] == [numbers(0, 20)] * 3
    assert offsets(world.b) == {0: 20, 1: 20, 2: 20}
    again = await world.once(exactly_once=True)
    assert again.tally.records == 0


async def test_a_destination_without_transactions_is_refused_before_anything_is_made(world: World) -> None:
    """Also for a dry run. Nothing is written there."""
    world.a.make("t")
    world.b.transactions = False
    for options in ({}, {"dry_run": True}):
        with pytest.raises(InvalidValue, match="stream replica autosetup"):
            await world.once(exactly_once=True, **options)
    assert not world.b.made


@pytest.mark.parametrize("error", [Aborted, Fenced])
async def test_after_a_transaction_that_failed_all_of_it_is_mirrored_again(
    world: World, error: type[FairleadError]
) -> None:
    """A fence too, as long as no other process runs the mirror: a transaction that took too long looks like one."""
    world.a.make("t", 2)
    for partition in range(2):
        world.a.put("t", partition, numbers(0, 50))
    world.b.fails = failing(3, lambda: error("as the test wants"))
    mirror = await world.once(exactly_once=True)
    assert [world.b.values("t", partition) for partition in range(2)] == [numbers(0, 50)] * 2
    assert mirror.tally.records == 100
    assert "3 failed" in mirror.tally.notes["transactions"]
    assert mirror.tally.clean
    assert any("as the test wants" in line for line in world.said)


async def test_a_broker_that_does_not_know_the_books_does_not_make_them_empty(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not heard of the topic for a moment, in which a transaction has failed and positions are read."""
    topics = world.b.topics
    unknown = [0]

    async def not_all(names: Iterable[str] | None) -> Mapping[str, Topic]:
        found = dict(await topics(names))
        if unknown[0] and POSITIONS in found:
            del found[POSITIONS]
            unknown[0] -= 1
        return found

    monkeypatch.setattr(world.b, "topics", not_all)
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 20))
    async with world.running(exactly_once=True) as mirror:
        await until(lambda: world.b.values("t") == numbers(0, 20))
        world.b.opened_id = lambda transactional_id: unknown.__setitem__(0, 1)
        world.b.fails = failing(1, lambda: Aborted("as the test wants"))
        world.a.put("t", 0, numbers(20, 40))
        await until(lambda: len(world.b.values("t")) >= 40)
        await until(lambda: offsets(world.b) == {0: 40})
    assert world.b.values("t") == numbers(0, 40)
    assert unknown == [0]
    assert mirror.tally.clean


async def test_what_was_fetched_before_a_failure_is_not_taken_after_it(world: World) -> None:
    """The stream holds an answer while it is paused. Taken later, it would lie beyond what is mirrored again."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 200))
    mirror = world.mirror(exactly_once=True)
    fails = failing(1, lambda: Aborted("as the test wants"))

    def fails_and_pauses(transactional_id: str) -> FairleadError | None:
        error = fails(transactional_id)
        if error is not None:
            mirror.pause(True)
        return error

    task = asyncio.create_task(mirror.run())
    await until(lambda: world.a.fetched)  # where it begins is committed
    world.b.fails = fails_and_pauses
    await until(lambda: "paused" in world.said)
    await a_quiet_while()
    mirror.pause(False)
    await until(partial(has, world, 200))
    mirror.stop()
    await task
    assert world.b.values("t") == numbers(0, 200)


async def test_where_a_partition_begins_anew_outlives_its_first_transaction(world: World) -> None:
    """It has another topic at the destination now: the position in the books is not of that one."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    await world.once(exactly_once=True)
    world.b.fails = failing(2, lambda: Aborted("as the test wants"))
    world.a.put("t", 0, numbers(5, 8))
    mirror = await world.once(exactly_once=True, prefix="x.")
    assert "2 failed" in mirror.tally.notes["transactions"]
    assert world.b.values("x.t") == numbers(0, 8)


class SlowRegistry(FakeCluster):
    """A source whose registry is read only when the test says so."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.gate = asyncio.Event()
        self.gate.set()
        self.waits = False

    async def topics(self, names: Iterable[str] | None) -> Mapping[str, Topic]:
        if names == [REGISTRY]:
            self.waits = not self.gate.is_set()
            await self.gate.wait()
        return await super().topics(names)


async def test_what_is_worked_on_while_a_transaction_fails_is_not_sent_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of a producer that is not known yet wait for the registry; the lane goes back meanwhile."""
    source = SlowRegistry("a")
    source.make("t")
    source.put("t", 0, numbers(0, 4))
    mirror = world.mirror(source, exactly_once=True)
    task = asyncio.create_task(mirror.run())
    await until(partial(has, world, 4))
    failures = failing(1, lambda: Aborted("as the test wants"))
    world.b.fails = lambda transactional_id: failures(transactional_id) if source.waits else None
    commit = FakeTransactional.commit
    commits: list[FakeTransactional] = []

    async def commit_once_it_waits(self: FakeTransactional) -> None:
        commits.append(self)
        await until(lambda: source.waits or source.gate.is_set())
        await commit(self)

    source.gate.clear()
    monkeypatch.setattr(FakeTransactional, "commit", commit_once_it_waits)
    source.put("t", 0, numbers(4, 8))
    await until(lambda: bool(commits))
    source.put("t", 0, numbers(8, 12), producer_id=7)
    await until(lambda: any("as the test wants" in line for line in world.said))
    await a_quiet_while()
    source.gate.set()
    await until(partial(has, world, 12))
    mirror.stop()
    await task
    assert world.b.values("t") == numbers(0, 12)


class Watched(FakeCluster):
    """A source that counts looks at its topics."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.looks = 0

    async def topics(self, names: Iterable[str] | None) -> Mapping[str, Topic]:
        self.looks += names is None
        return await super().topics(names)


async def test_a_topic_that_is_missed_for_one_look_comes_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What of it is in a transaction is committed once it is found again."""
    source = Watched("a")
    source.make("t")
    source.put("t", 0, numbers(0, 4))
    begun, go_on = asyncio.Event(), asyncio.Event()
    commits = FakeTransactional.commit

    async def waits(self: FakeTransactional) -> None:
        begun.set()
        await go_on.wait()
        await commits(self)

    async with world.running(source, exactly_once=True) as mirror:
        await until(lambda: has(world, 4) and mirror.left == 0)
        monkeypatch.setattr(FakeTransactional, "commit", waits)
        source.put("t", 0, numbers(4, 8))
        await begun.wait()
        missed, looks = source.made.pop("t"), source.looks
        await until(lambda: source.looks > looks)
        await a_quiet_while()
        source.made["t"] = missed
        go_on.set()
        source.put("t", 0, numbers(8, 12))
        await until(lambda: world.b.values("t")[-1:] == [b"11"] and mirror.left == 0)
        await a_quiet_while()
    assert world.b.values("t") == numbers(0, 12)


class Asked(FakeCluster):
    """A source that says only when the test lets it where partitions begin."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0

    async def offsets(self, places: Iterable[Place], at: int) -> Mapping[Place, int]:
        if at == EARLIEST and not self.gate.is_set():
            self.asked += 1
            await self.gate.wait()
        return await super().offsets(places, at)


class Leaping(FakeFeed):
    """Says once, as the test wants, that the offset which it stands at is not there."""

    at: int | None = None

    def _answer(self, place: Place) -> Answer | None:
        if place in self._at and self._at[place][1] == Leaping.at:
            Leaping.at = None
            return Answer(place, memoryview(b""), (), -1, Trouble.OUT_OF_RANGE)
        return super()._answer(place)


@pytest.mark.parametrize("world", ["local"], indirect=True)
async def test_what_is_decided_while_a_transaction_fails_is_not_for_what_is_mirrored_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is asked where the partition begins; the lane goes back before it answers."""
    source = Asked("a")
    source.make("t")
    source.put("t", 0, numbers(0, 4))
    monkeypatch.setattr(source, "feed", lambda *, committed=True: Leaping(source, committed=committed))
    asked = failing(1, lambda: Aborted("as the test wants"))
    async with world.running(source, exactly_once=True) as mirror:
        await until(lambda: has(world, 4) and mirror.left == 0)
        source.gate.clear()
        world.b.fails = lambda transactional_id: asked(transactional_id) if source.asked else None
        monkeypatch.setattr(strand, "TRANSACTION_SECONDS", 0.2)
        monkeypatch.setattr(Leaping, "at", 8)
        source.put("t", 0, numbers(4, 8))
        await until(lambda: any("as the test wants" in line for line in world.said))
        await a_quiet_while()
        source.gate.set()
        source.put("t", 0, numbers(8, 12))
        await until(lambda: world.b.values("t")[-1:] == [b"11"])
    assert world.b.values("t") == numbers(0, 12)


async def test_an_end_does_not_wait_for_a_topic_that_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last transaction failed, and nothing of it can be fetched again."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 4))
    begun, deleted = asyncio.Event(), asyncio.Event()
    commits = FakeTransactional.commit

    async def fails_once(self: FakeTransactional) -> None:
        if not begun.is_set():
            begun.set()
            await deleted.wait()
            raise Aborted("as the test wants")
        await commits(self)

    async with world.running(exactly_once=True) as mirror:
        await until(partial(has, world, 4))
        monkeypatch.setattr(FakeTransactional, "commit", fails_once)
        world.a.put("t", 0, numbers(4, 8))
        await begun.wait()
        del world.a.made["t"]
        world.a.change()
        await until(lambda: "t" in mirror.tally.notes)
        deleted.set()
    assert not any("has not acknowledged everything" in line for line in world.said)
    assert world.b.values("t") == numbers(0, 4)


async def test_a_transaction_that_took_too_long_is_told_and_the_next_are_smaller(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 9))
    world.b.transaction_seconds = 0.001
    world.b.fails = failing(1, lambda: Fenced("as the test wants"))
    await world.once(exactly_once=True)
    assert any("transaction.timeout.ms" in line and "of 4,194,304 bytes" in line for line in world.said)
    assert world.b.values("t") == numbers(0, 9)


async def test_a_transaction_that_a_dead_mirror_left_open_hides_no_holder(world: World) -> None:
    """Else who takes over would not see its own record, and take the dead one for the holder."""
    world.a.make("t")
    async with world.killed(exactly_once=True):
        await until(lambda: world.b.records(POSITIONS))
    log = world.b.made[POSITIONS].logs[0]
    log.held_at = log.end
    async with world.running(takeover=True):
        world.a.put("t", 0, numbers(0, 3))
        await until(partial(has, world, 3))


async def test_killed_at_any_moment_each_record_comes_once(world: World) -> None:
    """Also what was acknowledged and not committed."""
    world.a.make("t", 2)
    for turn in range(12):
        for partition in range(2):
            world.a.put("t", partition, numbers(turn * 10, turn * 10 + 10))
        async with world.killed(exactly_once=True):
            await asyncio.sleep(0.004 * turn)
    await world.once(exactly_once=True)
    assert [world.b.values("t", partition) for partition in range(2)] == [numbers(0, 120)] * 2


async def test_what_comes_while_it_runs_comes_once(world: World) -> None:
    world.a.make("t")
    async with world.running(exactly_once=True):
        for number in range(30):
            world.a.put("t", 0, [b"%d" % number])
            await asyncio.sleep(0.001)
        await until(lambda: len(world.b.values("t")) == 30)
        await a_quiet_while()
    assert world.b.values("t") == numbers(0, 30)


async def test_who_takes_over_ends_the_other_and_nothing_comes_twice(world: World) -> None:
    """The zombie's transaction fails; it finds that it is not the holder any more, and ends."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 10))
    zombie = world.mirror(exactly_once=True)
    task = asyncio.create_task(zombie.run())
    await until(lambda: len(world.b.values("t")) == 10)
    async with world.running(exactly_once=True, takeover=True):
        world.a.put("t", 0, numbers(10, 20))
        with pytest.raises(Fenced, match="taken over"):
            await task
        world.a.put("t", 0, numbers(20, 30))
        await until(lambda: len(world.b.values("t")) >= 30)
    assert world.b.values("t") == numbers(0, 30)


async def test_positions_go_over_from_one_kind_of_mirror_to_the_other(world: World) -> None:
    """And back: both write the same records."""
    world.a.make("t")
    for turn, exactly in enumerate((False, True, False, True)):
        world.a.put("t", 0, numbers(turn * 10, turn * 10 + 10))
        await world.once(exactly_once=exactly)
    assert world.b.values("t") == numbers(0, 40)


async def test_where_a_partition_begins_is_committed_before_anything_is_fetched(world: World) -> None:
    """So `--from latest` means one moment, whatever is killed."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    async with world.killed(exactly_once=True, begin="latest"):
        await until(lambda: offsets(world.b) == {0: 5})
    world.a.put("t", 0, numbers(5, 8))
    await world.once(exactly_once=True, begin="latest")
    assert world.b.values("t") == numbers(5, 8)


async def test_where_a_partition_begins_is_known_though_nothing_was_carried(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start with `--once` mirrors what came since the one before, also if that was nothing at first; of each
    source, and though no worker had begun before it was over."""
    other = FakeCluster("c")
    sources = {"t": world.a, "u": other}
    for topic, source in sources.items():
        source.make(topic, 3)
        for partition in range(3):
            source.put(topic, partition, numbers(0, 3))
    with monkeypatch.context() as slow:
        slow.setattr(Attempt, "run", lambda attempt: asyncio.sleep(WAIT_SECONDS))
        await world.once(world.a, other, exactly_once=True, begin="latest")
    for topic, source in sources.items():
        for partition in range(3):
            source.put(topic, partition, numbers(3, 5))
    await world.once(world.a, other, exactly_once=True, begin="latest")
    for topic in sources:
        assert [world.b.values(topic, partition) for partition in range(3)] == 3 * [numbers(3, 5)]


async def test_whoever_was_taken_over_writes_no_more_where_partitions_begin(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paused between its plan and that: the other one has begun, and is further since."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    offsets_of, go_on, there = world.b.offsets, asyncio.Event(), asyncio.Event()

    async def paused(places: Iterable[Place], at: int) -> Mapping[Place, int]:
        if Place("t", 0) in places:
            there.set()
            await go_on.wait()
        return await offsets_of(places, at)

    world.b.make("t")
    world.paces = replace(QUICK, holder=WAIT_SECONDS)
    monkeypatch.setattr(world.b, "offsets", paused)
    before = asyncio.create_task(world.mirror(exactly_once=True).run())
    async with in_time():
        await there.wait()
    monkeypatch.setattr(world.b, "offsets", offsets_of)
    await world.once(exactly_once=True, takeover=True)
    assert offsets(world.b) == {0: 3}
    go_on.set()
    with pytest.raises(Fenced):
        await before
    assert offsets(world.b) == {0: 3}
    assert world.b.values("t") == numbers(0, 3)


@pytest.mark.parametrize("end", [20, 23])
async def test_a_position_goes_over_what_was_lost(world: World, end: int) -> None:
    """Also if nothing has come since: else the loss would be told again with each start."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 10))
    await world.once(exactly_once=True)
    world.a.put("t", 0, numbers(10, end))
    world.a.made["t"].logs[0].expire(20)
    mirror = await world.once(exactly_once=True, on_gap="continue")
    assert mirror.tally.lost_offsets == 10
    assert world.b.values("t") == numbers(0, 10) + numbers(20, end)
    assert offsets(world.b) == {0: end}
    assert (await world.once(exactly_once=True)).tally.clean


async def test_that_a_partition_has_another_topic_is_committed_though_nothing_comes(world: World) -> None:
    """It begins at the offset where it stood: the position in the books was of the other topic all the same."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    await world.once(exactly_once=True)
    async with world.killed(exactly_once=True, prefix="x.", begin="latest"):
        await until(lambda: "x.t" in targets(world.b))
    world.a.put("t", 0, numbers(5, 8))
    await world.once(exactly_once=True, prefix="x.", begin="latest")
    assert world.b.values("x.t") == numbers(5, 8)


# ---------------------------------------------------------------- workers


of_workers = pytest.mark.parametrize("world", ["workers"], indirect=True)


async def replaced(world: World, side: str) -> None:
    """Kill the reader or the sink of the worker; it has another attempt then."""
    assert world.engine is not None
    attempts = world.engine.attempts
    before = attempts[0]
    before.kill(side)
    await until(lambda: attempts[0] is not before)


@of_workers
@pytest.mark.parametrize("side", ["reader", "sink"])
async def test_a_worker_that_dies_doubles_nothing(world: World, side: str) -> None:
    """At moments before, in and after its transactions."""
    world.a.make("t", 2)
    async with world.running(exactly_once=True):
        await until(lambda: world.engine is not None and 0 in world.engine.attempts)
        for turn in range(8):
            for partition in range(2):
                world.a.put("t", partition, numbers(10 * turn, 10 * turn + 10))
            await asyncio.sleep(0.004 * turn)  # the moment of the kill, not a condition
            await replaced(world, side)
        await until(lambda: all(len(world.b.values("t", partition)) >= 80 for partition in range(2)))
        await a_quiet_while()
    assert [world.b.values("t", partition) for partition in range(2)] == [numbers(0, 80)] * 2


@of_workers
async def test_what_a_dead_worker_has_committed_and_not_told_comes_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator knows an older position; the next worker finds what the books say, and is given that."""
    silent: set[Sink] = set()
    says = Sink._say_progress  # noqa: SLF001 - what it says is held back

    async def say_progress(sink: Sink, control: Control) -> None:
        if sink not in silent:
            await says(sink, control)

    monkeypatch.setattr(Sink, "_say_progress", say_progress)
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 5))
    async with world.running(exactly_once=True) as mirror:
        await until(lambda: has(world, 5) and mirror.left == 0)
        assert world.engine is not None
        silent.add(world.engine.attempts[0].sink)
        world.a.put("t", 0, numbers(5, 9))
        await until(partial(has, world, 9))
        await replaced(world, "sink")
        world.a.put("t", 0, numbers(9, 12))
        await until(lambda: world.b.values("t")[-1:] == [b"11"] and mirror.left == 0)
    assert world.b.values("t") == numbers(0, 12)


# ---------------------------------------------------------------- refusals


def refusing(value: bytes) -> Callable[[str, int, Outgoing], str | None]:
    return lambda topic, partition, outgoing: "too ugly" if topic == "t" and value in bytes(outgoing.body) else None


async def test_what_is_refused_stops_its_partition_and_all_before_it_gets_through(world: World) -> None:
    """Its first transaction fails with the batches that were good; the second ends before it. The others go on."""
    world.a.make("t", 2)
    world.a.put("t", 0, [b"1" * 70_000, b"2" * 70_000, b"bad" * 30_000, b"3" * 70_000])
    world.a.put("t", 1, numbers(0, 5))
    world.b.refuses = refusing(b"bad")
    for _ in range(2):
        mirror = await world.once(exactly_once=True)
        assert "topic t, partition 0" in mirror.tally.stops
        assert "offsets 2 to 2: too ugly" in mirror.tally.stops["topic t, partition 0"]
        assert [value[:1] for value in world.b.values("t") if value] == [b"1", b"2"]
        assert world.b.values("t", 1) == numbers(0, 5)
    assert offsets(world.b)[0] == 2
    world.b.refuses = lambda topic, partition, outgoing: None
    await world.once(exactly_once=True)
    assert [value[:1] for value in world.b.values("t") if value] == [b"1", b"2", b"b", b"3"]


async def test_positions_that_cannot_be_written_end_the_mirror(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, [b"1"])
    world.b.refuses = lambda topic, partition, outgoing: (
        "no" if topic == POSITIONS and b'"position"' in bytes(outgoing.body) else None
    )
    with pytest.raises(FairleadError, match="no"):
        await world.once(exactly_once=True)
    assert not world.b.values("t")


# ---------------------------------------------------------------- what is left out


async def test_a_position_moves_over_what_is_left_out(world: World) -> None:
    """Markers and aborted records, though nothing is mirrored: else they would be fetched at each start."""
    world.a.make("t")
    log = world.a.made["t"].logs[0]
    log.append(build_batch([(None, b"lost")], producer_id=7, attributes=TRANSACTIONAL))
    log.aborted = [(7, 0)]
    log.append(build_batch([(b"\0\0\0\0", bytes(6))], producer_id=7, attributes=TRANSACTIONAL | CONTROL))
    mirror = await world.once(exactly_once=True)
    assert mirror.tally.aborted_records == 1
    assert offsets(world.b) == {0: 2}
    assert world.b.values("t") == []


# ---------------------------------------------------------------- several origins


async def test_each_origin_has_transactions_of_its_own(world: World) -> None:
    """A → B → C: at C, what A wrote and what B wrote have other producers, in one partition, in order."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    await world.once(exactly_once=True)
    world.b.put("t", 0, [b"b"])
    world.a.put("t", 0, numbers(3, 5))
    await world.once(exactly_once=True)
    c = FakeCluster("c")
    await world.once(world.b, to=c, exactly_once=True)
    assert c.values("t") == [b"0", b"1", b"2", b"b", b"3", b"4"]
    assert of_origins(c.commits) == {"a", "b"}
    entered = {json.loads(record.value or b"")["origin"] for record in c.records(REGISTRY)}
    assert entered == {"a", "b"}
    await world.once(c, to=world.a, exactly_once=True, name="back")
    assert world.a.values("t") == [*numbers(0, 5), b"b"]


async def test_facing_mirrors_come_to_rest(world: World) -> None:
    world.a.make("t")
    world.b.make("t")
    async with world.running(exactly_once=True), world.running(world.b, to=world.a, exactly_once=True, name="back"):
        world.a.put("t", 0, [b"a"])
        world.b.put("t", 0, [b"b"])
        await until(lambda: both(world.a) == both(world.b) == [b"a", b"b"])
        await a_quiet_while()
    assert both(world.a) == both(world.b) == [b"a", b"b"]


def both(cluster: FakeCluster) -> list[bytes]:
    return sorted(value for value in cluster.values("t") if value is not None)


async def test_a_lane_fences_all_origins_of_the_one_before(world: World) -> None:
    """Of those too that it has nothing for."""
    world.a.make("t")
    world.a.put("t", 0, [b"a"])
    await world.once(exactly_once=True)
    world.b.put("t", 0, [b"b"])
    c = FakeCluster("c")
    await world.once(world.b, to=c, exactly_once=True)
    before = dict(c.owners)
    assert of_origins(before) == {"a", "b"}
    await world.once(world.b, to=c, exactly_once=True)
    assert all(c.owners[name] > before[name] for name in before)


async def test_a_destination_that_is_away_is_waited_for(world: World) -> None:
    world.a.make("t")
    async with world.running(exactly_once=True):
        world.a.put("t", 0, numbers(0, 5))
        await until(partial(has, world, 5))
        world.b.away = True
        world.a.put("t", 0, numbers(5, 9))
        await a_quiet_while()
        world.b.come_back()
        await until(partial(has, world, 9))
    assert world.b.values("t") == numbers(0, 9)


def has(world: World, count: int) -> bool:
    return len(world.b.values("t")) == count
