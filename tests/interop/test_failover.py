"""Groups that lose their site go on at another one, and go back, by what their ordinary clients had committed."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import NamedTuple

import pytest

from fairlead.streamlog.requests.cursors import publish_cursors
from fairlead.streamlog.requests.ownership import take_over
from tests.interop.arrivals import Link
from tests.interop.clients.aiokafka_client import Aiokafka
from tests.interop.clients.base import Client, Message
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_python_client import KafkaPython
from tests.interop.clients.kafka_tools import KafkaTools
from tests.interop.clients.kcat_client import Kcat
from tests.interop.site import Site
from tests.support.waiting import wait_until

KNOWN, LATER, NEWER = 100, 20, 50
"""Records whose reading is known at the other site; that were read and committed after that, twice so many; that the
other site writes."""

_names = count(1)


class Ring(NamedTuple):
    """Two sites that replicate to each other, worked by hand."""

    there: Link
    back: Link


@pytest.fixture(scope="module")
def ring(site: Site) -> Ring:
    west, east = site.another("/west"), site.another("/east", autocreate=False)
    return Ring(Link(west, east), Link(east, west))


def named(kind: str, number: int) -> list[Message]:
    return [Message(b"k", f"{kind} {n}".encode()) for n in range(number)]


def values(kind: str, number: int) -> list[bytes]:
    return [message.value for message in named(kind, number)]


def given(client: Client, site: Site, topic: str, number: int) -> list[bytes]:
    """What a new member of the topic's group is given until these are so many records; then it commits and leaves."""
    member = client.member(site, topic, f"group of {topic}")
    try:
        wait_until(lambda: len(member.values) >= number, f"{client.name} reads {number} records in {site.path}")
    finally:
        member.stop()
    return member.values


def tell(link: Link, topic: str) -> None:
    """Bring the topic, and what its group has committed, as a server tells it once a second."""
    shard, found = link.source.stream.topic(topic)
    keys = [(f"group of {topic}", found.number, 0)]
    link.source.broker.submit(shard, lambda draft: publish_cursors(draft, keys))
    link.bring(topic)


@pytest.mark.parametrize(
    "client", [Confluent(), KafkaTools(), Aiokafka(), KafkaPython(), Kcat()], ids=lambda each: each.name, indirect=True
)
def test_a_group_that_loses_its_site_goes_on_at_the_other_one_and_goes_back(client: Client, ring: Ring) -> None:
    """It skips nothing; it reads again what it had committed after the newest commit that had come to the other site,
    and no more. Once its site is back it goes on there from what it committed meanwhile."""
    confluent, west, east = Confluent(), ring.there.source, ring.there.replica
    topic = west.make_topic(f"container-{next(_names)}")
    confluent.produce(west, topic, named("known", KNOWN))
    assert given(client, west, topic, KNOWN) == values("known", KNOWN)
    tell(ring.there, topic)
    for half in ("later", "latest"):
        confluent.produce(west, topic, named(half, LATER))
        ring.there.bring(topic)
        assert given(client, west, topic, LATER) == values(half, LATER)

    taken_over(east, topic)
    confluent.produce(east, topic, named("newer", NEWER))
    found = given(client, east, topic, 2 * LATER + NEWER)
    assert found == values("later", LATER) + values("latest", LATER) + values("newer", NEWER)

    # West is back, with two commits of which east knows nothing.
    tell(ring.back, topic)
    confluent.produce(east, topic, named("last", 1))
    ring.back.bring(topic)
    assert given(client, west, topic, 1) == values("last", 1)


def taken_over(site: Site, topic: str) -> None:
    """Without asking anybody: the old owner is lost."""
    shard, found = site.stream.topic(topic)
    request = partial(take_over, topic=found.number, owner_at=site.stream.global_path, writer_epoch_id=shard.epoch.id)
    site.broker.submit(shard, request)
