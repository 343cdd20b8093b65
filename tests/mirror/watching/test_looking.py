"""Since when a partition has been behind."""

from __future__ import annotations

from fairlead.mirror.watching.looking import Ends


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
