"""Damaged objects are set aside: the log goes on, says what it lost, and gives no offset twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.streamlog.test_damage import LIVES, MERGING, PARTITIONS, Life, changed, merged, names_of
from tests.streamlog.world import (
    SETTINGS,
    FakeClock,
    SeededRandomness,
    committed,
    fresh,
    made,
    opened,
    produced,
    replicated,
    values_at,
)
from tests.support.disk import bad_sector
from tests.support.packs import always_packed

from fairlead.model.errors import Damaged, InvalidValue, NotAllowed
from fairlead.storage import names
from fairlead.storage.local import LocalStorage
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.objects import format
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.set_aside.cure import set_aside
from fairlead.streamlog.writing.writer import ShardLog

A = b"a" * 16
Objects = dict[str, bytes]


def storage_of(objects: Objects) -> MemoryStorage:
    storage = MemoryStorage()
    storage.replace(objects)
    return storage


def cured(objects: Objects, *wanted: str) -> tuple[MemoryStorage, list[str]]:
    """The storage without these objects, and what was said; fsck finds nothing more."""
    storage = storage_of(objects)
    said = list(set_aside(storage, wanted, SeededRandomness(4711), 0))
    assert check_all(storage) == []
    for name in wanted:
        if name in objects:
            assert storage.get(names.set_aside(name)) == objects[name]
    return storage, said


def without(life: Life, name: str) -> Objects:
    return {other: data for other, data in life.objects.items() if other != name}


def harmed_batch(life: Life, name: str) -> Objects | None:
    """One bit of a record flipped; None if there is no record in the object."""
    data = life.objects[name]
    columns = format.read_whole(data, name)
    batches = np.flatnonzero(columns.kind == Kind.BATCH)
    if not len(batches):
        return None
    at = int(columns.position[batches[0]] + columns.size[batches[0]]) - 10
    return changed(life, name, data[:at] + b"\1" + data[at + 1 :])


def check_goes_on(life: Life, storage: MemoryStorage) -> tuple[int, list[int]]:
    """Everything that is served is right, and offsets are new: how many records are lost, and which partitions take
    none."""
    refused: list[int] = []
    for seed in (1, 2):
        log = opened(storage, A, seed=seed)
        assert log.health.stopped is None
        topic = next(iter(log.announced.state.topics()))
        lost = 0
        for partition, expected in life.records.items():
            if partition >= topic.partitions:
                lost += len(expected)
                continue
            found = {at: value for at, value in values_at(log, topic.number, partition).items() if value != b"more"}
            assert found.items() <= expected.items()
            lost += len(expected) - len(found)
            if seed == 1:
                given = given_at(log, topic.number, partition)
                assert given is None or given >= len(expected), "an offset is given again"
                refused += [partition] * (given is None)
    return lost, refused


def given_at(log: ShardLog, number: int, partition: int) -> int | None:
    """The offset of one more record; None if the partition takes none."""
    try:
        return produced(log, number, b"more", partition=partition).base_offset
    except NotAllowed:
        return None


AGES_AND_KINDS = [
    (age, kind)
    for age, life in LIVES.items()
    for kind in ("commit", "seal", "data segment", "control segment", "claim", "checkpoint")
    if names_of(life, kind)
]


@pytest.mark.parametrize(("age", "kind"), AGES_AND_KINDS)
def test_a_log_goes_on_without_an_object(age: str, kind: str) -> None:
    """Each object of each kind, missing or full of zeros, so that nobody knows what was in it."""
    life = LIVES[age]
    for name in names_of(life, kind):
        last = kind in {"commit", "seal"} and age != "stopped"
        newest = (last or age == "sealed") and name == max(names_of(life, kind))
        for objects in (without(life, name), changed(life, name, bytes(4000))):
            if newest and name not in objects:
                continue  # nobody knows that it was there
            storage, said = cured(objects, name)
            assert name in said[0]
            no_shortcut = storage_of(
                {at: data for at, data in storage.snapshot().items() if not names.is_checkpoint(at)}
            )
            check_goes_on(life, no_shortcut)
            lost, refused = check_goes_on(life, storage)
            if kind in {"claim", "checkpoint"}:
                assert (lost, refused) == (0, [])


@pytest.mark.parametrize("age", LIVES)
@pytest.mark.parametrize("kind", ["commit", "data segment"])
def test_what_is_whole_in_an_object_stays(age: str, kind: str) -> None:
    """One record batch is damaged: its offsets are a gap, which is said, and all else goes on."""
    life = LIVES[age]
    for name in names_of(life, kind):
        objects = harmed_batch(life, name)
        if objects is None:
            continue
        storage, said = cured(objects, name)
        assert [line for line in said if "are lost" in line]
        assert check_goes_on(life, storage) == (2, [])
        log = opened(storage, A, seed=9)
        (gap,) = log.announced.state.gaps()
        assert (gap.end - gap.start, gap.reason) == (2, "set-aside")


def grown_log() -> tuple[ShardLog, int]:
    """A log in files: topics `ships` with two partitions, a commit a batch."""
    log = opened(MemoryStorage(), A)
    return log, made(log, partitions=PARTITIONS).number


def test_an_end_that_later_rows_say_is_known() -> None:
    """The other partition's end is not, and takes no records; a topic made later does."""
    log, number = grown_log()
    lost = names.commit("x", log.epoch.number, log.announced.end)
    produced(log, number, b"1", b"2")
    produced(log, number, b"3")
    later = made(log, "later").number
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    storage, said = cured({n: d for n, d in storage.snapshot().items() if n != lost}, lost)
    assert "topic ships, partition 0: offsets 0 to 1 are lost" in said
    assert "topic ships, partitions 1: nobody knows where they ended; they take no records" in said
    again = opened(storage, A)
    assert values_at(again, number) == {2: b"3"}
    assert produced(again, number, b"4").base_offset == 3
    assert produced(again, later, b"1").base_offset == 0
    with pytest.raises(NotAllowed, match="partition 1 takes no records"):
        produced(again, number, b"4", partition=1)


def cut_log(keep: bytes | None = None) -> tuple[Objects, dict[str, str]]:
    """Offsets 0 to 4 are written, the log is cut at 2, and 2 to 4 are written anew. All objects, and the names of the
    commits."""
    storage = MemoryStorage()
    log = opened(storage, A)
    number = made(log, "ships", 1).number
    places: dict[str, int] = {}

    def write(*values: bytes) -> None:
        for value in values:
            places[value.decode()] = log.announced.end
            produced(log, number, value)

    write(b"0", b"1", b"old 2", b"old 3", b"old 4")
    places["the cut"] = log.announced.end
    committed(log, lambda draft: cut(draft, number, 0, 2, "owner", 7, keep))[0].result()
    write(b"2", b"3", b"4")
    objects = storage.snapshot()
    commits = {parsed.number: name for name in objects if (parsed := names.parse_commit(name)) is not None}
    return objects, {what: commits[place] for what, place in places.items()}


LIVE = {0: b"0", 1: b"1", 2: b"2", 3: b"3", 4: b"4"}


@pytest.mark.parametrize(("lost", "gap"), [("1", 1), ("2", 2), ("3", 3)])
def test_what_is_lost_of_a_log_that_was_cut_is_a_gap_and_nothing_dead_is_served(lost: str, gap: int) -> None:
    """A cut log ends below where it ended before."""
    objects, commits = cut_log()
    name = commits[lost]
    storage, said = cured({**objects, name: bytes(4000)}, name)
    log = opened(storage, A, seed=1)
    (topic,) = log.announced.state.topics()
    assert values_at(log, topic.number, 0) == {at: value for at, value in LIVE.items() if at != gap}
    assert f"topic ships, partition 0: offsets {gap} to {gap} are lost" in said
    assert given_at(log, topic.number, 0) == 5


def test_a_dead_record_that_is_lost_is_no_gap() -> None:
    """Others stand at its offset."""
    objects, commits = cut_log()
    name = commits["old 3"]
    storage, _ = cured({**objects, name: bytes(4000)}, name)
    log = opened(storage, A, seed=1)
    (topic,) = log.announced.state.topics()
    assert values_at(log, topic.number, 0) == LIVE
    assert log.announced.state.gaps() == []


def test_a_lost_cut_that_only_its_row_told_is_not_set_aside() -> None:
    """Dead records would be served in the place of those that were acknowledged."""
    objects, commits = cut_log()
    name = commits["the cut"]
    with pytest.raises(InvalidValue, match="partition 0 of topic ships was cut there, and nobody knows where"):
        cured({**objects, name: bytes(4000)}, name)


def test_a_lost_cut_that_a_checkpoint_knows_is_made_again() -> None:
    """Its dead records are still there: they are to be copied."""
    storage = storage_of(cut_log(keep=b"k" * 16)[0])
    log = opened(storage, A, seed=1, settings=MERGING)
    merged(log, 1)
    before = storage.snapshot()
    (name,) = [each for each in before if names.is_segment(each) and is_control(before[each], each)]
    cure, _ = cured({**before, name: bytes(4000)}, name)
    bare = {each: data for each, data in cure.snapshot().items() if not names.is_checkpoint(each)}
    for objects in (cure.snapshot(), bare):
        again = opened(storage_of(objects), A, seed=2)
        (topic,) = again.announced.state.topics()
        assert values_at(again, topic.number, 0) == LIVE
        assert [each.keep for each in again.announced.state.cuts_of(topic.number, 0)] == [b"k" * 16]
        assert given_at(again, topic.number, 0) == 5


def is_control(data: bytes, name: str) -> bool:
    return bool((format.read_whole(data, name).kind != Kind.BATCH).all())


def test_a_topic_whose_making_is_lost_keeps_its_records_under_another_name() -> None:
    """And its number: no other topic gets it, and with it the records."""
    log, number = grown_log()
    lost = names.commit("x", log.epoch.number, 0)
    produced(log, number, b"1")
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    storage, said = cured({n: d for n, d in storage.snapshot().items() if n != lost}, lost)
    assert f"the making of topic number {number} is lost: it is now set-aside-{number} and takes no records" in said
    again = opened(storage, A)
    assert [topic.name for topic in again.announced.state.topics()] == [f"set-aside-{number}"]
    assert values_at(again, number) == {0: b"1"}
    with pytest.raises(NotAllowed):
        produced(again, number, b"2")
    assert made(again, "ships").number != number


def test_what_is_needed_or_whole_is_not_set_aside() -> None:
    """And nothing is changed; nor if something else is damaged too."""
    life = LIVES["restarted"]
    first, second = names_of(life, "commit")[:2]
    refused = {
        names_of(life, "manifest")[0]: "nothing else says which objects count",
        first: "is whole",
        names_of(life, "data segment")[0]: "is whole",
        names_of(life, "claim")[0]: "is whole",
        names_of(life, "checkpoint")[0]: "is whole",
        names.commit("x", 9, 9): "does not count",
        names.commit("meta", 1, 1): "the cluster's own log says which streams there are",
        "cluster.json": "is no object of a log",
    }
    for name, why in refused.items():
        storage = life.storage()
        if name.startswith("meta"):
            storage.put_if_absent(name, b"")
        with pytest.raises((InvalidValue, Damaged), match=why):
            list(set_aside(storage, [name], SeededRandomness(1), 0))
    storage = storage_of({n: d for n, d in life.objects.items() if n not in {first, second}})
    with pytest.raises(InvalidValue, match=f"{second} is damaged too"):
        list(set_aside(storage, [first], SeededRandomness(1), 0))
    cured(storage.snapshot(), first, second)


def test_several_objects_are_set_aside_together() -> None:
    """A log in which half of everything is gone."""
    life = LIVES["restarted"]
    wanted = [*names_of(life, "commit")[::2][:-1], names_of(life, "data segment")[1], names_of(life, "checkpoint")[0]]
    storage, _ = cured({n: d for n, d in life.objects.items() if n not in wanted}, *wanted)
    check_goes_on(life, storage)


@pytest.mark.parametrize("count", [1, 3, 99])
def test_commits_that_only_a_checkpoint_still_knows_are_a_gap(count: int) -> None:
    """A copy of a directory that was stopped, without its newest commits: where their partitions ended is known."""
    life = LIVES["stopped"]
    lost = names_of(life, "commit")[-count:]
    objects = {name: data for name, data in life.objects.items() if name not in lost}
    assert [problem.name for problem in check_all(storage_of(objects))] == lost
    storage, said = cured(objects, *lost)
    assert [line for line in said if "are lost" in line or count == 1]
    missing, refused = check_goes_on(life, storage)
    assert (missing > 0, refused) == (count > 1, [])


def test_a_checkpoint_is_not_set_aside_in_the_place_of_the_commits_it_knows() -> None:
    """Its offsets would be given again."""
    life = LIVES["stopped"]
    (known,) = names_of(life, "checkpoint")
    lost = names_of(life, "commit")[-1]
    for objects in (without(life, lost), {n: d for n, d in life.objects.items() if n not in {lost, known}}):
        with pytest.raises(InvalidValue, match=f"{lost} is damaged too"):
            list(set_aside(storage_of(objects), [known], SeededRandomness(1), 0))


def test_a_cured_log_merges_and_is_opened_again() -> None:
    """The rows in the place of what is lost are kept by merging, marks too."""
    life = LIVES["restarted"]
    lost = [names_of(life, "commit")[place] for place in (-6, -2)]
    storage, _ = cured({name: data for name, data in life.objects.items() if name not in lost}, *lost)
    clock = FakeClock()
    log = opened(storage, A, clock=clock, settings=replace(SETTINGS, merge_commits_min=1))
    before = (dict(log.announced.state.entries), log.announced.state.gaps())
    assert before[1]
    assert [key for key in before[0] if key.startswith("set-aside/")]
    topic = made(log, "new")
    produced(log, topic.number, b"1")
    merged(log, 3)
    again = opened(storage, A, clock=clock)
    assert (dict(again.announced.state.entries), again.announced.state.gaps()) == before


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_replica_passes_what_is_lost(place: int) -> None:
    """A new one has the gap too and is not behind; one that had the records keeps them."""
    log, number = grown_log()
    for value in (b"1", b"2", b"3"):
        produced(log, number, value)
        produced(log, number, value, partition=1)
    old = fresh(b"b" * 16)
    replicated(log, old)
    lost = names.commit("x", log.epoch.number, 1 + 2 * place)
    storage = log.announced.storage
    assert isinstance(storage, MemoryStorage)
    storage, _ = cured({n: d for n, d in storage.snapshot().items() if n != lost}, lost)
    source, new = opened(storage, A), fresh(b"c" * 16)
    if place < 2:
        produced(source, number, b"4")
    whole = {0: b"1", 1: b"2", 2: b"3", **({3: b"4"} if place < 2 else {})}
    for replica, expected in ((new, {at: value for at, value in whole.items() if at != place}), (old, whole)):
        replicated(source, replica)
        copy = replica.announced.state.by_name("ships")
        assert copy is not None
        assert values_at(replica, copy.number) == expected
        assert replica.announced.state.behind(b"l" * 16) == []


def test_a_commit_in_a_pack_is_set_aside(tmp_path: Path) -> None:
    """The head of its record cannot be read, so nobody knows where its data begins; the others of the pack stay, in the
    next starts too."""
    storage = always_packed(tmp_path, packs_max=1)
    log = opened(storage)
    number = made(log).number
    for value in (b"a", b"harmed", b"c"):
        commit = log.announced.end
        if value == b"harmed":
            name = names.commit(log.announced.prefix, log.epoch.number, commit)
        produced(log, number, value)
    storage.close()
    (pack,) = (tmp_path / ".packs").iterdir()
    data = bytearray(pack.read_bytes())
    data[data.index(name.encode())] ^= 1
    pack.write_bytes(data)
    storage = LocalStorage(tmp_path)
    assert [problem.name for problem in check_all(storage)] == [name]
    said = list(set_aside(storage, [name], SeededRandomness(4711), 0))
    assert said == [f"{name}: is now {names.set_aside(name)}", "topic ships, partition 0: offsets 1 to 1 are lost"]
    assert check_all(LocalStorage(tmp_path)) == []
    for _ in range(2):
        storage = always_packed(tmp_path, packs_max=1)
        log = opened(storage)
        assert [*values_at(log, number, offset=2).values()][:1] == [b"c"]
        produced(log, number, b"later")
        storage.close()
    assert list(values_at(log, number, offset=2).values()) == [b"c", b"later", b"later"]


@pytest.mark.parametrize("place", [100, 9000])
def test_a_log_goes_on_without_what_the_disk_cannot_give_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """A lost sector in one object keeps its log from writing, and no other from being opened; what lies elsewhere in
    the log can be read."""
    storage = LocalStorage(tmp_path)
    log = opened(storage)
    number = made(log).number
    produced(log, number, b"a")
    name = log.announced.manifest.commit_name(log.announced.end)
    produced(log, number, b"b" * 20_000)
    produced(log, number, b"c")
    with bad_sector(monkeypatch, f"{tmp_path}/{name}", place):
        log = opened(storage)
        assert isinstance(log.health.stopped, Damaged)
        assert [problem.name for problem in check_all(storage)] == [name]
        assert len(log.reader.fetch(number, 0, 0, 1000).batches) == 1
        with pytest.raises(Damaged, match="cannot be read"):
            log.reader.fetch(number, 0, 1, 1000)
        said = list(set_aside(storage, [name], SeededRandomness(4711), 0))
    assert said == [f"{name}: is now {names.set_aside(name)}", "topic ships, partition 0: offsets 1 to 1 are lost"]
    log = opened(storage)
    assert values_at(log, number, offset=2) == {2: b"c"}
    produced(log, number, b"later")


def test_a_checkpoint_that_the_disk_cannot_give_back_keeps_no_log_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is only a shortcut."""
    storage = LocalStorage(tmp_path)
    log = opened(storage, settings=MERGING)
    number = made(log).number
    for value in (b"a", b"b", b"c", b"d"):
        produced(log, number, value)
    merged(log, 5)
    entry = log.announced.manifest.checkpoint
    assert entry is not None
    with bad_sector(monkeypatch, f"{tmp_path}/{entry.name}", 0):
        log = opened(storage)
        assert log.health.stopped is None
        assert values_at(log, number) == {0: b"a", 1: b"b", 2: b"c", 3: b"d"}
