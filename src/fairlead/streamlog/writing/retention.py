"""When rows may expire, although the clock may jump (F12): a jump must not delete anything.

`ExpiryGuard` is fed both clocks. While the wall clock keeps step with the monotonic one, `appended_at` is the wall
clock. After a jump of more than an hour `appended_at` runs on by the monotonic clock, and nothing expires, until the
wall clock has kept its new step for 24 hours.
"""

from __future__ import annotations

from typing import Final

from fairlead.model.clock import Clock

JUMP_MS: Final = 3_600_000
"""A larger change of the wall clock against the monotonic one is a jump; a smaller one is followed."""
IN_STEP_MS: Final = 24 * 3_600_000
"""How long the wall clock must keep a new step before it is followed and rows expire again."""


class ExpiryGuard:
    """Gives `appended_at` (milliseconds since 1970, never decreasing) and how far expiry may go.

    `last_appended_at_ms` is the newest one in the log, 0 for an empty log. The monotonic clock does not know how long
    the program did not run. A wall clock that is more than an hour behind the log at the start counts as a jump back.
    One that is ahead is taken as it is, unless it is more than `downtime_ms_max` ahead, which counts as a jump.
    """

    def __init__(
        self, clock: Clock, *, last_appended_at_ms: int = 0, downtime_ms_max: int = 400 * 24 * 3_600_000
    ) -> None:
        self._clock = clock
        self._last_ms = last_appended_at_ms
        wall, self._monotonic_ms = clock.wall_ms(), clock.monotonic_ms()
        self._step_ms = wall - self._monotonic_ms
        """Wall minus monotonic clock that `appended_at` follows."""
        self._new_step_ms = self._step_ms
        """Wall minus monotonic clock as they are now; differs while a jump is not accepted."""
        self._since_ms = self._monotonic_ms
        if last_appended_at_ms and not last_appended_at_ms - JUMP_MS <= wall <= last_appended_at_ms + downtime_ms_max:
            self._step_ms = last_appended_at_ms - self._monotonic_ms

    @property
    def jumped(self) -> bool:
        """Whether a jump is still waiting for its 24 hours in step."""
        self._look()
        return self._step_ms != self._new_step_ms

    @property
    def jump_ms(self) -> int:
        """By how much the wall clock is ahead of `appended_at`; 0 while there is no jump."""
        self._look()
        return self._new_step_ms - self._step_ms

    def now_ms(self) -> int:
        """The `appended_at` of a row that is written now."""
        self._look()
        self._last_ms = max(self._last_ms, self._monotonic_ms + self._step_ms)
        return self._last_ms

    def cut_off_ms(self, ttl_ms: int) -> int | None:
        """Rows appended before this may expire; None: nothing may, for now or at all (`ttl_ms` 0)."""
        if self.jumped or ttl_ms <= 0:
            return None
        return self.now_ms() - ttl_ms

    def _look(self) -> None:
        self._monotonic_ms = self._clock.monotonic_ms()
        step = self._clock.wall_ms() - self._monotonic_ms
        if abs(step - self._new_step_ms) > JUMP_MS:
            self._jump(step)
        elif self._step_ms == self._new_step_ms:
            # Small corrections are followed: NTP never moves a clock by an hour between two looks.
            self._step_ms = self._new_step_ms = step
        elif self._monotonic_ms - self._since_ms >= IN_STEP_MS:
            self._step_ms = self._new_step_ms = step

    def _jump(self, step: int) -> None:
        """Note the wall clock's new step; a step back to ours ends the wait."""
        self._new_step_ms = step
        self._since_ms = self._monotonic_ms
        if abs(step - self._step_ms) <= JUMP_MS:
            self._step_ms = step
