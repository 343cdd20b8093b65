"""Ends this process when the one that started it dies, however that happens."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Ask the kernel (Linux) for SIGTERM when the parent, the process of this number, dies; if it is dead already, send
    it now. Who is told no number cannot tell process 1 as a parent, as in a container, from one that took over orphans.
    """
    _ask_for_sigterm()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _ask_for_sigterm() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
