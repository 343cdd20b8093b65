"""Merging as the writer does it: plan, the job, the manifest, what is read afterwards, what is deleted and when."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.streamlog.world import (
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
    values_at,
)
from tests.support.batches import produce

from fairlead.model.errors import Damaged, Missing, OffsetOutOfRange, StorageFull, StorageUnavailable
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.garbage import unreferenced
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects import checkpoint
from fairlead.streamlog.objects.manifest import Manifest
from fairlead.streamlog.reading import index
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.index import Tail
from fairlead.streamlog.requests.cursors import commit_cursor
from fairlead.streamlog.requests.topics import delete_topic, set_partitions
from fairlead.streamlog.state import effects, snapshot
from fairlead.streamlog.writing import upkeep
from fairlead.streamlog.writing.writer import ShardLog

QUICK = replace(SETTINGS, merge_commits_min=1, delete_grace_seconds=600.0)
TTL_MS = 1000
SEEDS = itertools.count()


def merged(log: ShardLog) -> int:
    """Do every merge job there is; how many there were."""
    done = 0
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(next(SEEDS)), job))
        done += 1
    return done


def filled(clock: FakeClock) -> tuple[ShardLog, int]:
    """A log with a topic of five records and a deleted one."""
    log = fresh(clock=clock, settings=QUICK)
    number = made(log).number
    for value in b"abcde":
        produced(log, number, bytes([value]))
        clock.pass_ms(10)
    gone = made(log, "gone")
    produced(log, gone.number, b"x")
    committed(log, lambda d: delete_topic(d, "gone"), lambda d: commit_cursor(d, "g", number, 0, 3))
    committed(log, lambda d: set_partitions(d, "ships", 3))
    produced(log, number, b"late", partition=2)
    return log, number


EXPECTED = {0: b"a", 1: b"b", 2: b"c", 3: b"d", 4: b"e"}


def test_merged_records_are_read_where_they_were() -> None:
    """From segments, before and after a restart; and what is appended after merging."""
    clock = FakeClock()
    log, number = filled(clock)
    assert merged(log) > 0
    assert log.announced.manifest.merged_end == log.announced.end
    for reader in (log, opened(log.announced.storage, clock=clock, settings=QUICK)):
        assert values_at(reader, number) == EXPECTED
        assert values_at(reader, number, 2) == {0: b"late"}
    again = opened(log.announced.storage, clock=clock, settings=QUICK)
    produced(again, number, b"f")
    assert values_at(again, number) == {**EXPECTED, 5: b"f"}


class Merging(AnnouncedLog):
    """A log that is merged while somebody looks: manifest, then tail, as `finish` does it."""

    def __init__(self, before: AnnouncedLog, after: AnnouncedLog, looks: int) -> None:
        self._before, self._after = before, after
        self._looks = looks

    def _now(self) -> AnnouncedLog:
        self._looks -= 1
        return self._before if self._looks >= 0 else self._after

    @property
    def manifest(self) -> Manifest:  # type: ignore[override]
        return self._now().manifest

    @property
    def tail(self) -> Tail:  # type: ignore[override]
        return self._now().tail


def test_a_repair_is_named_every_commit_while_they_are_merged() -> None:
    """A commit that neither list names would be passed: it was in the tail when the segments were read, and in a
    segment when the tail was."""
    clock = FakeClock()
    before, number = filled(clock)
    storage = MemoryStorage()
    storage.replace(before.announced.storage.snapshot())  # type: ignore[attr-defined]
    after = opened(storage, clock=clock, settings=QUICK)
    merged(after)
    for looks in range(5):
        found = Merging(before.announced, after.announced, looks).locate({slice_of_number(number)})
        named = {commit for item in found for commit in range(item.first, item.end)}
        wanted = {entry.commit for entry in before.announced.tail.entries(number, 0)}
        assert wanted <= named, f"merged after {looks} looks: {wanted - named} are not named"


def test_what_a_merge_that_failed_has_left_goes_after_the_next() -> None:
    """Not sooner: a manifest whose fate is unknown may name it."""
    clock = FakeClock()
    log, number = filled(clock)
    job = log.upkeep.plan()
    assert job is not None
    run_job.run(log.announced.storage, SeededRandomness(next(SEEDS)), job)  # and its answer is lost
    left = unreferenced(log.announced.storage, log.announced.manifest)
    assert left
    merged(log)
    assert set(left) <= set(unreferenced(log.announced.storage, log.announced.manifest))
    clock.pass_ms(600_000)
    log.upkeep.sweep(log.upkeep.take_due())
    assert not unreferenced(log.announced.storage, log.announced.manifest)
    assert values_at(log, number) == EXPECTED


def test_a_deletion_that_failed_is_made_good_after_the_next_merge() -> None:
    """Half of what was due may be gone by then."""
    clock = FakeClock()
    log, number = filled(clock)
    merged(log)
    clock.pass_ms(600_000)
    log.announced.storage.fail(Fault.FAIL, call="delete", nth=2)  # type: ignore[attr-defined]
    with pytest.raises(StorageUnavailable):
        log.upkeep.sweep(log.upkeep.take_due())
    assert unreferenced(log.announced.storage, log.announced.manifest)
    produced(log, number, b"f")
    assert merged(log)
    clock.pass_ms(600_000)
    log.upkeep.sweep(log.upkeep.take_due())
    assert not unreferenced(log.announced.storage, log.announced.manifest)
    assert values_at(log, number) == {**EXPECTED, 5: b"f"}


def test_an_object_that_cannot_be_deleted_keeps_no_other_on_the_disk() -> None:
    """It would come first each time, and all that is replaced later would stay."""
    clock = FakeClock()
    log, number = filled(clock)
    storage = log.announced.storage
    (stays,) = storage.list(names.manifests_of("x"))
    merged(log)

    def refused(call: str, name: str) -> None:
        if (call, name) == ("delete", stays):
            raise StorageUnavailable(f"cannot delete {name}")

    storage.faults.hook = refused  # type: ignore[attr-defined]
    for value in b"fg":
        clock.pass_ms(600_000)
        with pytest.raises(StorageUnavailable, match="cannot delete"):
            log.upkeep.sweep(log.upkeep.take_due())
        assert unreferenced(storage, log.announced.manifest) == [stays]
        produced(log, number, bytes([value]))
        assert merged(log)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_merge_for_which_there_is_no_room_leaves_nothing(nth: int) -> None:
    """What it has written fills the disk, so that there is no room for the next merge, after which it would go."""
    log, number = filled(FakeClock())
    storage = log.announced.storage
    before = set(storage.list(""))
    job = log.upkeep.plan()
    assert job is not None
    storage.fail(Fault.FULL, nth=nth)  # type: ignore[attr-defined]
    with pytest.raises(StorageFull):
        run_job.run(storage, SeededRandomness(next(SEEDS)), job)
    assert set(storage.list("")) == before
    assert merged(log)
    assert values_at(log, number) == EXPECTED


def test_a_merge_goes_if_there_is_no_room_to_say_that_it_counts() -> None:
    """As one that was not finished."""
    log, number = filled(FakeClock())
    storage = log.announced.storage
    before = set(storage.list(""))
    job = log.upkeep.plan()
    assert job is not None
    result = run_job.run(storage, SeededRandomness(next(SEEDS)), job)
    storage.fail(Fault.FULL)  # type: ignore[attr-defined]
    with pytest.raises(StorageFull):
        installed(log, result)
    assert set(storage.list("")) == before
    assert merged(log)
    assert values_at(log, number) == EXPECTED


def test_the_log_alone_gives_the_state_that_a_checkpoint_gives() -> None:
    """The checkpoint is deleted: recovery finds the same (F5)."""
    clock = FakeClock()
    log, _ = filled(clock)
    merged(log)
    assert log.announced.manifest.checkpoint is not None
    log.announced.storage.delete(log.announced.manifest.checkpoint.name)
    assert as_tables(opened(log.announced.storage, clock=clock)) == as_tables(log)


def test_a_checkpoint_forgets_producers_as_the_shard_does() -> None:
    """Those that were silent for a week, and those of topics that are gone: else each would be in all checkpoints from
    then on, and in memory after each start."""
    clock = FakeClock()
    log = fresh(clock=clock, settings=QUICK)
    number, gone = made(log).number, made(log, "gone").number

    def known(by: int, sequence: int, topic: int = number) -> set[tuple[int, int, int]]:
        """Those of the checkpoint after one more batch."""
        batch = batch_of(b"x", producer_id=by, epoch=0, sequence=sequence)
        committed(log, lambda d: produce(d, topic, 0, batch))
        assert merged(log)
        entry = log.announced.manifest.checkpoint
        assert entry is not None
        read = checkpoint.read(log.announced.storage.get(entry.name), entry.name, entry.commit)
        return set(snapshot.load(log.announced.state.stream_id, *read).producers.known())

    known(1, 0)
    known(2, 0)
    clock.pass_ms(upkeep.PRODUCER_EXPIRY_MS - 1000)
    assert known(3, 0, gone) == {(number, 0, 1), (number, 0, 2), (gone, 0, 3)}
    committed(log, lambda d: delete_topic(d, "gone"))
    clock.pass_ms(3_600_000)
    assert known(2, 1) == {(number, 0, 2)}
    list(log.upkeep.expire_producers())
    assert set(log.announced.state.producers.known()) - {(gone, 0, 3)} == {(number, 0, 2)}


def test_a_checkpoint_holds_the_whole_state() -> None:
    """Dump and load give the same tables again."""
    clock = FakeClock()
    log, _ = filled(clock)
    merged(log)
    assert as_tables(opened(log.announced.storage, clock=clock)) == as_tables(log)


def as_tables(log: ShardLog) -> object:
    """The state as comparable values."""
    tables, meta = snapshot.dump(log.announced.state)
    return {name: list(table) for name, table in tables.items()}, {**meta, "appended_at": 0}


def test_expired_records_leave_the_log_start_and_offsets_go_on() -> None:
    """F5b: all rows of a partition expire, checkpoint lost; the next offset is not given a second time."""
    clock = FakeClock()
    log, number = filled(clock)
    merged(log)
    log.upkeep.set_retention(TTL_MS)
    clock.pass_ms(10 * TTL_MS)
    merged(log)
    assert log.announced.state.partition(number, 0)[:2] == (5, 5)
    assert log.announced.manifest.checkpoint is not None
    log.announced.storage.delete(log.announced.manifest.checkpoint.name)
    again = opened(log.announced.storage, clock=clock)
    assert again.announced.state.partition(number, 0) == log.announced.state.partition(number, 0)
    assert produced(again, number, b"f").base_offset == 5


def test_what_expires_while_it_is_read_is_not_served_as_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer whose policy is to stop when records are gone must hear of it."""
    clock = FakeClock()
    log, number = filled(clock)
    merged(log)
    log.upkeep.set_retention(TTL_MS)
    clock.pass_ms(10 * TTL_MS)
    log.announced.recent.close()
    read = log.reader._from_disk  # noqa: SLF001 - between the look at the state and that at the disk

    def expired_meanwhile(*arguments: Any) -> Any:
        merged(log)
        return read(*arguments)

    monkeypatch.setattr(log.reader, "_from_disk", expired_meanwhile)
    with pytest.raises(OffsetOutOfRange):
        log.reader.fetch(number, 0, 2, 1000)


def test_merged_inputs_go_ten_minutes_after_the_manifest() -> None:
    """A reader that was given their names has that long."""
    clock = FakeClock()
    log, number = filled(clock)
    commits = list(log.announced.storage.list(names.commits_of(log.announced.prefix)))
    merged(log)
    clock.pass_ms(599_000)
    log.upkeep.sweep(log.upkeep.take_due())
    assert list(log.announced.storage.list(names.commits_of(log.announced.prefix))) == commits
    clock.pass_ms(2_000)
    log.upkeep.sweep(log.upkeep.take_due())
    assert list(log.announced.storage.list(names.commits_of(log.announced.prefix))) == []
    assert values_at(log, number) == EXPECTED
    assert values_at(opened(log.announced.storage, clock=clock), number) == EXPECTED


def swept(log: ShardLog, clock: FakeClock) -> None:
    """What was read of is merged, and deleted once the grace is over."""
    merged(log)
    clock.pass_ms(601_000)
    log.upkeep.sweep(log.upkeep.take_due())


@pytest.mark.parametrize("where", ["commits", "segments"])
def test_a_look_that_takes_longer_than_the_grace_goes_on_in_what_replaced_its_objects(where: str) -> None:
    """Of each batch it hears once, and the log goes on."""
    clock = FakeClock()
    log = fresh(clock=clock, settings=replace(SETTINGS, merge_commits_min=1 if where == "segments" else 100))
    number = made(log).number
    for value in range(7):
        produced(log, number, b"%d" % value)
        merged(log)
    look = log.reader._places.from_offset(number, 0, 0)  # noqa: SLF001 - as ListOffsets looks
    seen = [next(look).base_offset]
    before = set(log.announced.storage.list(""))
    produced(log, number, b"7")
    clock.pass_ms(601_000)
    swept(log, clock)
    assert len(before - set(log.announced.storage.list(""))) >= 7
    seen += [piece.base_offset for piece in look]
    assert log.health.stopped is None
    assert seen == list(range(8))


def test_a_read_of_what_was_merged_and_deleted_since_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one finds what replaced it."""
    clock = FakeClock()
    log, number = filled(clock)
    find = log.reader._places.newest  # noqa: SLF001 - between where the batch lies and reading it

    def merged_meanwhile(*arguments: Any) -> Any:
        found = list(find(*arguments))
        swept(log, clock)
        return iter(found)

    monkeypatch.setattr(log.reader._places, "newest", merged_meanwhile)  # noqa: SLF001
    with pytest.raises(Missing):
        log.reader.offset_of_newest(number, 0)
    assert log.health.stopped is None
    monkeypatch.undo()
    assert log.reader.offset_of_newest(number, 0) is not None


def test_a_clock_that_jumps_forward_deletes_nothing() -> None:
    """F12b: ten years in a minute; the records are there, and new ones get a sane appended_at."""
    clock = FakeClock()
    log, number = filled(clock)
    merged(log)
    log.upkeep.set_retention(TTL_MS * 3600)
    clock.wall += 10 * 365 * 86_400_000
    merged(log)
    assert values_at(log, number) == EXPECTED
    assert produced(log, number, b"f").appended_at < clock.wall - 86_400_000


def test_records_of_2010_survive_a_time_to_live_of_seven_days() -> None:
    """F12a: life counts from the append here, not from the producer's time."""
    clock = FakeClock()
    log, number = filled(clock)
    log.upkeep.set_retention(7 * 86_400_000)
    clock.pass_ms(6 * 86_400_000)
    merged(log)
    assert values_at(log, number) == EXPECTED


def test_idempotence_survives_merging_and_restart_without_checkpoint() -> None:
    """Producer state is rebuilt from batch headers."""
    from tests.streamlog.world import batch_of

    clock = FakeClock()
    log = fresh(clock=clock, settings=QUICK)
    number = made(log).number
    batch = batch_of(b"1", b"2", producer_id=7, epoch=0, sequence=0)
    committed(log, lambda d: produce(d, number, 0, batch))
    merged(log)
    checkpoint = log.announced.manifest.checkpoint
    assert checkpoint is not None
    for delete in (False, True):
        if delete:
            log.announced.storage.delete(checkpoint.name)
        again = opened(log.announced.storage, clock=clock)
        result = committed(again, lambda d: produce(d, number, 0, batch))[0].result()
        assert (result.duplicate, result.base_offset) == (True, 0)


# A checkpoint of a clean stop


def stopped_with_checkpoint(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> tuple[ShardLog, int]:
    monkeypatch.setattr(upkeep, "CHECKPOINT_ROWS_MIN", 1)
    log, number = filled(clock)
    log.upkeep.checkpoint()
    return log, number


def test_a_clean_stop_leaves_a_checkpoint_and_the_start_replays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    log, number = stopped_with_checkpoint(clock, monkeypatch)
    assert log.announced.manifest.checkpoint is not None
    assert log.announced.manifest.checkpoint.commit == log.announced.end > log.announced.manifest.merged_end
    with monkeypatch.context() as patch:
        patch.setattr(effects, "replay", lambda *_: pytest.fail("a row was replayed"))
        again = opened(log.announced.storage, clock=clock, settings=QUICK)
    assert state_of(again) == state_of(log)
    assert values_at(again, number) == EXPECTED


def test_few_rows_are_not_worth_a_checkpoint() -> None:
    log, _ = filled(FakeClock())
    log.upkeep.checkpoint()
    assert log.announced.manifest.checkpoint is None


def test_a_second_stop_without_news_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    log, _ = stopped_with_checkpoint(clock, monkeypatch)
    again = opened(log.announced.storage, clock=clock, settings=QUICK)
    before = set(log.announced.storage.list(""))
    again.upkeep.checkpoint()
    assert set(log.announced.storage.list("")) == before


@pytest.mark.parametrize("news", [0, 3])
def test_merging_goes_on_below_a_checkpoint_of_a_clean_stop(monkeypatch: pytest.MonkeyPatch, news: int) -> None:
    """A job that ends before its commit makes none from it, and one that ends behind it does; either way the state that
    a start finds is the one that was.
    """
    clock = FakeClock()
    log, number = stopped_with_checkpoint(clock, monkeypatch)
    stopped_at = log.announced.end
    log = opened(log.announced.storage, clock=clock, settings=QUICK)
    for value in range(news):
        produced(log, number, bytes([value]))
        clock.pass_ms(10)
    settings = replace(QUICK, segment_bytes_max=600, checkpoint_interval_seconds=0)
    log = opened(log.announced.storage, clock=clock, settings=settings)
    below = 0
    while (job := log.upkeep.plan()) is not None:
        below += job.end < stopped_at
        installed(log, run_job.run(log.announced.storage, SeededRandomness(next(SEEDS)), job))
        assert log.announced.manifest.checkpoint is not None
        assert log.announced.manifest.checkpoint.commit >= stopped_at
        again = opened(copied(log.announced.storage), clock=clock, settings=settings)
        assert state_of(again) == state_of(log)
    assert below


def test_a_checkpoint_beyond_the_end_of_the_log_stops_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits were lost that it knows of: `fsck` names them as the server does."""
    log, number = stopped_with_checkpoint(FakeClock(), monkeypatch)
    lost = [log.announced.manifest.commit_name(log.announced.end - each) for each in (2, 1)]
    for name in lost:
        log.announced.storage.delete(name)
    again = opened(log.announced.storage)
    assert f"{lost[0]}: the commit is missing, and a checkpoint knows it" in str(again.health.stopped)
    assert [problem.name for problem in check_all(log.announced.storage)] == lost
    with pytest.raises(Damaged):
        produced(again, number, b"more")


def copied(storage: Storage) -> MemoryStorage:
    found = MemoryStorage()
    for name in storage.list(""):
        found.put_if_absent(name, storage.get(name))
    return found


def state_of(log: ShardLog) -> Any:
    tables, meta = snapshot.dump(log.announced.state)
    return {name: list(table) for name, table in tables.items()}, meta


@pytest.mark.parametrize("seed", range(6))
def test_a_partition_that_lies_in_several_segments_of_a_run_is_read_in_order(seed: int) -> None:
    """Whatever names the segments were given: what another one holds is no gap."""
    settings = replace(QUICK, segment_bytes_max=4000)
    log = fresh(settings=settings)
    number = made(log).number
    committed(
        log, *(partial(produce, number=number, partition=0, batch=batch_of(b"%d" % value)) for value in range(90))
    )
    names_given = SeededRandomness(seed)
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, names_given, job))
    runs = [(segment.first, segment.end) for segment in log.announced.manifest.segments if segment.kind == "data"]
    assert len(runs) > 2
    assert len(set(runs)) == 1
    assert values_at(log, number) == {value: b"%d" % value for value in range(90)}
    found = log.reader.offset_for_time(number, 0, 0)
    assert found is not None
    assert found[0] == 0


def test_a_merged_commit_counts_once_while_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting takes turns with everybody else: between its steps what waits, lies where and can be read is the
    same."""
    monkeypatch.setattr(index, "FORGOTTEN_AT_ONCE", 1)
    clock = FakeClock()
    log = fresh(clock=clock, settings=QUICK)
    number = made(log, partitions=4).number
    for value in range(12):
        produced(log, number, b"%d" % value, partition=value % 4)
    log.announced.recent.close()

    def seen() -> object:
        slice = slice_of_number(number)
        pending = log.announced.pending({slice: 0})[slice]
        named = {at for item in log.announced.locate({slice_of_number(number)}) for at in range(item.first, item.end)}
        size = {key: found.logical_bytes for key, found in log.sizes.all().items()}
        return pending.records, named, size, [values_at(log, number, partition) for partition in range(4)]

    before = seen()
    job = log.upkeep.plan()
    assert job is not None
    log.upkeep.finish(log.upkeep.prepare(run_job.run(log.announced.storage, SeededRandomness(next(SEEDS)), job)))
    steps = 0
    assert seen() == before
    merged_bytes = log.announced.size_bytes()
    for _ in log.upkeep.forget():
        steps += 1
        assert seen() == before
        assert log.announced.size_bytes() == merged_bytes
    assert steps > 4
    assert not log.announced.tail.commits
