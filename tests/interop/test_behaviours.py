"""The behaviours that every client must show; `table.py` says which row of its table each one is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

from confluent_kafka import Producer

from tests.interop.clients.base import CODECS, Client, Member, Message
from tests.interop.clients.confluent_client import Confluent
from tests.interop.site import Site
from tests.support.records import Content, read_all
from tests.support.waiting import WAIT_SECONDS, wait_until

PRODUCE = 0
_names = count(1)


def messages(number: int, *, headers: bool = False) -> list[Message]:
    given = (("source", b"ais"), ("kind", b"1")) if headers else ()
    return [Message(f"k{i}".encode(), f"value {i} {'x' * 50}".encode(), given) for i in range(number)]


def stored(site: Site, topic: str) -> list[Content]:
    found = read_all(site.of_stream, [topic], prefix="")
    return [found[place] for place in sorted(found)]


def content(found: list[Content]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in found]


def sent(given: list[Message]) -> list[tuple[bytes, bytes]]:
    return [(message.key, message.value) for message in given]


def test_what_it_sends_is_stored(client: Client, site: Site, topic: str) -> None:
    """Keys, values and order arrive as they were sent, at offsets without holes."""
    given = messages(200)
    client.produce(site, topic, given)
    assert content(stored(site, topic)) == sent(given)


def test_it_reads_what_is_stored(client: Client, confluent: Confluent, site: Site, topic: str) -> None:
    """Keys, values, times and order are those of another client's records."""
    confluent.produce(site, topic, messages(200))
    assert client.read(site, topic, 200) == stored(site, topic)


def test_every_codec_is_carried_untouched(client: Client, site: Site, topic: str) -> None:
    """The stored batches have the producer's codec; the broker neither opens nor recompresses them."""
    for name, number in CODECS.items():
        before = len(site.headers(topic))
        client.produce(site, topic, messages(100), name)
        batches = site.headers(topic)[before:]
        assert {batch.attributes & 7 for batch in batches} == {number}, name
    assert content(stored(site, topic)) == sent(messages(100)) * len(CODECS)


def test_every_codec_is_read(client: Client, confluent: Confluent, site: Site, topic: str) -> None:
    """Batches of all codecs in one partition are read in order."""
    for name in CODECS:
        confluent.produce(site, topic, messages(100), name)
    assert content(client.read(site, topic, 100 * len(CODECS))) == sent(messages(100)) * len(CODECS)


def test_headers_are_kept(client: Client, site: Site, topic: str) -> None:
    """Headers are stored and read back in order."""
    client.produce(site, topic, messages(3, headers=True))
    expected = [(("source", b"ais"), ("kind", b"1"))] * 3
    assert [record.headers for record in stored(site, topic)] == expected
    assert [record.headers for record in client.read(site, topic, 3)] == expected


def test_an_answer_that_was_lost_doubles_nothing(client: Client, site: Site, topic: str) -> None:
    """An idempotent producer sends again what it does not know to be stored; it is stored once."""
    given = messages(50)
    with site.lose_answers(PRODUCE, 2) as answers:
        client.produce(site, topic, given, idempotent=True)
    assert answers.lost == 2
    assert content(stored(site, topic)) == sent(given)
    assert all(batch.producer_id >= 0 for batch in site.headers(topic))


def test_the_first_offset_of_a_time_is_found(client: Client, site: Site, topic: str) -> None:
    """The offset of the first record at or after a time, also inside a batch."""
    client.produce(site, topic, messages(20))
    time.sleep(0.05)  # so that the two halves have different times: what is tested is time itself
    client.produce(site, topic, messages(20))
    times = [record.timestamp_ms for record in stored(site, topic)]
    for wanted in (times[0] - 1000, times[20], times[39]):
        expected = next(offset for offset, at in enumerate(times) if at >= wanted)
        assert client.offset_at(site, topic, wanted) == expected


def test_a_group_shares_partitions_and_goes_on_where_it_stopped(
    client: Client, confluent: Confluent, site: Site, wide_topic: str
) -> None:
    """Two members share four partitions, one leaves and the other takes all; a third reads only what is new."""
    group = f"group-{next(_names)}"
    everything = frozenset(range(4))
    members = [client.member(site, wide_topic, group)]
    try:
        wait_until(lambda: members[0].assigned == everything, "the first member has all partitions")
        fill(site, wide_topic, "a")
        wait_until(lambda: len(members[0].values) == 40, "the first member has read everything")
        members.append(client.member(site, wide_topic, group))
        wait_until(lambda: shared(members, everything), "the two members share the partitions")
        fill(site, wide_topic, "b")
        wait_until(lambda: read_by(members) >= 80, "the two members have read everything")
        members[0].stop()
        wait_until(lambda: members[1].assigned == everything, "the second member has all partitions")
        fill(site, wide_topic, "c")
        wait_until(lambda: read_by(members) >= 120, "the second member has read the rest")
        members[1].stop()
        members.append(client.member(site, wide_topic, group))
        wait_until(lambda: members[2].assigned == everything, "the third member has all partitions")
        fill(site, wide_topic, "d")
        wait_until(lambda: len(members[2].values) >= 40, "the third member has read what is new")
        members[2].stop()
    finally:
        for member in members:
            member.stop()
    everything_read = [value for member in members for value in member.values]
    assert sorted(members[2].values) == sorted(written("d"))
    assert set(everything_read) == set(written("a") + written("b") + written("c") + written("d"))


def fill(site: Site, topic: str, label: str) -> None:
    """Ten records in each of four partitions."""
    producer = Producer({"bootstrap.servers": site.of_stream, "linger.ms": 5})
    for index, value in enumerate(written(label)):
        producer.produce(topic, value, partition=index % 4)
    assert producer.flush(WAIT_SECONDS) == 0


def written(label: str) -> list[bytes]:
    return [f"{label}{index}".encode() for index in range(40)]


def shared(members: Sequence[Member], everything: frozenset[int]) -> bool:
    first, second = members[0].assigned, members[1].assigned
    return bool(first) and bool(second) and not first & second and first | second == everything


def read_by(members: Sequence[Member]) -> int:
    return len({value for member in members for value in member.values})
