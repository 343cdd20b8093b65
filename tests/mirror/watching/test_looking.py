"""Since when a partition has been behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.mirror.books.book import Position
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Place
from fairlead.mirror.report import Tally
from fairlead.mirror.watching.looking import Ends, Looking
from fairlead.mirror.watching.serving import watched
from fairlead.model.addresses import Address
from tests.mirror.fake import FakeCluster
from tests.streamlog.world import FakeClock
from tests.support.waiting import until


def test_a_partition_is_behind_since_its_next_record_was_seen() -> None:
    """Not since the newest one was, and not at all once all is mirrored."""
    ends = Ends()
    ends.look(end=10, written=10, position=10, now_ms=0)
    assert ends.seconds_behind(10, 0) == 0
    ends.look(end=20, written=20, position=10, now_ms=5_000)
    ends.look(end=30, written=30, position=10, now_ms=10_000)
    assert ends.seconds_behind(10, 12_000) == 7
    assert ends.seconds_behind(20, 12_000) == 2
    assert ends.seconds_behind(30, 12_000) == 0
    ends.look(end=30, written=30, position=30, now_ms=15_000)
    assert ends.seconds_behind(30, 20_000) == 0


def test_an_end_that_stays_is_as_old_as_it_is() -> None:
    """However often it is looked at."""
    ends = Ends()
    for second in range(5):
        ends.look(end=10, written=10, position=4, now_ms=second * 1_000)
    assert ends.seconds_behind(4, 9_000) == 9


def test_memory_is_bounded_and_the_oldest_is_kept() -> None:
    """A partition that stands still for days knows for how long."""
    ends = Ends()
    for second in range(5_000):
        ends.look(end=second + 1, written=second + 1, position=0, now_ms=second * 1_000)
    assert len(ends._seen) == 1_000  # noqa: SLF001 — how much is kept shows nowhere else
    assert ends.seconds_behind(0, 5_000_000) == 5_000


def flow(source: FakeCluster, *positions: int) -> Any:
    """A mirror of topic `t` that is so far in its partitions."""
    copies = {}
    for number, offset in enumerate(positions):
        part = Part(source.id, source.made["t"].topic_id, "t", number)
        copies[part] = Standing(part, "t", Position(offset, -1, "t", "t"), Tally(), lambda standing: None)
    return SimpleNamespace(sources=[SimpleNamespace(cluster=source, copies=copies)])


def of(looking: Looking, mirror: Any, number: int = 0) -> Ends:
    """What was seen of that partition for that mirror."""
    return looking.of([*mirror.sources[0].copies.values()][number])


async def test_flows_of_one_source_are_each_behind_for_as_long_as_they_are() -> None:
    """One that is not behind does not make another one's record younger."""
    source = FakeCluster("a")
    source.make("t")
    source.put("t", 0, [b"1", b"2", b"3"])
    clock = FakeClock()
    looking, flows = Looking(clock), [flow(source, 3), flow(source, 1)]
    began = clock.monotonic_ms()
    for _ in range(3):
        await looking.look(flows)
        clock.pass_ms(1_000)
    assert of(looking, flows[0]).seconds_behind(3, began + 5_000) == 0
    assert of(looking, flows[1]).seconds_behind(1, began + 5_000) == 5


async def test_what_has_no_leader_keeps_nobody_from_looking_at_the_rest() -> None:
    """Of its own topic, and of another source."""
    first, second = FakeCluster("a"), FakeCluster("b")
    for source in (first, second):
        source.make("t", 2)
    first.leaderless = {Place("t", 0)}
    looking, flows = Looking(FakeClock()), [flow(first, 0, 0), flow(second, 0, 0)]
    await looking.look(flows)
    for source in (first, second):
        source.put("t", 1, [b"1", b"2"])
    await looking.look(flows)
    assert [of(looking, each, 1).end for each in flows] == [2, 2]


async def test_that_nobody_looks_any_more_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the program: the page would go on and show what was."""

    async def fails(looking: Looking, mirrors: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Looking, "look", fails)
    said: list[str] = []
    async with watched([], Address("127.0.0.1", 0), FakeClock(), said.append, insecure=False):
        await until(lambda: any("looked at no more" in line and "a fault" in line for line in said))
