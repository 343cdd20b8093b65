"""What is produced at a copy while the owner cannot be reached is put aside, over real sockets, and claimed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from fairlead.cluster.owner_changes import owner_changes, put_aside_for
from fairlead.gateway.claims import claiming_of
from fairlead.model.errors import InvalidValue
from fairlead.protocol.batch import records_of
from fairlead.protocol.produce import PartitionProduceResponse
from fairlead.streamlog.ownership.standing import pending_partitions
from tests.gateway.forwarding import Client, client_of, forwarding, handed_over, numbered, plain, topic_of
from tests.gateway.rig import SHIPS, Site
from tests.support.proxy import Proxy
from tests.support.waiting import in_time, until

BOX, PENDING = topic_of("box"), "box.pending.ny"
DONE, AGAIN = ErrorCode.none, ErrorCode.request_timed_out
ASIDE = -1


@pytest.fixture
async def ny(tmp_path: Path) -> AsyncIterator[Site]:
    """The copy's cluster, which puts aside as soon as the owner cannot be reached."""
    async with Site("ny", tmp_path, pending_after_seconds=0.0) as site:
        yield site


@pytest.fixture
async def way(sf: Site, ny: Site) -> AsyncIterator[Proxy]:
    """What lies between `ny`, where is produced and put aside, and `sf`, which owns the topic `box`."""
    async with forwarding(sf, ny) as proxy:
        await ny.cluster.edit_stream(SHIPS, pending=True)
        for producer in (7, 8):
            ny.kafka.forwarder.known.given(producer)
        yield proxy


@pytest.fixture
async def client(ny: Site, way: Proxy) -> AsyncIterator[Client]:
    """A producer at the copy."""
    async with client_of(ny) as found:
        yield found


def cut(way: Proxy) -> None:
    way.refuses = True
    way.cut()


async def healed(way: Proxy, ny: Site) -> None:
    """The line is back, and the copy has noticed it."""
    way.refuses, way.answers_pass = False, True
    stream = ny.cluster.stream(SHIPS)
    owner = stream.topic("box")[1].owner
    await until(lambda: ny.kafka.forwarder.is_cut_off(stream, owner) is False)


async def final(client: Client, batch: bytes) -> PartitionProduceResponse:
    """The outcome of a batch that is sent until it has one."""
    async with in_time():
        while True:
            (outcome,) = await client.produce(BOX, batch)
            if outcome.error != AGAIN:
                return outcome


async def unanswered(client: Client, way: Proxy, owner: Site) -> None:
    """The owner has the second batch of a producer, and the line is cut before it answers."""
    await final(client, numbered(0, b"0"))
    way.answers_pass = False
    client.send(BOX, numbered(1, b"1"))
    await until(lambda: owner.end(SHIPS, "box") == 2)
    cut(way)


def values(site: Site, topic: str = "box") -> list[bytes]:
    """All records of a topic's first partition."""
    shard, found = site.cluster.stream(SHIPS).topic(topic)
    end = shard.state.partition(found.number, 0).end
    batches = shard.reader.fetch(found.number, 0, 0, 1 << 20).batches if end else []
    return [bytes(record.value or b"") for batch in batches for record in records_of(batch)]


async def claimed(site: Site) -> int:
    """How many records a claim brings there."""
    stream = site.cluster.stream(SHIPS)
    came: list[int] = []
    assert await claiming_of(stream, stream.topic(PENDING)[1]).run(told=came.append) == ""
    return sum(came)


async def test_what_is_put_aside_is_claimed_at_the_owner_once(sf: Site, ny: Site, client: Client, way: Proxy) -> None:
    """A producer goes on from the owner to the pending topic and back, and meets no error but to try again. What was
    put aside is answered without an offset, and is one more topic of the copy's, which goes to the owner."""
    assert (await final(client, numbered(0, b"0"))).base_offset == 0
    cut(way)
    (outcome,) = await client.produce(BOX, numbered(0, b"lost", producer=8))
    assert outcome.error == AGAIN, "the connection that was open broke"
    with capture_logs() as logs:
        for sequence in (1, 2, 2):
            outcome = await final(client, numbered(sequence, b"%d" % sequence))
            assert (outcome.error, outcome.base_offset) == (DONE, ASIDE)
        ny.cluster.stream(SHIPS).owner_log.flush()
    told = [line for line in logs if line["event"] == "records are put aside"]
    assert sum(line["records"] for line in told) == 2
    assert {topic for line in told for topic in line["topics"]} == {f"box into {PENDING}"}
    assert values(ny, PENDING) == [b"1", b"2"]
    assert ny.kafka.traffic.put_aside_batches == 2
    await healed(way, ny)
    assert (await final(client, numbered(3, b"3"))).base_offset == 1
    assert (await final(client, numbered(2, b"2"))).base_offset == ASIDE, "it comes again"
    await until(lambda: sf.ends(SHIPS).get(PENDING) == 2)
    assert owner_changes(sf.cluster.stream(SHIPS)).unclaimed_records == 2
    assert await claimed(sf) == 2
    assert await claimed(sf) == 0
    assert values(sf) == [b"0", b"3", b"1", b"2"]
    stream = sf.cluster.stream(SHIPS)
    assert put_aside_for(stream, stream.topic("box")[1]) == [PENDING]
    changes = owner_changes(stream)
    assert (changes.diverged_topics, changes.put_aside_topics, changes.unclaimed_records) == (0, 1, 0)


async def test_a_batch_whose_answer_was_lost_is_not_put_aside(sf: Site, ny: Site, client: Client, way: Proxy) -> None:
    """The owner has it. It waits for the owner, and what its producer sends behind it too; others go aside."""
    await unanswered(client, way, sf)
    (outcome,) = await client.receive()
    assert outcome.error == AGAIN
    assert (await final(client, numbered(0, b"x", producer=8))).base_offset == ASIDE
    for sequence in (1, 2, 1):
        (outcome,) = await client.produce(BOX, numbered(sequence, b"%d" % sequence))
        assert outcome.error == AGAIN
    assert values(ny, PENDING) == [b"x"]
    await healed(way, ny)
    assert (await final(client, numbered(1, b"1"))).base_offset == 1
    assert values(sf) == [b"0", b"1"]


async def test_a_new_epoch_goes_aside_though_the_one_before_has_no_answer(sf: Site, client: Client, way: Proxy) -> None:
    """Its client has told the program that those records failed."""
    await unanswered(client, way, sf)
    await client.receive()
    assert (await final(client, numbered(0, b"1", epoch=1))).base_offset == ASIDE


async def test_batches_sent_together_are_put_aside_in_order(ny: Site, client: Client, way: Proxy) -> None:
    """And those of a producer without an id go aside too."""
    cut(way)
    await final(client, plain(b"x"))
    for sequence in range(5):
        client.send(BOX, numbered(sequence, b"%d" % sequence))
    outcomes = [await client.receive() for _ in range(5)]
    assert [(each.error, each.base_offset) for (each,) in outcomes] == [(DONE, ASIDE)] * 5
    assert values(ny, PENDING) == [b"x", *(b"%d" % sequence for sequence in range(5))]


async def test_what_the_topic_refuses_is_not_put_aside(sf: Site, ny: Site, client: Client, way: Proxy) -> None:
    """A claim could not refuse it any more."""
    await sf.cluster.stream(SHIPS).set_configs("box", {"max.message.bytes": "100"})
    await until(lambda: ny.cluster.stream(SHIPS).topic("box")[1].configs == {"max.message.bytes": "100"})
    cut(way)
    assert (await final(client, plain(b"x"))).base_offset == ASIDE
    assert (await final(client, plain(b"x" * 200))).error == ErrorCode.message_too_large
    assert values(ny, PENDING) == [b"x"]


async def test_nothing_is_put_aside_without_the_option(ny: Site, client: Client, way: Proxy) -> None:
    """Nor of a topic whose owner is no neighbour. The option needs the one by which writes are passed on."""
    with pytest.raises(InvalidValue, match="set forwardwrites true"):
        await ny.cluster.edit_stream(SHIPS, forward_writes=False)
    await ny.cluster.edit_stream(SHIPS, pending=False)
    cut(way)
    for _ in range(3):
        (outcome,) = await client.produce(BOX, plain(b"x"))
        assert outcome.error == AGAIN
    assert ny.cluster.stream(SHIPS).find_topic(PENDING) is None


async def test_a_producer_goes_on_where_it_is_if_its_cluster_becomes_the_owner(
    sf: Site, ny: Site, client: Client, way: Proxy
) -> None:
    """What was put aside is claimed there, in place."""
    await final(client, numbered(0, b"0"))
    cut(way)
    assert (await final(client, plain(b"x"))).base_offset == ASIDE
    assert (await final(client, numbered(1, b"1"))).base_offset == ASIDE
    await healed(way, ny)
    await handed_over(sf, "box", ny)
    await until(lambda: ny.cluster.stream(SHIPS).topic("box")[1].owner == ny.cluster.stream(SHIPS).id)
    assert (await final(client, numbered(2, b"2"))).base_offset == 1
    assert await claimed(ny) == 2
    assert values(ny) == [b"0", b"2", b"x", b"1"]


async def test_what_was_put_aside_is_claimed_once_though_the_owner_changes_twice(
    sf: Site, ny: Site, client: Client, way: Proxy
) -> None:
    """The copy becomes the owner and claims, and gives the topic back: there nothing is left to be claimed."""
    await final(client, numbered(0, b"0"))
    cut(way)
    for batch in (plain(b"x"), numbered(1, b"1")):
        assert (await final(client, batch)).base_offset == ASIDE
    await healed(way, ny)
    await moved(sf, ny)
    assert await claimed(ny) == 2
    assert (await final(client, numbered(2, b"2"))).base_offset == 3
    await moved(ny, sf)
    await until(lambda: sf.ends(SHIPS).get(PENDING) == 2)
    assert await claimed(sf) == 0
    assert values(sf) == [b"0", b"x", b"1", b"2"]


async def moved(site: Site, to: Site) -> None:
    """The owner of the topic hands it over, and the other one may write it."""
    await handed_over(site, "box", to)
    stream = to.cluster.stream(SHIPS)
    shard, _ = stream.topic("box")
    await until(lambda: stream.topic("box")[1].owner == stream.id)
    await until(lambda: not [*pending_partitions(stream.topic("box")[1], shard.state)])
