"""The broker and librdkafka: what goes in comes out."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from tests.support.broker import RunningBroker
from tests.support.waiting import WAIT_SECONDS

from fairlead.cluster.values import StreamSettings

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def producer(broker: RunningBroker, bootstrap: str | None = None, options: Mapping[str, Any] = NO_OPTIONS) -> Producer:
    return Producer({"bootstrap.servers": bootstrap or broker.bootstrap, "linger.ms": 5, **options})


def publish(client: Any, topic: str, records: Any, partition: int = 0) -> Any:
    """Produce (key, value, headers, timestamp) tuples and wait; the delivered messages, or the first error raised."""
    reports = []
    for key, value, headers, timestamp in records:
        client.produce(
            topic,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            partition=partition,
            on_delivery=lambda error, message: reports.append((error, message)),
        )
    assert client.flush(WAIT_SECONDS) == 0
    for error, _ in reports:
        if error is not None:
            raise KafkaException(error)
    return [message for _, message in reports]


def values(*texts: bytes) -> Any:
    return [(None, text, [], 1_700_000_000_000 + i) for i, text in enumerate(texts)]


def value_of(message: Message | None) -> bytes | None:
    assert message is not None
    return message.value()


def consume(
    broker: RunningBroker,
    topic: str,
    count: int,
    *,
    offset: int = 0,
    bootstrap: str | None = None,
    partition: int = 0,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Any:
    """Read `count` messages from an offset on."""
    settings = {"bootstrap.servers": bootstrap or broker.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    client = Consumer({**settings, **options})
    try:
        client.assign([TopicPartition(topic, partition, offset)])
        messages: list[Message] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(messages) < count and time.monotonic() < deadline:
            message = client.poll(0.5)
            if message is not None:
                if message.error():
                    raise KafkaException(message.error())
                messages.append(message)
        return messages
    finally:
        client.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_went_in(running_broker: RunningBroker, codec: str) -> None:
    """Key, value, headers, time and offset, with every compression."""
    sent = [
        (b"k%d" % i if i % 3 else None, b"value %d " % i * 20, [("h", b"x"), ("n", None)], 1_700_000_000_000 + i)
        for i in range(200)
    ]
    publish(producer(running_broker, options={"compression.type": codec}), "ships", sent)
    got = consume(running_broker, "ships", 200)
    assert [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in got] == sent
    assert [m.offset() for m in got] == list(range(200))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_level_of_acknowledgement_is_served(running_broker: RunningBroker, acks: Any) -> None:
    """With acks=0 there is no answer, and the record is there all the same."""
    publish(producer(running_broker, options={"acks": acks}), "acks", values(b"one", b"two"))
    assert [m.value() for m in consume(running_broker, "acks", 2)] == [b"one", b"two"]


def test_an_idempotent_producer_writes_each_record_once(running_broker: RunningBroker) -> None:
    """Its batches are numbered, and in order."""
    client = producer(running_broker, options={"enable.idempotence": True, "batch.num.messages": 10})
    sent = [b"%d" % i for i in range(1000)]
    messages = publish(client, "once", values(*sent))
    assert sorted(m.offset() for m in messages) == list(range(1000))
    assert [m.value() for m in consume(running_broker, "once", 1000)] == sent


def test_a_message_above_the_limit_is_refused(running_broker: RunningBroker) -> None:
    """10 MB is the limit; what is below goes through."""
    client = producer(running_broker, options={"message.max.bytes": 30_000_000})
    publish(client, "big", values(bytes(9_900_000)))
    with pytest.raises(KafkaException) as refused:
        publish(client, "big", values(bytes(10_100_000)))
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    (message,) = consume(running_broker, "big", 1)
    assert len(message.value()) == 9_900_000


def test_a_consumer_finds_its_place_by_time(running_broker: RunningBroker) -> None:
    """The first record that is not older; inside a compressed batch too."""
    client = producer(running_broker, options={"compression.type": "zstd"})
    publish(client, "times", [(None, b"%d" % i, [], 1_000_000 + 10 * i) for i in range(100)])
    reader = Consumer({"bootstrap.servers": running_broker.bootstrap, "group.id": "g"})
    for asked, expected in ((0, 0), (1_000_500, 50), (1_000_501, 51), (1_000_990, 99), (1_000_991, -1)):
        (found,) = reader.offsets_for_times([TopicPartition("times", 0, asked)], timeout=WAIT_SECONDS)
        assert found.offset == expected
    assert reader.get_watermark_offsets(TopicPartition("times", 0), timeout=WAIT_SECONDS) == (0, 100)
    reader.close()


def test_a_consumer_beyond_the_end_is_told_so(running_broker: RunningBroker) -> None:
    """OFFSET_OUT_OF_RANGE, from where its own policy goes on."""
    publish(producer(running_broker), "short", values(b"only"))
    (message,) = consume(running_broker, "short", 1, offset=50, options={"auto.offset.reset": "earliest"})
    assert message.offset() == 0
    with pytest.raises(KafkaException):
        consume(running_broker, "short", 1, offset=50, options={"auto.offset.reset": "error"})


def test_log_append_time_is_the_broker_s(running_broker: RunningBroker) -> None:
    """A topic may say so; the producer is told the time, and consumers see it."""
    admin = AdminClient({"bootstrap.servers": running_broker.bootstrap})
    topic = NewTopic("stamped", 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([topic])["stamped"].result(WAIT_SECONDS)
    before = int(time.time() * 1000)
    publish(producer(running_broker), "stamped", [(None, b"v", [], 5)])
    (message,) = consume(running_broker, "stamped", 1)
    kind, stamp = message.timestamp()
    assert kind == 2
    assert before - 1000 <= stamp <= int(time.time() * 1000) + 1000


def test_topics_are_made_changed_and_deleted(running_broker: RunningBroker) -> None:
    """CreateTopics with any replication factor, CreatePartitions, DeleteTopics."""
    admin = AdminClient({"bootstrap.servers": running_broker.bootstrap})
    admin.create_topics([NewTopic("made", 3, replication_factor=3)])["made"].result(WAIT_SECONDS)
    made = admin.list_topics("made", timeout=WAIT_SECONDS).topics["made"]
    assert sorted(made.partitions) == [0, 1, 2]
    assert made.partitions[0].replicas == [1]
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("made", 3)])["made"].result(WAIT_SECONDS)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions("made", 5)])["made"].result(WAIT_SECONDS)
    assert len(admin.list_topics("made", timeout=WAIT_SECONDS).topics["made"].partitions) == 5
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions("made", 2)])["made"].result(WAIT_SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    admin.delete_topics(["made"])["made"].result(WAIT_SECONDS)
    assert "made" not in admin.list_topics(timeout=WAIT_SECONDS).topics


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("bad name", {}, KafkaError.TOPIC_EXCEPTION),
        ("many", {"num_partitions": 4097}, KafkaError.INVALID_PARTITIONS),
        ("conf", {"config": {"retention.ms": "-5"}}, KafkaError.INVALID_CONFIG),
        ("conf", {"config": {"no.such": "5"}}, KafkaError.INVALID_CONFIG),
        ("conf", {"config": {"cleanup.policy": "sometimes"}}, KafkaError.INVALID_CONFIG),
        ("/nowhere:topic", {}, KafkaError.UNKNOWN_TOPIC_OR_PART),
    ],
)
def test_what_cannot_be_honoured_is_refused(running_broker: RunningBroker, name: str, options: Any, code: Any) -> None:
    """With Kafka's own code, and nothing is made."""
    admin = AdminClient({"bootstrap.servers": running_broker.bootstrap})
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, **options)])[name].result(WAIT_SECONDS)
    assert refused.value.args[0].code() == code
    assert admin.list_topics(timeout=WAIT_SECONDS).topics == {}


def test_validating_makes_nothing(running_broker: RunningBroker) -> None:
    """`validate_only` answers as if."""
    admin = AdminClient({"bootstrap.servers": running_broker.bootstrap})
    admin.create_topics([NewTopic("maybe", 2)], validate_only=True)["maybe"].result(WAIT_SECONDS)
    assert admin.list_topics(timeout=WAIT_SECONDS).topics == {}


def test_settings_without_effect_are_taken(running_broker: RunningBroker) -> None:
    """Compacted topics are accepted and say so."""
    admin = AdminClient({"bootstrap.servers": running_broker.bootstrap})
    config = {"cleanup.policy": "compact", "min.insync.replicas": "1", "retention.ms": "604800000"}
    admin.create_topics([NewTopic("kept", 1, config=config)])["kept"].result(WAIT_SECONDS)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "kept")
    entries = admin.describe_configs([resource])[resource].result(WAIT_SECONDS)
    assert entries["cleanup.policy"].value == "compact"


def test_streams_are_named_in_topic_names(running_broker: RunningBroker) -> None:
    """On the main listener every stream's topics, and bare names in the default one only."""
    running_broker.call(running_broker.cluster.create_stream("/fleet/log", StreamSettings(default_partitions=2)))
    publish(producer(running_broker), "/fleet/log:positions", values(b"here"))
    publish(producer(running_broker), "bare", values(b"there"))
    (message,) = consume(running_broker, "/fleet/log:positions", 1)
    assert (message.topic(), message.value()) == ("/fleet/log:positions", b"here")
    admin = AdminClient({"bootstrap.servers": running_broker.bootstrap})
    assert set(admin.list_topics(timeout=WAIT_SECONDS).topics) == {"bare"}
    assert (
        len(admin.list_topics("/fleet/log:positions", timeout=WAIT_SECONDS).topics["/fleet/log:positions"].partitions)
        == 2
    )
    cluster = running_broker.cluster
    (message,) = consume(running_broker, f"/mapr/{cluster.name}/default:bare", 1)
    assert message.value() == b"there"


def test_a_stream_listener_is_a_cluster_with_plain_names(running_broker: RunningBroker) -> None:
    """Its own topics, all of them, nobody else's."""
    running_broker.call(running_broker.cluster.create_stream("/fleet", StreamSettings()))
    bootstrap = running_broker.expose("/fleet")
    publish(producer(running_broker, bootstrap), "positions", values(b"here"))
    publish(producer(running_broker), "bare", values(b"there"))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listing = admin.list_topics(timeout=WAIT_SECONDS)
    assert set(listing.topics) == {"positions"}
    assert [f"{b.host}:{b.port}" for b in listing.brokers.values()] == [bootstrap]
    (message,) = consume(running_broker, "/fleet:positions", 1)
    assert message.value() == b"here"


def test_a_stream_without_auto_creation_makes_no_topic(running_broker: RunningBroker) -> None:
    """The client is told that there is none."""
    running_broker.call(running_broker.cluster.create_stream("/strict", StreamSettings(autocreate=False)))
    with pytest.raises(KafkaException) as refused:
        publish(producer(running_broker, options={"message.timeout.ms": 3000}), "/strict:none", values(b"x"))
    assert refused.value.args[0].code() in {KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT}  # noqa: SLF001 - so it names them


def test_a_waiting_consumer_gets_a_new_record_at_once(running_broker: RunningBroker) -> None:
    """A long poll ends when the record is announced, not when its time is over."""
    publish(producer(running_broker), "tail", values(b"first"))
    reader = Consumer(
        {"bootstrap.servers": running_broker.bootstrap, "group.id": "g", "fetch.wait.max.ms": 280_000}
        | {"socket.timeout.ms": 300_000}
    )
    reader.assign([TopicPartition("tail", 0, 0)])
    assert value_of(reader.poll(WAIT_SECONDS)) == b"first"
    assert reader.poll(1) is None
    publish(producer(running_broker), "tail", values(b"second"))
    assert value_of(reader.poll(140)) == b"second"
    reader.close()


def test_transactions_are_refused(running_broker: RunningBroker) -> None:
    """At the first call, and for good."""
    client = producer(running_broker, options={"transactional.id": "t"})
    with pytest.raises(KafkaException) as refused:
        client.init_transactions(WAIT_SECONDS)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_records_survive_a_restart(tmp_path: Path) -> None:
    """What was acknowledged is read again from disk, also by an old consumer's offsets."""
    from tests.support.broker import run_broker

    sent = [b"%d" % i for i in range(500)]
    with run_broker(tmp_path / "data") as broker:
        publish(producer(broker, options={"batch.num.messages": 7}), "kept", values(*sent))
    with run_broker(tmp_path / "data") as broker:
        assert [m.value() for m in consume(broker, "kept", 500)] == sent
        assert [m.offset() for m in consume(broker, "kept", 10, offset=250)] == list(range(250, 260))
        publish(producer(broker), "kept", values(b"more"))
        (message,) = consume(broker, "kept", 1, offset=500)
        assert message.value() == b"more"


def test_clients_go_on_after_a_restart(tmp_path: Path) -> None:
    """A producer and a consumer that stay: the broker comes back at its address, and nothing is lost or doubled."""
    from tests.support.broker import run_broker

    with run_broker(tmp_path / "data") as broker:
        port = broker.address[1]
        writer = producer(broker, options={"enable.idempotence": True, "reconnect.backoff.max.ms": 200})
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "reconnect.backoff.max.ms": 200})
        publish(writer, "stays", values(b"one"))
        reader.assign([TopicPartition("stays", 0, 0)])
        assert value_of(reader.poll(WAIT_SECONDS)) == b"one"
    with run_broker(tmp_path / "data", port=port) as broker:
        publish(writer, "stays", values(b"two"))
        messages: list[Message] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while not messages and time.monotonic() < deadline:
            message = reader.poll(0.5)
            messages += [message] if message is not None and not message.error() else []
        reader.close()
        assert [(m.offset(), m.value()) for m in messages] == [(1, b"two")]
