"""MirrorMaker 2 between two Apache Kafka servers, as a dedicated process, with defaults or tuned."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.systems.common import STREAM, Daemon, properties
from benchmarks.systems.kafka import Kafka, java, kafka

HEAP = ("-Xms256M", "-Xmx2G")
"""As connect-mirror-maker.sh."""
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_MB = 1_048_576
TUNED: Mapping[str, Any] = {
    "tasks.max": os.cpu_count() or 1,
    "replication.policy.class": IDENTITY,
    "refresh.topics.interval.seconds": 5,
    "source.consumer.fetch.max.bytes": 50 * _MB,
    "source.consumer.max.partition.fetch.bytes": 10 * _MB,
    "source.consumer.max.poll.records": 5000,
    "target.producer.acks": "all",
    "target.producer.batch.size": 327_680,
    "target.producer.linger.ms": 20,
    "target.producer.compression.type": "lz4",
    "target.producer.buffer.memory": 64 * _MB,
    "target.producer.enable.idempotence": True,
    "target.producer.max.in.flight.requests.per.connection": 5,
    "target.offset.flush.timeout.ms": 10_000,
    "target->source.emit.heartbeats.enabled": False,
}
"""What guides for high volume advise: larger fetches and batches, a task a core. They have a linger of 100 ms, which
would be in every latency; with a backlog 20 ms fill the batches as well. Connect's producers have one request in
flight, for order; idempotent ones keep it with five. The way back, which nobody uses, gets no worker."""


class MirrorMakerPair:
    """Two Kafka servers; MirrorMaker 2 starts with `start_replication`."""

    def __init__(self, folder: Path, source: Kafka, replica: Kafka, tuned: bool, overrides: Mapping[str, Any]) -> None:
        self.name = "mirrormaker-tuned" if tuned else "mirrormaker"
        self.source = source
        self.replica = replica
        self._folder = folder
        self._tuned = tuned
        self._overrides = overrides
        self._daemon: Daemon | None = None

    @property
    def carrier_pids(self) -> list[int]:
        return [] if self._daemon is None else [self._daemon.pid]

    def start_replication(self, topics: int) -> None:
        """Start MirrorMaker 2; the topics are to be there already: new ones are found after 10 min, tuned 5 s."""
        assert self._daemon is None
        values = mirror_properties(self.source.bootstrap, self.replica.bootstrap, self._tuned) | dict(self._overrides)
        file = self._folder / "mm2.properties"
        file.write_text(properties(values))
        command = java("org.apache.kafka.connect.mirror.MirrorMaker", HEAP, str(file))
        self._daemon = Daemon(self.name, command, self._folder / "mirrormaker.log", os.environ)

    def replica_topic(self, number: int) -> str:
        """With defaults, the name of the source's topic after that of the cluster."""
        topic = self.replica.topic(number, STREAM)
        return topic if self._tuned else f"source.{topic}"

    def check(self) -> None:
        """Nothing while MirrorMaker runs, or before it is started.

        Raises:
            RuntimeError: it has ended.
        """
        if self._daemon is not None:
            self._daemon.check()

    def stop_replication(self) -> None:
        """End MirrorMaker 2, if it runs; `start_replication` goes on where it was."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.stop()


def mirror_properties(source: str, target: str, tuned: bool) -> dict[str, Any]:
    """mm2.properties: one flow. Replication factors are 1 as each cluster has one node."""
    factors = (
        *("replication.factor", "checkpoints.topic.replication.factor", "heartbeats.topic.replication.factor"),
        *("offset-syncs.topic.replication.factor", "offset.storage.replication.factor"),
        *("status.storage.replication.factor", "config.storage.replication.factor"),
    )
    return {
        "clusters": "source, target",
        "source.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        "source->target.enabled": True,
        "source->target.topics": "t[0-9]+",
        **dict.fromkeys(factors, 1),
        **(TUNED if tuned else {}),
    }


@contextmanager
def pair_mirrormaker(
    folder: Path,
    tuned: bool,
    overrides: Mapping[str, Any] | None = None,
    server_overrides: Mapping[str, Any] | None = None,
) -> Iterator[MirrorMakerPair]:
    """Two servers; `overrides` are entries of mm2.properties, `server_overrides` of both server.properties."""
    with ExitStack() as stack:
        source, replica = (stack.enter_context(kafka(folder / name, server_overrides)) for name in ("source", "target"))
        pair = MirrorMakerPair(folder, source, replica, tuned, overrides or {})
        stack.callback(pair.stop_replication)
        yield pair
