"""Clients at a replica: topics that arrive, gaps, groups that move with their offsets."""

from __future__ import annotations

from itertools import count

import pytest

from fairlead.cluster.stream import CommittedOffset
from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch
from fairlead.streamlog.rows import ABORT
from tests.interop.arrivals import Link
from tests.interop.clients.base import Client
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_tools import KafkaTools
from tests.interop.clients.kcat_client import Kcat
from tests.interop.site import Site
from tests.interop.test_behaviours import content, messages, sent
from tests.support.batches import changed
from tests.support.waiting import wait_until

_names = count(1)


@pytest.fixture(scope="module")
def link(site: Site) -> Link:
    """From the stream of all tests to a replica, where no topic is made by asking for it."""
    return Link(site, site.another("/replica", autocreate=False))


def test_a_subscription_from_before_the_topic_existed_is_served(
    patient_client: Client, confluent: Confluent, site: Site, link: Link
) -> None:
    """A consumer subscribes at the replica, the topic is created at the source, arrives, and its records are read."""
    name = f"later-{next(_names)}"
    member = patient_client.member(link.replica, name, f"group of {name}")
    try:
        site.make_topic(name)
        confluent.produce(site, name, messages(10))
        link.bring(name)
        wait_until(lambda: len(member.values) == 10, "the consumer reads the new topic")
    finally:
        member.stop()
    assert member.values == [message.value for message in messages(10)]


def test_a_gap_is_passed(client: Client, confluent: Confluent, site: Site, topic: str, link: Link) -> None:
    """Records before and after a gap are read one after the other."""
    confluent.produce(site, topic, messages(10))
    link.bring(topic)
    confluent.produce(site, topic, messages(10))
    link.lose(topic)
    confluent.produce(site, topic, messages(10))
    link.bring(topic)
    assert content(client.read(link.replica, topic, 20)) == sent(messages(10)) * 2


def test_a_gap_at_the_end_is_passed(kcat: Kcat, confluent: Confluent, site: Site, topic: str, link: Link) -> None:
    """`kcat -e` reads to the end of a partition that ends in a gap, and stops."""
    confluent.produce(site, topic, messages(10))
    link.bring(topic)
    confluent.produce(site, topic, messages(10))
    link.lose(topic)
    assert kcat.read_to_end(link.replica, topic) == [message.value.decode() for message in messages(10)]


def test_a_partition_that_is_all_gap_is_read_to_its_end(
    kcat: Kcat, confluent: Confluent, site: Site, topic: str, link: Link
) -> None:
    """Nothing ever arrived, the offsets go on all the same."""
    confluent.produce(site, topic, messages(10))
    link.bring_topic_only(topic)
    link.lose(topic)
    assert kcat.read_to_end(link.replica, topic) == []


def test_only_committed_records_are_read(kcat: Kcat, tools: KafkaTools, topic: str, link: Link) -> None:
    """Transactions that a later version wrote at the source, at a replica that writes none: 7 is aborted, 8 committed,
    and 9 is open at first. librdkafka (by default) and Java leave out what the answer says."""

    def records(producer: int, value: bytes, attributes: int = TRANSACTIONAL) -> bytes:
        return changed(build_batch([(None, value)], producer_id=producer, producer_epoch=0), attributes=attributes)

    def end(producer: int, *, abort: bool) -> None:
        key = b"\0\0\0\0" if abort else b"\0\0\0\1"
        marker = build_batch([(key, b"\0\0\0\0\0\0")], producer_id=producer, producer_epoch=0)
        link.writes(topic, changed(marker, attributes=TRANSACTIONAL | CONTROL), ABORT if abort else 0)

    for producer, value in ((7, b"a"), (8, b"b"), (7, b"c")):
        link.writes(topic, records(producer, value))
    link.writes(topic, build_batch([(None, b"d")]))
    end(7, abort=True)
    end(8, abort=False)
    link.writes(topic, records(9, b"e"))
    link.writes(topic, build_batch([(None, b"f")]))
    link.bring(topic)
    assert kcat.read_to_end(link.replica, topic) == ["b", "d"]
    end(9, abort=False)
    link.bring(topic)
    assert kcat.read_to_end(link.replica, topic) == ["b", "d", "e", "f"]
    assert tools.read_committed(link.replica, topic, 4) == ["b", "d", "e", "f"]


def test_a_java_consumer_goes_on_at_the_replica(
    tools: KafkaTools, confluent: Confluent, site: Site, topic: str, link: Link
) -> None:
    """It committed with a leader epoch at the source; at the replica it continues at the same offset."""
    given = messages(60)
    confluent.produce(site, topic, given)
    group = f"group of {topic}"
    assert tools.read_in_group(site, topic, group, 25) == [message.value.decode() for message in given[:25]]
    shard, found = site.stream.topic(topic)
    committed = shard.state.cursors(group, found.number, 0).own
    assert committed is not None
    assert (committed.offset, committed.leader_epoch) == (25, 0)
    link.bring(topic)
    offset = CommittedOffset(topic, 0, committed.offset, committed.leader_epoch, committed.metadata)
    assert link.replica.broker.call(link.replica.stream.commit_cursors(group, [offset])) == [None]
    assert tools.read_in_group(link.replica, topic, group, 35) == [message.value.decode() for message in given[25:]]
