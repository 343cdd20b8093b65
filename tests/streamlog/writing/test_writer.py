"""The writer: fences, failed and unknown puts, what is acknowledged when (F1, F2, F5, F8, S1, S14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.streamlog.world import (
    SETTINGS,
    FakeClock,
    SeededRandomness,
    applied,
    batch_of,
    committed,
    frame,
    fresh,
    installed,
    made,
    opened,
    produced,
    replicated,
    rows_of,
    values_at,
)
from tests.support.batches import produce

from fairlead.model.errors import (
    BadRequest,
    Damaged,
    Fenced,
    NotOwner,
    OutOfOrderSequence,
    StaleProducerEpoch,
    StorageFull,
    StorageUnavailable,
    UnknownPartition,
    UnknownTopic,
)
from fairlead.model.names import slice_of
from fairlead.storage import names
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.requests.cursors import commit_cursor, delete_cursor
from fairlead.streamlog.requests.topics import create_topic, delete_topic
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import RowKey, epoch_before
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import delete_entry, put_entry
from fairlead.streamlog.writing.writer import ShardLog

A = b"a" * 16


def memory(log: ShardLog) -> MemoryStorage:
    """The storage below a log."""
    assert isinstance(log.announced.storage, MemoryStorage)
    return log.announced.storage


def test_what_was_looked_up_on_disk_is_known_no_longer_than_until_its_request_has_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A link that brings again what is here asks for each batch once; a million of them took 440 MB, of each log."""
    source, storage = fresh(A), MemoryStorage()
    produced(source, made(source).number, b"1")
    replicated(source, opened(storage, b"b" * 16))
    replica = opened(storage, b"b" * 16)
    looked_up: list[int] = []
    load = replica.reader.load_stored

    def noting(keys: Sequence[RowKey]) -> None:
        looked_up.append(len(keys))
        load(keys)

    monkeypatch.setattr(replica.reader, "load_stored", noting)
    for times in (1, 2):
        (outcome,) = applied(replica, frame(source, b"b" * 16, slice_of("ships"), 0))
        assert outcome.duplicates == 1
        assert looked_up == [1] * times


def test_a_writer_that_slept_through_a_takeover_is_fenced_and_its_commit_read_by_nobody() -> None:
    """F1, step by step: W1 sleeps before its put of 10; W2 opens, writes, merges, deletes; W1 goes on."""
    clock = FakeClock()
    w1 = fresh(A, clock=clock)
    number = made(w1).number
    produced(w1, number, b"1")
    zombie = w1.seal([lambda d: produce(d, number, 0, batch_of(b"zombie"))])
    w2 = opened(
        w1.announced.storage, A, clock=clock, settings=replace(SETTINGS, merge_commits_min=1, delete_grace_seconds=0.0)
    )
    assert produced(w2, number, b"2").base_offset == 1
    job = w2.upkeep.plan()
    assert job is not None
    installed(w2, run_job.run(w2.announced.storage, SeededRandomness(77), job))
    w2.upkeep.sweep(w2.upkeep.take_due())
    with pytest.raises(Fenced):
        w1.write(zombie)
    expected = {0: b"1", 1: b"2"}
    assert values_at(w2, number) == expected
    w3 = opened(w1.announced.storage, A, clock=clock)
    assert values_at(w3, number) == expected
    assert produced(w3, number, b"3").base_offset == 2


def test_a_put_that_lands_between_claim_and_listing_counts_and_stops_nobody() -> None:
    """F1, the other trap: W1's commit counts for W2, though it is not acknowledged to W1's producer."""
    w1 = fresh(A)
    number = made(w1).number
    sealed = w1.seal([lambda d: produce(d, number, 0, batch_of(b"1"))])
    storage = memory(w1)
    taken: list[ShardLog] = []

    def takeover(call: str, name: str) -> None:
        if call == "size":
            storage.faults.hook = None
            taken.append(opened(storage, A))

    storage.faults.hook = takeover
    with pytest.raises(Fenced):
        w1.write(sealed)
    assert values_at(taken[0], number) == {0: b"1"}
    assert produced(taken[0], number, b"2").base_offset == 1


def test_a_failed_commit_changes_nothing_and_its_number_is_used_by_the_next() -> None:
    """S1: ENOSPC certainly wrote nothing."""
    log = fresh(A)
    number = made(log).number
    memory(log).fail(Fault.FULL)
    with pytest.raises(StorageFull):
        produced(log, number, b"lost")
    assert log.announced.state.partition(number, 0).end == 0
    assert produced(log, number, b"1").base_offset == 0
    assert values_at(opened(log.announced.storage), number) == {0: b"1"}


@pytest.mark.parametrize("fault", [Fault.UNKNOWN_LANDED, Fault.UNKNOWN_LATE, Fault.UNKNOWN_LOST, Fault.FAIL])
def test_an_unknown_outcome_is_resolved_by_putting_the_same_bytes_again(fault: Fault) -> None:
    """S1: never skipped; it survives a power failure after the acknowledgement."""
    log = fresh(A)
    number = made(log).number
    memory(log).fail(fault)
    produced(log, number, b"1")
    memory(log).crash()
    assert values_at(opened(log.announced.storage), number) == {0: b"1"}


def test_an_outcome_that_stays_unknown_stops_the_shard() -> None:
    """S1: the next call is refused with the same error; a later start finds out what counts."""
    log = fresh(A)
    number = made(log).number
    for nth in range(1, 6):
        memory(log).fail(Fault.UNKNOWN_LATE, nth=nth)
    with pytest.raises(StorageUnavailable):
        produced(log, number, b"1")
    with pytest.raises(StorageUnavailable):
        log.seal([])
    again = opened(log.announced.storage)
    memory(log).land()
    assert produced(again, number, b"2").base_offset == 0
    assert values_at(opened(log.announced.storage), number) == {0: b"2"}


def test_no_space_after_an_unknown_outcome_stops_the_shard() -> None:
    """The number is not free: the first attempt may still land."""
    log = fresh(A)
    number = made(log).number
    memory(log).fail(Fault.UNKNOWN_LATE, nth=1)
    for nth in range(2, 6):
        memory(log).fail(Fault.FULL, nth=nth)
    with pytest.raises(StorageUnavailable):
        produced(log, number, b"1")
    assert log.health.stopped is not None


def test_a_request_that_raises_leaves_no_row_and_others_go_on() -> None:
    """Also one that raises after it has added rows."""
    log = fresh(A)

    def half(draft: Draft) -> None:
        create_topic(draft, "half")
        raise BadRequest("changed my mind")

    first, second, third = committed(
        log, lambda d: create_topic(d, "one"), half, lambda d: (d.state.by_name("half"), d.state.by_name("one"))
    )
    assert first.error is None
    assert isinstance(second.error, BadRequest)
    assert third.result()[0] is None
    assert third.result()[1].name == "one"
    assert [row.kind for row in rows_of(log)] == [Kind.TOPIC]


def test_requests_see_the_rows_before_them_in_the_same_commit() -> None:
    """Create and produce in one commit."""
    log = fresh(A)
    number = (
        committed(
            log,
            lambda d: create_topic(d, "ships"),
            lambda d: produce(d, d.state.by_name("ships").number, 0, batch_of(b"1")),  # type: ignore[union-attr]
            lambda d: produce(d, d.state.by_name("ships").number, 0, batch_of(b"2")),  # type: ignore[union-attr]
        )[0]
        .result()
        .number
    )
    assert log.announced.end == 1
    assert values_at(log, number) == {0: b"1", 1: b"2"}


def test_a_commit_is_closed_at_its_size() -> None:
    """At least one request, and as many as `commit_bytes_max` allows."""
    log = fresh(A, settings=replace(SETTINGS, commit_bytes_max=1000))
    number = made(log).number
    committed(log, *[lambda d: produce(d, number, 0, batch_of(b"x" * 600))] * 5)
    assert log.announced.end == 1 + 3
    assert len(values_at(log, number)) == 5


def test_nothing_to_write_makes_no_commit() -> None:
    """A cursor that does not move, an entry that is the same, a deletion of nothing (S9d)."""
    log = fresh(A)
    number = made(log).number
    committed(log, lambda d: commit_cursor(d, "g", number, 0, 5), lambda d: put_entry(d, "k", [1]))
    end = log.announced.end
    committed(
        log,
        lambda d: commit_cursor(d, "g", number, 0, 5),
        lambda d: put_entry(d, "k", [1]),
        lambda d: delete_cursor(d, "other", number, 0),
        lambda d: delete_entry(d, "none"),
    )
    assert log.announced.end == end


def test_a_reserve_is_kept_for_control_rows() -> None:
    """F5d: batches are refused, a topic can be deleted; when space returns producing goes on."""
    clock = FakeClock()
    storage = MemoryStorage(capacity_bytes=400_000_000)
    log = opened(storage, A, clock=clock)
    number = made(log).number
    produced(log, number, b"1")
    storage.capacity_bytes = 300_000_000
    clock.pass_ms(1000)
    with pytest.raises(StorageFull):
        produced(log, number, b"2")
    made(log, "more")
    committed(log, lambda d: delete_topic(d, "more"))
    storage.capacity_bytes = 400_000_000
    clock.pass_ms(1000)
    assert produced(log, number, b"3").base_offset == 1


def test_a_fast_producer_does_not_write_through_the_reserve() -> None:
    """Free space is looked at after some megabytes too, not only after a second."""
    storage = MemoryStorage(capacity_bytes=60_000_000)
    log = opened(storage, A, settings=replace(SETTINGS, reserve_bytes=30_000_000))
    number = made(log).number
    batch = batch_of(bytes(1_000_000))
    answers = [committed(log, lambda d: produce(d, number, 0, batch))[0] for _ in range(60)]
    assert isinstance(answers[-1].error, StorageFull)
    assert storage.free_bytes() > 20_000_000


def test_sequences_of_idempotent_producers() -> None:
    """Duplicates get their first offset; a hole, and an old epoch, are refused; a new epoch begins at 0 (KIP-98)."""
    log = fresh(A)
    number = made(log).number

    def send(sequence: int, epoch: int = 0, count: int = 2):  # type: ignore[no-untyped-def]
        batch = batch_of(*[b"x"] * count, producer_id=5, epoch=epoch, sequence=sequence)
        return committed(log, lambda d: produce(d, number, 0, batch))[0]

    assert send(10).result().base_offset == 0, "an unknown producer may begin anywhere"
    assert send(12).result().base_offset == 2
    again = send(10).result()
    assert (again.base_offset, again.duplicate) == (0, True)
    assert isinstance(send(17).error, OutOfOrderSequence)
    assert send(0, epoch=1).result().base_offset == 4
    assert isinstance(send(14, epoch=0).error, StaleProducerEpoch)
    assert isinstance(send(3, epoch=2).error, OutOfOrderSequence)


def test_five_batches_are_remembered_also_after_a_restart() -> None:
    """As many as a client has in flight; the sixth last is out of order."""
    log = fresh(A)
    number = made(log).number

    def send(log: ShardLog, sequence: int):  # type: ignore[no-untyped-def]
        return committed(
            log, lambda d: produce(d, number, 0, batch_of(b"x", producer_id=5, epoch=0, sequence=sequence))
        )[0]

    for sequence in range(7):
        send(log, sequence)
    for reader in (log, opened(log.announced.storage)):
        assert [send(reader, sequence).result().base_offset for sequence in range(2, 7)] == [2, 3, 4, 5, 6]
        assert isinstance(send(reader, 1).error, OutOfOrderSequence)


def test_sequence_numbers_go_on_at_zero() -> None:
    """After 2**31 - 1, as Kafka's `DefaultRecordBatch.incrementSequence`."""
    log = fresh(A)
    number = made(log).number
    batches = [batch_of(b"x", b"y", producer_id=5, epoch=0, sequence=s) for s in (2**31 - 1, 1)]
    answers = committed(log, *[lambda d, b=b: produce(d, number, 0, b) for b in batches])
    assert [answer.result().base_offset for answer in answers] == [0, 2]


def test_produce_says_what_is_wrong() -> None:
    """Unknown topic, unknown partition, another owner."""
    log = fresh(A)
    number = made(log).number
    batch = batch_of(b"x")
    with pytest.raises(UnknownTopic):
        committed(log, lambda d: produce(d, 12345, 0, batch))[0].result()
    with pytest.raises(UnknownPartition):
        committed(log, lambda d: produce(d, number, 1, batch))[0].result()
    replica = fresh(b"b" * 16)
    replicated(log, replica)
    copy = replica.announced.state.by_name("ships")
    assert copy is not None
    with pytest.raises(NotOwner):
        produced(replica, copy.number, b"x")


def test_a_deleted_and_recreated_topic_shares_nothing() -> None:
    """F8: other number, offsets from 0, no cursor, nothing of the old one to be read."""
    log = fresh(A)
    old = made(log)
    produced(log, old.number, b"old")
    committed(log, lambda d: commit_cursor(d, "g", old.number, 0, 1), lambda d: delete_topic(d, "ships"))
    new = made(log)
    produced(log, new.number, b"new")
    for reader in (log, opened(log.announced.storage)):
        assert new.number != old.number
        assert values_at(reader, new.number) == {0: b"new"}
        assert reader.announced.state.cursor_table.groups() == []
        with pytest.raises(UnknownTopic):
            reader.reader.fetch(old.number, 0, 0, 100)


def test_a_restored_copy_is_noticed_by_the_random_id_of_its_epoch() -> None:
    """F10: the copy even opens the same epoch number as the lost log did."""
    log = fresh(A)
    number = made(log).number
    copy = memory(log).snapshot()
    log = opened(log.announced.storage, A, seed=2)
    produced(log, number, b"1")
    position = (epoch_before(log.announced.epochs, log.announced.end).id, log.announced.end)
    assert log.announced.knows(*position)
    memory(log).replace(copy)
    restored = opened(log.announced.storage, A, seed=3)
    produced(restored, number, b"other")
    assert restored.epoch.number == log.epoch.number
    assert not restored.announced.knows(*position)


def test_a_position_beyond_the_end_of_its_epoch_is_not_known() -> None:
    """F10: the epoch is known, and ends before that commit."""
    log = fresh(A)
    made(log)
    assert log.announced.knows(log.epoch.id, log.announced.end)
    assert not log.announced.knows(log.epoch.id, log.announced.end + 1)
    assert not log.announced.knows(b"x" * 16, 0)
    again = opened(log.announced.storage, A)
    assert again.announced.knows(log.epoch.id, log.announced.end)


def test_damage_stops_the_shard_by_name() -> None:
    """S13: a batch that is not what was written; every later call is answered with that."""
    log = fresh(A)
    number = made(log).number
    produced(log, number, b"1" * 100)
    again = opened(log.announced.storage)
    name = names.commit("x", log.epoch.number, 1)
    memory(log).damage(name, lambda data: data.replace(b"1" * 50, b"2" * 50))
    with pytest.raises(Damaged, match="commit"):
        again.reader.fetch(number, 0, 0, 1000)
    with pytest.raises(Damaged):
        produced(again, number, b"2")


def test_a_commit_that_is_missing_or_cut_is_not_opened_over() -> None:
    """The log takes no write, and says which object it is."""
    log = fresh(A)
    made(log)
    log = opened(log.announced.storage)
    made(log, "two")
    memory(log).damage(names.commit("x", 1, 0), lambda data: data[:-5])
    with pytest.raises(Damaged, match=names.commit("x", 1, 0)):
        made(opened(log.announced.storage), "three")


def test_a_commit_that_is_missing_before_later_ones_is_no_end_of_the_log() -> None:
    """Opened over it, the log would lose what was acknowledged after it; with the commit restored all is there."""
    log = fresh(A)
    number = made(log).number
    for value in (b"1", b"2", b"3"):
        produced(log, number, value)
    name = names.commit("x", log.epoch.number, log.announced.end - 2)
    whole = log.announced.storage.get(name)
    log.announced.storage.delete(name)
    for _ in range(2):
        damaged = opened(log.announced.storage, A)
        with pytest.raises(Damaged, match=name):
            produced(damaged, number, b"4")
        with pytest.raises(Damaged, match=name):
            damaged.reader.fetch(number, 0, 1, 1000)
        assert damaged.reader.fetch(number, 0, 0, 1000).batches != []
        assert damaged.reader.fetch(number, 0, 2, 1000).batches != []
    log.announced.storage.put_if_absent(name, whole)
    assert values_at(opened(log.announced.storage, A), number) == {0: b"1", 1: b"2", 2: b"3"}


def test_appended_at_never_decreases() -> None:
    """A clock set back by a minute."""
    clock = FakeClock()
    log = fresh(A, clock=clock)
    number = made(log).number
    first = produced(log, number, b"1").appended_at
    clock.wall -= 60_000
    assert produced(log, number, b"2").appended_at >= first
    assert produced(opened(log.announced.storage, A, clock=clock), number, b"3").appended_at >= first


def test_pending_counts_what_a_slice_has_from_a_commit_on() -> None:
    """Records and bytes by slice; nothing at the end of the log; local rows do not count."""
    log = fresh(A)
    topic = made(log)
    produced(log, topic.number, b"1", b"2")
    committed(log, lambda d: put_entry(d, "k", 1))
    slice = slice_of_number(topic.number)
    pending = log.announced.pending({slice: 0, (slice + 1) % 16: 0})
    assert pending[slice].records == 2
    assert pending[(slice + 1) % 16].records == 0
    assert log.announced.pending({slice: log.announced.end})[slice].bytes == 0


def test_local_commits_merged_with_what_was_sent_leave_nothing_pending() -> None:
    """A link stands at the end of what it was told of; the segment that goes on beyond it holds nothing for it."""
    log = fresh(A, settings=replace(SETTINGS, merge_commits_min=1))
    topic = made(log)
    produced(log, topic.number, b"1", b"2")
    told = log.announced.end
    committed(log, lambda d: put_entry(d, "k", 1))
    job = log.upkeep.plan()
    assert job is not None
    installed(log, run_job.run(log.announced.storage, SeededRandomness(1), job))
    assert log.announced.manifest.merged_end == log.announced.end == told + 1
    slice = slice_of_number(topic.number)
    assert log.announced.pending({slice: told})[slice].records == 0
    assert log.announced.pending({slice: told - 1})[slice].records == 2
    produced(log, topic.number, b"3")
    assert log.announced.pending({slice: log.announced.end - 1})[slice].records == 1


def test_numbers_of_deleted_topics_are_not_given_again_after_a_restart() -> None:
    """A topic number has one meaning for ever."""
    log = fresh(A)
    first = made(log).number
    committed(log, lambda d: delete_topic(d, "ships"))
    assert made(opened(log.announced.storage)).number != first
