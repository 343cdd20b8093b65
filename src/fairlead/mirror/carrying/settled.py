"""How far one partition is mirrored: the highest offset below which everything is acknowledged.

What is fetched is cut into steps. A step is settled once all its sends are acknowledged, and the position moves over it
once all steps before it are settled too. Never the greatest offset that was seen: that would step over what is still
under way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class Step:
    """Some sends, and the offset up to which everything is mirrored once they are acknowledged."""

    until: int
    epoch: int
    left: int
    """Sends without an answer."""
    looped: int = 0
    """Records below `until` that are left out, since they came from the destination."""


class Settled:
    """The steps of one partition, in order."""

    def __init__(self, offset: int, epoch: int) -> None:
        self.offset = offset
        """The position: everything below is settled."""
        self.epoch = epoch
        self.looped = 0
        """Records below the position that were left out so."""
        self._steps: deque[Step] = deque()

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._steps

    def add(self, until: int, epoch: int, sends: int, looped: int = 0) -> Step:
        """The next step; without sends it is settled once those before it are."""
        step = Step(until, epoch, sends, looped)
        self._steps.append(step)
        self._advance()
        return step

    def acknowledged(self, step: Step) -> None:
        """One send of that step is durable at the destination."""
        step.left -= 1
        self._advance()

    def _advance(self) -> None:
        while self._steps and self._steps[0].left == 0:
            step = self._steps.popleft()
            self.offset, self.epoch = step.until, step.epoch
            self.looped += step.looped
