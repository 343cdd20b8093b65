"""Ctrl-C (SIGINT) where a process cannot be stopped in order: it ends at once, without a traceback.

While a process imports what it needs, nothing is there yet that would have to be ended, and an exception could come out
anywhere, also inside of a library's C. The same holds once a program is done and Python takes itself apart.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INTERRUPTED: Final = 128 + signal.SIGINT
"""Exit code of a process that Ctrl-C ended, as shells have it."""


class Interrupted(Exception):
    """Ctrl-C ended the waiting for what goes on by itself; the text says what does."""


def ctrl_c_ignored() -> bool:
    """Whether the starter of this process had Ctrl-C ignored, as nohup and shells do for what runs behind them."""
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def end_at_once() -> None:
    """From now on Ctrl-C ends this process at once. Where the starter had it ignored (nohup), it stays ignored."""
    _handle(_end)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, Ctrl-C is a KeyboardInterrupt, as Python has it; afterwards it ends the process at once."""
    _handle(signal.default_int_handler)
    try:
        yield
    finally:
        end_at_once()


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Within, Ctrl-C ends the process at once; for the imports of a command. Only for a process's main thread."""
    before = signal.getsignal(signal.SIGINT) or signal.SIG_DFL
    end_at_once()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _handle(handler: signal._HANDLER) -> None:
    if not ctrl_c_ignored():
        signal.signal(signal.SIGINT, handler)


def _end(_number: int, _frame: object) -> None:
    os._exit(INTERRUPTED)
