"""Deleted records, as those who delete them and those who read see it: at the topic's owner and at a replica."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop.arrivals import Link
from tests.interop.clients.base import Client
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_tools import KafkaTools, java
from tests.interop.clients.kcat_client import Kcat
from tests.interop.clients.process import run
from tests.interop.site import Site
from tests.interop.test_behaviours import content, messages, sent
from tests.support.waiting import WAIT_SECONDS

_names = count(1)


@pytest.fixture(scope="module")
def link(site: Site) -> Link:
    """From the stream of all tests to a replica."""
    return Link(site, site.another("/purged", autocreate=False))


def deleted(site: Site, topic: str, offset: int) -> int:
    """librdkafka's DeleteRecords: where the partition begins now."""
    asked = TopicPartition(topic, 0, offset)
    admin = AdminClient({"bootstrap.servers": site.of_stream})
    low: int = admin.delete_records([asked])[asked].result(WAIT_SECONDS).low_watermark
    return low


def test_a_reader_begins_behind_what_was_deleted(
    client: Client, confluent: Confluent, site: Site, topic: str, link: Link
) -> None:
    """In the middle of a batch: the records before the offset come with it over the wire, and no client shows them. So
    at a replica that holds them."""
    confluent.produce(site, topic, messages(10))
    assert [header.record_count for header in site.headers(topic)] == [10]
    link.bring(topic)
    assert deleted(site, topic, 4) == 4
    assert content(client.read(site, topic, 6)) == sent(messages(10))[4:]
    link.bring(topic)
    assert content(client.read(link.replica, topic, 6)) == sent(messages(10))[4:]


def test_kcat_ends_where_everything_was_deleted(kcat: Kcat, confluent: Confluent, site: Site, topic: str) -> None:
    """-1 is the high watermark; offsets go on."""
    confluent.produce(site, topic, messages(10))
    assert deleted(site, topic, -1) == 10
    assert kcat.read_to_end(site, topic) == []
    assert kcat.offset_at(site, topic, -2) == 10
    confluent.produce(site, topic, messages(1))
    assert kcat.read_to_end(site, topic) == [messages(1)[0].value.decode()]


def test_librdkafka_says_why_nothing_was_deleted(confluent: Confluent, site: Site, topic: str, link: Link) -> None:
    """Beyond the end; and at a replica, which only the owner changes."""
    confluent.produce(site, topic, messages(10))
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        deleted(site, topic, 11)
    link.bring(topic)
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        deleted(link.replica, topic, 4)
    assert len(confluent.read(link.replica, topic, 10)) == 10


def test_kafka_delete_records_takes_its_file(
    tools: KafkaTools, confluent: Confluent, site: Site, link: Link, tmp_path: Path
) -> None:
    """Java's deleteRecords, as Kafka Streams calls it for its repartition topics: one request names many partitions,
    and each has its answer. At a replica the refusal is final: Java does not try again."""
    name = site.make_topic(f"repartition-{next(_names)}", 3)
    confluent.produce(site, name, messages(10))
    link.bring(name)
    path = tmp_path / "offsets.json"

    def told(address: str, *offsets: int) -> list[str]:
        wanted = [{"topic": name, "partition": number, "offset": offset} for number, offset in enumerate(offsets)]
        path.write_text(json.dumps({"version": 1, "partitions": wanted}))
        said = run(
            java("DeleteRecordsCommand", "--bootstrap-server", address, "--offset-json-file", str(path))
        ).splitlines()
        return sorted(line for line in said if line.startswith("partition: "))

    first, second, third = told(site.of_stream, 7, -1, 1)
    assert [first, second] == [f"partition: {name}-0\tlow_watermark: 7", f"partition: {name}-1\tlow_watermark: 0"]
    assert third.startswith(f"partition: {name}-2\terror: ")
    assert "OffsetOutOfRangeException" in third
    assert tools.offset_at(site, name, -2) == 7
    (refused,) = told(link.replica.of_stream, 8)
    assert "PolicyViolationException" in refused
    assert tools.offset_at(link.replica, name, -2) == 0
    link.bring(name)
    assert tools.offset_at(link.replica, name, -2) == 7
