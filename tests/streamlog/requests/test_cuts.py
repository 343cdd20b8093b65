"""Cutting a partition's log: what stands from an offset on is dead, and nobody sees it again."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from tests.streamlog.merging.test_survivors import replayed, tables
from tests.streamlog.world import (
    FakeClock,
    SeededRandomness,
    batch_of,
    committed,
    fresh,
    installed,
    made,
    opened,
    produced,
    values_at,
)
from tests.support.batches import produce
from tests.support.waiting import in_time

from fairlead.model.errors import OffsetOutOfRange, UnknownPartition, UnknownTopic
from fairlead.protocol.batch import read_header
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.payloads import FORGOTTEN_MAX, StartPayload
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.topics import create_topic, put_topic
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.values import NotLoaded, PartitionState
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.topic_expiry import Expired, expire
from fairlead.streamlog.writing.writer import ShardLog

A = b"a" * 16
K = b"k" * 16


def in_epoch(log: ShardLog, number: int, epoch: int) -> None:
    """Records of the topic get this epoch from now on."""
    topic = log.announced.state.topic(number)
    assert topic is not None
    states = [log.announced.state.partition(number, partition) for partition in range(topic.partitions)]
    since = tuple((state.end, state.history) for state in states)
    changed = topic._replace(epoch=epoch, version=topic.version + 1, since=since)
    committed(log, lambda d: put_topic(d, changed, A, None))


def cut_at(log: ShardLog, number: int, offset: int, keep: bytes | None = None, *, partition: int = 0) -> int:
    """The partition is cut in a commit of its own; where it ends then."""
    answer = committed(log, lambda d: cut(d, number, partition, offset, "ownership", 9, keep))[0].result()
    assert isinstance(answer, int)
    return answer


def state_of(log: ShardLog, number: int) -> PartitionState:
    """Where partition 0 stands."""
    return log.announced.state.partition(number, 0)


def again_opened(log: ShardLog) -> ShardLog:
    """A copy of the log, opened."""
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    copy = MemoryStorage()
    copy.replace(storage.snapshot())
    return opened(copy, A)


def merged(log: ShardLog) -> ShardLog:
    """The same log in segments, opened anew."""
    log = opened(log.announced.storage, A, settings=replace(log.settings, merge_commits_min=1))
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))
    return log


def test_history_cut_to_one_epoch_and_to_none() -> None:
    """What a consumer that was in a cut epoch is told follows from what is left, after a restart too."""
    log = fresh(A)
    number = made(log).number
    for epoch in (0, 3, 7):
        if epoch:
            in_epoch(log, number, epoch)
        produced(log, number, b"1", b"2")
    assert state_of(log, number).history == ((0, 0), (3, 2), (7, 4))
    assert cut_at(log, number, 4) == 4
    assert state_of(log, number) == PartitionState(0, 4, 3, ((0, 0), (3, 2)))
    assert state_of(log, number).end_of_epoch(7, 3) == (3, 4)
    assert cut_at(log, number, 2) == 2
    assert state_of(log, number) == PartitionState(0, 2, 0, ((0, 0),))
    assert replayed(log) == tables(log)
    assert cut_at(log, number, 0) == 0
    assert state_of(log, number) == PartitionState(0, 0, -1, ())
    assert replayed(log) == tables(log)


def test_a_log_that_ends_at_the_cut_or_below_is_left_as_it_is() -> None:
    """No row is written, so a hand-over without a tail costs nothing."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"1")
    end = log.announced.end
    assert cut_at(log, number, 1) == 1
    assert cut_at(log, number, 5) == 1
    assert log.announced.end == end


def test_a_log_that_begins_above_the_cut_is_empty_there() -> None:
    """Start, end and history are those of the owner's log, whatever had expired here."""
    log = fresh(A)
    number = made(log).number
    payload = StartPayload("ttl", 8, ((0, 0), (2, 6)))
    committed(log, lambda d: d.add_control(Kind.START, payload, number=number, partition=0, base_offset=8))
    in_epoch(log, number, 2)
    produced(log, number, b"8")
    assert cut_at(log, number, 5) == 5
    assert state_of(log, number) == PartitionState(5, 5, 0, ((0, 0),))
    assert replayed(log) == tables(log)


def test_a_log_that_holds_nothing_keeps_nothing() -> None:
    """All of it has expired: there is nothing to be copied, and the cut waits for no copy."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"0")
    produced(log, number, b"1")
    committed(log, lambda d: expire(d, [Expired(number, 0, 2)]))
    assert cut_at(log, number, 1, K) == 1
    (found,) = log.announced.state.cuts_of(number, 0)
    assert found.keep is None
    assert not log.announced.state.kept_partitions


def test_a_batch_and_a_gap_are_cut_as_a_whole() -> None:
    """What stands at an offset begins there; the rest of it comes from the new owner."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"0", b"1", b"2")
    payload = StartPayload("ttl", 9, ((0, 0),), gap_from=3)
    committed(log, lambda d: d.add_control(Kind.START, payload, number=number, partition=0, base_offset=9))
    produced(log, number, b"9")
    assert cut_at(log, number, 5) == 3
    assert log.announced.state.gaps() == []
    log = opened(log.announced.storage, A)
    assert cut_at(log, number, 1) == 0


def test_a_cut_in_a_draft_sees_what_the_draft_has_added() -> None:
    """Batches and gaps that one commit brings and cuts are forgotten by the draft, and by whoever reads later."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"0")
    seen: list[object] = []

    def request(draft: Draft) -> None:
        produce(draft, number, 0, batch_of(b"1"))
        payload = StartPayload("ttl", 6, ((0, 0),), gap_from=2)
        draft.add_control(Kind.START, payload, number=number, partition=0, base_offset=6)
        produce(draft, number, 0, batch_of(b"6"))
        assert cut(draft, number, 0, 4, "ownership", 9, None) == 2
        assert cut(draft, number, 0, 1, "ownership", 9, None) == 1
        seen.append(draft.stored_at(number, 0, 1))
        produce(draft, number, 0, batch_of(b"one"))
        stored = draft.stored_at(number, 0, 1)
        seen.append(stored is not None and stored.base_offset)

    committed(log, request)
    assert seen == [None, 1]
    assert values_at(log, number) == {0: b"0", 1: b"one"}
    assert replayed(log) == tables(log)


def test_a_gap_that_a_draft_declares_over_dead_rows_holds_none_of_them() -> None:
    """The log itself knows nothing of the cut as long as the commit is not durable."""
    log = fresh(A)
    number = made(log).number
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    seen: list[object] = []

    def request(draft: Draft) -> None:
        cut(draft, number, 0, 1, "takeover", 9, None)
        payload = StartPayload("ttl", 3, ((0, 0),), gap_from=1)
        draft.add_control(Kind.START, payload, number=number, partition=0, base_offset=3)
        seen.extend((draft.stored_at(number, 0, 0) is not None, draft.stored_at(number, 0, 1)))

    committed(log, request)
    assert seen == [True, None]


def test_rows_before_and_after_a_cut_are_replayed_from_one_segment() -> None:
    """Of neighbouring rows only the last of a partition is replayed; a cut comes between."""
    log = fresh(A)
    number = made(log).number
    for value in (b"0", b"1", b"2", b"3"):
        produced(log, number, value)
    cut_at(log, number, 3)
    produced(log, number, b"three")
    assert replayed(merged(again_opened(log))) == tables(log)


def test_the_newest_cut_is_known_from_a_checkpoint_too() -> None:
    """What a group knew of cuts when its generation began is compared with it."""
    log = fresh(A)
    number = made(log).number
    assert log.announced.state.cuts_end == 0
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    cut_at(log, number, 1)
    end = log.announced.end
    produced(log, number, b"one")
    state = snapshot.load(A, *snapshot.dump(log.announced.state))
    assert [found.cuts_end for found in (log.announced.state, state)] == [end, end]


def test_a_lower_cut_after_a_higher_one_leaves_the_start_where_it_was() -> None:
    """A merge drops what the lower one made dead, so the log does not reach the higher one any more when it is
    replayed: what is below both must still be there."""
    log = fresh(A)
    number = made(log).number
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    cut_at(log, number, 2)
    cut_at(log, number, 1)
    again = merged(again_opened(log))
    assert (replayed(again), values_at(again, number)) == (tables(log), {0: b"0"})


def with_producers(log: ShardLog, number: int, *batches: tuple[int, int, int], partition: int = 0) -> None:
    """A batch of one record for each (producer, epoch, sequence), in commits of their own."""
    for producer_id, epoch, sequence in batches:
        batch = batch_of(b"x", producer_id=producer_id, epoch=epoch, sequence=sequence)
        committed(log, partial(produce, number=number, partition=partition, batch=batch))


def known_producers(log: ShardLog, number: int, partition: int = 0) -> dict[int, tuple[int, ...]]:
    """The first offsets of the batches that are remembered of each producer."""
    items = log.announced.state.producers.items()
    return {
        key[2]: tuple(batch.base_offset for batch in state.batches)
        for key, state in items
        if key[:2] == (number, partition)
    }


def test_a_cut_forgets_the_producers_whose_newest_batch_is_dead() -> None:
    """So their next batch is judged by no record that is dead, while one whose batches all stand is still answered by
    where they stand. A merge that drops the dead batches says the same, though 7 has a batch below the cut."""
    log = fresh(A)
    number = made(log, partitions=2).number
    with_producers(log, number, (7, 0, 0), (8, 0, 0), (7, 1, 0), (9, 0, 0))
    with_producers(log, number, (7, 0, 0), partition=1)
    state = log.announced.state

    def request(draft: Draft) -> None:
        produce(draft, number, 0, batch_of(b"x", producer_id=6, epoch=0, sequence=0))
        produce(draft, number, 0, batch_of(b"x", producer_id=5, epoch=0, sequence=0))
        cut(draft, number, 0, 2, "ownership", 9, None)
        assert [draft.state.producer(number, 0, each) is None for each in (5, 6, 7, 8, 9)] == [True] * 3 + [False, True]
        assert draft.state.producer(number, 1, 7) is not None
        again = batch_of(b"x", producer_id=8, epoch=0, sequence=0)
        assert produce(draft, number, 0, again).base_offset == 1
        produce(draft, number, 0, batch_of(b"x", producer_id=5, epoch=0, sequence=3))

    committed(log, request)
    assert (known_producers(log, number), known_producers(log, number, 1)) == ({8: (1,), 5: (2,)}, {7: (0,)})
    assert state.producer(number, 0, 9) is None
    assert replayed(log) == tables(log)
    assert replayed(merged(again_opened(log))) == tables(log)


def test_a_cut_that_makes_batches_of_many_producers_dead_forgets_all() -> None:
    """Their ids would be a row as large as the tail."""
    log = fresh(A)
    number = made(log).number
    with_producers(log, number, *[(producer, 0, 0) for producer in range(FORGOTTEN_MAX + 2)])
    cut_at(log, number, 2)
    assert known_producers(log, number) == {0: (0,), 1: (1,)}
    with_producers(log, number, (500, 0, 0))
    cut_at(log, number, 1)
    assert known_producers(log, number) == {0: (0,)}
    with_producers(log, number, *[(producer, 0, 0) for producer in range(1, FORGOTTEN_MAX + 2)])
    cut_at(log, number, 1)
    assert known_producers(log, number) == {}
    assert replayed(log) == tables(log)
    assert replayed(merged(again_opened(log))) == tables(log)


def test_deleted_records_of_a_cut_tail_hide_nothing_that_comes_in_its_place() -> None:
    """The old owner deleted its own records up to 5; those that the new one gives from 3 on are others."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, *[b"old"] * 6)
    payload = StartPayload("deleted-records", 6, ((0, 0),), deleted_to=5)
    committed(log, lambda d: d.add_control(Kind.START, payload, number=number, partition=0, base_offset=0))
    assert state_of(log, number).log_start == 5
    assert cut_at(log, number, 0) == 0
    produced(log, number, b"new")
    assert values_at(log, number) == {0: b"new"}
    assert replayed(log) == tables(log)


@pytest.mark.parametrize("where", ["memory", "commits", "segments"])
def test_cut_invalidates_recent_tail_stored_and_read_ahead(where: str) -> None:
    """Whatever is remembered of a dead row is not served: by memory, the index, look-ups, or reading ahead."""
    log = fresh(A)
    number = made(log).number
    for value in (b"a", b"b", b"c", b"d"):
        produced(log, number, value)
    if where != "memory":
        log = merged(log) if where == "segments" else opened(log.announced.storage, A)
    reader = log.reader
    fetched = reader.fetch(number, 0, 0, 100)
    job = reader.ahead(number, 0, fetched, 1000)
    assert job is not None
    job()
    if where != "memory":
        with pytest.raises(NotLoaded):
            reader.find_stored(number, 0, 2)
        reader.load_stored([(number, 0, 2)])
    before = reader.find_stored(number, 0, 2)
    assert before is not None
    assert cut_at(log, number, 1, K) == 1
    assert values_at(log, number) == {0: b"a"}
    produced(log, number, b"B1", b"B2", b"B3")
    with pytest.raises(OffsetOutOfRange):
        reader.fetch(number, 0, 5, 100)
    assert values_at(log, number) == {0: b"a", 1: b"B1", 2: b"B2", 3: b"B3"}
    log.announced.recent.close()
    (batch,) = reader.fetch(number, 0, 1, 1000).batches
    assert read_header(batch).last_offset == 3, "not what was read ahead"
    with pytest.raises(NotLoaded):
        reader.find_stored(number, 0, 2)
    reader.load_stored([(number, 0, 2)])
    after = reader.find_stored(number, 0, 2)
    assert after is not None
    assert (after.base_offset, after.last_offset) == (1, 3)
    for again in (again_opened(log), merged(again_opened(log))):
        assert values_at(again, number) == {0: b"a", 1: b"B1", 2: b"B2", 3: b"B3"}


def test_look_ups_by_time_and_the_newest_pass_over_dead_rows() -> None:
    """ListOffsets answers from what can be fetched."""
    log = fresh(A)
    number = made(log).number
    for value in (b"a", b"b", b"c"):
        produced(log, number, value)
    cut_at(log, number, 1, K)
    for each in (log, merged(again_opened(log))):
        assert each.reader.offset_for_time(number, 0, 0) is not None
        newest = each.reader.offset_of_newest(number, 0)
        assert newest is not None
        assert newest[0] == 0
        assert each.reader.time_at(number, 0, 1) is None


async def test_whoever_waits_for_a_partition_hears_of_a_cut() -> None:
    """A consumer in the dead tail is told at once, not when its poll ends."""
    with ThreadPoolExecutor(1) as executor:
        shard = await Shard.open(
            MemoryStorage(), "x", stream_id=A, clock=FakeClock(), randomness=SeededRandomness(1), executor=executor
        )
        topic = (await shard.submit(lambda d: create_topic(d, "ships"))).number
        await shard.submit(lambda d: produce(d, topic, 0, batch_of(b"1")))
        async with shard.watch(topic, 0) as watch:
            waiting = asyncio.ensure_future(watch.wait())
            await shard.submit(lambda d: cut(d, topic, 0, 0, "ownership", 9, None))
            async with in_time():
                await waiting
        await shard.close()


def test_only_a_partition_that_exists_is_cut() -> None:
    """Errors name what is not there."""
    log = fresh(A)
    number = made(log).number
    with pytest.raises(UnknownPartition):
        cut_at(log, number, 0, partition=3)
    with pytest.raises(UnknownTopic):
        cut_at(log, number + 16, 0)
