"""What is produced at a copy, passed on to the owner over real sockets: who answers what, and when nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from fairlead.protocol.produce import PartitionProduceResponse
from fairlead.wire.forward import ForwardHello
from fairlead.wire.upgrade import FORWARD_TOKEN, answer_of
from tests.gateway.forwarding import Client, client_of, forwarding, handed_over, numbered, owner, plain, topic_of
from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site
from tests.support import http_calls
from tests.support.proxy import Proxy
from tests.support.waiting import a_quiet_while, until

BOX = topic_of("box")
DONE = ErrorCode.none


@pytest.fixture
async def way(sf: Site, ny: Site) -> AsyncIterator[Proxy]:
    """What lies between `ny`, where is produced, and `sf`, which owns the topic `box`."""
    async with forwarding(sf, ny) as proxy:
        yield proxy


@pytest.fixture
async def client(ny: Site, way: Proxy) -> AsyncIterator[Client]:
    """A producer at the copy."""
    async with client_of(ny) as found:
        yield found


def said(outcomes: list[PartitionProduceResponse]) -> tuple[int, str]:
    """Code and message of the only outcome."""
    (outcome,) = outcomes
    return outcome.error, outcome.message or ""


def taken(outcomes: list[PartitionProduceResponse]) -> int:
    """The offset of the only batch, which was taken."""
    (outcome,) = outcomes
    assert outcome.error == DONE, outcome
    return outcome.base_offset


async def test_a_produce_at_the_copy_is_answered_with_the_owners_offset(sf: Site, ny: Site, client: Client) -> None:
    """It is appended at the owner, and comes back to the copy over the link; both count it, as what it is there."""
    await sf.write(SHIPS, "box", b"0", b"1")
    assert taken(await client.produce(BOX, plain(b"2"))) == 2
    assert sf.end(SHIPS, "box") == 3
    await until(lambda: ny.end(SHIPS, "box") == 3)
    assert taken(await client.produce(BOX, plain(b"3"), acks=1)) == 3
    passed, appended = ny.kafka.traffic, sf.kafka.traffic
    assert (passed.forwarded_batches, passed.produced_batches, passed.forward_failures) == (2, 0, 0)
    assert (appended.forwarded_batches, appended.produced_batches) == (0, 2)
    assert passed.forwarded_bytes == appended.produced_bytes


async def test_answers_come_in_the_clients_order(ny: Site, client: Client, way: Proxy) -> None:
    """Also those of the copy's own topics, which are appended at once; and all goes over one connection."""
    await ny.cluster.stream(SHIPS).create_topic("own")
    await client.produce(BOX, plain(b"first"))
    way.requests_pass.clear()
    for at in range(20):
        client.send(BOX if at % 2 == 0 else topic_of("own"), plain(b"x"))
    await until(lambda: ny.end(SHIPS, "own") == 10)
    way.requests_pass.set()
    assert [taken(await client.receive()) for _ in range(20)] == [at for each in range(10) for at in (each + 1, each)]
    links = 4
    assert way.connections <= links + 1, "one beside those of the links"


async def test_a_request_of_several_partitions_has_each_ones_outcome(client: Client, sf: Site) -> None:
    """A partition that there is not is refused here; the owner refuses what it refuses."""
    client.send(BOX, plain(b"a"), b"no batch", plain(b"c"))
    first, second, third = await client.receive()
    assert (first.error, first.base_offset) == (DONE, 0)
    assert second.error == ErrorCode.corrupt_message
    assert third.error == ErrorCode.unknown_topic_or_partition
    assert sf.end(SHIPS, "box") == 1


async def test_nothing_is_kept_back_without_the_option(sf: Site, ny: Site, client: Client) -> None:
    """As ever the refusal is final, and names the owner and how to reach it."""
    await ny.cluster.edit_stream(SHIPS, forward_writes=False)
    code, why = said(await client.produce(BOX, plain(b"x")))
    assert code == ErrorCode.policy_violation
    assert f"owned by {SOURCE}; this copy is read-only" in why
    url = ny.cluster.links.find(ny.cluster.stream(SHIPS).id, SOURCE).replica_urls[0]
    assert f"{SOURCE.cluster} is at {url}" in why
    assert f"`fairlead cluster add -http {url}` asks it for its Kafka addresses" in why


async def test_an_owner_takes_writes_only_from_replicas_that_it_marked(sf: Site, client: Client) -> None:
    """It is asked with each request, also over a connection that is open; the refusal says what to run there."""
    assert taken(await client.produce(BOX, plain(b"x"))) == 0
    await sf.links.edit_replica(SHIPS, REPLICA, accept_writes=False)
    code, why = said(await client.produce(BOX, plain(b"y")))
    assert code == ErrorCode.policy_violation
    command = f"fairlead stream replica edit -path {SOURCE} -replica {REPLICA} -acceptwrites true"
    assert why == f"{SOURCE} takes no writes from {REPLICA}: to allow it run: {command}"
    await sf.links.remove(SHIPS, REPLICA)
    code, why = said(await client.produce(BOX, plain(b"y")))
    assert code == ErrorCode.policy_violation
    assert "takes writes from its replicas only" in why
    assert sf.end(SHIPS, "box") == 1


async def test_an_owner_takes_no_writes_from_a_partner(sf: Site, ny: Site, client: Client) -> None:
    """Of the replicas, another company's cannot be marked at all."""
    await sf.links.remove(SHIPS, REPLICA)
    await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls, peer="partner")
    await until(lambda: sf.cluster.links.find(sf.cluster.stream(SHIPS).id, REPLICA).replica_stream is not None)
    code, why = said(await client.produce(BOX, plain(b"y")))
    assert (code, why) == (
        ErrorCode.policy_violation,
        f"{SOURCE} takes no writes from {REPLICA}: it is another company's",
    )


async def test_an_owner_that_is_no_neighbour_is_named(sf: Site, ny: Site, client: Client) -> None:
    """Nothing is passed on by way of a third cluster; the refusal is final."""
    await ny.links.remove(SHIPS, SOURCE)
    await ny.links.remove_upstream(SHIPS, SOURCE)
    code, why = said(await client.produce(BOX, plain(b"x")))
    assert code == ErrorCode.policy_violation
    assert why.startswith(f"topic box is owned by {SOURCE}, which is no neighbour of {REPLICA}")
    assert ny.kafka.traffic.forward_failures == 1


async def test_an_upstreams_address_is_enough(ny: Site, client: Client) -> None:
    """It is learned from the contacts of the link by which the owner sends to us."""
    await ny.links.remove(SHIPS, SOURCE)
    assert taken(await client.produce(BOX, plain(b"x"))) == 0


async def test_what_was_passed_on_is_not_passed_on_again(sf: Site, ny: Site, client: Client) -> None:
    """A former owner, which passes writes on too and has the new one for a neighbour, answers that it leads no more;
    two clusters that each take the other for the owner would send a batch to and fro for ever."""
    await sf.cluster.edit_stream(SHIPS, forward_writes=True)
    await sf.links.pause(SHIPS, REPLICA)
    await handed_over(sf, "box", ny)
    assert owner(ny, "box") == str(SOURCE), "it has not heard of it"
    code, why = said(await client.produce(BOX, plain(b"x")))
    assert code == ErrorCode.not_leader_or_follower
    assert f"is owned by {REPLICA}" in why
    assert "passed on once already" in why


async def test_forwarded_write_retried_after_owner_moved(sf: Site, ny: Site, client: Client, way: Proxy) -> None:
    """The owner's answer is lost, the topic is handed over to the copy, and the client sends its batch again: the heads
    of replicated batches are known, so it is found, and answered with its offset."""
    assert taken(await client.produce(BOX, numbered(0, b"a"))) == 0
    way.answers_pass = False
    client.send(BOX, numbered(1, b"b", b"c"))
    await until(lambda: sf.end(SHIPS, "box") == 3)
    way.cut()
    assert said(await client.receive())[0] == ErrorCode.request_timed_out
    way.answers_pass = True
    await until(lambda: ny.end(SHIPS, "box") == 3)
    await handed_over(sf, "box", ny)
    await until(lambda: owner(ny, "box") == str(REPLICA))
    assert taken(await client.produce(BOX, numbered(1, b"b", b"c"))) == 1
    assert taken(await client.produce(BOX, numbered(3, b"d"))) == 3
    assert ny.end(SHIPS, "box") == 4


async def test_a_lost_answer_is_found_by_the_next_attempt(sf: Site, client: Client, way: Proxy) -> None:
    """The owner has the batch, and answers its offset to the same batch over a new connection."""
    assert taken(await client.produce(BOX, plain(b"open"))) == 0
    way.answers_pass = False
    client.send(BOX, numbered(0, b"a"))
    await until(lambda: sf.end(SHIPS, "box") == 2)
    way.cut()
    code, why = said(await client.receive())
    assert code == ErrorCode.request_timed_out, "not a code after which clients are sure that nothing was written"
    assert f"topic box is owned by {SOURCE}" in why
    way.answers_pass = True
    assert taken(await client.produce(BOX, numbered(0, b"a"))) == 1
    assert sf.end(SHIPS, "box") == 2


async def test_a_batch_does_not_overtake_one_that_failed_on_its_way(sf: Site, client: Client, way: Proxy) -> None:
    """The client had sent the second before it heard of the first. The owner does not know the producer, and would take
    any sequence of it."""
    way.refuses = True
    way.cut()
    client.send(BOX, numbered(0, b"a"))
    assert said(await client.receive())[0] == ErrorCode.request_timed_out
    way.refuses = False
    code, why = said(await client.produce(BOX, numbered(1, b"b")))
    assert code == ErrorCode.request_timed_out
    assert "sequence 0 of this producer failed on its way" in why
    assert taken(await client.produce(BOX, numbered(0, b"a"))) == 0
    assert taken(await client.produce(BOX, numbered(1, b"b"))) == 1


async def test_an_owner_that_cannot_be_reached_is_retriable(sf: Site, ny: Site, client: Client, way: Proxy) -> None:
    """And once it can, writes go on."""
    way.refuses = True
    way.cut()
    code, why = said(await client.produce(BOX, plain(b"x")))
    assert code == ErrorCode.request_timed_out
    assert f"topic box is owned by {SOURCE}: no gateway of the owner takes the connection" in why
    way.refuses = False
    assert taken(await client.produce(BOX, plain(b"x"))) == 0
    assert ny.kafka.traffic.forward_failures == 1


async def test_a_silent_owner_is_given_up(ny: Site, client: Client, way: Proxy) -> None:
    """Before the client gives up."""
    ny.kafka.forwarder.answer_seconds = 0.2
    way.answers_pass = False
    code, why = said(await client.produce(BOX, plain(b"x")))
    assert code == ErrorCode.request_timed_out
    assert "the owner has not answered for 0.2 s" in why


async def test_the_owner_checks_what_its_topic_demands(sf: Site, ny: Site, client: Client) -> None:
    """Its refusals arrive with code, message and the places of the records."""
    stream = sf.cluster.stream(SHIPS)
    configs = {"max.message.bytes": "200", "cleanup.policy": "compact"}
    await stream.create_topic("small", 1, configs)
    await until(lambda: "small" in ny.ends(SHIPS))
    code, why = said(await client.produce(topic_of("small"), plain(b"x" * 300)))
    assert code == ErrorCode.message_too_large
    assert "is above 200" in why
    (outcome,) = await client.produce(topic_of("small"), plain(b"without a key"))
    assert outcome.error == ErrorCode.invalid_record
    assert [place for place, _ in outcome.record_errors] == [0]
    assert sf.end(SHIPS, "small") == 0


async def test_the_owners_clock_stamps(sf: Site, ny: Site, client: Client) -> None:
    """LogAppendTime: the answer has the time that the owner gave, and the record has it everywhere."""
    await sf.cluster.stream(SHIPS).create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    await until(lambda: "stamped" in ny.ends(SHIPS))
    (outcome,) = await client.produce(topic_of("stamped"), plain(b"x"))
    assert outcome.error == DONE
    assert outcome.append_time_ms > 1_700_000_000_000


async def test_a_pending_owner_is_waited_for(sf: Site, ny: Site, client: Client) -> None:
    """The copy was the owner, and hands the topic over while it holds back what it wrote last: NOT_ENOUGH_REPLICAS."""
    await ny.cluster.stream(SHIPS).create_topic("back", 1)
    assert taken(await client.produce(topic_of("back"), plain(b"a"))) == 0
    await until(lambda: sf.ends(SHIPS).get("back") == 1)
    await handed_over(ny, "back", sf)
    outcome = await client.produce(topic_of("back"), plain(b"b"))
    while outcome[0].error in {ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas}:
        outcome = await client.produce(topic_of("back"), plain(b"b"))
    assert taken(outcome) == 1
    assert sf.end(SHIPS, "back") == 2


async def test_acks_0_are_passed_on_and_a_refusal_closes(sf: Site, ny: Site, client: Client) -> None:
    """As where the topic is owned; also of a client that goes away as soon as it has sent."""
    client.send(BOX, plain(b"x"), acks=0)
    await until(lambda: sf.end(SHIPS, "box") == 1)
    await sf.links.edit_replica(SHIPS, REPLICA, accept_writes=False)
    client.send(BOX, plain(b"y"), acks=0)
    await client.until_closed()
    await sf.links.edit_replica(SHIPS, REPLICA, accept_writes=True)
    async with client_of(ny) as hasty:
        hasty.send(BOX, plain(b"z"), acks=0)
        await hasty.flush()
    await until(lambda: sf.end(SHIPS, "box") == 2)


async def test_a_client_is_read_no_further_than_its_requests_may_hold(sf: Site, tmp_path: Path) -> None:
    """The owner takes nothing: what waits is the client's own requests, and the client waits. Then all goes, in
    order."""
    async with AsyncExitStack() as stack:
        ny = await stack.enter_async_context(Site("ny", tmp_path, request_bytes_max=1_000_000))
        way = await stack.enter_async_context(forwarding(sf, ny))
        client = await stack.enter_async_context(client_of(ny))
        assert taken(await client.produce(BOX, plain(b"first"))) == 0
        way.requests_pass.clear()
        for at in range(150):
            client.send(BOX, numbered(at, bytes(200_000)))
        await until(lambda: ny.kafka.memory.used_bytes > 500_000)
        await a_quiet_while()
        assert ny.kafka.memory.used_bytes < 4_000_000
        assert client.unsent_bytes > 10_000_000
        way.requests_pass.set()
        assert [taken(await client.receive()) for _ in range(150)] == list(range(1, 151))


async def test_many_clients_share_connections(
    sf: Site, ny: Site, way: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner has others left. Whoever goes leaves it to the rest, and a new one is opened where one has broken."""
    monkeypatch.setattr("fairlead.broker.forwarding.passing_on.CONNECTIONS_MAX", 2)
    before = way.connections
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(ny)) for _ in range(6)]
        for at, each in enumerate(clients):
            assert taken(await each.produce(BOX, plain(b"x"))) == at
        assert way.connections == before + 2
        for each in clients[:4]:
            each.close()
        for each in clients[4:]:
            await each.produce(BOX, plain(b"y"))
        assert way.connections == before + 2
        way.cut()
        for each in clients[4:]:
            while said(await each.produce(BOX, plain(b"z")))[0] != DONE:
                pass
    assert sf.end(SHIPS, "box") == 10


async def test_an_answer_that_is_none_is_a_lost_one(sf: Site, ny: Site, client: Client) -> None:
    """What is at the owner's address is another program, or a gateway that speaks of something else."""

    async def wrong(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /gateway/forward?"):
            writer.write(answer_of(FORWARD_TOKEN))
            request = await reader.read(65_536)
            writer.write(answers.pop(0)(request))
            with suppress(ConnectionError):
                await reader.read()
        writer.close()

    answers: list[Callable[[bytes], bytes]] = [
        lambda request: b"\x7f\xff\xff\xff",
        lambda request: b"\0\0\0\x05\0\0\0\x63\0",
        lambda request: b"\0\0\0\x07" + request[8:12] + b"\0\x63\x63",
        lambda request: b"\0\0\0\x0b" + request[8:12] + b"\0\x01\0\0\0\0\0",
    ]
    server = await asyncio.start_server(wrong, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    await ny.links.remove_upstream(SHIPS, SOURCE)
    link = ny.cluster.links.find(ny.cluster.stream(SHIPS).id, SOURCE)
    await ny.cluster.links.edit(link.id, replica_urls=(f"http://{host}:{port}",))
    for why in ("wrongly: an answer of", "an answer to nothing", "no Produce response", "for other partitions"):
        async with client_of(ny) as another:
            code, told = said(await another.produce(BOX, plain(b"x")))
        assert code == ErrorCode.request_timed_out
        assert why in told
    server.close()


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("", 400, "takes protocol, source, stream"),
        ("?protocol=1&source=00&stream=00", 400, "this gateway speaks"),
        ("?protocol=5&source=00&stream=zz", 400, "ids of streams"),
        ("?" + ForwardHello(b"a" * 16, b"b" * 16).target.partition("?")[2], 426, "leaves HTTP"),
    ],
)
async def test_who_asks_wrongly_is_told(sf: Site, query: str, status: int, why: str) -> None:
    """In one line."""
    async with http_calls.client() as http:
        answer = await http.get(f"{sf.url}/gateway/forward{query}")
    assert answer.status_code == status
    assert why in answer.text
