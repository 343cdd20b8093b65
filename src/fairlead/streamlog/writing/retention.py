"""When rows may expire, although the clock may be wrong (F12): a clock that jumps, or is far ahead at the start, must
not delete anything.

`ExpiryGuard` is fed both clocks. While the wall clock is believed, `appended_at` is the wall clock. It is not believed
(a *hold*)

    after a jump     of more than an hour against the monotonic clock, until it has kept its new step for 24 hours
    after a start    that finds it further ahead of the newest row than anything lives, until the server was up for an
                     hour: a machine whose clock lost its battery asks the network for the time after it has started

or until a person accepts it. While a hold lasts, nothing expires, and `appended_at` runs on by the monotonic clock from
the newest row: what is written meanwhile never has a time of the future, which no correction could take back. When it
ends:

    the clock is back in step     `appended_at` follows it again
    believed, and ahead           `appended_at` leaps to the wall clock. What was appended during the hold, after a
                                  jump all that was appended before the leap, has not grown older by it: the leap is
                                  kept in the log (`ClockRecord`), and `cut_off_ms` takes it back for these rows
    believed, and behind          `appended_at` never decreases, so it runs on ahead of the wall clock by so much
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from fairlead.model.clock import Clock
from fairlead.model.strict_json import JsonForm, Natural

JUMP_MS: Final = 3_600_000
"""A larger change of the wall clock against the monotonic one is a jump; a smaller one is followed."""
IN_STEP_MS: Final = 24 * 3_600_000
"""How long the wall clock must keep a new step before it is believed and rows expire again."""
HOLD_MS: Final = 3_600_000
"""How long a server must be up until a clock that was far ahead at its start is believed."""
LEAPS_MAX: Final = 8
"""More leaps than this are not kept: the two oldest become one that keeps rows at least as long as both."""
RECORD_KEY: Final = "clock"
"""Key of the entry in the shard's own log."""


@dataclass(frozen=True, slots=True)
class Leap:
    """Rows with a time in [from, until) were appended `by_ms` later than it says."""

    from_ms: Natural
    until_ms: Natural
    by_ms: Natural

    def cut(self, cut_off_ms: int) -> int:
        """Below which `appended_at` rows are certainly older than `cut_off_ms`."""
        if not self.from_ms < cut_off_ms <= self.until_ms:
            return cut_off_ms
        return max(self.from_ms, cut_off_ms - self.by_ms)

    def joined(self, newer: Leap) -> Leap:
        """One leap that keeps rows at least as long as both."""
        return Leap(min(self.from_ms, newer.from_ms), newer.until_ms, self.by_ms + newer.by_ms)


@dataclass(frozen=True, slots=True)
class ClockRecord:
    """What a log keeps of its clock, beside the time of its rows; written with the first rows that need it."""

    held_from_ms: Natural | None = None
    """Rows from this time on were appended during a hold that has not ended."""
    ahead_ms: Natural = 0
    """`appended_at` runs ahead of a clock that was believed after it had jumped back."""
    leaps: tuple[Leap, ...] = ()
    """Oldest first."""


_RECORD: Final = JsonForm(ClockRecord, head={"v": 1})


class HoldReason(StrEnum):
    """Why the wall clock is not believed."""

    START = "start"
    JUMP = "jump"


class Hold(NamedTuple):
    """Nothing expires for now."""

    reason: HoldReason
    ahead_ms: int
    """By how much the wall clock is ahead of `appended_at`; negative: behind."""
    held_ms: int
    """For how long, by the monotonic clock; another jump begins it again."""
    left_ms: int
    """After this the wall clock is believed."""


class CommitTime(NamedTuple):
    """The time of a commit, and what the log must say of its clock at that time."""

    now_ms: int
    """`appended_at` of its rows."""
    record: dict[str, Any] | None
    """A `ClockRecord`; None: nothing."""


class _Held(NamedTuple):
    reason: HoldReason
    since_ms: int
    """By the monotonic clock."""
    step_ms: int
    """Of the wall clock when it began."""
    from_ms: int
    """Rows with this time and later ones do not grow older by the leap that may end the hold."""


class ExpiryGuard:
    """Gives `appended_at` (milliseconds since 1970, never decreasing) and how far expiry may go. Any thread may ask.

    `last_appended_at_ms` is the newest one in the log, 0 for an empty log. `record` is what the log keeps of its clock.
    The monotonic clock does not know how long the program did not run.
    """

    def __init__(
        self, clock: Clock, *, last_appended_at_ms: int = 0, record: object = None, hold_ms: int = HOLD_MS
    ) -> None:
        known = ClockRecord() if record is None else _RECORD.from_plain(record)
        self._clock = clock
        self._hold_ms = hold_ms
        self._last_ms = last_appended_at_ms
        self._ahead_ms = known.ahead_ms
        self._leaps = known.leaps
        self._newest_ms = 0
        self._shortest_life_ms: int | None = None
        self._lock = threading.Lock()
        self._monotonic_ms = clock.monotonic_ms()
        self._step_ms = self._wanted_ms()
        """`appended_at` minus monotonic clock."""
        self._held: _Held | None = None
        self._written_while_held = known.held_from_ms is not None
        self._plain: tuple[ClockRecord, dict[str, Any] | None] = (ClockRecord(), None)
        if last_appended_at_ms:
            self._hold_from_start(known.held_from_ms)

    def set_lives(self, lives_ms: Sequence[int]) -> None:
        """How long things live in this log, the kinds that expire; 0: for ever. Before it is told, a clock that is more
        than an hour ahead at the start is not believed."""
        with self._lock:
            self._shortest_life_ms = min((life for life in lives_ms if life > 0), default=IN_STEP_MS * 365)
            self._look()

    @property
    def is_told(self) -> bool:
        """Whether it knows how long things live here."""
        return self._shortest_life_ms is not None

    def note_newest(self, newest_ms: int) -> None:
        """A time that other logs of the cluster have reached: one log that was quiet for long is no sign that the clock
        is wrong, and an empty one is no sign that it is right. A hold that the log recorded does not end by it: others
        may have believed the same clock, since their rows live longer."""
        with self._lock:
            if not self._written_while_held:
                self._newest_ms = newest_ms
            if not self._last_ms and newest_ms:
                self._last_ms = newest_ms
                self._hold_from_start(None)
            self._look()

    def now_ms(self) -> int:
        """The `appended_at` of a row that is written now."""
        with self._lock:
            return self._now()

    def cut_off_ms(self, life_ms: int) -> int | None:
        """Rows appended before this may expire; None: nothing may, for now or at all (`life_ms` 0)."""
        with self._lock:
            now_ms = self._now()
            if self._held is not None or life_ms <= 0:
                return None
            cut_off_ms = now_ms - life_ms
            for leap in reversed(self._leaps):
                cut_off_ms = leap.cut(cut_off_ms)
            return cut_off_ms

    @property
    def hold(self) -> Hold | None:
        """Why nothing expires; None while the wall clock is believed."""
        with self._lock:
            self._look()
            held = self._held
            if held is None:
                return None
            for_ms = self._monotonic_ms - held.since_ms
            return Hold(held.reason, self._gap_ms(), for_ms, max(0, self._patience_ms(held) - for_ms))

    def accept(self) -> Hold | None:
        """Believe the wall clock as it is now; answers the hold that this has ended."""
        hold = self.hold
        with self._lock:
            if self._held is not None:
                self._believe(self._held)
        return hold

    def commit_time(self) -> CommitTime:
        """The time of the rows that are written now, with the record that they need. Both are of one look at the clock:
        a time after a leap never stands beside a record of before it."""
        with self._lock:
            now_ms = self._now()
            self._written_while_held |= self._held is not None
            return CommitTime(now_ms, self._record())

    def record(self) -> dict[str, Any] | None:
        """What the log must say of its clock; None: nothing. What writes rows asks for the `commit_time`."""
        with self._lock:
            self._look()
            return self._record()

    # With the lock held

    def _wanted_ms(self) -> int:
        """The step that follows the wall clock as it is now."""
        return self._clock.wall_ms() + self._ahead_ms - self._monotonic_ms

    def _gap_ms(self) -> int:
        return self._wanted_ms() - self._step_ms

    def _now(self) -> int:
        self._look()
        self._last_ms = max(self._last_ms, self._monotonic_ms + self._step_ms)
        return self._last_ms

    def _record(self) -> dict[str, Any] | None:
        held_from_ms = None if self._held is None else self._held.from_ms
        found = ClockRecord(held_from_ms, self._ahead_ms, self._leaps)
        if found != self._plain[0]:
            self._plain = (found, None if found == ClockRecord() else _RECORD.to_plain(found))
        return self._plain[1]

    def _hold_from_start(self, held_from_ms: int | None) -> None:
        """Until the first look judges the clock, it is not believed."""
        wanted_ms = self._wanted_ms()
        after_ms = self._last_ms + 1
        self._step_ms = after_ms - self._monotonic_ms
        from_ms = after_ms if held_from_ms is None else held_from_ms
        self._held = _Held(HoldReason.START, self._monotonic_ms, wanted_ms, from_ms)

    def _look(self) -> None:
        self._monotonic_ms = self._clock.monotonic_ms()
        wanted_ms, gap_ms, held = self._wanted_ms(), self._gap_ms(), self._held
        if abs(gap_ms) <= JUMP_MS:
            # Small corrections are followed: NTP never moves a clock by an hour between two looks.
            self._step_ms = wanted_ms
            self._held, self._written_while_held = None, False
        elif held is None or (held.reason is HoldReason.START and gap_ms < 0):
            self._held = _Held(HoldReason.JUMP, self._monotonic_ms, wanted_ms, 0)
        elif held.reason is HoldReason.START and self._is_plausible(wanted_ms, gap_ms):
            self._believe(held)
        elif abs(wanted_ms - held.step_ms) > JUMP_MS:
            self._held = held._replace(since_ms=self._monotonic_ms, step_ms=wanted_ms)
        elif self._monotonic_ms - held.since_ms >= self._patience_ms(held):
            self._believe(held)

    def _is_plausible(self, wanted_ms: int, gap_ms: int) -> bool:
        """Whether the server may have been off, or this log quiet, for so long."""
        if self._shortest_life_ms is None:
            return False
        ahead_ms = wanted_ms + self._monotonic_ms - self._newest_ms
        return min(gap_ms, ahead_ms if ahead_ms >= -JUMP_MS else gap_ms) <= max(JUMP_MS, self._shortest_life_ms)

    def _patience_ms(self, held: _Held) -> int:
        return self._hold_ms if held.reason is HoldReason.START else IN_STEP_MS

    def _believe(self, held: _Held) -> None:
        """Let the hold end with the wall clock as it is."""
        gap_ms = self._gap_ms()
        if held.reason is HoldReason.JUMP:
            # What ran ahead of the clock lets it catch up; what was behind it runs ahead from now on.
            caught_up_ms = min(gap_ms, self._ahead_ms)
            self._ahead_ms -= caught_up_ms
            gap_ms -= caught_up_ms
        if gap_ms > JUMP_MS and (self._written_while_held or held.reason is HoldReason.JUMP):
            until_ms = self._monotonic_ms + self._step_ms + gap_ms
            self._leaps = _shortened((*self._leaps, Leap(held.from_ms, until_ms, gap_ms)))
        self._step_ms = self._wanted_ms()
        self._held, self._written_while_held = None, False


def _shortened(leaps: tuple[Leap, ...]) -> tuple[Leap, ...]:
    if len(leaps) <= LEAPS_MAX:
        return leaps
    return (leaps[0].joined(leaps[1]), *leaps[2:])
