"""How long links wait: for answers, between attempts, before repairs."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.model.clock import Randomness

REPAIR_DELAY_MAX_S = 60.0


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a link waits for what; tests lower it."""

    backoff_first_s: float = 0.2
    backoff_max_s: float = 10.0
    agreement_s: float = 0.8
    """A missing upstream is looked for at least this often."""
    answer_s: float = 5.0
    """A gateway that takes a connection and says nothing is dead after this."""
    skip_dead_s: float = 10.0
    report_s: float = 10.0
    """A reader that says nothing of a grant for so long is given up."""
    pulse_s: float = 4.0
    """Between two questions whether a destination was started again; an answer takes at most as long."""
    repair_s: float = 1.0
    """What is still behind this long after a repair is repaired again (then twice as long, up to a minute)."""
    replicator_s: float = 20.0
    """A replicator that was killed is back by then; one that is away for longer is down."""
    cursors_s: float = 1.0
    """What groups have committed meanwhile is told to links together; while one is behind, after `cursors_behind_s`."""
    cursors_behind_s: float = 10.0
    owners_s: float = 60.0
    """Between two looks for owners that have not heard that they are, or cannot write; those that are found twice are
    told in the log."""
    stalled_s: float = 60.0
    """Where records wait and nothing arrives for this long, the link has an error."""


class Backoff:
    """Growing waits with jitter: between half and the whole of 0.2, 0.4, 0.8 … 10 s."""

    def __init__(self, timing: Timing, randomness: Randomness) -> None:
        self._timing = timing
        self._randomness = randomness
        self._failures = 0

    def reset(self) -> None:
        """It worked, or somebody changed something: begin with the shortest wait."""
        self._failures = 0

    def next_s(self) -> float:
        """Seconds to wait now."""
        longest = min(self._timing.backoff_first_s * 2.0**self._failures, self._timing.backoff_max_s)
        self._failures = min(self._failures + 1, 30)
        draw = int.from_bytes(self._randomness.id16()[:4], "big") / 2**32
        return longest * (0.5 + draw / 2)
