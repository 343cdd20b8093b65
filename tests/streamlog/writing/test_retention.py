"""A clock that jumps deletes nothing (F12)."""

from __future__ import annotations

import pytest
from tests.streamlog.world import FakeClock, fresh, made, opened, produced

from fairlead.streamlog.writing.retention import ExpiryGuard, Hold, HoldReason

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
    assert guard.hold is None


def test_without_a_time_to_live_nothing_expires(clock: FakeClock) -> None:
    """0 means for ever."""
    assert ExpiryGuard(clock).cut_off_ms(0) is None


def test_after_a_jump_forward_times_run_on_and_nothing_expires(clock: FakeClock) -> None:
    """A ship's clock that says 2036 for a minute."""
    guard = ExpiryGuard(clock)
    before = guard.now_ms()
    clock.wall += 10 * 365 * DAY_MS
    clock.pass_ms(60_000)
    assert guard.hold == Hold(HoldReason.JUMP, 10 * 365 * DAY_MS, 0, DAY_MS)
    assert guard.now_ms() == before + 60_000
    assert guard.cut_off_ms(TTL_MS) is None


def test_a_jump_that_is_taken_back_is_over(clock: FakeClock) -> None:
    """The clock said 2036 for a minute, then the right time again."""
    guard = ExpiryGuard(clock)
    guard.now_ms()
    clock.wall += 10 * 365 * DAY_MS
    assert guard.hold is not None
    clock.wall -= 10 * 365 * DAY_MS
    clock.pass_ms(1000)
    assert guard.hold is None
    assert guard.now_ms() == clock.wall


def test_after_a_day_in_step_the_new_time_is_believed(clock: FakeClock) -> None:
    """It was the old one that was wrong; what was appended before lives as long as it would have."""
    guard = ExpiryGuard(clock)
    guard.now_ms()
    clock.wall += 100 * DAY_MS
    assert guard.hold is not None
    clock.pass_ms(DAY_MS - 1)
    assert guard.cut_off_ms(TTL_MS) is None
    clock.pass_ms(1)
    assert guard.now_ms() == clock.wall
    assert guard.cut_off_ms(TTL_MS) == clock.wall - 100 * DAY_MS - TTL_MS
    clock.pass_ms(TTL_MS + 1)
    assert guard.cut_off_ms(TTL_MS) == clock.wall - TTL_MS


def test_another_jump_starts_the_day_again(clock: FakeClock) -> None:
    """24 hours in step, not 24 hours after the first jump."""
    guard = ExpiryGuard(clock)
    clock.wall += 100 * DAY_MS
    assert guard.hold is not None
    clock.pass_ms(DAY_MS - 1)
    clock.wall += 2 * HOUR_MS
    assert guard.hold is not None
    clock.pass_ms(DAY_MS - 1)
    assert guard.hold is not None
    clock.pass_ms(1)
    assert guard.hold is None


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
    assert guard.hold is not None
    assert guard.now_ms() == clock.wall + 2 * HOUR_MS + 1


# A start


def started(clock: FakeClock, gap_ms: int, record: object = None) -> ExpiryGuard:
    """After `gap_ms` by the wall clock since the newest row."""
    guard = ExpiryGuard(clock, last_appended_at_ms=clock.wall - gap_ms, record=record)
    guard.set_lives((TTL_MS, 2 * TTL_MS, 0))
    return guard


def test_a_start_after_less_than_the_time_to_live_is_believed(clock: FakeClock) -> None:
    """The server was off; what has expired meanwhile goes."""
    guard = started(clock, TTL_MS)
    assert guard.cut_off_ms(TTL_MS) == clock.wall - TTL_MS
    assert guard.record() is None


def test_a_start_far_ahead_expires_nothing_for_an_hour(clock: FakeClock) -> None:
    """300 days: a clock battery is dead, or the server was off. What was there is too old after the hour."""
    guard = started(clock, 300 * DAY_MS)
    last = clock.wall - 300 * DAY_MS
    clock.pass_ms(HOUR_MS - 1)
    assert guard.cut_off_ms(TTL_MS) is None
    assert guard.cut_off_ms(60_000) is None
    hold = guard.hold
    assert hold is not None
    assert (hold.reason, hold.held_ms, hold.left_ms) == (HoldReason.START, HOUR_MS - 1, 1)
    clock.pass_ms(1)
    cut_off = guard.cut_off_ms(TTL_MS)
    assert cut_off is not None
    assert cut_off > last


def test_the_setting_says_how_long_a_start_is_not_believed(clock: FakeClock) -> None:
    """`expiry_hold_seconds`."""
    guard = ExpiryGuard(clock, last_appended_at_ms=clock.wall - 300 * DAY_MS, hold_ms=5000)
    guard.set_lives((TTL_MS,))
    clock.pass_ms(4999)
    assert guard.hold is not None
    clock.pass_ms(1)
    assert guard.hold is None


def test_a_clock_that_is_set_right_within_the_hour_leaves_no_trace(clock: FakeClock) -> None:
    """NTP answers after ten minutes: no row has a time of the future, nothing has expired, and expiry goes on."""
    guard = started(clock, 300 * DAY_MS)
    right = clock.wall - 300 * DAY_MS
    clock.pass_ms(10 * 60_000)
    assert guard.now_ms() == right + 10 * 60_000 + 1
    clock.wall -= 300 * DAY_MS
    assert guard.hold is None
    assert guard.now_ms() == right + 10 * 60_000 + 1
    assert guard.cut_off_ms(TTL_MS) == guard.now_ms() - TTL_MS
    assert guard.record() is None


def test_what_is_written_while_a_start_is_not_believed_lives_as_long_as_all_else(clock: FakeClock) -> None:
    """The clock was right. What was written in the first hour has old times; it goes a time-to-live later, and not
    before, also after a restart."""
    guard = started(clock, 300 * DAY_MS)
    clock.pass_ms(60_000)
    written = guard.commit_time().now_ms
    clock.pass_ms(HOUR_MS)
    for lives in (guard, ExpiryGuard(clock, last_appended_at_ms=guard.now_ms(), record=guard.record())):
        lives.set_lives((TTL_MS,))
        cut_off = lives.cut_off_ms(TTL_MS)
        assert cut_off is not None
        assert clock.wall - 300 * DAY_MS - 2 * HOUR_MS <= cut_off <= written
    clock.pass_ms(TTL_MS - HOUR_MS - 1)
    assert guard.cut_off_ms(TTL_MS) in range(written - HOUR_MS, written + 1)
    clock.pass_ms(HOUR_MS)
    cut_off = guard.cut_off_ms(TTL_MS)
    assert cut_off is not None
    assert cut_off > written


def test_a_restart_within_the_hour_does_not_take_new_rows_for_old_ones(clock: FakeClock) -> None:
    """The second start finds rows of the first, with times as old as those of the rows before."""
    first = started(clock, 300 * DAY_MS)
    clock.pass_ms(60_000)
    written, record = first.commit_time()
    again = started(clock, clock.wall - written, record)
    assert again.cut_off_ms(TTL_MS) is None
    clock.pass_ms(HOUR_MS)
    cut_off = again.cut_off_ms(TTL_MS)
    assert cut_off is not None
    assert written - 60_000 <= cut_off <= written


class PassingClock(FakeClock):
    """Each look at it finds it a millisecond later."""

    def monotonic_ms(self) -> int:
        self.pass_ms(1)
        return self.monotonic


@pytest.mark.parametrize("nth_look", range(1, 6))
@pytest.mark.parametrize("earlier", [True, False])
def test_a_commit_at_the_end_of_a_hold_has_the_leap_in_its_time_and_in_its_record_or_in_neither(
    nth_look: int, earlier: bool
) -> None:
    """The clock is believed at the n-th look. A server that is killed after this commit finds rows of the hold as young
    as they are: they go a time-to-live after they were written, and not before. `earlier`: it is not the first of the
    hold."""
    clock = PassingClock()
    before = fresh(clock=clock)
    number = made(before).number
    produced(before, number, b"old")
    clock.pass_ms(300 * DAY_MS)
    log = opened(before.announced.storage, clock=clock)
    log.upkeep.set_retention(TTL_MS)
    if earlier:
        produced(log, number, b"in the hold")
        written = log.announced.state.appended_at_last
    hold = log.guard.hold
    assert hold is not None
    clock.pass_ms(hold.left_ms - nth_look)
    produced(log, number, b"at its end")
    if not earlier:
        written = log.announced.state.appended_at_last
    again = opened(before.announced.storage, clock=clock)
    again.upkeep.set_retention(TTL_MS)
    clock.pass_ms(HOUR_MS)
    cut_off = again.guard.cut_off_ms(TTL_MS)
    assert cut_off is not None
    assert cut_off <= written
    clock.pass_ms(TTL_MS)
    cut_off = again.guard.cut_off_ms(TTL_MS)
    assert cut_off is not None
    assert cut_off > written


def test_a_quiet_log_is_no_sign_that_the_clock_is_wrong(clock: FakeClock) -> None:
    """Another log of the cluster was written a minute ago."""
    guard = started(clock, 300 * DAY_MS)
    guard.note_newest(clock.wall - 60_000)
    assert guard.hold is None
    assert guard.now_ms() == clock.wall


def test_an_empty_log_is_no_sign_that_the_clock_is_right(clock: FakeClock) -> None:
    """A stream made while the clock is far ahead gets no times of the future."""
    guard = ExpiryGuard(clock)
    guard.set_lives((TTL_MS,))
    guard.note_newest(clock.wall - 300 * DAY_MS)
    assert guard.hold is not None
    assert guard.now_ms() <= clock.wall - 300 * DAY_MS + 1


def test_a_hold_that_was_recorded_is_not_ended_by_another_log(clock: FakeClock) -> None:
    """The other's rows live longer, so it has believed the same wrong clock before the restart."""
    record = started(clock, 300 * DAY_MS).commit_time().record
    again = started(clock, 300 * DAY_MS, record)
    again.note_newest(clock.wall - 60_000)
    assert again.hold is not None


def test_before_lives_are_known_a_start_is_not_believed(clock: FakeClock) -> None:
    """The settings of the stream come after its log is open."""
    guard = ExpiryGuard(clock, last_appended_at_ms=clock.wall - 2 * HOUR_MS)
    assert guard.hold is not None
    guard.set_lives((0, 0))
    assert guard.hold is None
    assert guard.now_ms() == clock.wall


# Accepting


@pytest.mark.parametrize("step_ms", [100 * DAY_MS, -100 * DAY_MS])
def test_a_jump_can_be_accepted_and_makes_no_row_older(clock: FakeClock, step_ms: int) -> None:
    """Forward: new rows have the new time. Back: times run on ahead of the clock."""
    guard = ExpiryGuard(clock)
    before = guard.now_ms()
    clock.wall += step_ms
    hold = guard.accept()
    assert hold is not None
    assert hold.ahead_ms == step_ms
    assert guard.hold is None
    assert guard.now_ms() == max(before, clock.wall)
    assert guard.cut_off_ms(TTL_MS) == before - TTL_MS
    clock.pass_ms(TTL_MS)
    assert guard.cut_off_ms(TTL_MS) == before
    assert guard.accept() is None


def test_a_start_can_be_accepted(clock: FakeClock) -> None:
    """The server was off for 300 days, and somebody says so: what is old goes at once."""
    guard = started(clock, 300 * DAY_MS)
    assert guard.accept() is not None
    assert guard.cut_off_ms(TTL_MS) == clock.wall - TTL_MS


def test_times_that_run_ahead_of_the_clock_are_known_at_the_next_start(clock: FakeClock) -> None:
    """The first start of all was with a clock 300 days ahead; nothing is held for ever after it was set right."""
    guard = ExpiryGuard(clock)
    guard.now_ms()
    clock.wall -= 300 * DAY_MS
    guard.accept()
    last, record = guard.now_ms(), guard.record()
    clock.pass_ms(2 * DAY_MS)
    again = ExpiryGuard(clock, last_appended_at_ms=last, record=record)
    again.set_lives((TTL_MS,))
    assert again.hold is None
    assert again.now_ms() == last + 2 * DAY_MS


def test_a_clock_that_catches_up_with_times_ahead_of_it_is_followed(clock: FakeClock) -> None:
    """It was set back by mistake, accepted, and set right."""
    guard = ExpiryGuard(clock)
    first = guard.now_ms()
    clock.wall -= 300 * DAY_MS
    guard.accept()
    clock.wall += 300 * DAY_MS
    guard.accept()
    assert guard.now_ms() == first
    assert guard.record() is None


def test_leaps_are_few(clock: FakeClock) -> None:
    """However often a clock jumps, the record stays small, and rows live no shorter for it."""
    guard = ExpiryGuard(clock)
    first = guard.now_ms()
    for _ in range(50):
        clock.wall += 2 * HOUR_MS
        guard.accept()
    record = guard.record()
    assert record is not None
    assert len(record["leaps"]) <= 8
    cut_off = guard.cut_off_ms(TTL_MS)
    assert cut_off is not None
    assert cut_off <= first - TTL_MS
