"""What one shard of a stream has told its links of cursors since the server started, and what waits to be told.

Owns nothing but numbers and times, for metrics. Rows are remembered as runs: those of a run lie below one commit. A
link may be behind for a day, that is 86,400 of them: two short runs become one, and what a link lacks is never said to
be younger than it is.
"""

from __future__ import annotations

from typing import NamedTuple

RUNS_MAX = 64


class _Run(NamedTuple):
    end: int
    """All its rows lie in commits below this one."""
    began_ms: int
    """When its first row was written, by the monotonic clock."""


class ToldCursors:
    """Of one shard."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows that tell links what groups have committed."""
        self._waits_since_ms: int | None = None
        self._runs: list[_Run] = []

    def waits(self, now_ms: int) -> None:
        """Something has been committed that is to be told."""
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms

    def told(self, since_ms: int | None) -> None:
        """All was told that waited; what was committed meanwhile has waited from `since_ms` on, None: nothing was."""
        self._waits_since_ms = since_ms

    def note(self, rows: int, commit: int, now_ms: int) -> None:
        """So many rows were written in a commit."""
        self.rows += rows
        if not rows:
            return
        self._runs.append(_Run(commit + 1, now_ms))
        if len(self._runs) > RUNS_MAX:
            ends = [run.began_ms for run in self._runs[2:]]
            spans = [end - run.began_ms for run, end in zip(self._runs, ends, strict=False)]
            place = spans.index(min(spans))
            first, second = self._runs[place : place + 2]
            self._runs[place : place + 2] = [_Run(second.end, first.began_ms)]

    def forget(self, passed: int) -> None:
        """All links have what lies below that commit."""
        self._runs = [run for run in self._runs if run.end > passed]

    def waiting_ms(self, now_ms: int) -> int:
        """How long the oldest of what is to be told has waited, at most; 0: nothing waits."""
        return 0 if self._waits_since_ms is None else now_ms - self._waits_since_ms

    def lacking_ms(self, passed: int, now_ms: int) -> int:
        """How old the oldest row is, at most, that a link lacks which has what lies below `passed`; 0: it has all."""
        return next((now_ms - run.began_ms for run in self._runs if run.end > passed), 0)
