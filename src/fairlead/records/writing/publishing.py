"""A manifest → a cluster: every batch of its parts once, under the query's producer id and the manifest's sequence
numbers.

Always true: nothing of a batch of the query is sent that its manifest does not name; what the cluster has, by the last
sequence number that it knows of a partition, is not sent again. Where the cluster has forgotten, so that nobody can
tell, this is an error and nothing is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.client.admin import ask
from fairlead.kafka import ClientSettings, Cluster, TopicPartition
from fairlead.model.addresses import parse_address
from fairlead.model.errors import InvalidValue, UnknownTopic, Unreachable
from fairlead.model.names import split_topic
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.parts import PartInfo, Place, StagedBatch, read_part
from fairlead.records.writing.staging import VERSION, Manifest, Staging

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fairlead.kafka import Producer

UNDER_WAY_BYTES_MAX: Final = 32 * 1024 * 1024
"""Sent and not acknowledged."""
SEQUENCES: Final = 2**31


def producer_id(query: str) -> int:
    """Of a query, for ever: 63 bits, as those that a cluster gives."""
    return int.from_bytes(sha256(query.encode()).digest()[:8], "big") >> 1


def bootstrap_of(options: WriteOptions) -> str:
    """The cluster's Kafka addresses. Raises: Unreachable."""
    return options.bootstrap or ",".join(ask(options.servers, "GET", "/rest/cluster/info").first["kafka"])


def remembered_ms(options: WriteOptions, parts: Iterable[PartInfo]) -> int:
    """For how long the streams of these parts remember a producer. Raises: UnknownStream, TryAgain."""
    infos = streams_of(options, [place.topic for part in parts for place in part.records])
    return min((int(info["pidexpirysecs"]) * 1000 for info in infos), default=0)


def streams_of(options: WriteOptions, topics: Iterable[str]) -> list[dict[str, Any]]:
    """What the cluster says of the streams of these topics. Raises: UnknownStream, TryAgain."""
    paths = sorted({path for path, _ in map(split_topic, topics) if path})
    return [ask(options.servers, "GET", "/rest/stream/info", {"path": path}).first for path in paths]


@asynccontextmanager
async def opened(options: WriteOptions) -> AsyncIterator[Cluster]:
    """The cluster that is written to. Raises: TryAgain: it does not answer for as long as the options say."""
    bootstrap = await asyncio.to_thread(bootstrap_of, options)
    addresses = tuple(parse_address(text.strip(), "kafka.bootstrap.servers") for text in bootstrap.split(","))
    timeout = max(options.delivery_timeout_ms, 1000)
    cluster = await Cluster.open(ClientSettings(addresses, client_id="fairlead-spark", request_timeout_ms=timeout))
    try:
        yield cluster
    finally:
        await cluster.close()


async def partitions_of(cluster: Cluster, names: Sequence[str]) -> Mapping[str, int]:
    """How many partitions topics have; those that are not there are made, where the stream does that for who asks.

    Raises:
        UnknownTopic
    """
    found = await cluster.topics(names, make=True)
    missing = sorted(set(names) - found.keys())
    if missing:
        raise UnknownTopic(
            f"there is no topic {missing[0]}{f' ({len(missing):,} are missing)' if len(missing) > 1 else ''}; "
            "make it, or let the stream make what is asked for (-autocreate true)"
        )
    return {name: len(topic.partitions) for name, topic in found.items()}


async def limits_of(cluster: Cluster, names: Iterable[str]) -> dict[str, int]:
    """The largest batch that topics take, in bytes, as far as it is told. Raises: UnknownTopic, NotAllowed."""
    told = {
        name: configs["max.message.bytes"].value for name, configs in (await cluster.describe_configs(names)).items()
    }
    return {name: int(value) for name, value in told.items() if value is not None}


async def settled(
    cluster: Cluster, staging: Staging, batch: int, parts: Sequence[PartInfo], now_ms: int, remembered: int
) -> Manifest:
    """The manifest of these parts, or the one that is there already. `remembered`: see `remembered_ms`.

    Raises:
        InvalidValue, UnknownTopic, TryAgain
    """
    places = {place for part in parts for place in part.records}
    epochs = await _epochs(cluster, places)
    last = await cluster.last_sequences(producer_id(staging.query), [TopicPartition(*place) for place in places])
    first: dict[str, dict[int, int]] = {}
    for place in sorted(places):
        known = last.get(TopicPartition(*place))
        first.setdefault(place.topic, {})[place.partition] = 0 if known is None else (known + 1) % SEQUENCES
    files = tuple((part.name, part.size_bytes) for part in parts if part.size_bytes)
    return staging.settle(Manifest(VERSION, staging.query, batch, now_ms, remembered, files, first, epochs))


async def _epochs(cluster: Cluster, places: Iterable[Place]) -> dict[str, dict[int, int]]:
    """Leader epochs now, by topic and partition."""
    topics = {place.topic for place in places}
    found = await cluster.topics(topics) if topics else {}
    return {name: {number: each.epoch for number, each in enumerate(found[name].partitions)} for name in found}


async def publish(cluster: Cluster, staging: Staging, manifest: Manifest, options: WriteOptions, now_ms: int) -> int:
    """Send what the cluster lacks; answers how many records these were.

    Raises:
        InvalidValue: a part is not as it was written, or the cluster cannot tell what it has of the batch.
        Unreachable: it took nothing for as long as the options say; what is left goes with the next try.
        BadRequest: it refuses a batch for good; the message names the partition.
    """
    identity = producer_id(manifest.query)
    places = manifest.places
    last = await cluster.last_sequences(identity, [TopicPartition(*place) for place in places])
    unknown = [place for place in places if TopicPartition(*place) not in last]
    _check_forgotten(unknown, await _epochs(cluster, unknown), manifest, now_ms)
    written = {
        place: (last.get(TopicPartition(*place), first - 1) + 1 - first) % SEQUENCES for place, first in places.items()
    }
    start = {TopicPartition(*place): (first + written[place]) % SEQUENCES for place, first in places.items()}
    producer = cluster.steady_producer(identity, start)
    try:
        return await _Sending(producer, options.delivery_timeout_ms).all(missing_batches(staging, manifest, written))
    finally:
        await producer.close()


def _check_forgotten(
    unknown: Sequence[Place], epochs: Mapping[str, Mapping[int, int]], manifest: Manifest, now_ms: int
) -> None:
    """Check that partitions which know nothing of the query have nothing of the batch.

    Nothing of it was sent before the manifest was made, and a partition remembers who wrote to it

    * for `remembered_ms` from the last record on, by its own clock: so for half of that from when the manifest was
      made, by ours. A query that was idle until the partition forgot it may go on, whatever the number;
    * until the partition is cut. That forgets whose newest batch it cuts off, though older ones stay. Only topics that
      get a new epoch are cut: so while the leader epoch is that of the manifest.

    Raises:
        InvalidValue: nobody can tell what they have.
    """
    age_ms = now_ms - manifest.made_ms
    if unknown and age_ms < 0:
        raise InvalidValue(
            f"batch {manifest.batch} of query {manifest.query} was settled {-age_ms:,} ms later than it is now by this "
            "host's clock; set the clock right, and start the query again"
        )
    for topic, partition in unknown:
        epoch = manifest.epochs.get(topic, {}).get(partition)
        if age_ms >= manifest.remembered_ms // 2 or epoch is None or epoch != epochs.get(topic, {}).get(partition):
            raise InvalidValue(
                f"topic {topic}, partition {partition} does not know query {manifest.query} any more, so nobody can "
                f"tell what it has of batch {manifest.batch}; look at what is there, and begin with a new checkpoint"
            )


def missing_batches(staging: Staging, manifest: Manifest, written: Mapping[Place, int]) -> Iterator[StagedBatch]:
    """The batches that are not there, in order. Raises: InvalidValue."""
    there = dict(written)
    for name, size in manifest.parts:
        for batch in read_part(staging.part(manifest.batch, name), size):
            known = there[batch.place]
            if not known:
                yield batch
            elif known >= batch.records:
                there[batch.place] = known - batch.records
            else:
                raise _of_another(batch.place, known, manifest)
    for place, count in sorted(there.items()):
        if count:
            raise _of_another(place, count, manifest)


def _of_another(place: Place, count: int, manifest: Manifest) -> InvalidValue:
    return InvalidValue(
        f"topic {place.topic}, partition {place.partition} has {count:,} records of query {manifest.query} that batch "
        f"{manifest.batch} does not; does another query write with its id?"
    )


class _UnderWay(NamedTuple):
    size_bytes: int
    records: int


class _Sending:
    """Sends as fast as the cluster takes it."""

    def __init__(self, producer: Producer, timeout_ms: int) -> None:
        self._producer = producer
        self._timeout = timeout_ms / 1000
        self._under_way: dict[asyncio.Future[int | None], _UnderWay] = {}
        self._bytes = 0
        self._records = 0
        self._moved = asyncio.Event()
        self._failed: BaseException | None = None

    async def all(self, batches: Iterable[StagedBatch]) -> int:
        """Send these batches, and wait until they are there; answers how many records they have."""
        for batch in batches:
            await self._until(UNDER_WAY_BYTES_MAX)
            future = self._producer.send(*batch.place, batch)
            self._under_way[future] = _UnderWay(batch.size_bytes, batch.records)
            self._bytes += batch.size_bytes
            future.add_done_callback(self._landed)
        await self._until(0)
        return self._records

    async def _until(self, bytes_max: int) -> None:
        """Raises: what a batch was refused for; Unreachable."""
        while self._failed is None and self._bytes > bytes_max:
            self._moved.clear()
            try:
                async with asyncio.timeout(self._timeout):
                    await self._moved.wait()
            except TimeoutError:
                why = self._producer.down or "no answer"
                raise Unreachable(
                    f"the cluster took {self._records:,} records and then none for {self._timeout:g} s ({why}); what "
                    "is missing is sent by the query, or by a write with txnAppId, when it is started again"
                ) from None
        if self._failed is not None:
            raise self._failed

    def _landed(self, future: asyncio.Future[int | None]) -> None:
        size, records = self._under_way.pop(future)
        self._bytes -= size
        self._moved.set()
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._records += records
        else:
            self._failed = self._failed or error
