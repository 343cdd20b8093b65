"""What the tests ask of every client."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from tests.interop.site import Site
from tests.support.records import Content

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's numbers of compression codecs."""
SESSION_MS = 30_000
"""No member loses its place on a busy machine, and a static one comes back in time; none is waited for that is gone."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a client is to send; the time is the client's own."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Membership:
    """How a member takes part in its group."""

    cooperative: bool = False
    """Partitions are moved in incremental rebalances (KIP-429)."""
    instance: str | None = None
    """A static member (KIP-345), which comes back to its partitions within its session."""


PLAIN = Membership()


class Member(ABC):
    """A consumer in a group, running in the background; it starts at the beginning and commits what it read."""

    def __init__(self) -> None:
        self.assigned: frozenset[int] = frozenset()
        self.given_up: frozenset[int] = frozenset()
        """Partitions that rebalances took from it, also those that it got back. What it gives up when it stops
        counts too."""
        self.values: list[bytes] = []

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """What it says of the error that ended it, if it ended by itself."""

    @abstractmethod
    def stop(self) -> None:
        """Commit, leave the group and end."""


class ThreadMember(Member):
    """A member that a thread polls until it is to stop."""

    def __init__(self) -> None:
        super().__init__()
        self._stopping = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        return repr(self._failed[0]) if self._failed else None

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # shown to the test by stop()
            self._failed.append(error)

    @abstractmethod
    def _run(self) -> None:
        """Poll until `_stopping` is set, then close."""


class Client(ABC):
    """One program or library; `name` is shown in the table."""

    name: str
    plain_names = False
    """It refuses `/` and `:`, so it uses the stream's own listener."""
    waits_for_topics = True
    """It may subscribe to a topic that does not exist; else it ends by itself when it is told so."""
    memberships: frozenset[str] = frozenset({"cooperative", "static", "fenced"})
    """What its members can be beside plain ones; `fenced`: a static member ends when another takes its place."""

    def bootstrap(self, site: Site) -> str:
        return site.of_stream if self.plain_names else site.main

    def topic(self, site: Site, topic: str) -> str:
        """The topic's name on the listener that this client uses."""
        return topic if self.plain_names else f"{site.path}:{topic}"

    @abstractmethod
    def produce(
        self, site: Site, topic: str, messages: Sequence[Message], codec: str = "none", idempotent: bool = False
    ) -> None:
        """Send to partition 0, in order, and return when all is acknowledged."""

    @abstractmethod
    def read(self, site: Site, topic: str, count: int) -> list[Content]:
        """The first records of partition 0, in order; it waits until there are `count`."""

    @abstractmethod
    def offset_at(self, site: Site, topic: str, timestamp_ms: int) -> int:
        """The first offset of partition 0 at or after that time."""

    @abstractmethod
    def member(self, site: Site, topic: str, group: str, how: Membership = PLAIN) -> Member:
        """Join a group."""
