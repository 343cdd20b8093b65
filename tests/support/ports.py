"""Ports for servers that are told theirs, or that listen again where they were."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack, suppress
from typing import Final

_FIRST: Final = 10_000
_COUNT: Final = 22_000


def free_ports(count: int) -> list[int]:
    """Ports that nobody has on this machine now. They lie below those that the kernel gives to connections and to who
    binds to port 0, so that no such has one before the server takes it, or while it is away."""
    with ExitStack() as held:
        return [held.enter_context(_free()).getsockname()[1] for _ in range(count)]


def _free() -> socket.socket:
    while True:
        with suppress(OSError):  # somebody has it
            return socket.create_server(("127.0.0.1", _FIRST + secrets.randbelow(_COUNT)))
