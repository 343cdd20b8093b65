"""How often a log is read."""

from __future__ import annotations

import pytest

from fairlead.replication.reader.grant_reader import ReadPace


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def read(pace: ReadPace, clock: Clock, took: float) -> None:
    """A read that takes so long."""
    pace.begin()
    clock.now += took
    pace.end()


@pytest.mark.parametrize(("took", "waits"), [(0.0, 0.0), (2.0, 2.0), (6.0, 4.0), (15.0, 0.0)])
def test_between_two_reads_passes_as_much_time_as_the_first_took_within_the_interval(took: float, waits: float) -> None:
    """A cheap read is soon followed by the next; a dear one lets commits gather; a long one has let them gather."""
    clock = Clock()
    pace = ReadPace(clock, interval_max=10.0)
    read(pace, clock, took)
    assert pace.wait_seconds() == pytest.approx(waits)


def test_the_first_commit_and_one_after_a_rest_are_read_at_once() -> None:
    """Nothing is waited for when the last read is long ago."""
    clock = Clock()
    pace = ReadPace(clock, interval_max=10.0)
    assert pace.wait_seconds() == 0
    read(pace, clock, 4.0)
    clock.now += 4.0
    assert pace.wait_seconds() == 0
