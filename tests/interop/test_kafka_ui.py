"""What kafka-ui and AKHQ do to show a cluster, its topics and their messages, and how far groups are behind.

Read in kafbat/kafka-ui (`ReactiveAdminClient`, `ConsumerGroupService`, `SeekOperations`, `RangePollingEmitter`) and
AKHQ (`AbstractKafkaWrapper`, `RecordRepository`): their calls of Java's clients, in their order, with their settings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from tests.interop.clients.java_vm import JavaVM, refusal
from tests.interop.site import Site
from tests.interop.test_admin_client import Walk
from tests.support.waiting import WAIT_SECONDS

CLIENTS = "org.apache.kafka.clients"
BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
UI = {"auto.offset.reset": "earliest", "allow.auto.create.topics": "false"}
AKHQ = {"group.id": "Akhq", "isolation.level": "read_committed", "max.poll.records": "50"}
LONG_AGO_MS = 2**40
"""kafka-ui asks for the offsets of the time 0, of which py4j makes an Integer."""
RECORDS = 10
COMMITTED = 4


class Shown(NamedTuple):
    """A topic at the address where a tool looks: records a second apart in its first partition, none in its second."""

    walk: Walk
    address: str
    topic: str
    first_ms: int

    def partitions(self) -> Any:
        return self.walk.java.list(*(self.partition(each) for each in range(2)))

    def partition(self, index: int = 0) -> Any:
        return self.walk.common("TopicPartition")(self.topic, index)

    @contextmanager
    def admin(self) -> Iterator[Any]:
        with self.walk.java.closing(self.walk.client(**{"bootstrap.servers": self.address})) as admin:
            yield admin

    @contextmanager
    def consumer(self, settings: dict[str, str]) -> Iterator[Any]:
        java = self.walk.java
        always = {"bootstrap.servers": self.address, "enable.auto.commit": "false"}
        kinds = {"key.deserializer": BYTES, "value.deserializer": BYTES}
        made = java.of(f"{CLIENTS}.consumer.KafkaConsumer")(java.map({**always, **kinds, **settings}))
        with java.closing(made) as consumer:
            yield consumer


@pytest.fixture(scope="module")
def walk(java: JavaVM, site: Site) -> Iterator[Walk]:
    made = Walk(java, site, site.make_topic("shown", 2))
    site.broker.call(_topic_on_main(site))
    yield made
    made.admin.close()


@pytest.fixture(scope="module", params=["main", "of_stream"])
def shown(request: pytest.FixtureRequest, walk: Walk) -> Shown:
    """By each kind of listener."""
    address = getattr(walk.site, request.param)
    topic = "bare" if request.param == "main" else walk.topic
    first_ms = int(1000 * time.time()) - 60_000
    producer = Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=first_ms + 1000 * number)
    assert producer.flush(WAIT_SECONDS) == 0
    return Shown(walk, address, topic, first_ms)


def test_they_find_what_they_show(shown: Shown) -> None:
    """How they collect a cluster, and the errors that they wait for: kafka-ui takes the version of a cluster from a
    feature, and SECURITY_DISABLED for a cluster that has no ACLs.
    """
    walk = shown.walk
    done, java = walk.done, walk.java
    with shown.admin() as admin:
        node = done(admin.describeCluster().controller()).id()
        kinds = walk.common("config.ConfigResource$Type")
        broker = walk.common("config.ConfigResource")(kinds.BROKER, str(node))
        assert done(admin.describeConfigs(java.list(broker)).all()).get(broker).entries().size() > 0
        assert done(admin.describeFeatures().featureMetadata()).finalizedFeatures().containsKey("metadata.version")
        acls = refusal(lambda: done(admin.describeAcls(walk.common("acl.AclBindingFilter").ANY).values()))
        assert (acls or "").startswith("SecurityDisabledException")
        names = list(done(admin.listTopics(walk.new("ListTopicsOptions")().listInternal(True)).names()))
        described = done(admin.describeTopics(java.list(*names)).allTopicNames())
        assert set(described) == set(names) != set()
        topics = [walk.common("config.ConfigResource")(kinds.TOPIC, name) for name in names]
        options = walk.new("DescribeConfigsOptions")().includeSynonyms(True).includeDocumentation(True)
        configs = done(admin.describeConfigs(java.list(*topics), options).all())
        assert configs.size() == len(names)
        (directory,) = done(admin.describeLogDirs(java.list(node)).allDescriptions()).get(node).values()
        held = {partition.topic() for partition in directory.replicaInfos()}
        assert held == set(names)
        first = {walk.common("TopicPartition")(name, 0): walk.new("OffsetSpec").earliest() for name in names}
        assert done(admin.listOffsets(java.map(first)).all()).size() == len(names)
        groups = [found.groupId() for found in done(admin.listConsumerGroups().all())]
        assert done(admin.describeConsumerGroups(java.list(*groups)).all()).size() == len(groups)
        assert done(admin.describeMetadataQuorum().quorumInfo()).leaderId() == node


def test_they_show_how_far_groups_are_behind(shown: Shown) -> None:
    """kafka-ui asks for all that several groups have committed, or for a topic's partitions; AKHQ for one group."""
    walk, java, first, second = shown.walk, shown.walk.java, shown.partition(), shown.partition(1)
    offset = java.of(f"{CLIENTS}.consumer.OffsetAndMetadata")(COMMITTED)
    with shown.admin() as admin:
        for group in ("behind", "also-behind"):
            walk.done(admin.alterConsumerGroupOffsets(group, java.map({first: offset})).all())
        named = [found.groupId() for found in walk.done(admin.listConsumerGroups().all())]
        assert {"behind", "also-behind"} <= set(named)
        asked = {group: walk.new("ListConsumerGroupOffsetsSpec")().topicPartitions(None) for group in named}
        of_all = walk.done(admin.listConsumerGroupOffsets(java.map(asked)).all())
        assert of_all.keys() == asked.keys()
        assert {tp.partition(): found.offset() for tp, found in of_all["behind"].items()} == {0: COMMITTED}
        spec = walk.new("ListConsumerGroupOffsetsSpec")().topicPartitions(shown.partitions())
        of_topic = walk.done(admin.listConsumerGroupOffsets(java.map({"behind": spec})).all())["behind"]
        assert of_topic[first].offset() == COMMITTED
        assert of_topic[second] is None
        of_one = walk.done(admin.listConsumerGroupOffsets("behind").partitionsToOffsetAndMetadata())
        ends = {each: walk.new("OffsetSpec").latest() for each in (first, second)}
        end = walk.done(admin.listOffsets(java.map(ends)).all())[first].offset()
        assert end - of_one[first].offset() == RECORDS - COMMITTED


def test_kafka_ui_shows_messages_from_an_offset_and_from_a_time(shown: Shown) -> None:
    """It finds what is not empty, seeks there without a group, and reads until the end that it had asked for."""
    java, first, second = shown.walk.java, shown.partition(), shown.partition(1)
    with shown.consumer(UI) as consumer:
        assert consumer.partitionsFor(shown.topic).size() == 2
        oldest = consumer.offsetsForTimes(java.map(dict.fromkeys((first, second), LONG_AGO_MS)))
        assert oldest[first].offset() == 0
        assert oldest[second] is None  # an empty one: it asks in the other way
        assert [consumer.beginningOffsets(shown.partitions())[each] for each in (first, second)] == [0, 0]
        ends = consumer.endOffsets(shown.partitions())
        assert [ends[each] for each in (first, second)] == [RECORDS, 0]
        assert _page(shown, consumer, COMMITTED, RECORDS) == list(range(COMMITTED, RECORDS))
        assert _page(shown, consumer, 2, 5) == [2, 3, 4]  # a page further back
        at = consumer.offsetsForTimes(java.map({first: shown.first_ms + 6500}))[first].offset()
        assert _page(shown, consumer, at, RECORDS) == [7, 8, 9]
        assert consumer.offsetsForTimes(java.map({first: shown.first_ms + 3_600_000}))[first] is None


def _page(shown: Shown, consumer: Any, start: int, end: int) -> list[int]:
    """The values from an offset to another, as `RangePollingEmitter` reads them."""
    only = shown.walk.java.list(shown.partition())
    consumer.assign(only)
    consumer.seek(shown.partition(), start)
    values: list[int] = []
    while consumer.position(shown.partition()) < end:
        found = consumer.poll(shown.walk.java.of("java.time.Duration").ofSeconds(1)).records(shown.partition())
        values += [int(bytes(record.value())) for record in found if record.offset() < end]
    consumer.pause(only)
    consumer.resume(only)
    return values


def test_akhq_shows_the_last_messages(shown: Shown) -> None:
    """Two before the end of each partition of what is committed, as a member of no group though it has a name."""
    first, second = shown.partition(), shown.partition(1)
    with shown.consumer(AKHQ) as consumer:
        assert sum(consumer.beginningOffsets(shown.partitions()).values()) == 0
        consumer.assign(shown.partitions())
        ends = consumer.endOffsets(consumer.assignment())
        for each in (first, second):
            consumer.seek(each, max(0, ends[each] - 2))
        values: list[int] = []
        while consumer.position(first) < ends[first]:
            found = consumer.poll(shown.walk.java.of("java.time.Duration").ofSeconds(1)).records(first)
            values += [int(bytes(record.value())) for record in found]
        assert values == [RECORDS - 2, RECORDS - 1]


async def _topic_on_main(site: Site) -> None:
    stream = site.broker.cluster.stream(site.broker.cluster.default_stream)
    if stream.find_topic("bare") is None:
        await stream.create_topic("bare", 2)
