"""`fairlead mirror` between two servers of another kind, with its defaults or another engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from benchmarks.systems.common import Daemon, System, properties


class MirrorPair:
    """Two servers; the mirror starts with `start_replication`."""

    name = "fairlead"

    def __init__(
        self, folder: Path, source: System, replica: System, options: Sequence[str], replica_partitions: int
    ) -> None:
        self.source = source
        self.replica = replica
        self._folder = folder
        self._options = options
        self.replica_partitions = replica_partitions
        self._has_topics = False
        self._daemon: Daemon | None = None

    @property
    def settling_seconds(self) -> float:
        """Of a mirror with transactions: more than one takes."""
        return 2.0 if "--exactly.once" in self._options else -1.0

    @property
    def carrier_pids(self) -> list[int]:
        return [] if self._daemon is None else [self._daemon.pid]

    def start_replication(self, topics: int) -> None:
        """Start it; new topics are found within seconds. After `stop_replication` it goes on where it was."""
        assert self._daemon is None
        if not self._has_topics:
            self.replica.create_topics(topics, self.replica_partitions)
            self._has_topics = True
        consumer, producer = self._folder / "consumer.config", self._folder / "producer.config"
        consumer.write_text(properties({"bootstrap.servers": self.source.bootstrap, "group.id": "bench"}))
        producer.write_text(properties({"bootstrap.servers": self.replica.bootstrap}))
        files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        same = ["--preserve.partitions"] if self.replica_partitions == 1 else []
        options = ["--whitelist", ".*t[0-9]+", *same, *self._options]
        command = [sys.executable, "-m", "fairlead.cli.main", "mirror", *files, *options]
        self._daemon = Daemon(self.name, command, self._folder / "mirror.log", os.environ)

    def replica_topic(self, number: int) -> str:
        return self.replica.topic(number)

    def check(self) -> None:
        """Nothing while the mirror runs. Raises: RuntimeError: it has ended."""
        if self._daemon is not None:
            self._daemon.check()

    def stop_replication(self) -> None:
        """End the mirror, if it runs."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.stop()


@contextmanager
def pair_mirror(
    folder: Path,
    opened: Callable[[Path], AbstractContextManager[System]],
    options: Sequence[str] = (),
    replica_partitions: int = 1,
) -> Iterator[MirrorPair]:
    """Two servers, as `opened` starts them; the mirror has these options too.

    Where replicas have more partitions than their sources' one, records go to these by their keys.
    """
    with ExitStack() as stack:
        source, replica = (stack.enter_context(opened(folder / name)) for name in ("source", "target"))
        pair = MirrorPair(folder, source, replica, options, replica_partitions)
        stack.callback(pair.stop_replication)
        yield pair
