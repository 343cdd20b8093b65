"""The asyncio side: answers, failures, waiting, merging in the background, closing."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.streamlog import world
from tests.streamlog.world import (
    DAY_MS,
    SETTINGS,
    FakeClock,
    SeededRandomness,
    batch_of,
    frame,
    fresh,
    made,
    produced,
    rows_of,
)
from tests.support.batches import produce
from tests.support.waiting import WAIT_SECONDS, a_quiet_while, in_time, until
from typing_extensions import Buffer

from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import Closed, Damaged, FairleadError, Fenced, StorageFull, StorageUnavailable
from fairlead.model.names import slice_of
from fairlead.model.settings import Settings
from fairlead.storage import names
from fairlead.storage.interface import Put, Storage
from fairlead.storage.local import LocalStorage
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.merging.job import MergeJob, MergeResult
from fairlead.streamlog.merging.runners import ThreadMerger
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.topics import create_topic, delete_topic, set_partitions
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import put_entry
from fairlead.streamlog.writing.gathering import GATHER_BYTES_MAX, GATHER_REQUESTS_MIN
from fairlead.streamlog.writing.shard import (
    PREPARED_ROWS_MIN,
    QUEUE_BYTES,
    SEAL_ON_THREAD_BYTES,
    Shard,
)
from fairlead.streamlog.writing.writer import COMMIT_ROWS_MAX, Announcement, Sealed, ShardLog

A, B = b"a" * 16, b"b" * 16


@pytest.fixture
async def executor() -> AsyncIterator[ThreadPoolExecutor]:
    """Two threads."""
    with ThreadPoolExecutor(2) as threads:
        yield threads


async def opened(
    storage: Storage,
    executor: ThreadPoolExecutor,
    stream_id: bytes = A,
    settings: Settings = SETTINGS,
    on_stop: Callable[[FairleadError], None] | None = None,
) -> Shard:
    """A shard on real clocks."""
    return await Shard.open(
        storage,
        "x",
        stream_id=stream_id,
        clock=SystemClock(),
        randomness=SystemRandomness(),
        executor=executor,
        settings=settings,
        on_stop=on_stop,
    )


async def test_a_failed_commit_answers_its_requests_and_the_shard_goes_on(executor: ThreadPoolExecutor) -> None:
    """ENOSPC: each caller gets the error, the next commit goes through."""
    storage = MemoryStorage()
    shard = await opened(storage, executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    storage.fail(Fault.FULL)
    with pytest.raises(StorageFull):
        await shard.submit(lambda d: produce(d, topic.number, 0, batch_of(b"1")))
    assert shard.stopped is None
    assert (await shard.submit(lambda d: produce(d, topic.number, 0, batch_of(b"2")))).base_offset == 0
    await shard.close()


async def test_a_duplicate_is_answered_no_sooner_than_its_batch(executor: ThreadPoolExecutor) -> None:
    """Both share a commit, which fails: "it is there already" would be a lie."""
    storage = MemoryStorage()
    shard = await opened(storage, executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    batch = batch_of(b"1", producer_id=5, epoch=0, sequence=0)
    storage.fail(Fault.FULL)
    sent = [shard.submit(lambda d: produce(d, topic.number, 0, batch)) for _ in range(2)]
    assert [type(answer) for answer in await asyncio.gather(*sent, return_exceptions=True)] == [StorageFull] * 2
    sent = [shard.submit(lambda d: produce(d, topic.number, 0, batch)) for _ in range(2)]
    assert [answer.duplicate for answer in await asyncio.gather(*sent)] == [False, True]
    await shard.close()


async def test_a_shard_that_stops_says_so_to_everybody(executor: ThreadPoolExecutor) -> None:
    """Those who wait, those who come, watchers, and whoever asked to be told."""
    storage = MemoryStorage()
    told: list[FairleadError] = []
    shard = await opened(storage, executor, on_stop=told.append)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    watch = shard.watch(topic.number, 0)
    for nth in range(1, 6):
        storage.fail(Fault.FAIL, nth=nth)
    calls = [shard.submit(lambda d: produce(d, topic.number, 0, batch_of(b"1"))) for _ in range(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, StorageUnavailable) for answer in answers)
    await asyncio.wait_for(watch.wait(), WAIT_SECONDS)
    with pytest.raises(StorageUnavailable):
        await shard.submit(lambda d: put_entry(d, "k", 1))
    assert told == [shard.stopped]
    await shard.close()


async def test_local_rows_wake_no_link(executor: ThreadPoolExecutor) -> None:
    """F7: the announcement says that there is nothing to send."""
    shard = await opened(MemoryStorage(), executor)
    heard: list[Announcement] = []
    shard.add_listener(heard.append)
    await shard.submit(lambda d: put_entry(d, "k", 1))
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    await shard.submit(lambda d: produce(d, topic.number, 0, batch_of(b"1")))
    assert [a.non_local for a in heard] == [False, True, True]
    assert [list(a.partitions) for a in heard] == [[], [], [(topic.number, 0)]]
    await shard.close()


async def test_a_deleted_topic_wakes_those_who_wait_for_it(executor: ThreadPoolExecutor) -> None:
    """A long poll does not hang on a topic that is gone."""
    shard = await opened(MemoryStorage(), executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships", 2))
    async with shard.watch(topic.number, 1) as watch:
        await shard.submit(lambda d: delete_topic(d, "ships"))
        await asyncio.wait_for(watch.wait(), WAIT_SECONDS)
    assert shard.watched == 0


async def test_a_watch_tells_that_the_topic_is_another(executor: ThreadPoolExecutor) -> None:
    """A new epoch, for example: a consumer must hear of it though no record comes."""
    shard = await opened(MemoryStorage(), executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships", 2))
    async with shard.watch(topic.number, 1) as watch:
        await shard.submit(lambda d: set_partitions(d, "ships", 3))
        await asyncio.wait_for(watch.wait(), WAIT_SECONDS)
    await shard.close()
    await shard.close()


async def test_closing_finishes_what_is_queued_and_refuses_what_comes(executor: ThreadPoolExecutor) -> None:
    """A clean stop loses nothing."""
    storage = MemoryStorage()
    shard = await opened(storage, executor)
    task = asyncio.ensure_future(shard.submit(lambda d: create_topic(d, "ships")))
    await asyncio.sleep(0)
    await shard.close()
    assert (await task).name == "ships"
    with pytest.raises(Closed):
        await shard.submit(lambda d: put_entry(d, "k", 1))


async def test_frames_whose_rows_are_only_on_disk_are_compared_there(executor: ThreadPoolExecutor) -> None:
    """The request waits at the head of the queue while the rows are loaded."""
    source = fresh(A)
    produced(source, made(source).number, b"1")
    f = frame(source, B, slice_of("ships"), 0)
    storage = MemoryStorage()
    shard = await opened(storage, executor, B)
    await shard.submit(lambda d: apply_frame(d, f))
    await shard.close()
    shard = await opened(storage, executor, B)
    answers = await asyncio.gather(*(shard.submit(lambda d: apply_frame(d, f)) for _ in range(3)))
    assert [answer.duplicates for answer in answers] == [1, 1, 1]
    await shard.close()


async def test_a_shard_merges_in_the_background(executor: ThreadPoolExecutor, tmp_path: Path) -> None:
    """In its own process on a directory; what was merged is read from segments, and the process ends with the shard."""
    storage = LocalStorage(tmp_path)
    settings = replace(SETTINGS, merge_interval_seconds=0.05, merge_commits_min=2, delete_grace_seconds=0.0)
    shard = await opened(storage, executor, settings=settings)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    merged = asyncio.Event()
    shard.announced.tail.forget = _noting(shard.announced.tail.forget, merged)  # type: ignore[method-assign]
    for value in (b"1", b"2", b"3"):
        await shard.submit(lambda d, v=value: produce(d, topic.number, 0, batch_of(v)))  # type: ignore[misc]
    await asyncio.wait_for(merged.wait(), WAIT_SECONDS)
    await shard.close()
    again = await opened(storage, executor)
    assert again.announced.manifest.segments
    assert len(again.reader.fetch(topic.number, 0, 0, 1 << 20).batches) == 3
    await again.close()


class _Unresting(ThreadMerger):
    """After each job there is another, or there is no room for any."""

    shard: Shard

    def __init__(self, storage: Storage, executor: ThreadPoolExecutor, room_for_jobs: int) -> None:
        super().__init__(storage, SystemRandomness(), executor)
        self._room_for_jobs = room_for_jobs
        self._jobs = 0

    async def run(self, job: MergeJob) -> MergeResult:
        if self._jobs == self._room_for_jobs:
            raise StorageFull("the disk", 0, 1)
        result = await super().run(job)
        self._jobs += 1
        await self.shard.submit(lambda d: put_entry(d, "k", self._jobs))
        return result


@pytest.mark.parametrize("room_for_jobs", [10**9, 1])
async def test_what_was_replaced_goes_whether_or_not_merging_rests(
    executor: ThreadPoolExecutor, room_for_jobs: int
) -> None:
    """Under load one job follows the other, and on a full disk none ends: both need what deletion frees."""
    storage = MemoryStorage()
    settings = replace(SETTINGS, merge_interval_seconds=0.01, merge_commits_min=1, delete_grace_seconds=0.0)
    log = ShardLog.open(
        storage, "x", stream_id=A, clock=SystemClock(), randomness=SystemRandomness(), settings=settings
    )
    merger = _Unresting(storage, executor, room_for_jobs)
    merger.shard = shard = Shard(log, executor, merger=merger)
    await shard.submit(lambda d: put_entry(d, "k", 0))
    first = log.announced.manifest.commit_name(0)
    await until(lambda: first not in storage.list("x/commit/"))
    await shard.close()


async def test_what_was_replaced_goes_though_no_row_can_be_written(executor: ThreadPoolExecutor) -> None:
    """The disk is full to the last byte, and the log must say that its clock has jumped: only what is deleted makes
    room for that."""
    storage, clock = MemoryStorage(), FakeClock()
    left = names.segment("x", b"1" * 16)
    settings = replace(SETTINGS, merge_interval_seconds=0.01, delete_grace_seconds=0.0)
    made(world.opened(storage, clock=clock))
    storage.put_if_absent(left, b"")
    log = world.opened(storage, clock=clock, settings=settings)
    shard = Shard(log, executor, merger=ThreadMerger(storage, SystemRandomness(), executor))

    def full(call: str, name: str) -> None:
        if call == "put":
            raise StorageFull("memory", 0, 0)

    storage.faults.hook = full
    shard.set_retention(ttl_ms=DAY_MS, producer_expiry_ms=DAY_MS)
    clock.wall += DAY_MS
    await until(lambda: left not in storage.list("x/segment/"))
    await shard.close()


async def test_merging_goes_on_while_tails_are_copied(executor: ThreadPoolExecutor) -> None:
    """That of a large topic takes hours."""
    settings = replace(SETTINGS, merge_interval_seconds=0.01, merge_commits_min=1)
    shard = await opened(MemoryStorage(), executor, settings=settings)
    copies = asyncio.Event()

    async def copy() -> None:
        copies.set()
        await asyncio.Event().wait()

    shard.copy_tails = copy
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    await shard.submit(lambda d: produce(d, topic.number, 0, batch_of(b"1")))
    await shard.submit(lambda d: cut(d, topic.number, 0, 0, "takeover", 9, b"k" * 16))
    async with in_time():
        await copies.wait()
    await shard.submit(lambda d: put_entry(d, "k", 1))
    await until(lambda: shard.announced.unmerged_commits == 0)
    await shard.close()


async def test_what_a_merge_puts_is_put_before_the_shard_is_closed(executor: ThreadPoolExecutor) -> None:
    """A manifest that is put later would be of a stream that was deleted meanwhile, and nobody would remove it."""
    storage = MemoryStorage()
    shard = await opened(
        storage, executor, settings=replace(SETTINGS, merge_interval_seconds=0.01, merge_commits_min=1)
    )
    begun, go_on = threading.Event(), threading.Event()

    def wait(call: str, name: str) -> None:
        if call == "put" and "/manifest/" in name:
            begun.set()
            go_on.wait(WAIT_SECONDS)

    storage.faults.hook = wait
    await shard.submit(lambda d: put_entry(d, "k", 1))
    await until(begun.is_set)
    closing = asyncio.create_task(shard.close())
    await a_quiet_while()
    assert not closing.done()
    before = list(storage.list("x/manifest/"))
    go_on.set()
    await closing
    assert len(list(storage.list("x/manifest/"))) == len(before) + 1


def _noting(method, event: asyncio.Event):  # type: ignore[no-untyped-def]
    def noting(*args: int) -> Iterator[None]:
        yield from method(*args)
        event.set()

    return noting


async def test_damage_that_a_reader_finds_stops_the_shard_for_everybody(executor: ThreadPoolExecutor) -> None:
    """A fetch on a thread finds a bad batch: waiters wake, producers are refused by name."""
    storage = MemoryStorage()
    shard = await opened(storage, executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    await shard.submit(lambda d: produce(d, topic.number, 0, batch_of(b"1" * 100)))
    await shard.close()
    told: list[FairleadError] = []
    shard = await opened(storage, executor, on_stop=told.append)
    for name in list(storage.list("x/commit/")):
        storage.damage(name, lambda data: data.replace(b"1" * 50, b"2" * 50))
    async with shard.watch(topic.number, 0) as watch:
        with pytest.raises(Damaged):
            await asyncio.get_running_loop().run_in_executor(executor, shard.reader.fetch, topic.number, 0, 0, 1000)
        await asyncio.wait_for(watch.wait(), WAIT_SECONDS)
    with pytest.raises(Damaged, match="commit"):
        await shard.submit(lambda d: put_entry(d, "k", 1))
    assert told == [shard.stopped]
    await shard.close()


class _Waits(ThreadMerger):
    """Does no job before it is let."""

    def __init__(self, storage: Storage, executor: ThreadPoolExecutor) -> None:
        super().__init__(storage, SystemRandomness(), executor)
        self.let = asyncio.Event()

    async def run(self, job: MergeJob) -> MergeResult:
        await self.let.wait()
        return await super().run(job)


async def test_a_shard_that_was_taken_over_stops_at_its_next_merge(executor: ThreadPoolExecutor) -> None:
    """Also where nobody writes to it any more; whoever waits for its records is told. One with nothing to merge learns
    it when somebody writes."""
    storage = MemoryStorage()
    settings = replace(SETTINGS, merge_interval_seconds=0.01, merge_commits_min=1)
    log = ShardLog.open(
        storage, "x", stream_id=A, clock=SystemClock(), randomness=SystemRandomness(), settings=settings
    )
    merger = _Waits(storage, executor)
    shard = Shard(log, executor, merger=merger)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    await shard.submit(lambda d: produce(d, topic.number, 0, batch_of(b"1")))
    other = await opened(storage, executor)
    async with shard.watch(topic.number, 0) as watch:
        merger.let.set()
        await asyncio.wait_for(watch.wait(), WAIT_SECONDS)
    assert isinstance(shard.stopped, Fenced)
    await shard.close()
    await other.close()


async def test_large_requests_are_evaluated_beside_the_loop(executor: ThreadPoolExecutor) -> None:
    """A frame of megabytes takes its time on a thread; order and answers are the same."""
    shard = await opened(MemoryStorage(), executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    batch = batch_of(b"x" * 700_000)
    calls = [shard.submit(lambda d: produce(d, topic.number, 0, batch), len(batch)) for _ in range(9)]
    assert [result.base_offset for result in await asyncio.gather(*calls)] == list(range(9))
    await shard.close()


@pytest.mark.parametrize("fault", [None, Fault.FULL])
async def test_a_large_commit_is_prepared_while_it_is_written(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, fault: Fault | None
) -> None:
    """What readers will find is made then; nobody sees it before the outcome is known, or if that is bad."""
    prepared = threading.Event()
    seen: list[tuple[bool, int]] = []
    prepare = ShardLog.prepare

    def noted(log: ShardLog, sealed: Sealed) -> None:
        prepare(log, sealed)
        prepared.set()

    class Waiting(MemoryStorage):
        def put_if_absent(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
            if is_large:
                seen.append((prepared.wait(WAIT_SECONDS), found()))
            return super().put_if_absent(name, data)

    def found() -> int:
        return len(shard.announced.tail.entries(*key)) + len(shard.announced.recent.find(*key, 0)[0])

    def many(draft: Draft) -> None:
        for _ in range(PREPARED_ROWS_MIN):
            produce(draft, key[0], key[1], batch_of(b"v"))

    monkeypatch.setattr(ShardLog, "prepare", noted)
    is_large = False
    storage = Waiting()
    shard = await opened(storage, executor)
    key = (await shard.submit(lambda d: create_topic(d, "ships"))).number, 0
    assert not prepared.is_set()
    is_large = True
    if fault is not None:
        storage.fail(fault)
    answers = await asyncio.gather(shard.submit(many), return_exceptions=True)
    assert seen == [(True, 0)]
    assert [type(answer) for answer in answers] == [type(None) if fault is None else StorageFull]
    assert found() == (2 * PREPARED_ROWS_MIN if fault is None else 0)
    await shard.close()


async def test_requests_take_effect_in_the_order_of_their_calls(executor: ThreadPoolExecutor) -> None:
    """Also those that come while a commit is evaluated or written: batches of one producer keep their order."""
    shard = await opened(MemoryStorage(), executor)
    order: list[str] = []
    late: list[asyncio.Future[None]] = []

    def first(draft: Draft) -> None:
        order.append("first")
        put_entry(draft, "k", 1)
        late.append(shard.submit(lambda _: order.append("newcomer")))

    await asyncio.gather(shard.submit(first), shard.submit(lambda _: order.append("waiting")))
    await late[0]
    assert order == ["first", "waiting", "newcomer"]
    await shard.close()


async def test_many_small_requests_are_gathered_as_the_last_ones_were(executor: ThreadPoolExecutor) -> None:
    """A commit costs more than a request. It waits for as many as the one before had, or for a few milliseconds."""
    shard = await opened(MemoryStorage(), executor)
    values = itertools.count()

    async def commits(*groups: int) -> int:
        before, sent = shard.announced.end, []
        for group in groups:
            sent += [shard.submit(lambda d: put_entry(d, "k", next(values)), 100) for _ in range(group)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.gather(*sent)
        return shard.announced.end - before

    assert await commits(1, 1) == 2
    assert await commits(GATHER_REQUESTS_MIN) == 1
    assert await commits(3, GATHER_REQUESTS_MIN - 3) == 1
    assert await commits(1) == 1
    assert await commits(1, 1) == 2
    await shard.close()


@pytest.mark.parametrize("producers", [1, 8])
async def test_what_java_producers_have_under_way_is_one_commit(executor: ThreadPoolExecutor, producers: int) -> None:
    """Five requests of 16 KB each. Commits of one and of four in turn cost half as much again."""
    shard = await opened(MemoryStorage(), executor)
    values = itertools.count()

    def sent(count: int) -> list[asyncio.Future[None]]:
        return [shard.submit(lambda d: put_entry(d, "k", next(values)), 16 * 1024) for _ in range(count)]

    await asyncio.gather(*sent(4 * producers))
    before, first = shard.announced.end, sent(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.gather(*first, *sent(4 * producers - 1))
    assert shard.announced.end - before == 1
    await shard.close()


async def test_few_requests_are_not_waited_for_long(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait in which as many come by themselves would never end: at 1,000 requests a second each waited for 3 ms. For
    a few lone records none waits."""
    shard = await opened(MemoryStorage(), executor)
    values, waits = itertools.count(), list[float]()
    loop = asyncio.get_running_loop()
    real = loop.call_later

    def noting(delay: float, *given: Any) -> asyncio.TimerHandle:
        if delay < 1:  # its upkeep waits for longer
            waits.append(delay)
        return real(delay, *given)

    monkeypatch.setattr(loop, "call_later", noting)
    for count, size in ((4, 1000), (4, 16 * 1024), (100, 1000)):
        for batch in (count, 1):
            sent = (shard.submit(lambda d: put_entry(d, "k", next(values)), size) for _ in range(batch))
            await asyncio.gather(*sent)
    assert [1000 * wait for wait in waits] == [pytest.approx(1.5), pytest.approx(3)]
    await shard.close()


async def test_large_requests_are_not_gathered(executor: ThreadPoolExecutor) -> None:
    """Each is worth a commit."""
    shard = await opened(MemoryStorage(), executor)
    values = itertools.count()
    size_bytes = GATHER_BYTES_MAX // GATHER_REQUESTS_MIN + 1
    many = [shard.submit(lambda d: put_entry(d, "k", next(values)), size_bytes) for _ in range(GATHER_REQUESTS_MIN)]
    await asyncio.gather(*many)
    before = shard.announced.end
    first = shard.submit(lambda d: put_entry(d, "k", next(values)), size_bytes)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = shard.submit(lambda d: put_entry(d, "k", next(values)), size_bytes)
    await asyncio.gather(first, second)
    assert shard.announced.end - before == 2
    await shard.close()


async def test_what_nobody_waits_for_is_dropped_when_too_much_waits(executor: ThreadPoolExecutor) -> None:
    """Clients of a disk that is stuck time out and send again; what others still wait for stays, in its order."""
    shard = await opened(MemoryStorage(), executor)
    done: list[str] = []

    def submit(name: str, size_bytes: int) -> asyncio.Future[None]:
        return shard.submit(lambda _: done.append(name), size_bytes)

    first, given_up, kept = submit("first", 1), submit("given up", QUEUE_BYTES - 2), submit("kept", 1)
    given_up.cancel()
    last = submit("last", 2)
    await asyncio.gather(first, kept, last)
    assert done == ["first", "kept", "last"]
    await shard.submit(lambda _: done.append("more"), QUEUE_BYTES)
    assert done[-1] == "more"
    await shard.close()


async def test_a_shard_that_stops_while_it_writes_answers_all_that_wait(executor: ThreadPoolExecutor) -> None:
    """Those of the commit by its outcome, those behind it by the reason."""
    settings = replace(SETTINGS, commit_bytes_max=1000)
    log = fresh(A, settings=settings)
    shard = Shard(log, executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    batch = batch_of(b"x" * 600)
    calls = [shard.submit(lambda d: produce(d, topic.number, 0, batch), SEAL_ON_THREAD_BYTES) for _ in range(9)]
    await asyncio.sleep(0)
    log.health.stop(Damaged("x", "it is broken"))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes[-5:]] == [Damaged] * 5
    with pytest.raises(Damaged):
        await shard.submit(lambda d: put_entry(d, "k", 1))
    await shard.close()


async def test_a_request_that_would_make_a_commit_too_large_begins_the_next(executor: ThreadPoolExecutor) -> None:
    """A commit goes over a link in one frame; one request that is larger than that is a commit all the same."""
    shard = await opened(MemoryStorage(), executor, settings=replace(SETTINGS, commit_bytes_max=1000))
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    first = shard.announced.end
    batch = batch_of(b"x")
    sizes = [600, 600, 400, 1, 5000, 1000]
    await asyncio.gather(*(shard.submit(lambda d: produce(d, topic.number, 0, batch), size) for size in sizes))
    assert [row.commit - first for row in rows_of(shard, first)] == [0, 1, 1, 2, 3, 4]
    await shard.close()


async def test_more_requests_than_a_commit_takes_are_all_answered(executor: ThreadPoolExecutor) -> None:
    """In the order of their calls, however many commits they need."""
    shard = await opened(MemoryStorage(), executor)
    topic = await shard.submit(lambda d: create_topic(d, "ships"))
    batch = batch_of(b"x")
    count = 2 * COMMIT_ROWS_MAX + 1
    calls = [shard.submit(lambda d: produce(d, topic.number, 0, batch), len(batch)) for _ in range(count)]
    assert [result.base_offset for result in await asyncio.gather(*calls)] == list(range(count))
    await shard.close()


def test_clocks_and_ids_are_handed_in() -> None:
    """The same seed and clock make the same log."""
    first, second = (fresh(A, clock=FakeClock()) for _ in range(2))
    for log in (first, second):
        produced(log, made(log).number, b"1")
    assert first.announced.storage.snapshot() == second.announced.storage.snapshot()  # type: ignore[attr-defined]
    assert SeededRandomness(1).id16() == SeededRandomness(1).id16()
