"""A clock that jumps deletes nothing (F12)."""

from __future__ import annotations

import pytest
from tests.streamlog.world import FakeClock

from fairlead.streamlog.writing.retention import ExpiryGuard

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TTL_MS = 7 * DAY_MS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_while_the_clocks_keep_step_expiry_follows_the_wall(clock: FakeClock) -> None:
    """Small corrections are followed too."""
    guard = ExpiryGuard(clock)
    clock.pass_ms(DAY_MS)
    clock.wall += 500
    assert guard.now_ms() == clock.wall
    assert guard.cut_off_ms(TTL_MS) == clock.wall - TTL_MS
    assert not guard.jumped


def test_without_a_time_to_live_nothing_expires(clock: FakeClock) -> None:
    """0 means for ever."""
    assert ExpiryGuard(clock).cut_off_ms(0) is None


def test_after_a_jump_forward_times_run_on_and_nothing_expires(clock: FakeClock) -> None:
    """A ship's clock that says 2036 for a minute."""
    guard = ExpiryGuard(clock)
    before = guard.now_ms()
    clock.wall += 10 * 365 * DAY_MS
    clock.pass_ms(60_000)
    assert guard.jumped
    assert guard.jump_ms == 10 * 365 * DAY_MS
    assert guard.now_ms() == before + 60_000
    assert guard.cut_off_ms(TTL_MS) is None


def test_a_jump_that_is_taken_back_is_over(clock: FakeClock) -> None:
    """The clock said 2036 for a minute, then the right time again."""
    guard = ExpiryGuard(clock)
    guard.now_ms()
    clock.wall += 10 * 365 * DAY_MS
    assert guard.jumped
    clock.wall -= 10 * 365 * DAY_MS
    clock.pass_ms(1000)
    assert not guard.jumped
    assert guard.now_ms() == clock.wall


def test_after_a_day_in_step_the_new_time_is_believed(clock: FakeClock) -> None:
    """It was the old one that was wrong."""
    guard = ExpiryGuard(clock)
    guard.now_ms()
    clock.wall += 100 * DAY_MS
    assert guard.jumped
    clock.pass_ms(DAY_MS - 1)
    assert guard.cut_off_ms(TTL_MS) is None
    clock.pass_ms(1)
    assert guard.cut_off_ms(TTL_MS) == clock.wall - TTL_MS


def test_another_jump_starts_the_day_again(clock: FakeClock) -> None:
    """24 hours in step, not 24 hours after the first jump."""
    guard = ExpiryGuard(clock)
    clock.wall += 100 * DAY_MS
    assert guard.jumped
    clock.pass_ms(DAY_MS - 1)
    clock.wall += 2 * HOUR_MS
    assert guard.jumped
    clock.pass_ms(DAY_MS - 1)
    assert guard.jumped
    clock.pass_ms(1)
    assert not guard.jumped


def test_a_jump_back_never_turns_times_back(clock: FakeClock) -> None:
    """`appended_at` never decreases, also once the new time is believed."""
    guard = ExpiryGuard(clock)
    last = guard.now_ms()
    clock.wall -= 5 * HOUR_MS
    for _ in range(30):
        clock.pass_ms(HOUR_MS)
        assert guard.now_ms() >= last
        last = guard.now_ms()


def test_a_start_behind_the_log_is_a_jump(clock: FakeClock) -> None:
    """The machine lost its clock while it was off."""
    guard = ExpiryGuard(clock, last_appended_at_ms=clock.wall + 2 * HOUR_MS)
    assert guard.jumped
    assert guard.now_ms() == clock.wall + 2 * HOUR_MS


def test_a_start_after_some_weeks_is_none(clock: FakeClock) -> None:
    """The server was off; what has expired meanwhile goes."""
    guard = ExpiryGuard(clock, last_appended_at_ms=clock.wall - 30 * DAY_MS)
    assert guard.cut_off_ms(TTL_MS) == clock.wall - TTL_MS
