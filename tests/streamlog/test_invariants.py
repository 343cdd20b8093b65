"""What ARCHITECTURE.md calls always true, where a slip would show only after a takeover, a late put or a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.streamlog.world import (
    DAY_MS,
    SETTINGS,
    FakeClock,
    SeededRandomness,
    batch_of,
    committed,
    fresh,
    installed,
    made,
    opened,
    produced,
    replicated,
    values_at,
)
from tests.support.batches import produce

from fairlead.model.errors import Damaged, Fenced, StorageUnavailable
from fairlead.storage import names
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.job import MergeResult
from fairlead.streamlog.objects import opening
from fairlead.streamlog.writing.writer import ShardLog

QUICK = replace(SETTINGS, merge_commits_min=1, delete_grace_seconds=1.0)


def filled(clock: FakeClock | None = None) -> tuple[ShardLog, MemoryStorage, int]:
    """A log with two records, the storage below it, and the number of its topic."""
    log = fresh(clock=clock, settings=QUICK)
    assert isinstance(log.announced.storage, MemoryStorage)
    number = made(log).number
    produced(log, number, b"1")
    produced(log, number, b"2")
    return log, log.announced.storage, number


def merge_result(log: ShardLog, seed: int) -> MergeResult:
    """What the merging process makes of the next job."""
    job = log.upkeep.plan()
    assert job is not None
    return run_job.run(log.announced.storage, SeededRandomness(seed), job)


def test_the_number_of_a_manifest_of_unknown_outcome_is_never_used_again() -> None:
    """It may land late: a later manifest of that name would meet another object, or an older one would rule."""
    log, storage, number = filled()
    result = merge_result(log, 1)
    for nth in range(1, opening.PUT_ATTEMPTS + 1):
        storage.fail(Fault.UNKNOWN_LATE, nth=nth)
    with pytest.raises(StorageUnavailable):
        installed(log, result)
    storage.land()
    installed(log, merge_result(log, 2))
    assert log.announced.manifest.k == 2
    again = opened(storage, settings=QUICK)
    assert again.announced.manifest.segments == log.announced.manifest.segments
    assert values_at(again, number) == {0: b"1", 1: b"2"}


def test_a_merged_segment_is_named_to_readers_only_once_its_manifest_is_there() -> None:
    """Until then a crash makes the segment an object that nobody reads, and its inputs stay."""
    log, storage, _ = filled()
    result = merge_result(log, 1)
    inputs = log.announced.objects(0, log.announced.end)
    seen = []

    def look(call: str, name: str) -> None:
        if call == "put" and "/manifest/" in name:
            seen.append(log.announced.objects(0, log.announced.end))

    storage.faults.hook = look
    installed(log, result)
    assert seen == [inputs]
    assert log.announced.objects(0, log.announced.end) != inputs


def test_a_writer_that_slept_through_a_takeover_installs_no_manifest() -> None:
    """F1 for merging: it learns of the takeover after its put, and what it merged is not deleted."""
    log, storage, number = filled()
    result = merge_result(log, 1)
    newer = opened(storage, settings=QUICK)
    with pytest.raises(Fenced):
        installed(log, result)
    assert isinstance(log.health.stopped, Fenced)
    assert values_at(newer, number) == {0: b"1", 1: b"2"}
    assert values_at(opened(storage), number) == {0: b"1", 1: b"2"}


def test_a_writer_that_is_overtaken_while_it_opens_gives_up() -> None:
    """Its manifest 0 comes after the claim of the other."""
    _, storage, number = filled()
    taken: list[ShardLog] = []

    def overtake(call: str, name: str) -> None:
        if call == "put" and "/manifest/" in name:
            storage.faults.hook = None
            taken.append(opened(storage))

    storage.faults.hook = overtake
    with pytest.raises(Fenced):
        opened(storage)
    assert produced(taken[0], number, b"3").base_offset == 2


def test_a_writer_that_slept_through_a_takeover_deletes_nothing() -> None:
    """The newer one may still need what the older one wants to sweep."""
    clock = FakeClock()
    log, storage, _ = filled(clock)
    installed(log, merge_result(log, 1))
    opened(storage, clock=clock)
    clock.pass_ms(2000)
    before = storage.snapshot()
    due = log.upkeep.take_due()
    with pytest.raises(Fenced):
        log.upkeep.sweep(due)
    assert due
    assert storage.snapshot() == before


def test_of_two_writers_that_claim_at_once_each_gets_an_epoch_of_its_own() -> None:
    """Whose put finds the name taken takes the next number, and is the newer one."""
    _, storage, number = filled()
    others: list[ShardLog] = []

    def claim_too(call: str, name: str) -> None:
        if call == "put" and "/epoch/" in name:
            storage.faults.hook = None
            others.append(opened(storage, seed=5))

    storage.faults.hook = claim_too
    log = opened(storage, seed=6)
    assert log.epoch.number == others[0].epoch.number + 1
    with pytest.raises(Fenced):
        produced(others[0], number, b"x")
    assert produced(log, number, b"3").base_offset == 2


@pytest.mark.parametrize("what", ["commit", "manifest"])
def test_a_name_that_another_object_has_stops_the_shard(what: str) -> None:
    """Nothing is acknowledged that a restart would not find."""
    log, storage, number = filled()
    commit = names.commit(log.announced.prefix, log.epoch.number, log.announced.end)
    storage.put_if_absent(
        commit if what == "commit" else names.manifest(log.announced.prefix, log.epoch.number, 1), b"other"
    )
    go_on: dict[str, Callable[[], object]] = {
        "commit": lambda: produced(log, number, b"3"),
        "manifest": lambda: installed(log, merge_result(log, 1)),
    }
    with pytest.raises(Damaged, match="another object has the name"):
        go_on[what]()
    assert isinstance(log.health.stopped, Damaged)
    assert log.announced.state.partition(number, 0).end == 2


def test_what_was_acknowledged_just_before_a_claim_counts() -> None:
    """F1: a writer claims first and lists afterwards."""
    log, storage, number = filled()

    def produce_last(call: str, name: str) -> None:
        if call == "put" and "/epoch/" in name:
            storage.faults.hook = None
            produced(log, number, b"3")

    storage.faults.hook = produce_last
    newer = opened(storage)
    assert values_at(newer, number) == {0: b"1", 1: b"2", 2: b"3"}
    assert produced(newer, number, b"4").base_offset == 3


def test_what_an_opened_log_shows_is_durable() -> None:
    """F2: the last writer's put became visible and was never synced; opening syncs it before it is read."""
    log, storage, number = filled()
    for nth in range(1, opening.PUT_ATTEMPTS + 1):
        storage.fail(Fault.UNKNOWN_LANDED, nth=nth)
    with pytest.raises(StorageUnavailable):
        produced(log, number, b"3")
    newer = opened(storage)
    assert values_at(newer, number) == {0: b"1", 1: b"2", 2: b"3"}
    storage.crash()
    assert values_at(opened(storage), number) == {0: b"1", 1: b"2", 2: b"3"}


def test_readers_are_named_nothing_beyond_the_announced_end() -> None:
    """A commit that is written may still be a fenced writer's."""
    log, _, number = filled()
    sealed = log.seal([lambda draft: produce(draft, number, 0, batch_of(b"3"))])
    log.write(sealed)
    end = log.announced.end
    assert log.announced.objects(0, end + 1) == log.announced.objects(0, end)
    assert log.reader.fetch(number, 0, 2, 1000).batches == []
    log.announce(sealed)
    assert log.announced.objects(0, end + 1)[-1].first == end


def test_what_an_earlier_writer_wrote_and_nobody_merged_is_not_swept() -> None:
    """At opening everything is listed that no manifest needs; commits of earlier epochs are needed."""
    clock = FakeClock()
    log, storage, number = filled(clock)
    newer = opened(storage, clock=clock, settings=QUICK)
    clock.pass_ms(2000)
    newer.upkeep.sweep(newer.upkeep.take_due())
    assert log.epoch.number < newer.epoch.number
    assert values_at(opened(storage, clock=clock), number) == {0: b"1", 1: b"2"}


def test_a_deletion_waits_for_the_slowest_link() -> None:
    """The merger is told how far every link has come, and the end of the log where there is none."""
    log, _, _ = filled()
    job = log.upkeep.plan()
    assert job is not None
    assert job.links_passed == log.announced.end
    log.upkeep.links_passed = 1
    job = log.upkeep.plan()
    assert job is not None
    assert job.links_passed == 1


def test_producers_are_remembered_where_the_topic_is_not_owned_too() -> None:
    """A retry whose answer was lost may come to the next owner: it must not be a second record there."""
    source, _, number = filled()
    batch = batch_of(b"3", producer_id=5, epoch=0, sequence=0)
    committed(source, lambda draft: produce(draft, number, 0, batch))
    replica = fresh(b"b" * 16)
    replicated(source, replica)
    copy = replica.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(replica, copy.number) == {0: b"1", 1: b"2", 2: b"3"}
    assert (len(source.announced.state.producers), len(replica.announced.state.producers)) == (1, 1)


def test_producers_that_were_silent_are_forgotten_by_time_and_by_no_jump_of_the_clock() -> None:
    """F12: a duplicate that comes after a jump is still known."""
    clock = FakeClock()
    log, _, number = filled(clock)
    batch = batch_of(b"3", producer_id=5, epoch=0, sequence=0)
    committed(log, lambda draft: produce(draft, number, 0, batch))
    clock.wall += 365 * DAY_MS
    list(log.upkeep.expire_producers())
    assert len(log.announced.state.producers) == 1
    clock.wall -= 365 * DAY_MS
    clock.pass_ms(8 * DAY_MS)
    list(log.upkeep.expire_producers())
    assert len(log.announced.state.producers) == 0
