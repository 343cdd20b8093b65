"""An Apache Kafka whose topics a stream of a Fairlead server keeps, at Kafka's offsets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from tests.support.sites import descendants
from tests.support.waiting import wait_until

from benchmarks.systems.common import STREAM, Daemon, create_topics, properties
from benchmarks.systems.fairlead import SPARK, Fairlead, fairlead
from benchmarks.systems.kafka import Kafka, kafka

_WARM, _WARM_TOPIC = "/warm", "warm"


class KeptPair:
    """The two, and the replicator of the Fairlead server, a process of its own so that its use is counted apart."""

    name = "fairlead"

    def __init__(self, folder: Path, source: Kafka, replica: Fairlead, replicator: Daemon) -> None:
        self.source = source
        self.replica = replica
        self._replicator = replicator
        self._file = folder / "consumer.properties"
        self._file.write_text(properties({"bootstrap.servers": source.bootstrap}))

    @property
    def carrier_pids(self) -> list[int]:
        """The replicator, and where it runs Spark its JVM and the processes of its tasks."""
        return [self._replicator.pid, *descendants(self._replicator.pid)]

    def start_replication(self, topics: int) -> None:
        """Let the stream keep the topics of the load."""
        self._keep("old", STREAM, "t[0-9]+")

    def replica_topic(self, number: int) -> str:
        return self.replica.topic(number)

    def _keep(self, name: str, stream: str, topics: str) -> None:
        words = ("stream", "replica", "autosetup", "-path", f"kafka://{name}", "-topics", topics, "-cursors", "none")
        self.replica.site.cli(*words, "-consumerconfig", str(self._file), "-replica", stream)

    def warm_up(self) -> None:
        """Keep a topic of a few records, so that the replicator's Spark has started and stays."""
        create_topics(self.source.bootstrap, [_WARM_TOPIC], 1)
        producer = Producer({"bootstrap.servers": self.source.bootstrap, "log_level": 2})
        for number in range(10):
            producer.produce(_WARM_TOPIC, str(number))
        assert producer.flush(30) == 0
        self._keep("warm", _WARM, _WARM_TOPIC)
        status = self.replica.site.replica_status
        wait_until(lambda: all(row["isUptodate"] for row in status("kafka://warm")), "the first topic is kept", 120)


@contextmanager
def pair_kept(folder: Path, carrier: Sequence[str] = SPARK) -> Iterator[KeptPair]:
    """Both servers and the replicator, or another `carrier`; a first small topic is kept before this returns."""
    with ExitStack() as stack:
        source = stack.enter_context(kafka(folder / "source"))
        replica = stack.enter_context(fairlead(folder / "target", "newyork"))
        site = replica.site
        command = [sys.executable, "-m", *carrier, "--data", str(site.data), "--server", site.url]
        replicator = Daemon("replicator", command, folder / "replicator.log", os.environ)
        stack.callback(replicator.stop)
        pair = KeptPair(folder, source, replica, replicator)
        pair.warm_up()
        yield pair
