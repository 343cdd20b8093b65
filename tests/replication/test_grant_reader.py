"""How often a log is read, and how what was read comes out of the thread that reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.model.errors import Damaged
from fairlead.replication.grant_reader import READ_AT_ONCE_BYTES, Pace, in_thread


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def read(pace: Pace, clock: Clock, took: float) -> None:
    """A read that takes so long."""
    pace.begin()
    clock.now += took
    pace.end()


@pytest.mark.parametrize(("took", "waits"), [(0.0, 0.0), (2.0, 2.0), (6.0, 4.0), (15.0, 0.0)])
def test_between_two_reads_passes_as_much_time_as_the_first_took_within_the_interval(took: float, waits: float) -> None:
    """A cheap read is soon followed by the next; a dear one lets commits gather; a long one has let them gather."""
    clock = Clock()
    pace = Pace(clock, interval_max=10.0)
    read(pace, clock, took)
    assert pace.wait_seconds() == pytest.approx(waits)


def test_the_first_commit_and_one_after_a_rest_are_read_at_once() -> None:
    """Nothing is waited for when the last read is long ago."""
    clock = Clock()
    pace = Pace(clock, interval_max=10.0)
    assert pace.wait_seconds() == 0
    read(pace, clock, 4.0)
    clock.now += 4.0
    assert pace.wait_seconds() == 0


async def test_small_items_come_out_of_the_thread_together_and_large_ones_one_by_one() -> None:
    """All in their order, none of them twice."""
    sizes = [1, 2, READ_AT_ONCE_BYTES, READ_AT_ONCE_BYTES + 1, 3]
    found = [some async for some in in_thread(iter(sizes), lambda size: size)]
    assert found == [sizes[:3], sizes[3:4], sizes[4:]]


async def test_nothing_comes_of_nothing() -> None:
    """Not an empty list either."""
    assert [some async for some in in_thread(iter([]), len)] == []


async def test_what_was_read_before_an_error_is_given_before_it_is_raised() -> None:
    """A damaged object holds up what lies behind it, not what lies before; and it is never taken for the end."""

    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise Damaged("three", "it is")

    coming = in_thread(items(), lambda _: 1)
    assert await anext(coming) == [1, 2]
    with pytest.raises(Damaged, match="three"):
        await anext(coming)
