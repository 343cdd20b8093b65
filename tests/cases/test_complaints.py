"""What users of other systems complain of, where no other test says that it is not so here; see the end of
`docs/cases.md`."""

from __future__ import annotations

from pathlib import Path

from fairlead.protocol.batch import build_batch, records_of
from fairlead.protocol.records import Record
from fairlead.storage.memory import NO_LIMIT_BYTES, MemoryStorage
from tests.cases.fleet import SHIPS, alike, ends_of_logs, fleet, held, link, path_at
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.batches import produced_to
from tests.support.waiting import a_quiet_while, until

MANY_TOPICS = 300
PARTITIONS = 15
OLD_MS = 1_262_304_000_000
"""A time of 2010."""


def stored(site: Site) -> list[bytes]:
    """The batches of the first partition of topic t."""
    shard, topic = site.cluster.stream(SHIPS).topic("t")
    return [bytes(batch) for batch in shard.reader.fetch(topic.number, 0, 0, 1 << 20).batches]


async def test_headers_and_null_keys_and_tombstones_arrive_as_they_were(tmp_path: Path) -> None:
    """Where records are produced anew, headers are lost or stop the copy of all topics, and a tombstone becomes an
    empty value, which a compacted topic keeps."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        await link(a, b)
        stream = a.cluster.stream(SHIPS)
        await stream.create_topic("t")
        shard, topic = stream.topic("t")
        sent = [
            Record(0, OLD_MS, None, b"no key", headers=(("trace", b"\x00\xff"), ("empty", b""), ("null", None))),
            Record(1, OLD_MS, b"key", None),
            Record(2, OLD_MS + 5, b"", b""),
        ]
        await produced_to(shard, topic.number, 0, build_batch(sent, timestamp_ms=OLD_MS))
        await alike(a, b)
        (here,), (there,) = stored(a), stored(b)
        assert here == there
        assert list(records_of(there)) == sent


async def test_300_topics_made_at_once_all_arrive_with_their_partitions(tmp_path: Path) -> None:
    """Others look for new topics now and then, and with 200 at once lose track of who copies which."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        await link(a, b)
        stream = a.cluster.stream(SHIPS)
        for number in range(MANY_TOPICS):
            await stream.create_topic(f"t{number}", 3)
        for number in range(0, MANY_TOPICS, 50):
            await a.write(SHIPS, f"t{number}", b"x", partition=2)
        await alike(a, b)
        assert len(list(b.cluster.stream(SHIPS).topics())) == MANY_TOPICS


async def test_every_partition_arrives_also_those_that_are_added_while_the_replica_is_away(tmp_path: Path) -> None:
    """Others copied ten of fifteen partitions, or none of those that were added until they were started again."""
    async with fleet(tmp_path, "a") as (a,):
        away = Site("away", tmp_path)
        stream = a.cluster.stream(SHIPS)
        await stream.create_topic("t", PARTITIONS)
        for partition in range(PARTITIONS):
            await a.write(SHIPS, "t", b"%d" % partition, partition=partition)
        async with away:
            await away.stream(SHIPS)
            await link(a, away)
            await alike(a, away)
        await stream.set_partitions("t", 2 * PARTITIONS)
        for partition in range(2 * PARTITIONS):
            await a.write(SHIPS, "t", b"later", partition=partition)
        async with Site("away", tmp_path, port=away.port) as back:
            await alike(a, back)
            assert len(held(back)) == 2 * PARTITIONS


async def test_a_topic_made_again_shorter_is_noticed_though_the_source_was_restarted_in_between(tmp_path: Path) -> None:
    """Where a copy knows a topic by its name and an offset, it skips all records of the new one up to the old offset,
    and after a restart nobody can tell."""
    async with Site("b", tmp_path) as b:
        await b.stream(SHIPS)
        source = Site("a", tmp_path)
        async with source as a:
            await a.stream(SHIPS)
            async with task(a):
                await link(a, b)
                await a.write(SHIPS, "t", *[b"old"] * 10)
                await alike(a, b)
            await a.cluster.stream(SHIPS).delete_topic("t")
            await a.write(SHIPS, "t", b"new", b"newer")
        async with Site("a", tmp_path, port=source.port) as a, task(a):
            await alike(a, b)
            assert held(b)["t", 0].values == {0: b"new", 1: b"newer"}


async def test_a_replica_whose_disk_was_full_takes_everything_once_there_is_room(tmp_path: Path) -> None:
    """Others stop for good after a write that the remote side refused, until somebody restarts them."""
    disk = MemoryStorage()
    async with fleet(tmp_path, "a") as (a,), Site("full", tmp_path, storage=disk) as full:
        await full.stream(SHIPS)
        await link(a, full)
        await a.write(SHIPS, "t", b"before")
        await alike(a, full)
        disk.capacity_bytes = 1
        for number in range(5):
            await a.write(SHIPS, "t", b"%d" % number)
        await until(lambda: a.links.list(SHIPS)[0]["errors"])
        assert full.end(SHIPS, "t") == 1
        disk.capacity_bytes = NO_LIMIT_BYTES
        await alike(a, full)
        assert not a.links.list(SHIPS)[0]["errors"]


async def test_two_masters_of_equal_topic_names_copy_nothing_back(tmp_path: Path) -> None:
    """Without prefixes, headers or names of clusters by which others know what they have copied themselves: the rows
    say it. Paused, resumed and sent again from the beginning, nothing goes round and nothing is there twice."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        await link(a, b)
        await link(b, a)
        for site in (a, b):
            await site.write(SHIPS, f"of-{site.name}", b"1", b"2")
        await alike(a, b)
        await a.links.pause(SHIPS, path_at(b))
        await a.write(SHIPS, "of-a", b"3")
        await a.links.resume(SHIPS, path_at(b), rescan=True)
        await alike(a, b)
        assert held(a)["of-a", 0].values == {0: b"1", 1: b"2", 2: b"3"}
        rest = ends_of_logs(a, b)
        await a_quiet_while()
        assert ends_of_logs(a, b) == rest
