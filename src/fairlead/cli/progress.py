"""How far something is, while a command waits for it: a bar on a terminal, else a line at each change that matters."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_STEP_PERCENT = 10
"""Without a terminal: a line for each of these steps."""


class Progress:
    """On standard error, so that standard output has only results."""

    def __init__(self) -> None:
        self._bar: tuple[Bar, TaskID] | None = _bar() if sys.stderr.isatty() else None
        self._said: tuple[int, str] | None = None

    def show(self, percent: int, what: str, phase: str) -> None:
        """It is so far. Another phase is a change that matters; `what` may differ each time."""
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, completed=percent, description=what)
            return
        said = (percent // _STEP_PERCENT, phase)
        if said != self._said:
            self._said = said
            print(f"{percent:>3} %  {what}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar[0].stop()


def _bar() -> tuple[Bar, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=100)
    bar.start()
    return bar, task
