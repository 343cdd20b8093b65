"""A manifest sent to a server of ours: each batch once, whatever ended the attempts before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.site import Site, run_site
from tests.kafka.client import opened

from fairlead.kafka import Cluster
from fairlead.model.errors import BatchTooLarge, InvalidValue, UnknownTopic
from fairlead.protocol.batch import HEADER_BYTES, build_batch
from fairlead.records.writing import publishing
from fairlead.records.writing.encoding import Encoded
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.parts import PartInfo, Place
from fairlead.records.writing.publishing import partitions_of, producer_id, publish, settled
from fairlead.records.writing.staging import Manifest, Staging
from fairlead.records.writing.writer import Left, RecordsWriter
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.topics import put_topic
from fairlead.streamlog.writing.draft import Draft

OPTIONS = WriteOptions("/interop", (), delivery_timeout_ms=20_000)
NOW_MS = 1_700_000_000_000
REMEMBERED_MS = 3_600_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with run_site(tmp_path_factory.mktemp("site")) as site:
        yield site


def encoded(site: Site, places: Sequence[tuple[str, int]]) -> Iterator[Encoded]:
    """Batches of two records each, numbered through."""
    for number, (topic, partition) in enumerate(places):
        whole = build_batch([(None, b"%d" % number), (None, b"+")], timestamp_ms=NOW_MS)
        yield Encoded(f"{site.path}:{topic}", partition, 2, whole[:HEADER_BYTES], whole[HEADER_BYTES:])


async def settle(
    cluster: Cluster, site: Site, staging: Staging, batch: int, places: Sequence[tuple[str, int]]
) -> Manifest:
    part = staging.write(batch, encoded(site, places))
    return await settled(cluster, staging, batch, [part], NOW_MS, REMEMBERED_MS)


def batches(site: Site, topic: str, partition: int = 0) -> list[tuple[int, int]]:
    """Producer and base sequence of what is stored."""
    return [(head.producer_id, head.base_sequence) for head in site.headers(topic, partition)]


async def test_batches_go_on_under_one_id_and_numbers_that_go_through(site: Site, tmp_path: Path) -> None:
    """Over the batches of a query, in each partition."""
    site.make_topic("through", 2)
    staging = Staging(tmp_path, "q-through")
    async with opened(site.main) as cluster:
        for batch in (0, 1):
            manifest = await settle(cluster, site, staging, batch, [("through", 0), ("through", 1), ("through", 0)])
            assert await publish(cluster, staging, manifest, OPTIONS, NOW_MS) == 6
            staging.finish(batch)
    id = producer_id("q-through")
    assert batches(site, "through") == [(id, 0), (id, 2), (id, 4), (id, 6)]
    assert batches(site, "through", 1) == [(id, 0), (id, 2)]


@pytest.mark.parametrize("taken", range(7))
async def test_what_an_attempt_before_has_sent_is_not_sent_again(site: Site, tmp_path: Path, taken: int) -> None:
    """Cut off behind any batch, more than the five that a server remembers."""
    topic, query = f"again-{taken}", f"q-again-{taken}"
    site.make_topic(topic, 1)
    staging = Staging(tmp_path, query)
    async with opened(site.main) as cluster:
        manifest = await settle(cluster, site, staging, 3, [(topic, 0)] * 7)
        places = {Place(f"{site.path}:{topic}", 0): 0}
        producer = cluster.steady_producer(producer_id(query), {})
        for batch in list(publishing.missing_batches(staging, manifest, places))[:taken]:
            await producer.send(*batch.place, batch)
        await producer.close()
        assert len(batches(site, topic)) == taken
        again = await settle(cluster, site, staging, 3, [(topic, 0)] * 3)  # Spark runs the batch anew, other rows come
        assert again == manifest
        assert await publish(cluster, staging, again, OPTIONS, NOW_MS) == 2 * (7 - taken)
        assert await publish(cluster, staging, again, OPTIONS, NOW_MS) == 0
    assert batches(site, topic) == [(producer_id(query), 2 * number) for number in range(7)]


async def test_two_drivers_of_one_query_write_it_once(site: Site, tmp_path: Path) -> None:
    """One was believed to be dead."""
    site.make_topic("twice", 1)
    staging = Staging(tmp_path, "q-twice")
    async with opened(site.main) as one, opened(site.main) as other:
        manifest = await settle(one, site, staging, 0, [("twice", 0)] * 40)
        found = await asyncio.gather(
            *(publish(cluster, staging, manifest, OPTIONS, NOW_MS) for cluster in (one, other)),
            return_exceptions=True,
        )
        assert any(not isinstance(each, BaseException) for each in found)
        assert await publish(one, staging, manifest, OPTIONS, NOW_MS) == 0
    assert batches(site, "twice") == [(producer_id("q-twice"), 2 * number) for number in range(40)]


async def test_where_the_cluster_has_forgotten_nothing_is_sent(site: Site, tmp_path: Path) -> None:
    """It is an error, since nobody can tell what is there: of a manifest that is old, or of another epoch, and by a
    clock that was set back."""
    site.make_topic("forgotten", 1)
    staging = Staging(tmp_path, "q-forgotten")
    async with opened(site.main) as cluster:
        manifest = await settle(cluster, site, staging, 0, [("forgotten", 0)])
        for first in (0, 10):
            counting = replace(manifest, first={f"{site.path}:forgotten": {0: first}})
            with pytest.raises(InvalidValue, match="partition 0 does not know query q-forgotten any more"):
                await publish(cluster, staging, counting, OPTIONS, NOW_MS + REMEMBERED_MS // 2)
            with pytest.raises(InvalidValue, match="begin with a new checkpoint"):
                await publish(cluster, staging, replace(counting, epochs={}), OPTIONS, NOW_MS)
            with pytest.raises(InvalidValue, match="settled 1 ms later than it is now by this host's clock; set the"):
                await publish(cluster, staging, counting, OPTIONS, NOW_MS - 1)
        assert batches(site, "forgotten") == []


async def test_a_query_that_was_forgotten_while_it_was_idle_goes_on(site: Site, tmp_path: Path) -> None:
    """The partition remembered it when the batch was settled, and no more when it is sent: nothing can have come."""
    site.make_topic("idle", 1)
    staging = Staging(tmp_path, "q-idle")
    async with opened(site.main) as cluster:
        manifest = await settle(cluster, site, staging, 0, [("idle", 0)] * 3)
        counting = replace(manifest, first={f"{site.path}:idle": {0: 10}})
        late = NOW_MS + REMEMBERED_MS // 2 - 1
        assert [await publish(cluster, staging, counting, OPTIONS, late) for _ in range(2)] == [6, 0]
    assert batches(site, "idle") == [(producer_id("q-idle"), 10 + 2 * number) for number in range(3)]


async def test_what_is_left_of_a_batch_behind_a_cut_is_not_sent_twice(site: Site, tmp_path: Path) -> None:
    """The topic was taken over elsewhere and came back: its log was cut within the batch. The cut forgets the query,
    though the first records of the batch are there."""
    site.make_topic("cut", 1)
    staging = Staging(tmp_path, "q-cut")
    async with opened(site.main) as cluster:
        manifest = await settle(cluster, site, staging, 0, [("cut", 0)] * 2)
        assert await publish(cluster, staging, manifest, OPTIONS, NOW_MS) == 4
        shard, topic = site.stream.topic("cut")

        def come_back(draft: Draft) -> None:
            cut(draft, topic.number, 0, 2, "takeover", 1, None)
            later = topic._replace(epoch=2, version=topic.version + 1, since=((2, ((0, 0),)),))
            put_topic(draft, later, draft.stream_id, None)

        site.broker.submit(shard, come_back)
        with pytest.raises(InvalidValue, match="partition 0 does not know query q-cut any more"):
            await publish(cluster, staging, manifest, OPTIONS, NOW_MS)
    assert batches(site, "cut") == [(producer_id("q-cut"), 0)]


async def test_records_that_the_manifest_does_not_know_are_an_error(site: Site, tmp_path: Path) -> None:
    """Somebody else writes under the query's id."""
    site.make_topic("strange", 1)
    staging = Staging(tmp_path, "q-strange")
    async with opened(site.main) as cluster:
        manifest = await settle(cluster, site, staging, 0, [("strange", 0)])
        assert await publish(cluster, staging, manifest, OPTIONS, NOW_MS) == 2
        more = await settle(cluster, site, staging, 1, [("strange", 0)])
        assert await publish(cluster, staging, more, OPTIONS, NOW_MS) == 2
        with pytest.raises(InvalidValue, match="has 2 records of query q-strange that batch 0 does not"):
            await publish(cluster, staging, manifest, OPTIONS, NOW_MS)


async def test_topics_are_made_where_the_stream_makes_them(site: Site) -> None:
    other = site.another("/strict", autocreate=False, default_partitions=3)
    making = site.another("/making", autocreate=True, default_partitions=3)
    async with opened(site.main) as cluster:
        assert await partitions_of(cluster, [f"{making.path}:new"]) == {f"{making.path}:new": 3}
        with pytest.raises(UnknownTopic, match="there is no topic /strict:new; make it, or let the stream make"):
            await partitions_of(cluster, [f"{other.path}:new"])


async def test_records_that_fit_a_small_topic_are_written_and_none_of_a_batch_with_one_that_does_not(
    site: Site, tmp_path: Path
) -> None:
    """Its server would refuse what clients put into one batch."""
    site.make_topic("small", 1)
    site.broker.call(site.stream.set_configs("small", {"max.message.bytes": "20000"}))
    options = replace(OPTIONS, path=site.path, bootstrap=site.main, topic="small", staging=tmp_path)

    async def left(version: int, sizes: Sequence[int]) -> PartInfo:
        writer = RecordsWriter(replace(options, write_id="q-small", version=version))
        rows = pa.RecordBatch.from_pydict({"value": [bytes(size) for size in sizes]})
        found = await asyncio.to_thread(writer.write, iter([rows]))
        assert isinstance(found, Left)
        return found.part

    staging = Staging(tmp_path, "q-small")
    async with opened(site.main) as cluster:
        manifest = await settled(cluster, staging, 0, [await left(0, [1000] * 100)], NOW_MS, REMEMBERED_MS)
        assert await publish(cluster, staging, manifest, OPTIONS, NOW_MS) == 100
        with pytest.raises(BatchTooLarge, match=r"a record of 20,0.. bytes .* which takes 20,000"):
            await left(1, [1000] * 5 + [20_000])
    assert [head.record_count for head in site.headers("small")] == [19] * 5 + [5]
    assert list((tmp_path / "q-small" / "1").iterdir()) == []
