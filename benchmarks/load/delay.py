"""A way to a server that takes time: what comes in leaves after half a round trip, in order, in both directions.

Threads that sleep are late by less than a tenth of a millisecond; asyncio's timers by up to one.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Way:
    """The connections to one port."""

    def __init__(self, port: int, round_trip_seconds: float) -> None:
        self.connections = 0
        """How many were opened."""
        self._target = port
        self._delay_seconds = round_trip_seconds / 2
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._start(self._accept)

    def _start(self, what: object, *arguments: object) -> None:
        threading.Thread(target=what, args=arguments, name="delay", daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self.connections += 1
                self._open += [near, far]
                for each in (near, far):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, to in ((near, far), (far, near)):
                    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    self._start(self._read, source, waiting)
                    self._start(self._write, waiting, to)

    def _read(self, source: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"."
        while data:
            try:
                data = source.recv(65_536)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + self._delay_seconds, data))

    def _write(self, waiting: queue.SimpleQueue[tuple[float, bytes]], to: socket.socket) -> None:
        """Until the end, which goes on too."""
        with suppress(OSError):
            while True:
                at, data = waiting.get()
                time.sleep(max(0.0, at - time.monotonic()))
                if not data:
                    to.shutdown(socket.SHUT_RDWR)
                    return
                to.sendall(data)

    def close(self) -> None:
        """End all connections."""
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def delayed(port: int, round_trip_seconds: float) -> Iterator[Way]:
    """A way to `port` of this host."""
    way = Way(port, round_trip_seconds)
    try:
        yield way
    finally:
        way.close()
