"""The fetcher's rules, beside a broker that says what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import fetching, opened, values_in, values_of
from tests.kafka.fake_broker import CLOSE, ID, FakeBroker, Log, fake_broker, part, throttled
from tests.support.waiting import a_quiet_while, until

from fairlead.kafka import Fetched, Fetcher, FetchSettings, TopicPartition
from fairlead.kafka.connecting.versions import FETCH, METADATA
from fairlead.protocol.batch import build_batch

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


@asynccontextmanager
async def rig(settings: FetchSettings | None = None, **options: Any) -> AsyncIterator[tuple[FakeBroker, Fetcher]]:
    """A broker with the topic `t` of two partitions, and a fetcher."""
    async with fake_broker(**options) as broker:
        broker.add_topic("t", 2)
        async with opened(broker.bootstrap) as cluster, fetching(cluster.fetcher(settings)) as fetcher:
            yield broker, fetcher


def fill(log: Log, *values: bytes, producer_id: int = 1) -> None:
    """A batch each."""
    for value in values:
        sequence = log.next_sequence.get(producer_id, 0)
        log.append(build_batch([(None, value)], producer_id=producer_id, producer_epoch=0, base_sequence=sequence))


def told(request: Any) -> list[tuple[int, int]]:
    """Partition and offset of all that a Fetch names."""
    return [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]


def forgotten(request: Any) -> list[int]:
    return [number for topic in request.forgotten_topics_data for number in topic.partitions]


async def an_error(fetcher: Fetcher) -> Fetched:
    """The next error."""
    while True:
        for fetched in await fetcher.next():
            if fetched.error or fetched.diverging:
                return fetched


async def test_a_session_is_told_only_what_changes() -> None:
    """1,600 partitions would be named in each request otherwise."""
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        fetcher.assign(OTHER, 0)
        fill(broker.logs["t"][0], b"a")
        assert await values_of(fetcher, 1) == [b"a"]
        fill(broker.logs["t"][0], b"b")
        assert await values_of(fetcher, 1) == [b"b"]
        await until(lambda: any(told(request) == [(0, 2)] for request in broker.of(FETCH)))
        first, *rest = broker.of(FETCH)
        assert (first.session_id, first.session_epoch) == (0, 0)
        assert sorted(told(first)) == [(0, 0), (1, 0)]
        assert [request.session_epoch for request in rest] == list(range(1, len(rest) + 1))
        assert {request.session_id for request in rest} == {101}
        assert [told(request) for request in rest if told(request)] == [[(0, 1)], [(0, 2)]]


async def test_a_partition_is_never_twice_in_one_request() -> None:
    async with rig() as (broker, fetcher):
        for offset in (0, 1, 2):
            fetcher.assign(PLACE, offset)
        fetcher.pause(PLACE)
        fetcher.resume(PLACE)
        fill(broker.logs["t"][0], b"a", b"b", b"c")
        assert await values_of(fetcher, 1) == [b"c"]
        for request in broker.of(FETCH):
            named = [place for place, _ in told(request)]
            assert len(named) == len(set(named))
            assert not set(named) & set(forgotten(request))


@pytest.mark.parametrize(
    ("error", "session"),
    [(ErrorCode.fetch_session_id_not_found, 0), (ErrorCode.invalid_fetch_session_epoch, 101)],
)
async def test_a_lost_session_is_begun_anew_with_all_that_is_read(error: ErrorCode, session: int) -> None:
    """One that the broker still has is named, so that it lets go of it."""
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        fetcher.assign(OTHER, 0)
        fill(broker.logs["t"][0], b"a")
        await values_of(fetcher, 1)
        broker.next(FETCH, lambda _: broker.fetched("t", error_code=error))
        count = len(broker.of(FETCH))
        fill(broker.logs["t"][0], b"b")
        assert await values_of(fetcher, 1) == [b"b"]
        full = next(request for request in broker.of(FETCH)[count:] if request.session_epoch == 0)
        assert full.session_id == session
        assert sorted(told(full)) == [(0, 1), (1, 0)]
        assert fetcher.down is None


async def test_a_broker_without_sessions_is_told_all_each_time() -> None:
    """Session 0 in its answer: it has too many, or is older than 1.1."""
    async with rig(versions={FETCH: range(4, 7), METADATA: range(4, 10)}) as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        fill(broker.logs["t"][0], b"a", b"b")
        assert await values_of(fetcher, 2) == [b"a", b"b"]
        fill(broker.logs["t"][0], b"c")
        assert await values_of(fetcher, 1) == [b"c"]


async def test_what_is_paused_keeps_its_place() -> None:
    """What came and was not taken comes again."""
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        fetcher.assign(OTHER, 0)
        fill(broker.logs["t"][0], b"a")
        fill(broker.logs["t"][1], b"x")
        await until(lambda: broker.of(FETCH))
        fetcher.pause(PLACE)
        assert await values_of(fetcher, 1) == [b"x"]
        assert fetcher.position(PLACE) == 0
        fill(broker.logs["t"][1], b"y")
        assert await values_of(fetcher, 1) == [b"y"]
        fetcher.resume(PLACE)
        assert await values_of(fetcher, 1) == [b"a"]


async def test_no_more_is_asked_for_than_is_taken() -> None:
    """One answer a leader is all the memory that a slow taker costs."""
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        fill(broker.logs["t"][0], b"a")
        await until(lambda: broker.of(FETCH) and not broker.unanswered)
        await a_quiet_while()
        assert len(broker.of(FETCH)) == 1
        await fetcher.next()
        await until(lambda: len(broker.of(FETCH)) > 1)


async def test_an_offset_out_of_range_comes_out_and_the_partition_stands() -> None:
    async with rig() as (broker, fetcher):
        error = ErrorCode.offset_out_of_range
        broker.next(FETCH, lambda _: broker.fetched("t", part(0, error, log_start_offset=7), session_id=0))
        fetcher.assign(PLACE, 3)
        found = await an_error(fetcher)
        assert (found.place, found.position, found.error, found.log_start) == (PLACE, 3, 1, 7)
        assert found.detail == "OFFSET_OUT_OF_RANGE"
        count = len(broker.of(FETCH))
        await a_quiet_while()
        assert len(broker.of(FETCH)) == count
        fill(broker.logs["t"][0], b"a")
        fetcher.assign(PLACE, 0)
        assert await values_of(fetcher, 1) == [b"a"]


async def test_a_log_that_went_on_otherwise_comes_out() -> None:
    async with rig() as (broker, fetcher):
        diverging = {"epoch": 2, "end_offset": 5}
        broker.next(FETCH, lambda _: broker.fetched("t", part(0, diverging_epoch=diverging)))
        fetcher.assign(PLACE, 9, epoch=3)
        found = await an_error(fetcher)
        assert (found.diverging, found.error) == ((2, 5), 0)
        asked = broker.of(FETCH)[0].topics[0].partitions[0]
        assert (asked.last_fetched_epoch, asked.current_leader_epoch) == (3, 3)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_id,
    ],
)
async def test_what_passes_is_waited_for_with_metadata(error: ErrorCode) -> None:
    async with rig() as (broker, fetcher):
        fill(broker.logs["t"][0], b"a")
        asked = len(broker.of(METADATA))
        broker.next(FETCH, lambda _: broker.fetched("t", part(0, error)))
        fetcher.assign(PLACE, 0)
        assert await values_of(fetcher, 1) == [b"a"]
        assert len(broker.of(METADATA)) >= asked + 2
        assert fetcher.down is None


async def test_a_leader_that_has_moved_is_followed() -> None:
    async with fake_broker(0) as old, fake_broker(1) as new:
        old.add_topic("t")
        new.logs, new.ids = old.logs, old.ids
        old.leaders["t", 0] = 0
        new.leaders = old.leaders
        old.peers = new.peers = [old, new]
        async with opened(old.bootstrap) as cluster, fetching(cluster.fetcher()) as fetcher:
            fetcher.assign(PLACE, 0)
            fill(old.logs["t"][0], b"a")
            assert await values_of(fetcher, 1) == [b"a"]
            old.leaders["t", 0] = 1
            old.next(FETCH, lambda _: old.fetched("t", part(0, ErrorCode.not_leader_or_follower), session_id=101))
            fill(old.logs["t"][0], b"b")
            values = await values_of(fetcher, 1)
            assert values == [b"b"]
            await until(lambda: new.of(FETCH))


@asynccontextmanager
async def a_leader_cut_off(**settings: int) -> AsyncIterator[tuple[FakeBroker, FakeBroker, Fetcher]]:
    """It says on that it leads the partition, as it did before another one was elected, and has the first record, which
    was read."""
    async with fake_broker(0) as old, fake_broker(1) as new:
        for broker in (old, new):
            fill(broker.add_topic("t")[0], b"a")
            broker.peers = [old, new]
        async with opened(old.bootstrap, **settings) as cluster, fetching(cluster.fetcher()) as fetcher:
            new.leaders["t", 0] = old.leaders["t", 0] = 0
            fetcher.assign(PLACE, 0)
            assert await values_of(fetcher, 1) == [b"a"]
            new.leaders["t", 0], new.epoch = 1, 4
            fill(new.logs["t"][0], b"b")
            yield old, new, fetcher


async def test_a_leader_that_was_cut_off_and_answers_on_is_left_after_a_while() -> None:
    """It has nothing new and no error to tell. Whoever is asked later and knows no better changes nothing any more."""
    async with a_leader_cut_off(metadata_max_age_ms=50) as (old, new, fetcher):
        assert await values_of(fetcher, 1) == [b"b"]
        asked, fetched = len(old.of(METADATA)), len(old.of(FETCH))
        fill(new.logs["t"][0], b"c")
        assert await values_of(fetcher, 1) == [b"c"]
        await until(lambda: len(old.of(METADATA)) >= asked + 2)
        assert not any(map(told, old.of(FETCH)[fetched:]))
        assert fetcher.down is None


async def test_another_broker_is_asked_who_leads_where_the_leader_refuses() -> None:
    """The one that was asked before may know no better."""
    async with a_leader_cut_off() as (old, _, fetcher):
        old.next(FETCH, *[lambda _: old.fetched("t", part(0, ErrorCode.not_leader_or_follower), session_id=101)] * 999)
        assert await values_of(fetcher, 1) == [b"b"]


async def test_a_cut_connection_is_opened_again_and_nothing_is_lost() -> None:
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        fill(broker.logs["t"][0], b"a")
        assert await values_of(fetcher, 1) == [b"a"]
        broker.next(FETCH, lambda _: CLOSE)
        fill(broker.logs["t"][0], b"b")
        assert await values_of(fetcher, 1) == [b"b"]


async def test_a_broker_that_is_away_is_waited_for_and_named() -> None:
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        fill(broker.logs["t"][0], b"a")
        await values_of(fetcher, 1)
        broker.away = True
        broker.cut()
        await until(lambda: f"broker {broker.bootstrap}" in (fetcher.down or ""))
        broker.away = False
        fill(broker.logs["t"][0], b"b")
        assert await values_of(fetcher, 1) == [b"b"]
        assert fetcher.down is None


async def test_a_topic_that_was_deleted_comes_out() -> None:
    """After some answers of metadata: a broker that has just begun may not know it yet."""
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        await fetcher.next()
        broker.next(FETCH, lambda _: broker.fetched("t", part(0, ErrorCode.unknown_topic_id), session_id=101))
        del broker.logs["t"]
        found = await an_error(fetcher)
        assert found.error == 100
        assert "was deleted" in found.detail


async def test_a_topic_that_is_not_ours_to_see_comes_out_alone() -> None:
    """Leaders of all topics are asked for together."""
    async with rig() as (broker, fetcher):
        broker.refused["secret"] = ErrorCode.topic_authorization_failed
        fill(broker.logs["t"][0], b"a")
        fetcher.assign(TopicPartition("secret", 0), 7)
        found = await an_error(fetcher)
        assert (found.place.topic, found.position, found.error) == ("secret", 7, 29)
        assert found.detail == "TOPIC_AUTHORIZATION_FAILED"
        fetcher.assign(TopicPartition("secret", 0), 7)
        fetcher.assign(PLACE, 0)
        outcomes = [fetched for _ in range(2) for fetched in await fetcher.next()]
        assert {fetched.place.topic: values_in(fetched) for fetched in outcomes} == {"secret": [], "t": [b"a"]}
        assert fetcher.down is None


async def test_another_topic_of_the_name_is_not_read() -> None:
    """Its offsets mean other records."""
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0, topic_id=UUID(int=8).bytes)
        assert (await an_error(fetcher)).error == 100
        fetcher.assign(PLACE, 0, topic_id=ID.bytes)
        fill(broker.logs["t"][0], b"a")
        assert await values_of(fetcher, 1) == [b"a"]


async def test_a_batch_that_is_cut_is_asked_for_whole() -> None:
    """No more than it needs is asked for."""
    async with rig(FetchSettings(partition_bytes=10)) as (broker, fetcher):
        fill(broker.logs["t"][0], b"x" * 500)
        whole = broker.logs["t"][0].batches[0]
        broker.next(FETCH, lambda _: broker.fetched("t", part(0, records=whole[:100])))
        fetcher.assign(PLACE, 0)
        assert await values_of(fetcher, 1) == [b"x" * 500]
        limits = [each.partition_max_bytes for request in broker.of(FETCH) for each in request.topics[0].partitions]
        assert limits[:2] == [10, len(whole)]


async def test_a_leader_is_asked_again_no_sooner_than_wanted() -> None:
    """Whoever takes each answer at once would ask a thousand times a second while records are written one by one."""
    async with rig(FetchSettings(apart_ms=60_000)) as (broker, fetcher):
        fill(broker.logs["t"][0], b"a")
        fetcher.assign(PLACE, 0)
        assert await values_of(fetcher, 1) == [b"a"]
        fill(broker.logs["t"][0], b"b")
        coming = asyncio.ensure_future(fetcher.next())
        await a_quiet_while()
        assert (coming.done(), len(broker.of(FETCH))) == (False, 1)
        coming.cancel()


async def test_the_cut_end_of_an_answer_is_asked_for_again() -> None:
    async with rig() as (broker, fetcher):
        fill(broker.logs["t"][0], b"a", b"b")
        both = b"".join(broker.logs["t"][0].batches)
        broker.next(FETCH, lambda _: broker.fetched("t", part(0, records=both[:-1])))
        fetcher.assign(PLACE, 0)
        assert await values_of(fetcher, 2) == [b"a", b"b"]


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff\xff\xff\x07" * 8,
        b"",
        bytes(10) + b"\xff\xff\xff\xff\x0f" * 4,
        bytes(10) + b"\x02" + ID.bytes + b"\x02" + bytes(6) + bytes(24) + b"\x01" + bytes(4) + b"\xff\xff\xff\x7f",
    ],
)
async def test_an_answer_that_is_none_ends_the_connection_and_is_asked_for_again(body: bytes) -> None:
    """Its lengths are not believed."""
    async with rig() as (broker, fetcher):
        fill(broker.logs["t"][0], b"a")
        broker.next(FETCH, lambda _: body)
        fetcher.assign(PLACE, 0)
        assert await values_of(fetcher, 1) == [b"a"]


async def test_a_partition_that_was_not_asked_for_is_passed_over() -> None:
    async with rig() as (broker, fetcher):
        fill(broker.logs["t"][0], b"a")
        broker.next(FETCH, lambda _: broker.fetched("t", part(5, records=b"x" * 100)))
        fetcher.assign(PLACE, 0)
        assert await values_of(fetcher, 1) == [b"a"]


async def test_a_broker_that_asks_for_quiet_gets_it() -> None:
    async with rig() as (broker, fetcher):
        broker.next(FETCH, lambda _: broker.fetched("t", part(0), session_id=0) | throttled(400))
        fetcher.assign(PLACE, 0)
        began = asyncio.get_running_loop().time()
        await until(lambda: broker.of(FETCH))
        await fetcher.next()
        await until(lambda: len(broker.of(FETCH)) > 1)
        assert asyncio.get_running_loop().time() - began > 0.35


async def test_aborted_transactions_and_ends_are_handed_out() -> None:
    async with rig() as (broker, fetcher):
        aborted = [{"producer_id": 4, "first_offset": 2}]
        broker.next(FETCH, lambda _: broker.fetched("t", _with_ends(aborted)))
        fetcher.assign(PLACE, 0)
        (found,) = await fetcher.next()
        assert (found.high_watermark, found.last_stable, found.log_start) == (9, 8, 1)
        assert found.aborted == [(4, 2)]
        assert broker.of(FETCH)[0].isolation_level == 1


def _with_ends(aborted: list[dict[str, int]]) -> Any:
    ends: dict[str, Any] = {"high_watermark": 9, "last_stable_offset": 8, "log_start_offset": 1}
    return part(0, aborted_transactions=aborted, **ends)


async def test_what_was_handed_out_stays_as_it_is() -> None:
    """It is memory of its answer, which no later answer touches."""
    async with rig() as (broker, fetcher):
        fetcher.assign(PLACE, 0)
        kept = []
        for number in range(20):
            fill(broker.logs["t"][0], b"%d" % number * 1000)
            while not (found := [each for each in await fetcher.next() if len(each.records)]):
                pass
            kept += found
        assert [value for each in kept for value in values_in(each)] == [b"%d" % n * 1000 for n in range(20)]
