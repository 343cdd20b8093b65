"""A Kafka client of one socket, for what real clients never do: pipelining by hand, old versions, wrong bytes."""

from __future__ import annotations

import contextlib
import io
import socket
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from fairlead.protocol.messages import build, request_header_flexible, response_header_flexible
from fairlead.protocol.wire import string
from tests.support.waiting import WAIT_SECONDS


class WireClient:
    """Sends requests and reads answers; blocking."""

    def __init__(
        self, address: tuple[str, int], *, timeout_seconds: float = WAIT_SECONDS, receive_bytes: int | None = None
    ) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(timeout_seconds)
        self.socket.connect(address)
        self.correlation = 0

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api: int, version: int, body: bytes) -> int:
        """Send a request; its correlation id."""
        self.correlation += 1
        header = b"".join(number.to_bytes(2, "big") for number in (api, version))
        header += self.correlation.to_bytes(4, "big") + string("wire", False)
        with contextlib.suppress(Exception):  # a version that does not exist
            header += b"\x00" if request_header_flexible(api, version) else b""
        self.socket.sendall((len(header) + len(body)).to_bytes(4, "big") + header + body)
        return self.correlation

    def receive(self) -> tuple[int, bytes]:
        """The next answer: its correlation id, and what follows it (with the header's tags, if it has some)."""
        length = int.from_bytes(self._exactly(4), "big")
        data = self._exactly(length)
        return int.from_bytes(data[:4], "big"), data[4:]

    def call(self, api: int, version: int, **fields: Any) -> Any:
        """Send a request of kio's fields and read its answer."""
        schema = load_request_schema(api, version)
        buffer = io.BytesIO()
        entity_writer(schema)(buffer, build(schema, fields))
        return self.exchange(api, version, buffer.getvalue())

    def exchange(self, api: int, version: int, body: bytes) -> Any:
        """Send a request and read its answer."""
        sent = self.send(api, version, body)
        correlation, data = self.receive()
        assert correlation == sent
        return read_response(api, version, data)

    def closed_by_peer(self) -> bool:
        """Wait until the other end closes; False if it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self.socket.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionResetError("closed by the other end")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def read_response(api: int, version: int, data: bytes) -> Any:
    """An answer after its correlation id, as kio's class; every byte belongs to it."""
    start = 1 if response_header_flexible(api, version) else 0
    response, size = entity_reader(load_response_schema(api, version))(data, start)
    assert start + size == len(data)
    return response
