"""Consumer groups of Java and librdkafka move with their topics between real brokers of Apache Kafka: without a reset,
and without a record that is skipped. At the destination no consumer may reset its offset: that is an error there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from benchmarks.systems.kafka import JARS
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from fairlead.mirror.configs import CONFIGS_EXCLUDE
from fairlead.mirror.told.words import USUAL
from tests.interop.clients.java_vm import JavaVM, java_vm
from tests.interop.kafka_pair import KafkaPair
from tests.interop.test_mirror import compact, is_compacted, once, options
from tests.support.mirrors import count, make_topic, mirroring, produce
from tests.support.records import read_all, wait_for_markers
from tests.support.waiting import WAIT_SECONDS, wait_until

KAFKA = "org.apache.kafka"
STRINGS = f"{KAFKA}.common.serialization.StringDeserializer"
COMMITTED = {"isolation.level": "read_committed", "enable.auto.commit": "false"}


@pytest.fixture(scope="module")
def java() -> Iterator[JavaVM]:
    """With MirrorMaker 2's classes."""
    with java_vm(JARS) as vm:
        yield vm


# ---------------------------------------------------------------- consumers


@contextmanager
def java_consumer(java: JavaVM, bootstrap: str, group: str, topic: str, reset: str = "none") -> Iterator[Any]:
    """Of committed records, subscribed."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.deserializer": STRINGS,
        "value.deserializer": STRINGS,
        "auto.offset.reset": reset,
        "max.poll.records": "5",
        **COMMITTED,
    }
    with java.closing(java.of(f"{KAFKA}.clients.consumer.KafkaConsumer")(java.map(settings))) as consumer:
        consumer.subscribe(java.list(topic))
        yield consumer


def java_read(java: JavaVM, consumer: Any, at_least: int) -> list[str]:
    """The next values, and a commit behind them."""
    found: list[str] = []
    patience = java.of("java.time.Duration").ofMillis(300)
    for _ in range(int(3 * WAIT_SECONDS)):
        records = consumer.poll(patience).iterator()
        while records.hasNext():
            found.append(records.next().value())
        if len(found) >= at_least:
            break
    consumer.commitSync()
    return found


def passes(java: JavaVM, consumer: Any, group: str, bootstrap: str) -> int:
    """Where a consumer has committed that has read all records, and reads on."""
    consumer.poll(java.of("java.time.Duration").ofMillis(100))
    consumer.commitSync()
    (end,) = committed(bootstrap, group).values()
    return end


def confluent_read(
    bootstrap: str, group: str, topic: str, at_least: int, reset: str = "error", partition: int | None = None
) -> list[str]:
    """The next values, of one partition or all, and a commit behind them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": reset, **COMMITTED}
    consumer = Consumer({name: False if value == "false" else value for name, value in settings.items()})
    found: list[str] = []
    try:
        if partition is None:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, partition)])
        for _ in range(int(10 * WAIT_SECONDS)):
            message = consumer.poll(0.1)
            if message is None:
                continue
            assert message.error() is None, message.error()
            found.append((message.value() or b"").decode())
            if len(found) >= at_least:
                break
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


@cache
def admin_of(bootstrap: str) -> AdminClient:
    """One for all that a test asks."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed."""
    _until_loaded(bootstrap, group)
    asked = admin_of(bootstrap).list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(WAIT_SECONDS)
    return {(each.topic, each.partition): each.offset for each in found.topic_partitions or ()}


@cache
def _until_loaded(bootstrap: str, group: str) -> None:
    """Wait until the broker has loaded what it knows of a group: the admin client takes that for a refusal."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.committed([TopicPartition("none", 0)], WAIT_SECONDS)
    finally:
        consumer.close()


def transactions(bootstrap: str, topic: str, values: list[str]) -> None:
    """Three values in a transaction; every third one is aborted, with values of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(WAIT_SECONDS)
    for first in range(0, len(values), 3):
        producer.begin_transaction()
        for value in values[first : first + 3]:
            producer.produce(topic, value, "k", partition=0)
        producer.commit_transaction(WAIT_SECONDS)
        if first % 9 == 0:
            producer.begin_transaction()
            producer.produce(topic, "aborted", "k", partition=0)
            producer.flush(WAIT_SECONDS)
            producer.abort_transaction(WAIT_SECONDS)
    wait_for_markers(bootstrap, topic)


def numbers(end: int) -> list[str]:
    return [str(number) for number in range(end)]


# ---------------------------------------------------------------- moves


def test_a_java_group_goes_on_at_the_destination_where_it_was(pair: KafkaPair, java: JavaVM, tmp_path: Path) -> None:
    """In the middle of transactions, then behind the last marker, which the destination does not have."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic, values = make_topic(source, "moves-java"), numbers(30)
    transactions(source, topic, values)
    with java_consumer(java, source, "moves-java", topic, "earliest") as consumer:
        read = java_read(java, consumer, 10)
    assert read == values[: len(read)]
    once(tmp_path, source, target, topic)
    with java_consumer(java, target, "moves-java", topic) as consumer:
        assert java_read(java, consumer, 30 - len(read)) == values[len(read) :]
    with java_consumer(java, source, "ends-java", topic, "earliest") as consumer:
        assert java_read(java, consumer, 30) == values
        wait_until(lambda: passes(java, consumer, "ends-java", source) == 48, "it has passed the last marker")
    assert count(source, topic) == 48
    once(tmp_path, source, target, topic)
    assert committed(target, "ends-java") == {(topic, 0): 30}
    produce(target, topic, [(b"k", b"after")])
    with java_consumer(java, target, "ends-java", topic) as consumer:
        assert java_read(java, consumer, 1) == ["after"]


def test_a_group_of_librdkafka_goes_on_while_the_mirror_runs(pair: KafkaPair, tmp_path: Path) -> None:
    """Each partition where it was; a group that has idled since before the mirror began goes along."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = make_topic(source, "moves-librdkafka", 2)
    for partition in range(2):
        produce(source, topic, [(b"k", b"%d-%d" % (partition, n)) for n in range(40)], partition=partition)
    idle = [value for p in range(2) for value in confluent_read(source, "idle", topic, 3 + p, "earliest", p)]
    with mirroring(tmp_path, *options(tmp_path, source, target, topic)) as mirror:
        read = [value for p in range(2) for value in confluent_read(source, "librdkafka", topic, 12 + p, "earliest", p)]
        there = committed(source, "librdkafka")
        wait_until(lambda: committed(target, "librdkafka") == there, "the group has moved")
        wait_until(lambda: committed(target, "idle") == committed(source, "idle"), "the idle group has moved")
        read += confluent_read(target, "librdkafka", topic, 55)
        idle += confluent_read(target, "idle", topic, 73)
        assert mirror.stop() == 0, mirror.said()
    everything = Counter(f"{partition}-{n}" for partition in range(2) for n in range(40))
    assert Counter(read) == everything
    assert Counter(idle) == everything


def test_a_group_of_a_compacted_topic_skips_nothing(pair: KafkaPair, java: JavaVM, tmp_path: Path) -> None:
    """Compaction had left holes before it was mirrored: the place is exact. Then it removes more, and a group that had
    stopped in between reads a little again."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = compact(source, "moves-compacted")
    with java_consumer(java, source, "compacted", topic, "earliest") as consumer:
        read = java_read(java, consumer, 15)
    there = len(read_all(source, [topic], prefix=""))
    once(tmp_path, source, target, topic)
    (at,) = committed(target, "compacted").values()
    assert at == len(read)
    assert count(target, topic) == there
    before = count(source, topic)
    produce(source, topic, [(b"%d" % number, b"newer") for number in range(60)])
    once(tmp_path, source, target, topic)
    wait_until(lambda: is_compacted(source, topic), "the topic is compacted again", every_seconds=0.3)
    admin = admin_of(source)
    middle = TopicPartition(topic, 0, before + 30)
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("later", [middle])])["later"].result(WAIT_SECONDS)
    once(tmp_path, source, target, topic)
    (later,) = committed(target, "later").values()
    unread = {p.offset for p, c in read_all(source, [topic], prefix="").items() if p.offset >= before + 30}
    assert later <= count(target, topic) - len(unread)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_where_keys_choose_other_partitions_no_record_is_skipped(pair: KafkaPair, tmp_path: Path, engine: str) -> None:
    """A group that has read everything reads nothing again; one in the middle all that it has not read."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = make_topic(source, f"moves-dealt-{engine}", 2)
    make_topic(target, topic, 3)
    half_way, at_the_end = f"half-{engine}", f"all-{engine}"
    everything = [b"%d" % number for number in range(400)]
    streams = ("--engine", engine, "--num.streams", "2")
    with mirroring(tmp_path, *options(tmp_path, source, target, topic, *streams)) as mirror:
        for first in range(0, 400, 100):
            pairs = [(b"key %d" % (int(value) % 23), value) for value in everything[first : first + 100]]
            produce(source, topic, pairs)
            wait_until(lambda first=first: count(target, topic) == first + 100, "all is mirrored")  # type: ignore[misc]
            if first == 100:
                half = confluent_read(source, half_way, topic, 200, "earliest")
                wait_until(lambda: len(committed(target, half_way)) == 3, "the group has a place")
        confluent_read(source, at_the_end, topic, 400, "earliest")
        wait_until(lambda: sum(committed(target, at_the_end).values()) == 400, "the group is at the end")
        assert mirror.stop() == 0, mirror.said()
    unread = {value.decode() for value in everything} - set(half)
    left = 400 - sum(committed(target, half_way).values())
    found = confluent_read(target, half_way, topic, left)
    assert unread <= set(found)
    assert len(found) < 400


# ---------------------------------------------------------------- MirrorMaker 2's own classes


def test_javas_class_translates_offsets_by_our_checkpoints(pair: KafkaPair, java: JavaVM, tmp_path: Path) -> None:
    """`RemoteClusterUtils.translateOffsets`, as applications of MirrorMaker 2 call it."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = make_topic(source, "pointed", 2)
    transactions(source, topic, numbers(9))
    produce(source, topic, [(b"k", b"v")] * 5, partition=1)
    confluent_read(source, "pointed", topic, 14, "earliest")
    once(tmp_path, source, target, topic, "--prefix", "A.", "--source.alias", "A")
    utils = java.of(f"{KAFKA}.connect.mirror.RemoteClusterUtils")
    patience = java.of("java.time.Duration").ofSeconds(int(WAIT_SECONDS))
    found = utils.translateOffsets(java.map({"bootstrap.servers": target}), "A", "pointed", patience)
    offsets = {(place.topic(), place.partition()): found[place].offset() for place in found}
    assert offsets == {("A.pointed", 0): 9, ("A.pointed", 1): 5} == committed(target, "pointed")


def test_what_is_left_out_by_default_is_what_mirrormaker_2_leaves_out(java: JavaVM) -> None:
    """Of groups, and of the settings of topics."""
    groups = java.of(f"{KAFKA}.connect.mirror.DefaultGroupFilter")
    assert USUAL.groups_exclude == groups.GROUPS_EXCLUDE_DEFAULT
    settings = java.of(f"{KAFKA}.connect.mirror.DefaultConfigPropertyFilter")
    assert settings.CONFIG_PROPERTIES_EXCLUDE_DEFAULT.replace(", ", "|") == CONFIGS_EXCLUDE
