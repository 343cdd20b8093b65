"""A stream that keeps topics of Kafka under load, harmed again and again: at the end it has them as Kafka has them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.crash.mirrors.ends import End, FairleadEnd
from tests.crash.mirrors.harms import ALL
from tests.crash.mirrors.load import Load, Topic
from tests.interop.test_from_kafka import batches
from tests.support.carrier import CarriedSite
from tests.support.mirrors import count, properties
from tests.support.ports import free_ports
from tests.support.records import read_all, wait_for_markers
from tests.support.waiting import wait_until

STREAM: Final = "/kept"
UPSTREAM: Final = "kafka://old"


class Keeping:
    """One stream of `site` that keeps the topics of `source`; what carries it is harmed as a mirror is."""

    def __init__(self, folder: Path, source: End, site: CarriedSite, seed: int, *, away_seconds: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.source = source
        (self._port,) = free_ports(1)
        self.target: End = FairleadEnd(site, f"127.0.0.1:{self._port}", None)
        self.choose = random.Random(seed)
        self.away_seconds = away_seconds
        self.load = Load(source, folder.name, seed, pause_seconds=0.1)
        self.kills_of_destination = 0
        self._site = site
        self._topics = f"{folder.name}-.*"
        self._file = properties(folder / "consumer.config", source.outside)

    @property
    def mirror_pid(self) -> int:
        return self._site.carrier_pid

    def kill_mirror(self) -> None:
        self._site.kill_replicator()

    def start_mirror(self) -> None:
        """Whoever was killed has an heir."""

    def stop_mirror(self) -> None:
        """In order: the server with it."""
        self._site.stop()
        self._site.start()

    def wait(self, units: float) -> None:
        time.sleep(units)

    def tell(self, harms: Iterable[str]) -> None:
        """Load and these harms, until all that Kafka has is here."""
        words = ("stream", "replica", "autosetup", "-path", UPSTREAM, "-replica", STREAM, "-topics", self._topics)
        try:
            self.load.begin()
            self._site.cli(*words, "-consumerconfig", str(self._file))
            self._site.cli("stream", "expose", "-path", STREAM, "-port", str(self._port))
            for name in harms:
                self._goes_on()
                print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
                ALL[name](self)
            self._goes_on()
        finally:
            self.load.end()
        for topic in self.load.topics:
            wait_for_markers(self.source.inside, topic.name)

    def check(self) -> None:
        """Each batch of Kafka's lies here at its offset, byte for byte, and none besides. Where Kafka has compacted a
        topic, what was brought before lies here still."""
        for topic in self.load.topics:
            wait_until(lambda topic=topic: self._has(topic), f"{topic.name} is as in Kafka", every_seconds=0.5)  # type: ignore[misc]
        print(f"topics {len(self.load.topics)}, records {sum(sum(t.written.values()) for t in self.load.topics)}")

    def _goes_on(self) -> None:
        before = self._kept()
        wait_until(lambda: self._kept() > before, "more comes", every_seconds=0.2)

    def _kept(self) -> int:
        return sum(count(self.target.inside, topic) for topic in self.load.names)

    def _has(self, topic: Topic) -> bool:
        there, here = self.source.inside, self.target.inside
        if not topic.compacted:
            kept, kafkas = (batches(end, topic.name, topic.partitions) for end in (here, there))
            return kept == kafkas
        copied = read_all(here, [topic.name], prefix="")
        return read_all(there, [topic.name], prefix="").items() <= copied.items()
