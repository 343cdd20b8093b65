"""The processes that this one has started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")


def kill_children() -> None:
    """`kill -9` of each that runs now (Linux); for a library that starts one and does not say which."""
    for task in _TASKS.iterdir():
        with suppress(OSError):
            for pid in (task / "children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
