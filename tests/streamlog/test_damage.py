"""Every kind of object of a log by every kind of damage by what has become of the log: nothing goes wrong silently.

Each cell is judged by what a user meets: a start that is refused, a read that is refused, a word of fsck, or nothing at
all; in the last case the log must be the same as without the damage. Whatever was said, no record is served that was
not written there, and no offset is given twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.streamlog.world import (
    SETTINGS,
    FakeClock,
    SeededRandomness,
    committed,
    installed,
    made,
    opened,
    produced,
    values_at,
)
from tests.support.rows import batch_row, control_row, entry_row, joined

from fairlead.model.errors import Damaged, Fenced, UnknownTopic
from fairlead.protocol.batch import read_header, records_of
from fairlead.storage import names
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.garbage import unreferenced
from fairlead.streamlog.objects import format, opening, short
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.payloads import TopicDeletedPayload, TopicPayload, TruncatePayload
from fairlead.streamlog.reading import lasting
from fairlead.streamlog.reading.located import together
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state import effects, snapshot
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Opener
from fairlead.streamlog.writing import upkeep
from fairlead.streamlog.writing.entries import put_entry
from fairlead.streamlog.writing.writer import ShardLog

A = b"a" * 16
PARTITIONS = 2
MERGING = replace(SETTINGS, merge_commits_min=3, delete_grace_seconds=0.0)


@dataclass
class Life:
    """A log, closed, with what it held and what a test may exchange its objects with."""

    objects: dict[str, bytes]
    records: dict[int, dict[int, bytes | None]]
    """By partition and offset."""
    state: dict[str, Any]
    older: dict[str, bytes]
    """Objects that were there once, by name; manifests and checkpoints among them."""

    def storage(self) -> MemoryStorage:
        storage = MemoryStorage()
        storage.replace(self.objects)
        return storage


def grown(log: ShardLog, number: int, *, rounds: int = 3, value_bytes: int = 50) -> None:
    """Some commits: batches of both partitions, and an entry."""
    for place in range(rounds):
        for partition in range(PARTITIONS):
            produced(log, number, b"%d-%d" % (log.announced.end, place), bytes(value_bytes), partition=partition)
    committed(log, lambda draft: put_entry(draft, f"key-{log.announced.end}", [1]))


def merged(log: ShardLog, seed: int) -> None:
    """All commits in segments, with a checkpoint; the inputs are deleted."""
    job = log.upkeep.plan()
    assert job is not None
    installed(log, run_job.run(log.announced.storage, SeededRandomness(seed), job))
    log.upkeep.sweep(log.upkeep.take_due())


def life(kind: str, stream_id: bytes = A) -> Life:
    """A log that is `fresh`, `merged` again and again, merged and `restarted` with commits after it, of `mixed` short
    and long commits, `stopped` with a checkpoint, or `sealed` by a writer that went no further."""
    storage, clock, older = MemoryStorage(), FakeClock(), dict[str, bytes]()
    seed = stream_id[0]
    log = opened(storage, stream_id, clock=clock, seed=seed, settings=MERGING)
    number = made(log, partitions=PARTITIONS).number
    grown(log, number)
    older |= storage.snapshot()
    if kind == "mixed":
        grown(log, number, rounds=1, value_bytes=short.BYTES_MAX)
        grown(log, number, rounds=1)
    for place in range(2 if kind in {"merged", "restarted"} else 0):
        merged(log, 100 * seed + place)
        grown(log, number)
        older |= storage.snapshot()
    if kind == "merged":
        merged(log, 100 * seed + 9)
    if kind == "restarted":
        for _ in range(2):
            log = opened(storage, stream_id, clock=clock, seed=seed, settings=MERGING)
            grown(log, number)
    held = everything(log, number), state_of(log)
    if kind == "stopped":
        before = log.announced.manifest.name  # which names all that its log has: with it nothing is lost
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(upkeep, "CHECKPOINT_ROWS_MIN", 1)
            log.upkeep.checkpoint()
        storage.delete(before)
        del older[before]
    if kind == "sealed":
        seal(log, seed)
    return Life(storage.snapshot(), *held, older)


def seal(log: ShardLog, seed: int) -> str:
    """The name of a seal that the next writer puts where the log's writer would put its next commit."""
    storage, epoch, end = log.announced.storage, log.epoch, log.announced.end
    opening.claim(storage, "x", log.announced.manifest.log, SeededRandomness(seed + 500), Opener(2), 0)
    name = names.commit("x", epoch.number, end)
    storage.put_if_absent(name, format.encode_seal(name=name, epoch_id=epoch.id, number=end))
    return name


def everything(log: ShardLog, number: int) -> dict[int, dict[int, bytes | None]]:
    return {partition: values_at(log, number, partition) for partition in range(PARTITIONS)}


def state_of(log: ShardLog) -> dict[str, Any]:
    tables, meta = snapshot.dump(log.announced.state)
    plain = {name: table.tolist() if isinstance(table, np.ndarray) else list(table) for name, table in tables.items()}
    return {**plain, **meta}


KINDS = ("claim", "manifest", "commit", "seal", "data segment", "control segment", "checkpoint")
LIVES = {kind: life(kind) for kind in ("fresh", "merged", "restarted", "mixed", "stopped", "sealed")}
ELSEWHERE = {kind: life(kind, b"b" * 16) for kind in LIVES}
"""Logs whose objects have the same names: of another cluster's `meta/`, or of a copy that went on by itself."""


def names_of(life: Life, kind: str) -> list[str]:
    """Names of the objects of a kind, in order; of manifests the ruling one."""
    ruling = manifests.newest(life.storage(), "x")
    assert ruling is not None
    commits = {name: data for name, data in life.objects.items() if names.parse_commit(name) is not None}
    seals = {name for name, data in commits.items() if format.read_meta(data, name).kind == "seal"}
    chosen: dict[str, Callable[[str], bool]] = {
        "claim": lambda name: names.parse_epoch(name) is not None,
        "manifest": lambda name: name == ruling.name,
        "commit": lambda name: name in commits and name not in seals,
        "seal": lambda name: name in seals,
        "data segment": lambda name: any(name == s.name and s.kind == "data" for s in ruling.segments),
        "control segment": lambda name: any(name == s.name and s.kind == "control" for s in ruling.segments),
        "checkpoint": lambda name: ruling.checkpoint is not None and name == ruling.checkpoint.name,
    }
    return sorted(name for name in life.objects if chosen[kind](name))


Objects = dict[str, bytes]
Harm = Callable[[Life, str, str], Iterator[Objects]]
"""Given a log, a kind and the name of an object: the log's objects once that one is harmed, in one way or several."""


def changed(life: Life, name: str, data: bytes) -> Objects:
    return {**life.objects, name: data}


def removed(life: Life, kind: str, name: str) -> Iterator[Objects]:
    yield {other: data for other, data in life.objects.items() if other != name}


def cut(life: Life, kind: str, name: str) -> Iterator[Objects]:
    data = life.objects[name]
    for length in (0, len(data) // 2, len(data) - 1):
        yield changed(life, name, data[:length])


def zeroed(life: Life, kind: str, name: str) -> Iterator[Objects]:
    data = life.objects[name]
    yield changed(life, name, bytes(len(data)))
    yield changed(life, name, data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def flipped(life: Life, kind: str, name: str) -> Iterator[Objects]:
    data = life.objects[name]
    for place in range(0, len(data), max(1, len(data) // 23)):
        yield changed(life, name, data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])


def exchanged(life: Life, kind: str, name: str) -> Iterator[Objects]:
    """With others of its kind, in both places."""
    for other in names_of(life, kind)[:3]:
        if other != name:
            yield {**life.objects, name: life.objects[other], other: life.objects[name]}


def from_elsewhere(life: Life, kind: str, name: str) -> Iterator[Objects]:
    """Another log's object in its place, of the same name if there is one."""
    for other in ELSEWHERE.values():
        same = [name] if name in other.objects else names_of(other, kind)[:1]
        for found in same:
            yield changed(life, name, other.objects[found])


def older(life: Life, kind: str, name: str) -> Iterator[Objects]:
    """What had its place before, under its name, or under the name that it had then with the newest gone."""
    if kind in {"manifest", "checkpoint"}:
        for other, data in life.older.items():
            if other != name and other.split("/")[1] == kind:
                yield changed(life, name, data)
                yield {other: data, **{at: found for at, found in life.objects.items() if at != name}}


HARMS: dict[str, Harm] = {
    harm.__name__: harm for harm in (removed, cut, zeroed, flipped, exchanged, from_elsewhere, older)
}
TABLE = {
    "claim": {"fsck"},
    "manifest": {"start"},
    "commit": {"writes", "read"},
    "seal": {"writes"},
    "data segment": {"writes", "read"},
    "control segment": {"writes", "fsck"},
    "checkpoint": {"fsck"},
}
"""How an object's damage shows. `start`: the log is not opened. `writes`: it takes no write and can be read where it is
whole. `read`: so it is from when a reader is refused what was harmed, since a start reads no record batches and nothing
below the checkpoint. `fsck`: all goes on as before, since the object is not
needed (a claim, a checkpoint, a control segment below a checkpoint), and fsck names it. A seal that cannot be read may
be a commit that was acknowledged."""


def found_at(log: ShardLog, number: int, partition: int, end: int) -> dict[int, bytes | None]:
    """What is served at each offset, asked for one by one; where reading is refused, or led past, nothing."""
    found: dict[int, bytes | None] = {}
    for offset in range(end):
        try:
            batches = log.reader.fetch(number, partition, offset, 1).batches
        except (Damaged, UnknownTopic):
            continue
        for batch in batches:
            if read_header(batch).record_count == 0:
                assert log.health.stopped is None, "a reader is led past what was lost"
            found |= {record.offset: record.value for record in records_of(batch)}
    return found


def outcome(life: Life, objects: Objects) -> str:
    """What a user meets; see the module."""
    storage = MemoryStorage()
    storage.replace(objects)
    said = bool(check_all(storage))
    try:
        log = opened(storage, A, seed=77, settings=MERGING)
    except Damaged:
        assert said, "fsck says nothing of it"
        return "start"
    damaged = log.health.stopped is not None
    number = 0 if log.announced.state.topic_count == 0 else next(iter(log.announced.state.topics())).number
    refused = False
    for partition, expected in life.records.items():
        found = found_at(log, number, partition, len(expected))
        refused |= found != expected and log.health.stopped is not None
        assert found.items() <= expected.items(), "what was never written is served"
        if found != expected and not refused:
            return "shorter"
    if damaged or refused:
        assert said, "fsck says nothing of it"
        with pytest.raises(Damaged):
            produced(log, number, b"later")
        return "writes" if damaged else "read"
    if state_of(log) != life.state:
        return "shorter"
    for partition, expected in life.records.items():
        assert produced(log, number, b"later", partition=partition).base_offset == len(expected)
    again = opened(storage, A, seed=78)
    for partition, expected in life.records.items():
        assert values_at(again, number, partition) == {**expected, len(expected): b"later"}
    return "fsck" if said else "harmless"


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("age", LIVES)
def test_no_damage_is_silent(age: str, kind: str, harm: str) -> None:
    """But one: that the newest commit is gone, the log itself cannot know, unless a seal lies behind it, or a clean
    stop left a checkpoint there. A seal and the claim of the writer that put it say no more than each other."""
    life = LIVES[age]
    for name in names_of(life, kind):
        newest = harm == "removed" and name == max(names_of(life, kind))
        silent = {("commit", False): {"shorter"}, ("seal", True): {"harmless"}, ("claim", True): {"harmless"}}
        known = age == "stopped" and kind == "commit"
        expected = silent.get((kind, age == "sealed"), TABLE[kind]) if newest and not known else TABLE[kind]
        for objects in HARMS[harm](life, kind, name):
            assert outcome(life, objects) in expected, name


def test_every_kind_is_harmed() -> None:
    """The matrix above has no empty row."""
    there = {kind for life in LIVES.values() for kind in KINDS if names_of(life, kind)}
    assert there == set(KINDS)
    assert all(outcome(life, life.objects) == "harmless" for life in LIVES.values())


def test_a_log_that_is_damaged_writes_and_deletes_nothing() -> None:
    """But its claim, which stops older writers: what is left can still be saved."""
    for age, life in LIVES.items():
        for kind in ("manifest", "commit", "data segment"):
            for name in names_of(life, kind)[:1]:
                (objects,) = removed(life, kind, name)
                storage = MemoryStorage()
                storage.replace(objects)
                if kind == "manifest":
                    with pytest.raises(Damaged):
                        opened(storage, A)
                else:
                    log = opened(storage, A)
                    assert isinstance(log.health.stopped, Damaged)
                    assert log.upkeep.take_due() == []
                written = {each: data for each, data in storage.snapshot().items() if names.parse_epoch(each) is None}
                assert written == {at: data for at, data in objects.items() if names.parse_epoch(at) is None}, age


def test_a_manifest_lost_while_all_that_the_one_before_names_is_there_loses_nothing() -> None:
    """In the grace after a merge; the segments of the lost one are swept as left over."""
    storage, clock = MemoryStorage(), FakeClock()
    log = opened(storage, A, clock=clock, settings=replace(SETTINGS, merge_commits_min=3))
    number = made(log, partitions=PARTITIONS).number
    grown(log, number)
    merged(log, 1)
    storage.delete(log.announced.manifest.name)
    again = opened(storage, A, clock=clock)
    assert (everything(again, number), state_of(again)) == (everything(log, number), state_of(log))
    assert check_all(storage) == []


def test_what_is_whole_can_be_read_beside_what_is_damaged() -> None:
    """One harmed commit hides its own records: not those before and after it, and not another partition's."""
    life = LIVES["fresh"]
    for name in names_of(life, "commit")[1:-1]:
        for objects in zeroed(life, "commit", name):
            storage = MemoryStorage()
            storage.replace(objects)
            log = opened(storage, A)
            number = next(iter(log.announced.state.topics())).number
            found = [found_at(log, number, at, len(records)) for at, records in life.records.items()]
            whole = list(life.records.values())
            assert sum(map(len, found)) == sum(map(len, whole)) - 2, "each commit has one batch of two records"
            assert whole[0] in found or whole[1] in found


def test_a_reader_beyond_what_was_lost_is_not_sent_back() -> None:
    """The end of the partition may have been in the commit that is gone: no consumer begins again because of it."""
    life = LIVES["fresh"]
    storage = MemoryStorage()
    storage.replace({**life.objects, names.commit("x", 1, 6): b""})
    log = opened(storage, A)
    topic = next(iter(log.announced.state.topics()))
    end = len(life.records[1])
    assert log.announced.state.partition(topic.number, 1).end == end - 2
    with pytest.raises(Damaged):
        log.reader.fetch(topic.number, 1, end, 1000)


def test_an_epoch_is_not_used_again_though_its_claim_is_lost() -> None:
    """Its number stands in manifests and commits too; a writer of that number would be shadowed by the lost one's."""
    for age, life in LIVES.items():
        if age == "sealed":
            continue  # the writer of the newest claim wrote nothing yet that has its number
        storage = life.storage()
        newest = max(names_of(life, "claim"))
        storage.delete(newest)
        lost = names.parse_epoch(newest)
        assert lost is not None
        log = opened(storage, A, seed=5)
        assert log.epoch.number == lost + 1, age
        ruling = manifests.newest(storage, "x")
        assert ruling is not None
        assert ruling.epoch == log.epoch.number


def test_a_commit_that_does_not_follow_is_damage() -> None:
    """Its rows say where their partition ended before them: nothing is missing between, and nothing comes twice."""
    for offset, previous_end in ((0, 0), (5, 5)):
        storage = MemoryStorage()
        log = opened(storage, A)
        number = made(log).number
        produced(log, number, b"1")
        name = names.commit("x", log.epoch.number, log.announced.end)
        row = batch_row(number, offset, commit=log.announced.end, previous_end=previous_end)
        storage.put_if_absent(name, format.encode([row], name=name, epoch_id=log.epoch.id))
        assert "partition 0 ends at offset 1 before row 0" in str(opened(storage, A).health.stopped)


CUT = payloads.encode(TruncatePayload("takeover", 9, None, ()))
"""Of a TRUNCATE row."""


@pytest.mark.parametrize(
    ("rows", "is_damage"),
    [
        ([batch_row(offset=5), control_row(Kind.TRUNCATE, CUT, base_offset=1, previous_end=6, row=1)], False),
        ([batch_row(offset=5), control_row(Kind.TRUNCATE, CUT, base_offset=2, previous_end=6, row=1)], True),
        ([batch_row(offset=5), control_row(Kind.TRUNCATE, CUT, previous_end=6, row=1)], True),
        ([control_row(Kind.TRUNCATE, CUT, base_offset=0, previous_end=1), batch_row(offset=5, row=1)], True),
        (
            [batch_row(offset=5, partition=1), control_row(Kind.TRUNCATE, CUT, base_offset=0, previous_end=1, row=1)],
            True,
        ),
        (
            [
                batch_row(offset=1, previous_end=0),
                control_row(Kind.TRUNCATE, CUT, base_offset=0, previous_end=2, row=1),
            ],
            True,
        ),
    ],
)
def test_a_merge_may_drop_rows_whose_cut_comes_later(rows: list[Row], is_damage: bool) -> None:
    """What is missing must stand at the cut's offset or above, in the cut's partition, and before the cut."""
    storage = MemoryStorage()
    log = opened(storage, A)
    number = made(log, partitions=2).number
    produced(log, number, b"1")
    commit = log.announced.end
    name = names.commit("x", log.epoch.number, commit)
    rows = [row._replace(topic=number, commit=commit) for row in rows]
    storage.put_if_absent(name, format.encode(rows, name=name, epoch_id=log.epoch.id))
    assert (opened(storage, A).health.stopped is not None) == is_damage


def test_a_merge_may_drop_rows_of_a_topic_whose_deletion_comes_later() -> None:
    """Of a deleted topic the row that made it may be left in one segment while the batches of another are gone; batches
    of later commits, which are not merged yet, then follow nothing."""
    storage = MemoryStorage()
    log = opened(storage, A)
    topic = made(log)
    produced(log, topic.number, b"1")
    name = names.commit("x", log.epoch.number, log.announced.end)
    batch = batch_row(topic.number, 5, commit=log.announced.end, previous_end=5)
    payload = payloads.encode(TopicDeletedPayload(topic.name, topic.incarnation))
    deletion = control_row(Kind.TOPIC_DELETED, payload, topic=topic.number, commit=log.announced.end, row=1)
    rows = [batch, deletion]
    storage.put_if_absent(name, format.encode(rows, name=name, epoch_id=log.epoch.id))
    again = opened(storage, A)
    assert again.health.stopped is None
    assert not list(again.announced.state.topics())


def test_a_segment_whose_rows_are_there_already_is_damage() -> None:
    """Found while its rows are replayed, whatever the names say."""
    state = ShardState(A)
    rows = [batch_row(offset=offset, commit=offset) for offset in range(5)]
    effects.replay(state, topic_row())
    lasting.replay_rows(MemoryStorage(), state, together([format.read_whole(joined(format.encode(rows)))]))
    with pytest.raises(Damaged, match="offset 4 lies below the partition's end"):
        lasting.replay_rows(MemoryStorage(), state, together([format.read_whole(joined(format.encode(rows[-1:])))]))


def test_a_seal_ends_its_epoch_and_the_old_writer_stops() -> None:
    """The writer's own put fails, whatever it knows of claims; the next one goes on at that number."""
    storage = MemoryStorage()
    log = opened(storage, A)
    number = made(log).number
    produced(log, number, b"1")
    name = seal(log, 1)
    with pytest.raises(Fenced):
        produced(log, number, b"2")
    later = opened(storage, A, seed=9)
    assert later.announced.end == log.announced.end
    produced(later, number, b"3")
    assert values_at(opened(storage, A, seed=10), number) == {0: b"1", 1: b"3"}
    assert check_all(storage) == []
    assert name in unreferenced(storage, later.announced.manifest), "it is swept, as what a fenced writer leaves"


def test_a_seal_in_the_place_of_a_commit_that_others_know_is_damage() -> None:
    """It would take an acknowledged commit away, and with it whatever follows."""
    storage = MemoryStorage()
    log = opened(storage, A)
    number = made(log).number
    for value in (b"1", b"2", b"3"):
        produced(log, number, value)
    name = names.commit("x", 1, 2)
    sealed = joined(format.encode_seal(name=name, epoch_id=log.epoch.id, number=2))
    storage.damage(name, lambda _: sealed)
    assert "is a seal" in str(opened(storage, A).health.stopped)
    assert [problem.name for problem in check_all(storage)] == [name]


def put_commit(log: ShardLog, topic: int, number: int, *, known: int) -> None:
    """A commit of a later writer, which puts several at a time."""
    name = names.commit("x", log.epoch.number, number)
    row = batch_row(topic, number, commit=number, previous_end=number)
    data = format.encode([row], name=name, epoch_id=log.epoch.id, known=known)
    log.announced.storage.put_if_absent(name, data)


@pytest.mark.parametrize("sealed", [False, True])
def test_only_what_a_later_commit_knows_to_be_durable_is_missed(sealed: bool) -> None:
    """What nobody acknowledged is no loss: there the epoch ends, and commits beyond are left over; a seal may lie at
    that number."""
    for known, stands in ((2, True), (3, False)):
        storage = MemoryStorage()
        log = opened(storage, A)
        made(log)
        for number in (1, 3):
            put_commit(log, 99, number, known=known if number == 3 else 1)
        if sealed:
            name = names.commit("x", 1, 2)
            storage.put_if_absent(name, format.encode_seal(name=name, epoch_id=log.epoch.id, number=2))
        damages: list[Damaged] = []
        ruling = log.announced.manifest
        end = opening.end_of(storage, ruling, opening.commits_there(storage, "x"), damages)
        if stands:
            assert (end, damages) == (2, [])
        else:
            assert end == 4
            assert [damage.name for damage in damages] == ([] if sealed else [names.commit("x", 1, 2)])


def test_a_log_of_another_id_is_not_opened() -> None:
    """Its prefix may be the same: each cluster's own log is `meta`."""
    with pytest.raises(Damaged, match=f"is of the log {A.hex()}, and is opened as that of {(b'b' * 16).hex()}"):
        opened(LIVES["fresh"].storage(), b"b" * 16)


def topic_row() -> Row:
    """The row that makes topic number 0."""
    payload = TopicPayload("t", b"i" * 16, 1, A, 0, 0)
    return entry_row("", None)._replace(kind=int(Kind.TOPIC), topic=0, batch=payloads.encode(payload))
