"""Fairlead, alone and as a replicating pair."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from tests.support.sites import Site, descendants
from tests.support.waiting import wait_until

from benchmarks.systems.common import STREAM, Daemon, answers, create_topics, drop_caches, raise_open_files

_WARM = "/warm"
SPARK = ("fairlead.replication", "--with-parent", str(os.getpid()))
"""What carries links, as a Python module with its options."""
PLAIN = ("benchmarks.plain_copier",)
"""The same reader and sink without Spark; not part of Fairlead."""


class Fairlead:
    """A running server without a replicator; its data lies in `folder`. It acknowledges after fdatasync, always."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.name = "fairlead"
        self.site = site
        self.stop_seconds = 0.0
        self._folder = folder
        self._topics = 0

    @property
    def bootstrap(self) -> str:
        return self.site.kafka

    @property
    def pids(self) -> list[int]:
        return [self.site.pid]

    def topic(self, number: int, stream: str = STREAM) -> str:
        return f"{stream}:t{number:06}"

    def create_topics(self, count: int, partitions: int = 1) -> None:
        """The stream by a command, if it is not there, and the topics by the admin interface, as at Kafka.

        Only the stream is needed where clients ask for metadata before they write, which makes the topic; see
        `create_stream`. A client that only sends produce requests needs the topics.
        """
        self.create_stream()
        create_topics(self.bootstrap, [self.topic(number) for number in range(count)], partitions)
        self._topics = max(self._topics, count)

    def create_stream(self, path: str = STREAM) -> None:
        """Make a stream, if it is not there."""
        self.site.cli("stream", "create", "-path", f"/mapr/{self.site.name}{path}", check=False)

    def restart(self) -> float:
        began = time.monotonic()
        self.site.stop()
        stopped = time.monotonic()
        self.stop_seconds = stopped - began
        self.site.start("server")
        answers(self.bootstrap, self.topic(self._topics - 1) if self._topics else None)
        return time.monotonic() - stopped

    def drop_caches(self) -> None:
        drop_caches(self._folder)


@contextmanager
def fairlead(
    folder: Path, name: str = "sanfrancisco", settings: Mapping[str, object] | None = None
) -> Iterator[Fairlead]:
    """A server with a fresh data directory; `settings` as in docs/guides/settings.md. `name` is that of the cluster."""
    raise_open_files()
    folder.mkdir(parents=True, exist_ok=True)
    site = Site(name, folder, _texts(settings))
    try:
        site.start("server")
        site.cli("cluster", "add", "-http", site.url)
        yield Fairlead(folder, site)
    finally:
        site.stop()


def _texts(settings: Mapping[str, object] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (settings or {}).items()}


class FairleadPair:
    """Two clusters and the replicator of the source, a process of its own so that its use is counted apart."""

    def __init__(self, source: Fairlead, replica: Fairlead, replicator: Daemon) -> None:
        self.name = "fairlead"
        self.source = source
        self.replica = replica
        self._replicator = replicator

    @property
    def carrier_pids(self) -> list[int]:
        """The replicator, its JVM and the Python processes of its tasks."""
        return [self._replicator.pid, *descendants(self._replicator.pid)]

    def start_replication(self, topics: int) -> None:
        """Link the stream, which is all that it takes: a link carries every topic, later ones too."""
        self.link(STREAM)

    def replica_topic(self, number: int) -> str:
        return self.replica.topic(number)

    def in_sync(self) -> bool:
        """All that was acknowledged at the source before this call is at the replica."""
        return self.source.site.in_sync(STREAM)

    def link(self, path: str, replica_path: str = "") -> None:
        """Make a stream, if it is not there, and its replica, at the same path or another."""
        self.source.create_stream(path)
        source = f"/mapr/{self.source.site.name}{path}"
        replica = f"/mapr/{self.replica.site.name}{replica_path or path}"
        self.source.site.cli("stream", "replica", "autosetup", "-path", source, "-replica", replica)

    def warm_up(self) -> None:
        """Carry a few records of another stream, so that the replicator's Spark has started and stays."""
        self.link(_WARM)
        producer = Producer({"bootstrap.servers": self.source.bootstrap, "log_level": 2})
        for number in range(10):
            producer.produce(self.source.topic(0, _WARM), str(number))
        assert producer.flush(30) == 0
        wait_until(lambda: self.source.site.in_sync(_WARM), "the first link works", 120)


@contextmanager
def pair_fairlead(
    folder: Path,
    settings: Mapping[str, object] | None = None,
    warm: bool = True,
    carrier: Sequence[str] = SPARK,
) -> Iterator[FairleadPair]:
    """Two servers and the replicator, or another `carrier`; `warm` has a first small link carried before this returns.

    Without it, Spark starts with the first link, some ten seconds.
    """
    with ExitStack() as stack:
        source, replica = (
            stack.enter_context(fairlead(folder, name, settings)) for name in ("sanfrancisco", "newyork")
        )
        command = [sys.executable, "-m", *carrier, "--data", str(source.site.data), "--server"]
        variables = {f"FAIRLEAD_{key.upper()}": value for key, value in _texts(settings).items()}
        replicator = Daemon(
            "replicator", [*command, source.site.url], folder / "replicator.log", {**os.environ, **variables}
        )
        stack.callback(replicator.stop)
        pair = FairleadPair(source, replica, replicator)
        if warm:
            pair.warm_up()
        yield pair
