"""The client as tests use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from fairlead.kafka import ClientSettings, Cluster, Fetched, Fetcher, Producer
from fairlead.kafka.producing.whole_batch import WholeBatch
from fairlead.model.addresses import parse_address
from fairlead.protocol.batch import HEADER_BYTES, build_batch, read_header, records_of
from tests.support.waiting import in_time


def settings_of(bootstrap: str, **changes: int) -> ClientSettings:
    """Quick to try again."""
    settings = ClientSettings((parse_address(bootstrap, "bootstrap"),), retry_backoff_ms=5, retry_backoff_max_ms=20)
    return replace(settings, **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(bootstrap: str, **changes: int) -> AsyncIterator[Cluster]:
    """A cluster until the block ends, which has to be in time."""
    async with in_time():
        cluster = await Cluster.open(settings_of(bootstrap, **changes))
        try:
            yield cluster
        finally:
            await cluster.close()


@asynccontextmanager
async def fetching(fetcher: Fetcher) -> AsyncIterator[Fetcher]:
    try:
        yield fetcher
    finally:
        await fetcher.close()


@asynccontextmanager
async def producing(producer: Producer) -> AsyncIterator[Producer]:
    try:
        yield producer
    finally:
        await producer.close()


def batch(*values: bytes) -> WholeBatch:
    """A batch with these values."""
    return WholeBatch(build_batch([(None, value) for value in values], timestamp_ms=1_700_000_000_000))


def batches_in(records: memoryview) -> Iterator[memoryview]:
    """The whole batches of what was fetched."""
    at = 0
    while len(records) - at >= HEADER_BYTES:
        end = at + read_header(records[at:]).size_bytes
        if end > len(records):
            return
        yield records[at:end]
        at = end


def values_in(fetched: Fetched) -> list[bytes]:
    """The values in it, from where the fetch began."""
    return [
        bytes(record.value or b"")
        for each in batches_in(fetched.records)
        for record in records_of(each)
        if record.offset >= fetched.position
    ]


async def values_of(fetcher: Fetcher, count: int) -> Sequence[bytes]:
    """The next values that are fetched, at least so many."""
    values: list[bytes] = []
    while len(values) < count:
        for fetched in await fetcher.next():
            assert not fetched.error, fetched.detail
            values += values_in(fetched)
    return values
