"""`fairlead mirror --mm2.config` between real brokers, as MirrorMaker 2's own client library sees what it does."""

from __future__ import annotations

from pathlib import Path

from benchmarks.systems.common import properties as written
from benchmarks.systems.kafka import JARS

from tests.interop.clients.java_vm import JavaVM, java_vm
from tests.interop.kafka_pair import KafkaPair
from tests.interop.test_mirror import numbers, records
from tests.support.mirrors import MirrorProcess, count, make_topic, mirroring, produce
from tests.support.records import Content
from tests.support.waiting import wait_until

MIRROR = "org.apache.kafka.connect.mirror."
SYNCS = "mm2-offset-syncs.east.internal"


def mm2(folder: Path, pair: KafkaPair, **more: object) -> list[str]:
    """Options of a mirror of the flow west->east, with `__` for dots in names."""
    factors = {f"{each}replication.factor": 1 for each in ("", "heartbeats.topic.", "checkpoints.topic.")}
    values = {
        "clusters": "west, east",
        "west.bootstrap.servers": pair.source.bootstrap,
        "east.bootstrap.servers": pair.target.bootstrap,
        "west->east.enabled": True,
        **factors,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    file = folder / "mm2.properties"
    file.write_text(written(values))
    return ["--mm2.config", str(file)]


def test_java_sees_which_clusters_are_mirrored_to_which(pair: KafkaPair, tmp_path: Path) -> None:
    """By topics of heartbeats, which it reads too; topics have the alias before their names, and as many partitions."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    make_topic(source, "java-ships", 3)
    produce(source, "java-ships", numbers(100))
    syncs = {"emit.offset-syncs.enabled": True, "offset-syncs.topic.replication.factor": 1, "offset.lag.max": 0}
    lasts = {partition: (len(found) - 1,) * 2 for partition, found in records(source, "java-ships").items()}
    options = mm2(tmp_path, pair, topics="java-.*", **syncs)
    with java_vm(JARS) as vm:
        with mirroring(tmp_path, *options) as mirror:
            wait_until(lambda: count(target, "west.java-ships") == 100, "all is mirrored")
            wait_until(lambda: count(target, "west.heartbeats") > 0, "heartbeats of the source are mirrored")
            wait_until(lambda: count(target, "heartbeats") > 0, "heartbeats are written at the destination")
            wait_until(lambda: synced(vm, source) == lasts, "syncs at the source tell of all", every_seconds=0.2)
            assert mirror.stop() == 0, mirror.said()
        assert records(target, "west.java-ships") == records(source, "java-ships")
        beats = [records(target, topic)[0][0] for topic in ("heartbeats", "west.heartbeats")]
        utils = vm.of(MIRROR + "RemoteClusterUtils")
        client = vm.map({"bootstrap.servers": target})
        assert set(utils.upstreamClusters(client)) == {"west"}
        assert utils.replicationHops(client, "west") == 1
        read = [vm.of(MIRROR + "Heartbeat").deserializeRecord(_java(vm, beat)) for beat in beats]
        assert [(each.sourceClusterAlias(), each.targetClusterAlias()) for each in read] == [
            ("west", "east"),
            ("east", "west"),
        ]
        assert [each.timestamp() for each in read] == [beat.timestamp_ms for beat in beats]


def synced(vm: JavaVM, source: str) -> dict[int, tuple[int, int]]:
    """By partition of the topic, the offsets at the source and at the destination that the last sync tells."""
    if not count(source, SYNCS):
        return {}
    sync = vm.of(MIRROR + "OffsetSync")
    told = [sync.deserializeRecord(_java(vm, each)) for each in records(source, SYNCS)[0]]
    return {
        each.topicPartition().partition(): (each.upstreamOffset(), each.downstreamOffset())
        for each in told
        if each.topicPartition().topic() == "java-ships"
    }


def _java(vm: JavaVM, record: Content) -> object:
    """The record as a Java consumer gives it."""
    made = vm.of("org.apache.kafka.clients.consumer.ConsumerRecord")
    return made("heartbeats", 0, 0, record.key, record.value)


def test_flows_that_face_each_other_come_to_rest(pair: KafkaPair, tmp_path: Path) -> None:
    """By the names, as in MirrorMaker 2. A dry run shows each flow."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    make_topic(source, "facing-ships")
    produce(source, "facing-ships", numbers(10))
    heartbeats = dict.fromkeys(("emit__heartbeats__enabled", "heartbeats__replication__enabled"), False)
    more = {"topics": "facing-.*", "east->west.enabled": True, **heartbeats}
    options = mm2(tmp_path, pair, **more)
    dry = MirrorProcess(tmp_path, [*options, "--dry-run"])
    assert dry.wait() == 0, dry.said()
    assert "west->east:   facing-ships → west.facing-ships (1 partitions, to be made)" in dry.said()
    assert "east->west: east: 0 topics with 0 partitions" in dry.said()
    for _ in range(2):
        once = MirrorProcess(tmp_path, [*options, "--once"])
        assert once.wait() == 0, once.said()
    assert count(target, "west.facing-ships") == 10
    assert count(source, "east.west.facing-ships") == 0
