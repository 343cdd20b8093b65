"""Bytes that go beside Spark: from the reader of a task to its sink, over a socket of the two.

What passes through Spark crosses four borders of processes and is copied a dozen times. So the row of a large packet
says only where its bytes come: at the socket where the reader's process listens. They come in the order of the rows,
and the sink takes them with the row. Whoever hands packets on bounds them, as Spark's pipe does not: a few large ones
fill it no more.

Always true: the bytes are nowhere but in these two processes, and are gone with them, whatever ends them. A sink whose
reader has gone fails, as its task does anyway.
"""

from __future__ import annotations

import socket
import tempfile
import threading
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from typing_extensions import Buffer

from fairlead.model.clock import SystemRandomness
from fairlead.model.errors import Unreachable
from fairlead.spark.packets import COPIED_BYTES_MAX, Packet

_SOCKET_BYTES: Final = 1_000_000
"""Asked of the kernel, which may give less: the more, the seldomer the two wait for each other."""


class Sender:
    """The reader's side: `beside` for each packet in order, then `finish`, and in any case `close`."""

    def __init__(self, folder: Path | None = None) -> None:
        """In `folder`, or where temporary files go: for a task of Spark that is the folder of its JVM."""
        self._path = (folder or Path(tempfile.gettempdir())) / f".{SystemRandomness().id16().hex()}.sock"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(self._path))
        self._listening.listen(1)
        self._connection: socket.socket | None = None
        self._waiting: deque[Buffer] = deque()
        self._no_more = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="beside", daemon=True)
        self._thread.start()

    def beside(self, packet: Packet) -> Packet:
        """What goes through Spark in its place: the packet itself, if it is small or says where its bytes are."""
        if packet.referred or memoryview(packet.data).nbytes < COPIED_BYTES_MAX:
            return packet
        assert memoryview(packet.data).nbytes == packet.size_bytes
        with self._changed:
            self._waiting.append(packet.data)
            self._changed.notify()
        return replace(packet, data=str(self._path).encode(), beside=True)

    def finish(self, timeout_seconds: float) -> None:
        """No more packets come: wait until the sink has taken all, or has gone."""
        with self._changed:
            self._no_more = True
            taking = self._connection is not None or bool(self._waiting)
            self._changed.notify()
        if taking:
            self._thread.join(timeout_seconds)

    def close(self) -> None:
        """What was not taken is dropped."""
        with self._changed:
            self._no_more = True
            self._waiting.clear()
            self._changed.notify()
        for each in (self._listening, self._connection):
            if each is not None:
                with suppress(OSError):  # the thread has closed it
                    each.shutdown(socket.SHUT_RDWR)
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        with suppress(OSError), self._listening:  # closed here, or the sink has gone: Spark ends this side then
            self._connection, _ = self._listening.accept()
            with self._connection as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
                while (data := self._next()) is not None:
                    connection.sendall(data)

    def _next(self) -> Buffer | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._no_more)
            return self._waiting.popleft() if self._waiting else None


class Receiver:
    """The sink's side: `whole` for each packet in order, and `close`."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None

    def whole(self, packet: Packet) -> Packet:
        """The packet with its bytes. Raises: Unreachable: its reader has gone."""
        if not packet.beside:
            return packet
        data = bytearray(packet.size_bytes)
        try:
            self._connection = self._connection or _connected(bytes(packet.data).decode())
            self._fill(self._connection, memoryview(data))
        except OSError as error:
            raise Unreachable(f"the reader of this task has gone: {error}") from error
        return replace(packet, data=data, beside=False)

    def _fill(self, connection: socket.socket, rest: memoryview) -> None:
        while rest:
            count = connection.recv_into(rest, 0, socket.MSG_WAITALL)
            if not count:
                raise ConnectionResetError(f"{rest.nbytes:,} bytes of a packet are missing")
            rest = rest[count:]

    def close(self) -> None:
        """The reader ends what it still sends."""
        if self._connection is not None:
            self._connection.close()


def _connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
