"""Times that mislead: records of 2010, clocks that jump, what expires while a destination is away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from fairlead.broker.server import KafkaServer
from fairlead.protocol.batch import build_batch
from fairlead.protocol.records import Record
from tests.cases.fleet import SHIPS, WAIT_SECONDS, alike, fleet, held, link, path_at
from tests.gateway.rig import Site
from tests.streamlog.world import DAY_MS, FakeClock
from tests.support.batches import produced_to
from tests.support.waiting import until

JUNE_2010_MS = 1_276_214_400_000
"""11 June 2010, the day of the AIS records of the demo."""
TODAY_MS = 1_800_000_000_000
WEEK_MS = 7 * DAY_MS
"""The default time-to-live of a stream."""

EAGER: Mapping[str, Any] = {"merge_commits_min": 1, "merge_interval_seconds": 0.05}
"""Settings that merge whatever is there."""


async def publish_2010(site: Site) -> None:
    """Some ships' messages, with the times of the day on which they were received."""
    stream = site.cluster.stream(SHIPS)
    for ship in range(5):
        shard, topic = (await stream.create_topic(f"ship-{ship}"), stream.topic(f"ship-{ship}"))[1]
        records = [Record(n, JUNE_2010_MS + 1000 * n, None, b"!AIVDM %d" % n, ()) for n in range(10)]
        await produced_to(shard, topic.number, 0, build_batch(records))


async def merged(*sites: Site) -> None:
    """Wait until everything lies in merged segments."""
    logs = [site.cluster.stream(SHIPS).shards[0].announced for site in sites]
    await until(lambda: all(log.manifest.merged_end == log.end and log.manifest.segments for log in logs))


def starts(site: Site) -> set[int]:
    """Where the partitions of the stream begin."""
    stream = site.cluster.stream(SHIPS)
    state = stream.shards[0].state
    return {state.partition(topic.number, 0).start for topic in stream.topics()}


async def test_records_of_2010_live_seven_days_from_today(tmp_path: Path) -> None:
    """A time-to-live counts from the append here: old records are merged, replicated and kept, and expire in a week."""
    clock = FakeClock(TODAY_MS)
    async with fleet(tmp_path, "sf", "ny", clock=clock, **EAGER) as (sf, ny):
        await publish_2010(sf)
        await link(sf, ny)
        await alike(sf, ny)
        clock.pass_ms(WEEK_MS - DAY_MS)
        await sf.write(SHIPS, "today", b"x")
        await alike(sf, ny)
        await merged(sf, ny)
        assert sum(len(found.values) for found in held(ny).values()) == 51
        clock.pass_ms(2 * DAY_MS)
        await until(lambda: starts(sf) == starts(ny) == {10, 0})


async def test_a_clock_that_jumps_forward_deletes_nothing(tmp_path: Path) -> None:
    """The clock of both clusters says 2037 all at once; what is there stays, what comes is merged and replicated."""
    clock = FakeClock(TODAY_MS)
    async with fleet(tmp_path, "sf", "ny", clock=clock, **EAGER) as (sf, ny):
        await publish_2010(sf)
        await link(sf, ny)
        await alike(sf, ny)
        clock.wall += 10 * 365 * DAY_MS
        clock.pass_ms(60_000)
        await sf.write(SHIPS, "later", b"x")
        await merged(sf, ny)
        await alike(sf, ny)
        assert sum(len(found.values) for found in held(ny).values()) == 51
    async with Site("sf", tmp_path, clock=clock, **EAGER) as again:
        await merged(again)
        assert starts(again) == {0}


async def test_a_start_with_a_clock_far_ahead_deletes_nothing(tmp_path: Path) -> None:
    """A dead clock battery, 300 days ahead until the network tells the time: all is there, and what is written
    meanwhile has no time of the future, so the next start with the right clock finds nothing strange."""
    clock = FakeClock(TODAY_MS)
    async with Site("sf", tmp_path, clock=clock, **EAGER) as sf:
        await sf.stream(SHIPS)
        await publish_2010(sf)
        await merged(sf)
    clock.wall += 300 * DAY_MS
    async with Site("sf", tmp_path, clock=clock, **EAGER) as sf:
        await sf.write(SHIPS, "later", b"x")
        await merged(sf)
        assert sf.cluster.stream(SHIPS).shards[0].hold is not None
        assert starts(sf) == {0}
        clock.pass_ms(60_000)
        clock.wall -= 300 * DAY_MS
        await sf.write(SHIPS, "later", b"y")
        await merged(sf)
        assert sf.cluster.stream(SHIPS).shards[0].hold is None
        assert starts(sf) == {0}
    async with Site("sf", tmp_path, clock=clock, **EAGER) as sf:
        assert sf.cluster.stream(SHIPS).shards[0].hold is None
        clock.pass_ms(WEEK_MS + DAY_MS)
        await until(lambda: starts(sf) == {10, 2})


async def test_an_accepted_start_expires_what_is_too_old_and_nothing_new(tmp_path: Path) -> None:
    """The server was off for 300 days. What is written before somebody says that the clock is right stays, also over
    restarts: the log says that these rows are not as old as their times."""
    clock = FakeClock(TODAY_MS)
    async with Site("sf", tmp_path, clock=clock) as sf:
        await sf.stream(SHIPS)
        await publish_2010(sf)
    clock.wall += 300 * DAY_MS
    async with Site("sf", tmp_path, clock=clock) as sf:
        await sf.write(SHIPS, "ship-0", b"new")
    async with Site("sf", tmp_path, clock=clock) as sf:
        shard = sf.cluster.stream(SHIPS).shards[0]
        assert shard.hold is not None
        await shard.accept_clock()
    async with Site("sf", tmp_path, clock=clock, **EAGER) as sf:
        assert sf.cluster.stream(SHIPS).shards[0].hold is None
        await until(lambda: starts(sf) == {10})
        await sf.write(SHIPS, "ship-0", b"newer")
        await merged(sf)
        assert await read_to_end(sf, "ship-0") == [(10, b"new"), (11, b"newer")]
        clock.pass_ms(WEEK_MS + DAY_MS)
        await until(lambda: starts(sf) == {10, 12})


async def test_what_expired_before_the_link_returned_shows_as_a_gap(tmp_path: Path) -> None:
    """Written once while the link was paused, and gone when it goes on: the replica names what it never got."""
    clock = FakeClock(TODAY_MS)
    async with fleet(tmp_path, "sf", "ny", clock=clock, **EAGER) as (sf, ny):
        await link(sf, ny)
        await sf.write(SHIPS, "known", b"0")
        await alike(sf, ny)
        await sf.links.pause(SHIPS, path_at(ny))
        await sf.write(SHIPS, "known", b"1", b"2")
        await sf.write(SHIPS, "once", b"0", b"1", b"2")
        clock.pass_ms(WEEK_MS + 2 * DAY_MS)
        await until(lambda: starts(sf) == {3})
        await sf.links.resume(SHIPS, path_at(ny))
        await sf.write(SHIPS, "known", b"3")
        await until(lambda: sf.ends(SHIPS) == ny.ends(SHIPS))
        assert await shown_gaps(sf) == {("known", 1, 3, "ttl"), ("once", 0, 3, "ttl")}
        assert await read_to_end(ny, "known") in ([(0, b"0"), (3, b"3")], [(3, b"3")])
        assert await read_to_end(ny, "once") == []


async def shown_gaps(site: Site) -> set[tuple[str, int, int, str]]:
    """What `replica list` says."""
    await site.links.refresh(SHIPS)
    (status,) = site.links.list(SHIPS)
    assert status["gapsTotal"] == len(status["gaps"])
    return {(gap["topic"], gap["start"], gap["end"], gap["reason"]) for gap in status["gaps"]}


async def read_to_end(site: Site, topic: str) -> list[tuple[int, bytes | None]]:
    """Offsets and values that an ordinary consumer gets until it says that the partition has ended."""
    server = KafkaServer(site.cluster)
    await server.start("127.0.0.1", 0)
    try:
        address = "{}:{}".format(*server.address)
        return await asyncio.to_thread(_read_to_end, address, f"{SHIPS}:{topic}")
    finally:
        await server.close()


def _read_to_end(bootstrap: str, topic: str) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(WAIT_SECONDS)) is not None:
            if (error := message.error()) is not None:
                assert error.name() == "_PARTITION_EOF", error
                return found
            offset = message.offset()
            assert offset is not None
            found.append((offset, message.value()))
        raise TimeoutError("neither a record nor the end")
    finally:
        consumer.close()
