"""Ends this process when the one that started it dies, however that happens."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel (Linux) for SIGTERM when the parent dies; if it is dead already, send it now."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if parent == 1 or os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
