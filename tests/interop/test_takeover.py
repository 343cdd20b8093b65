"""Consumers in the tail that a takeover has cut off: they go back to where the histories part and skip no record."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import NamedTuple

import pytest
from confluent_kafka import TopicPartition

from fairlead.streamlog.requests.ownership import take_over
from tests.interop.arrivals import Link
from tests.interop.clients.aiokafka_client import Aiokafka
from tests.interop.clients.base import PLAIN, Client, Member, Membership, Message
from tests.interop.clients.confluent_client import SESSION, Confluent
from tests.interop.clients.kafka_python_client import KafkaPython
from tests.interop.clients.kafka_tools import KafkaTools
from tests.interop.clients.kcat_client import Kcat
from tests.interop.site import Site
from tests.support.waiting import wait_until

SHARED, TAIL, NEWER = 100, 30, 50
"""Records that both sites have; that only the old owner has; that the new one writes, beyond the end of the tail."""

_names = count(1)


class Ring(NamedTuple):
    """Two sites that replicate to each other, worked by hand."""

    there: Link
    back: Link


@pytest.fixture(scope="module")
def ring(site: Site) -> Ring:
    one, other = site.another("/one"), site.another("/other", autocreate=False)
    return Ring(Link(one, other), Link(other, one))


@pytest.fixture(params=["at once", "the owner first"])
def arrival(request: pytest.FixtureRequest) -> str:
    """How the old owner gets what the new one has written: then its log ends beyond its consumers, or below them."""
    found: str = request.param
    return found


def named(kind: str, number: int) -> list[Message]:
    return [Message(b"k", f"{kind} {n}".encode()) for n in range(number)]


def values(given: list[Message]) -> list[bytes]:
    return [message.value for message in given]


def goes_back(client: Client, ring: Ring, arrival: str, how: Membership = PLAIN) -> None:
    """A member at the old owner has read its tail when the new owner's records come in its place. It reads each of
    them, from the first on, and begins nothing anew."""
    confluent, old, new = Confluent(), ring.there.source, ring.there.replica
    topic = old.make_topic(f"container-{next(_names)}")
    confluent.produce(old, topic, named("shared", SHARED))
    ring.there.bring(topic)
    confluent.produce(old, topic, named("tail", TAIL))
    member = client.member(old, topic, f"group of {topic}", how)
    try:
        wait_until(lambda: len(member.values) == SHARED + TAIL, "the tail is read")
        taken_over(new, topic)
        confluent.produce(new, topic, named("newer", NEWER))
        if arrival == "the owner first":
            ring.back.bring_topic_only(topic)
            wait_until(lambda: has_rebalanced(old), "the group has rebalanced")
        ring.back.bring(topic)
        newer = set(values(named("newer", NEWER)))
        wait_until(lambda: newer <= set(member.values), "every record of the new owner is read")
        wait_until(lambda: has_rebalanced(old), "the group has rebalanced")
        confluent.produce(new, topic, named("last", 1))
        ring.back.bring(topic)
        wait_until(lambda: member.values[-1] == b"last 0", "it goes on")
    finally:
        member.stop()
    check(member)


def check(member: Member) -> None:
    before, after = values(named("shared", SHARED)) + values(named("tail", TAIL)), values(named("newer", NEWER))
    assert member.values[: len(before)] == before
    assert member.values[-1 - NEWER : -1] == after
    assert not set(member.values[len(before) :]) & set(before), "it has begun anew"


def taken_over(site: Site, topic: str) -> None:
    """Without asking anybody: the old owner is lost."""
    shard, found = site.stream.topic(topic)
    request = partial(take_over, topic=found.number, owner_at=site.stream.global_path, writer_epoch_id=shard.epoch.id)
    site.broker.submit(shard, request)


def has_rebalanced(site: Site) -> bool:
    """Its members were told the cuts, and where to go on."""
    groups, cuts = site.broker.server.groups, site.broker.server.cuts
    return site.broker.do(lambda: cuts.idle and not groups.behind_cuts())


def by(*clients: Client) -> pytest.MarkDecorator:
    """Run by these clients."""
    return pytest.mark.parametrize("client", clients, ids=[client.name for client in clients], indirect=True)


@by(KafkaTools())
def test_java_consumer_in_the_diverged_tail(client: Client, ring: Ring, arrival: str) -> None:
    """It knows epochs."""
    goes_back(client, ring, arrival)


@by(Confluent(), Kcat(), KafkaPython())
def test_librdkafka_consumer_in_the_diverged_tail(client: Client, ring: Ring, arrival: str) -> None:
    """It knows epochs since version 2.1, and kafka-python since 3; the librdkafka of kcat may be older."""
    goes_back(client, ring, arrival)


@by(Aiokafka())
def test_aiokafka_group_in_the_diverged_tail(client: Client, ring: Ring, arrival: str) -> None:
    """It knows none; its group is made to rebalance."""
    goes_back(client, ring, arrival)


@by(KafkaTools(), Confluent(), KafkaPython())
def test_cooperative_consumer_in_the_diverged_tail(client: Client, ring: Ring, arrival: str) -> None:
    """It keeps its partitions over a rebalance, and goes back by epochs."""
    goes_back(client, ring, arrival, Membership(cooperative=True))


def test_librdkafka_consumer_without_a_group_goes_back_by_epochs(
    confluent: Confluent, ring: Ring, arrival: str
) -> None:
    """Nobody tells it to ask for cursors, of which it has none."""
    old, new = ring.there.source, ring.there.replica
    topic = old.make_topic(f"container-{next(_names)}")
    confluent.produce(old, topic, named("shared", SHARED))
    ring.there.bring(topic)
    confluent.produce(old, topic, named("tail", TAIL))
    settings = {**SESSION, "enable.auto.commit": False}
    consumer = confluent.consumer(old, "none", **settings)
    found: list[bytes] = []

    def has_read(number: int) -> bool:
        found.extend(message.value() or b"" for message in consumer.consume(500, timeout=0.05) if not message.error())
        return len(found) >= number

    try:
        consumer.assign([TopicPartition(confluent.topic(old, topic), 0, 0)])
        wait_until(lambda: has_read(SHARED + TAIL), "the tail is read")
        taken_over(new, topic)
        confluent.produce(new, topic, named("newer", NEWER))
        if arrival == "the owner first":
            ring.back.bring_topic_only(topic)
        ring.back.bring(topic)
        wait_until(lambda: has_read(SHARED + TAIL + NEWER), "every record of the new owner is read")
    finally:
        consumer.close()
    assert found[SHARED + TAIL :] == values(named("newer", NEWER))
