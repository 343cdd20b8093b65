"""A real MirrorMaker 2 as a process, for a few topics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.systems.common import Daemon
from benchmarks.systems.common import properties as written
from benchmarks.systems.kafka import SMALL_HEAP, java
from benchmarks.systems.mirrormaker import mirror_properties

from tests.support.mirrors import count
from tests.support.waiting import wait_until

_QUICK = {
    "emit.heartbeats.enabled": False,
    "emit.checkpoints.enabled": False,
    "offset.storage.partitions": 1,
    "status.storage.partitions": 1,
    "refresh.topics.interval.seconds": 1,
    "target.offset.flush.interval.ms": 500,
}
"""Few partitions and connectors: no test is about them."""


class MirrorMaker:
    """It runs; the copies have `source.` before their names."""

    def __init__(self, daemon: Daemon, target: str) -> None:
        self._daemon = daemon
        self._target = target

    def check(self) -> None:
        """Nothing while it runs.

        Raises:
            RuntimeError: it has ended.
        """
        self._daemon.check()

    def wait_copied(self, topic: str, records: int) -> None:
        """Return once the copy of a topic has so many records."""
        wait_until(lambda: self._copied(topic) == records, "MirrorMaker 2 has copied all")

    def _copied(self, topic: str) -> int:
        self.check()
        return count(self._target, f"source.{topic}")


@contextmanager
def mirrormaker(folder: Path, source: str, target: str, topics: str, **more: Any) -> Iterator[MirrorMaker]:
    """One from these topics, an expression, until the block ends; `more` entries of its file with `_` for `.`."""
    entries = {name.replace("_", "."): value for name, value in more.items()}
    values = mirror_properties(source, target, tuned=False) | _QUICK | {"source->target.topics": topics} | entries
    file = folder / "mm2.properties"
    file.write_text(written(values))
    command = java("org.apache.kafka.connect.mirror.MirrorMaker", SMALL_HEAP, str(file))
    daemon = Daemon("mirrormaker", command, folder / "mirrormaker.log", os.environ)
    try:
        yield MirrorMaker(daemon, target)
    finally:
        daemon.stop()
