"""Whether this cluster's replicator lives, since when, how often it was started again, and what ails it.

In: what the replicator says on its control connection, that connection's beginning and end, and, from `fairlead up`,
the beginning and end of the process. Out: how it is, when somebody asks. Owns that knowledge since the server started.
It runs no timer and never starts a replicator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.gateway.links.errors import ReplicatorDown
from fairlead.model.clock import Clock
from fairlead.model.errors import FairleadError
from fairlead.wire.control import ReplicatorState

DOWN = "down"


@dataclass(frozen=True, slots=True)
class Ailment:
    """What is wrong, and since when, in milliseconds since 1970."""

    error: FairleadError
    since_ms: int


@dataclass(frozen=True, slots=True)
class ReplicatorNow:
    """How the replicator is at this moment; times in milliseconds since 1970."""

    state: str
    """`down`, or what it says of itself: `waiting` (for a link), `starting` (Spark), `carrying`, `failed`."""
    since_ms: int
    """When the process began; where it is down, when its connection ended."""
    age_ms: int
    started_again: int
    """How often the process, Spark or its query was started again since the server started."""
    error: str
    """The last thing that went wrong; empty once it carries again."""

    @property
    def alive(self) -> bool:
        """It is connected."""
        return self.state != DOWN

    def row(self) -> dict[str, Any]:
        """As `/health`, `cluster info` and `replica list` show it."""
        return {
            "state": self.state,
            "since": self.since_ms,
            "seconds": self.age_ms // 1000,
            "startedagain": self.started_again,
            "error": self.error,
        }


class ReplicatorLife:
    """Of one cluster; `grace_s` is how long one may be away before that counts as a fault."""

    def __init__(self, clock: Clock, url: Callable[[], str], grace_s: float) -> None:
        self._clock = clock
        self._url = url
        self._grace_s = grace_s
        self._process = b""
        self._announced = False
        """`up` has begun a process that has not said anything yet."""
        self._state: ReplicatorState | None = None
        """What the one that is connected last said."""
        self._changed_at = self._now()
        """(wall, monotonic) time of its last coming or going."""
        self._failed_at: tuple[int, int] | None = None
        self._lives = 0
        self._failures = 0
        """What the newest process said last: how often it has started Spark or the query again."""
        self._again = 0
        self._error = ""
        self._ended = ""

    # ------------------------------------------------------------ what happens

    def began(self) -> None:
        """`up` starts a process."""
        self._lives += 1
        self._announced = True

    def ended(self, why: str) -> None:
        """The process that `up` has started is gone; its own last words stand, if it had any."""
        self._announced = False
        self._ended = why

    def said(self, state: ReplicatorState) -> None:
        """It has told how it is."""
        if state.process != self._process:
            self._process, self._failures, self._ended = state.process, 0, ""
            self._lives += not self._announced
            self._announced = False
        self._again += max(state.failures - self._failures, 0)
        self._failures, self._state = state.failures, state
        if state.error:
            self._error = state.error
            self._failed_at = self._failed_at or self._now()
        elif state.doing == "carrying":
            self._error, self._failed_at = "", None

    def gone(self, process: bytes) -> None:
        """The connection of that process has ended; nothing if a newer one is here."""
        if self._state is not None and process == self._process:
            self._state = None
            self._changed_at = self._now()

    # ------------------------------------------------------------ how it is

    def now(self) -> ReplicatorNow:
        """At this moment."""
        wall, monotonic = self._now()
        state = self._state
        again = max(self._lives - 1, 0) + self._again
        if state is not None:
            return ReplicatorNow(state.doing, state.since, max(wall - state.since, 0), again, self._error)
        since, at = self._changed_at
        return ReplicatorNow(DOWN, since, monotonic - at, again, self._error or self._ended)

    def ailment(self) -> Ailment | None:
        """What keeps it from carrying, if anything does."""
        if self._failed_at is not None:
            return Ailment(ReplicatorDown(f"the replicator fails: {self._error}"), self._failed_at[0])
        now = self.now()
        if now.alive or now.age_ms < self._grace_s * 1000:
            return None
        return Ailment(ReplicatorDown(self._why_down()), now.since_ms)

    def _why_down(self) -> str:
        if self._ended:
            return f"the replicator is down: {self._ended}; the log of `fairlead up` says why"
        return f"no replicator is connected; run one: fairlead replicator --server {self._url()} --data DIR"

    def _now(self) -> tuple[int, int]:
        return self._clock.wall_ms(), self._clock.monotonic_ms()
