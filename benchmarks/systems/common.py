"""What the measured systems are to the cases, and what they do alike."""

from __future__ import annotations

import os
import resource
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.support.waiting import wait_until

STREAM = "/bench"
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
"""Where a partition ends."""
START_SECONDS = 300
"""A server with very many topics may take minutes."""
_OPEN_FILES = 1_000_000
_CHUNK = 1000
"""Topics in one request: a controller refuses much larger ones."""


class System(Protocol):
    """One server, or cluster of one node."""

    name: str
    """fairlead, kafka, kafka-flush ..."""
    stop_seconds: float
    """What the clean stop of the last restart took."""

    @property
    def bootstrap(self) -> str:
        """Kafka address, HOST:PORT, the same after a restart."""

    @property
    def pids(self) -> list[int]:
        """The processes of the server, for processor time and memory; others after a restart."""

    def topic(self, number: int, stream: str = STREAM) -> str:
        """Name of a topic for Kafka clients."""

    def create_topics(self, count: int, partitions: int = 1) -> None:
        """Make topics 0 to `count` - 1 with so many partitions; where they exist already, nothing."""

    def restart(self) -> float:
        """Clean stop and start; seconds from the start of the new process until it answers, see `answers`."""

    def drop_caches(self) -> None:
        """Let the next read of its files come from the disk."""


class Pair(Protocol):
    """Two systems of a kind, and what copies the topics of one to the other."""

    name: str

    @property
    def source(self) -> System:
        """Where records are produced."""

    @property
    def replica(self) -> System:
        """Where they are copied to."""

    @property
    def carrier_pids(self) -> list[int]:
        """The processes that copy, apart from both servers; empty while there are none."""

    def start_replication(self, topics: int) -> None:
        """From now on the topics 0 to `topics` - 1 are copied; returns before that is done."""

    def replica_topic(self, number: int) -> str:
        """Name of a topic at the replica."""


@runtime_checkable
class Stoppable(Protocol):
    """A pair whose carrier can be stopped, and then started once more."""

    def stop_replication(self) -> None:
        """End the carrier; `start_replication` goes on where it was."""


def raise_open_files() -> None:
    """Let this process and those that it starts have very many open files, as far as it is allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, max(hard, _OPEN_FILES)))
    except (ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def create_topics(bootstrap: str, names: Sequence[str], partitions: int = 1) -> None:
    """Make topics by the admin interface; those that exist stay. All can be written on return.

    Raises:
        KafkaException: one cannot be made.
        TimeoutError: one cannot be written; Kafka says that a topic is made before it has opened it.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    chunks = [names[first : first + _CHUNK] for first in range(0, len(names), _CHUNK)]
    for chunk in chunks:
        wanted = [NewTopic(name, num_partitions=partitions, replication_factor=1) for name in chunk]
        for future in admin.create_topics(wanted, request_timeout=120, operation_timeout=120).values():
            error = future.exception()
            if error is not None and error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise error
    for chunk in chunks:
        wait_until(partial(_have_ends, admin, chunk, partitions), f"{chunk[0]}... can be written", START_SECONDS)


def answers(bootstrap: str, topic: str | None, check: Callable[[], None] = lambda: None) -> None:
    """Return when a server answers ApiVersions or, if a topic is given, where that ends: it could be written now.

    Asked each 5 ms without a client, whose retries would be in the time. `check` is called in between; it raises when
    there is nothing to wait for any more.
    """
    is_ready = partial(_answers_versions, bootstrap) if topic is None else partial(_leads, bootstrap, topic)

    def ready() -> bool:
        check()
        return is_ready()

    wait_until(ready, f"{bootstrap} answers", START_SECONDS, 0.005)


def _have_ends(admin: AdminClient, topics: Sequence[str], partitions: int) -> bool:
    """The server says where each topic ends, which it does when it leads it."""
    asked = {TopicPartition(topic, partition): LATEST for topic in topics for partition in range(partitions)}
    return all(future.exception() is None for future in admin.list_offsets(asked, request_timeout=10).values())


def _answers_versions(bootstrap: str) -> bool:
    return bool(_ask(bootstrap, 18, 0, b""))


def _leads(bootstrap: str, topic: str) -> bool:
    """ListOffsets, version 1, of the end of partition 0 has no error."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    answer = _ask(bootstrap, 2, 1, struct.pack(">ii", -1, 1) + name + struct.pack(">iiq", 1, 0, -1))
    error_at = 4 + 4 + len(name) + 4 + 4  # correlation, topics, name, partitions, partition
    return answer[error_at : error_at + 2] == b"\0\0"


def _ask(bootstrap: str, api: int, version: int, body: bytes) -> bytes:
    """The answer to one request without its length; empty if there is none."""
    host, _, port = bootstrap.rpartition(":")
    request = struct.pack(">hhih", api, version, 1, -1) + body
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            length = stream.read(4)
            return stream.read(int.from_bytes(length)) if len(length) == 4 else b""
    return b""


def drop_caches(folder: Path) -> None:
    """Write what is dirty, then forget cached pages: all of the machine where root may, else those of the folder."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        for file in _files(folder):
            with suppress(FileNotFoundError), file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


class Daemon:
    """A process with a log, ended by its pid."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as opened:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=opened, stderr=opened, env=environment
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Nothing, while it runs.

        Raises:
            RuntimeError: it has ended; with the end of its log.
        """
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"{self.name} ended with {code}:\n{self._log.read_text(errors='replace')[-2000:]}")

    def stop(self, deadline_seconds: float = 120) -> float:
        """Ask it to end and wait; seconds that this took.

        Raises:
            subprocess.TimeoutExpired: it did not end; it is killed.
        """
        began = time.monotonic()
        self._process.terminate()
        try:
            self._process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        return time.monotonic() - began


def properties(values: Mapping[str, Any]) -> str:
    """The text of a Java properties file; values that this suite uses need no escapes but that of the backslash."""
    return "".join(f"{name} = {_property(value)}\n" for name, value in values.items())


def _property(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("\\", "\\\\")
