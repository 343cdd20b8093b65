"""`fairlead mirror` goes on where a real MirrorMaker 2 has ended."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.systems.common import Daemon
from benchmarks.systems.common import properties as written
from benchmarks.systems.kafka import SMALL_HEAP, java
from benchmarks.systems.mirrormaker import mirror_properties

from tests.interop.kafka_pair import KafkaPair
from tests.interop.test_mirror import numbers, once, records
from tests.support.mirrors import count, make_topic, produce
from tests.support.waiting import wait_until

QUICK = {
    "source->target.topics": "taken-(one|two)",
    "emit.heartbeats.enabled": False,
    "emit.checkpoints.enabled": False,
    "offset.storage.partitions": 1,
    "status.storage.partitions": 1,
    "refresh.topics.interval.seconds": 1,
    "target.offset.flush.interval.ms": 500,
}
"""Few topics and connectors: the test is not about them."""


def test_a_mirror_goes_on_where_a_mirrormaker_2_ended(pair: KafkaPair, tmp_path: Path) -> None:
    """Nothing is lost, and as that one ended in order, nothing comes twice; what it never saw comes from its start."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    make_topic(source, "taken-one", 3)
    produce(source, "taken-one", numbers(300))
    file = tmp_path / "mm2.properties"
    file.write_text(written(mirror_properties(source, target, tuned=False) | QUICK))
    command = java("org.apache.kafka.connect.mirror.MirrorMaker", SMALL_HEAP, str(file))
    maker = Daemon("mirrormaker", command, tmp_path / "mirrormaker.log", os.environ)
    try:
        wait_until(lambda: _copied(maker, target, "source.taken-one") == 300, "MirrorMaker 2 has copied all")
    finally:
        maker.stop()
    produce(source, "taken-one", numbers(500, 300))
    make_topic(source, "taken-two")
    produce(source, "taken-two", numbers(10))
    said = once(tmp_path, source, target, "taken-(one|two)", "--from", "mm2", "--prefix", "source.")
    assert "3 where another mirror has ended" in said
    for topic in ("taken-one", "taken-two"):
        assert records(target, f"source.{topic}") == records(source, topic)
    once(tmp_path, source, target, "taken-(one|two)", "--from", "mm2", "--prefix", "source.")
    assert count(target, "source.taken-one") == 500


def _copied(maker: Daemon, bootstrap: str, topic: str) -> int:
    maker.check()
    return count(bootstrap, topic)
