"""Two clusters that replicate to each other; what is produced at `ny` goes to `sf` through a proxy. And a client."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from fairlead.protocol.batch import build_batch
from fairlead.protocol.messages import build, response_header_flexible
from fairlead.protocol.produce import API_KEY, PartitionProduceResponse
from fairlead.protocol.wire import string
from fairlead.streamlog.requests.ownership import hand_over
from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site, Worker, set_up
from tests.support.proxy import Proxy, proxy_to
from tests.support.waiting import in_time, until

VERSION = 9


class Client:
    """One connection of a Kafka client that produces, as many requests under way as the test likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._sent = self._received = 0

    def send(self, topic: str, *batches: bytes, acks: int = -1, partition: int = 0) -> None:
        """Send a request; several batches go to partitions that follow one another."""
        data = [{"index": partition + at, "records": batch} for at, batch in enumerate(batches)]
        topics = [{"name": topic, "partition_data": data}]
        fields = {"acks": acks, "timeout": timedelta(seconds=1), "topic_data": topics}
        body = io.BytesIO()
        schema = load_request_schema(API_KEY, VERSION)
        entity_writer(schema)(body, build(schema, {**fields, "transactional_id": None}))
        self._sent += 1
        header = b"\x00\x00" + VERSION.to_bytes(2, "big") + self._sent.to_bytes(4, "big") + string("c", False) + b"\x00"
        payload = header + body.getvalue()
        self._writer.write(len(payload).to_bytes(4, "big") + payload)

    async def receive(self) -> list[PartitionProduceResponse]:
        """The outcomes of the request whose turn it is."""
        async with in_time():
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            data = await self._reader.readexactly(length)
        self._received += 1
        assert int.from_bytes(data[:4], "big") == self._received
        answer: Any
        answer, _ = entity_reader(load_response_schema(API_KEY, VERSION))(
            data[4 + response_header_flexible(API_KEY, VERSION) :], 0
        )
        return [_outcome(each) for topic in answer.responses for each in topic.partition_responses]

    async def produce(self, topic: str, *batches: bytes, acks: int = -1) -> list[PartitionProduceResponse]:
        """Send a request and wait for its answer."""
        self.send(topic, *batches, acks=acks)
        return await self.receive()

    async def until_closed(self) -> None:
        """Wait until the server ends the connection."""
        async with in_time():
            with suppress(ConnectionError):
                assert await self._reader.read() == b""

    async def flush(self) -> None:
        """Until the kernel has taken what was sent."""
        await self._writer.drain()

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has not taken."""
        return self._writer.transport.get_write_buffer_size()

    def close(self) -> None:
        """Go away, once all is sent."""
        self._writer.close()


def _outcome(each: Any) -> PartitionProduceResponse:
    records = [(record.batch_index, record.batch_index_error_message) for record in each.record_errors]
    time_ms = -1 if each.log_append_time is None else int(each.log_append_time.timestamp() * 1000)
    return PartitionProduceResponse(
        each.index, int(each.error_code), each.base_offset, time_ms, each.log_start_offset, each.error_message, records
    )


@asynccontextmanager
async def client_of(site: Site) -> AsyncIterator[Client]:
    """A client of a site's main listener."""
    client = Client(*await asyncio.open_connection(*site.kafka.address))
    try:
        yield client
    finally:
        client.close()


def topic_of(name: str) -> str:
    """How clients call a topic of the stream."""
    return f"{SHIPS}:{name}"


def numbered(sequence: int, *values: bytes, producer: int = 7, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    records = [(None, value) for value in values]
    return build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def plain(*values: bytes) -> bytes:
    """A batch of a producer without an id."""
    return build_batch([(None, value) for value in values])


def owner(site: Site, topic: str) -> str:
    """Path of the stream that owns a topic, by what this site knows."""
    stream = site.cluster.stream(SHIPS)
    return stream.owner_path(stream.topic(topic)[1])


async def handed_over(site: Site, topic: str, to: Site) -> None:
    """The owner hands a topic over, whatever the other has of it."""
    shard, found = site.cluster.stream(SHIPS).topic(topic)
    there = to.cluster.stream(SHIPS)
    writer, path = shard.epoch.id, there.global_path
    await shard.submit(lambda draft: hand_over(draft, found.number, to=there.id, owner_at=path, writer_epoch_id=writer))


@asynccontextmanager
async def forwarding(sf: Site, ny: Site, topics: Sequence[str] = ("box",)) -> AsyncIterator[Proxy]:
    """Topics of `sf`, known at `ny`, which passes writes on; `sf` accepts them."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxy_to(sf.port))
        sf.cluster.urls = (proxy.url,)
        for site in (sf, ny):
            await site.kafka.start("127.0.0.1", 0)
            await stack.enter_async_context(Worker(site))
        for topic in topics:
            await sf.cluster.stream(SHIPS).create_topic(topic, 2)
        await set_up(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=(proxy.url,))
        await until(lambda: all(link.state.ready for site in (sf, ny) for link in site.manager.running))
        await sf.links.edit_replica(SHIPS, REPLICA, accept_writes=True)
        await ny.cluster.edit_stream(SHIPS, forward_writes=True)
        await until(lambda: ny.ends(SHIPS) == sf.ends(SHIPS))
        yield proxy
