"""One family of hostile requests, again and again on several connections, until the time is over.

Each is small for who sends it and was dear for the server; `FAMILIES` says what each one is. Requests are encoded
beforehand, so that the client takes little of the processor from the server; a connection that is closed is made anew.

Arguments: bootstrap, family, seconds, topic (an existing one for `lookups`: the bombs go there; for others one that it
may name), large_topic (of thousands of partitions), connections (8).
Figures: requests (sent), answers (whole ones), closed (connections that the server ended), seconds.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from kio.index import load_request_schema
from kio.serial import entity_writer
from tests.support.batches import bomb

from benchmarks.load.program import Arguments, Figures, Run, main
from fairlead.protocol.messages import build, request_header_flexible
from fairlead.protocol.wire import string

PRODUCE, FETCH, LIST_OFFSETS, METADATA, JOIN_GROUP, DESCRIBE_GROUPS, DESCRIBE_CONFIGS = 0, 1, 2, 3, 11, 15, 32
TIME_MS = 10**12
ITEMS = 100_000
"""As many as a request may have."""
_HALF_BYTES = 100_000_000
_PAUSE_SECONDS = 0.01
"""Between two connections that were closed at once."""
_JOIN_SECONDS = 0.1
"""Between two joins of one connection: what they leave in memory is meant, not the bytes that are sent."""


def request(api: int, version: int, **fields: Any) -> bytes:
    """A request of kio's fields, whole, with its length."""
    schema = load_request_schema(api, version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, build(schema, fields))
    head = api.to_bytes(2) + version.to_bytes(2) + bytes(4) + string("hostile", False)
    head += b"\x00" if request_header_flexible(api, version) else b""
    return framed(head + buffer.getvalue())


def framed(body: bytes) -> bytes:
    """A request that was encoded by hand."""
    return len(body).to_bytes(4) + body


def lookups(topic: str, _: str) -> list[bytes]:
    """Look-ups by time into ten million tiny records, which are 6 KB."""
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": TIME_MS}
    asked = [{"name": topic, "partitions": [partition]}]
    return [request(LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=asked)]


def names(_: str, large_topic: str) -> list[bytes]:
    """One topic of thousands of partitions very often, which asked for gigabytes."""
    flags = dict.fromkeys(("include_cluster_authorized_operations", "include_topic_authorized_operations"), False)
    asked = [{"name": large_topic}] * ITEMS
    return [request(METADATA, 9, topics=asked, allow_auto_topic_creation=False, **flags)]


def groups(_: str, __: str) -> list[bytes]:
    """As many groups and resources as one request may have, and three million of them."""
    some = [f"g{number}" for number in range(ITEMS)]
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in some]
    options = {"include_synonyms": False, "include_documentation": False}
    head = DESCRIBE_GROUPS.to_bytes(2) + (0).to_bytes(2) + bytes(4) + string("hostile", False)
    return [
        request(DESCRIBE_GROUPS, 5, groups=some, include_authorized_operations=False),
        request(DESCRIBE_CONFIGS, 4, resources=resources, **options),
        framed(head + (3_000_000).to_bytes(4) + string("g", False) * 3_000_000),
    ]


def joins(_: str, __: str) -> list[bytes]:
    """Members that say 900 KB of themselves, in ever new groups, and never come again."""
    joining = {
        "session_timeout": timedelta(minutes=30),
        "rebalance_timeout": timedelta(minutes=30),
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(900_000)}],
    }
    return [request(JOIN_GROUP, 5, group_id=f"g{number}", **joining) for number in range(200)]


def halves(_: str, __: str) -> list[bytes]:
    """Requests of 100 MB that are begun and never ended."""
    return [_HALF_BYTES.to_bytes(4) + bytes(100_000)]


def visits(_: str, __: str) -> list[bytes]:
    """Connections that are made and closed."""
    return [b""]


FAMILIES: dict[str, Callable[[str, str], list[bytes]]] = {
    family.__name__: family for family in (lookups, names, groups, joins, halves, visits)
}
_UNANSWERED = frozenset({"halves", "visits"})


class Attack:
    """What all connections do, and how much of it."""

    def __init__(self, arguments: Arguments) -> None:
        self.family: str = arguments["family"]
        self.seconds = float(arguments["seconds"])
        host, port = str(arguments["bootstrap"]).rsplit(":", 1)
        self.address = (host, int(port))
        self.connections = int(arguments.get("connections", 8))
        self.requests = FAMILIES[self.family](arguments["topic"], arguments["large_topic"])
        if self.family == "lookups":
            _produce(self.address, arguments["topic"], bomb(10_000_000, max_timestamp=TIME_MS))
        self.counts = {"requests": 0, "answers": 0, "closed": 0}
        self._lock = threading.Lock()

    def run(self) -> Figures:
        began = time.monotonic()
        until = began + self.seconds
        threads = [
            threading.Thread(target=self._repeat, args=(number, until), daemon=True)
            for number in range(self.connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()) + 0.1)
        return {**self.counts, "seconds": time.monotonic() - began}

    def _repeat(self, number: int, until: float) -> None:
        while time.monotonic() < until:
            with suppress(OSError):
                self._one_connection(number, until)
                continue
            self._count("closed")
            time.sleep(_PAUSE_SECONDS)

    def _one_connection(self, number: int, until: float) -> None:
        with socket.create_connection(self.address, timeout=self.seconds) as connection:
            first = number * len(self.requests) // self.connections
            for data in self.requests[first:] + self.requests[:first]:
                if time.monotonic() > until:
                    return
                self._count("requests")
                connection.sendall(data)
                if self.family == "joins":
                    time.sleep(_JOIN_SECONDS)
                if self.family == "halves":
                    time.sleep(max(0.0, until - time.monotonic()))
                if self.family not in _UNANSWERED:
                    _answer(connection)
                    self._count("answers")
            if self.family == "visits":
                time.sleep(_PAUSE_SECONDS / 10)

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def _answer(connection: socket.socket) -> None:
    left = int.from_bytes(_exactly(connection, 4))
    while left:
        left -= len(_exactly(connection, min(left, 1 << 20)))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = connection.recv(count, socket.MSG_WAITALL)
    if len(data) < count:
        raise ConnectionResetError
    return data


def _produce(address: tuple[str, int], topic: str, batch: bytes) -> None:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(request(PRODUCE, 9, acks=-1, timeout=timedelta(seconds=30), topic_data=data))
        _answer(connection)


def prepare(arguments: Arguments) -> Run:
    """Encode the requests."""
    return Attack(arguments).run


if __name__ == "__main__":
    main(prepare)
