"""What every storage does: in memory, as files of a directory, in packs of it, and by the view that only reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.support.disk import Disk, Disks, dying_at
from tests.support.packs import always_packed
from typing_extensions import Buffer

from fairlead.model.errors import Damaged, InvalidValue, Missing
from fairlead.storage import direct, names, pack_file
from fairlead.storage.interface import Put, Storage
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage
from fairlead.storage.memory import Crashed, MemoryStorage
from fairlead.storage.packs import PackSettings

SHARD = "streams/" + 32 * "a" + "/shard-0000"
SMALL_PACK_BYTES = 192 * 1024
SIZES = [0, 1, 5000, pack_file.OBJECT_BYTES_MAX, pack_file.OBJECT_BYTES_MAX + 1, direct.OBJECT_BYTES_MIN + 5]
"""Small and large objects: in a pack, in a file, past the page cache."""


def commit(number: int, epoch: int = 1) -> str:
    """A name that goes into a pack where there are any."""
    return names.commit(SHARD, epoch, number)


def data_of(size: int, number: int = 0) -> bytes:
    return (b"%d/%d|" % (number, size) * (size // 3 + 1))[:size]


@dataclass
class House:
    """A storage through all its processes, and a reader of it that may see only what they have put."""

    open: Callable[[], Storage]
    fail: Callable[[], None]
    """The power fails. What was not synced is gone."""
    read_only: Storage | None = None

    def __post_init__(self) -> None:
        self.storage = self.open()

    @property
    def reader(self) -> Storage:
        return self.read_only or self.storage

    def reopen(self) -> None:
        """The process ends and another begins."""
        self.storage = self.open()

    def power_fails(self) -> None:
        self.fail()
        self.reopen()


def in_memory() -> House:
    storage = MemoryStorage()

    def restarted() -> Storage:
        storage.restart()
        return storage

    return House(restarted, storage.crash)


def some_packed(root: Path) -> LocalStorage:
    """The first commits as files, the next in packs."""
    return LocalStorage(
        root, packs=PackSettings(pack_bytes=1 << 20, files_first=1, free_packs_min=1, aside=lambda make: make())
    )


DIRECTORIES: dict[str, Callable[[Path], Storage]] = {
    "files": LocalStorage,
    "packs": always_packed,
    "packs of which few fit": lambda root: always_packed(root, packs_max=2, pack_bytes=SMALL_PACK_BYTES),
    "files, then packs": some_packed,
}


READ_ONLY = ", read only"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with Disks().in_use() as disks:
        yield disks.add(tmp_path / "data")


@pytest.fixture(params=["memory", *DIRECTORIES, *(kind + READ_ONLY for kind in DIRECTORIES)])
def house(request: pytest.FixtureRequest, disk: Disk) -> House:
    if request.param == "memory":
        return in_memory()
    kind = request.param.removesuffix(READ_ONLY)
    reader = ReadOnlyLocalStorage(disk.root) if request.param.endswith(READ_ONLY) else None
    return House(lambda: DIRECTORIES[kind](disk.root), disk.power_fails, reader)


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("size", SIZES)
def test_an_object_is_read_as_it_was_put(house: House, size: int) -> None:
    """Whole, in part, and its size; the one put before and the one after it are others."""
    objects = {commit(number): data_of(size, number) for number in range(3)}
    for name, data in objects.items():
        assert house.storage.put_if_absent(name, data) is Put.WRITTEN
    for name, data in objects.items():
        assert house.reader.get(name) == data
        assert house.reader.get_range(name, size // 3, size // 2) == data[size // 3 : size // 3 + size // 2]
        assert house.reader.get_range(name, 0, size) == data
        assert house.reader.get_range(name, size, 0) == b""
        ranges = [(size // 2, size // 3), (0, size), (size // 4, min(size - size // 4, 2000)), (0, 0)]
        assert [*house.reader.get_ranges(name, ranges)] == [data[start : start + length] for start, length in ranges]
        assert not house.reader.get_ranges(name, [])
        assert house.reader.size(name) == size


def test_other_names_than_those_of_commits_are_objects_too(house: House) -> None:
    """Whatever the folders."""
    assert house.storage.put_if_absent("a/b/one", b"0123456789") is Put.WRITTEN
    assert house.reader.get("a/b/one") == b"0123456789"
    assert house.reader.get_range("a/b/one", 3, 4) == b"3456"
    assert house.reader.size("a/b/one") == 10


@pytest.mark.parametrize("name", ["x", commit(1)])
def test_buffers_are_stored_one_after_the_other(house: House, name: str) -> None:
    """Also thousands of them, and empty ones."""
    pieces: list[Buffer] = [
        b"",
        *[bytes([n % 251]) * (n % 7) for n in range(3000)],
        memoryview(b"end"),
        bytearray(b"!"),
    ]
    house.storage.put_if_absent(name, pieces)
    assert house.reader.get(name) == b"".join(pieces)


@pytest.mark.parametrize("name", ["x", commit(1)])
def test_an_empty_object_is_an_object(house: House, name: str) -> None:
    """Its size is 0 and not None."""
    house.storage.put_if_absent(name, b"")
    assert house.reader.size(name) == 0
    assert house.reader.get(name) == b""
    assert house.storage.put_if_absent(name, []) is Put.MINE


@pytest.mark.parametrize("name", ["a/x", commit(7)])
def test_what_is_missing_is_said_to_be(house: House, name: str) -> None:
    """By get and get_range with an error that names it, by size with None; beside others too."""
    house.storage.put_if_absent(commit(1), b"1")
    assert house.reader.size(name) is None
    with pytest.raises(Missing, match=name):
        house.reader.get(name)
    with pytest.raises(Missing):
        house.reader.get_range(name, 0, 1)
    with pytest.raises(Missing):
        house.reader.get_ranges(name, [(0, 1)])
    with pytest.raises(Missing):
        house.reader.get_unchecked(name)


@pytest.mark.parametrize("name", ["x", commit(1)])
@pytest.mark.parametrize("size", [4, direct.OBJECT_BYTES_MIN])
def test_reading_beyond_the_end_is_damage(house: House, name: str, size: int) -> None:
    """A shortened object must not be taken for a whole one, nor what was put after it for its rest."""
    house.storage.put_if_absent(name, data_of(size))
    house.storage.put_if_absent(commit(2), b"what follows")
    with pytest.raises(Damaged, match=f"ends at {size} bytes, {size + 2} were expected"):
        house.reader.get_range(name, 2, size)
    with pytest.raises(Damaged, match=f"ends at {size} bytes, {size + 2} were expected"):
        house.reader.get_ranges(name, [(0, 1), (2, size)])
    with pytest.raises(Damaged, match=f"ends at {size} bytes, {size + 3} were expected"):
        house.reader.get_ranges(name, [(size - 1, 4)])


def test_names_are_listed_in_order_at_any_depth(house: House) -> None:
    """Order is that of the whole names, folders included, wherever the objects lie."""
    commits = [commit(number, epoch) for epoch in (1, 2) for number in (0, 3, 10)]
    plain = ["a-b", "a/1", "a/2/x", "a/10", "ab/c", "b", "streams/a", "streamt"]
    for name in reversed([*plain, *commits]):
        house.storage.put_if_absent(name, name.encode())
    assert list(house.reader.list("")) == sorted([*plain, *commits])
    assert list(house.reader.list("a/")) == ["a/1", "a/10", "a/2/x"]
    assert list(house.reader.list("a/2/")) == ["a/2/x"]
    assert list(house.reader.list("nothing/")) == []
    assert list(house.reader.list("streams/")) == sorted(["streams/a", *commits])
    assert list(house.reader.list(f"{SHARD}/")) == commits
    assert list(house.reader.list(f"{SHARD}/commit/{2:020d}/")) == commits[3:]
    assert list(house.reader.list(f"{SHARD}/commit/{3:020d}/")) == []


def test_a_reader_sees_what_is_put_while_it_reads(house: House) -> None:
    """And what it missed before."""
    for number in range(12):
        with pytest.raises(Missing):
            house.reader.get(commit(number))
        house.storage.put_if_absent(commit(number), b"%d" % number)
        assert house.reader.get(commit(number)) == b"%d" % number
    assert list(house.reader.list("")) == [commit(number) for number in range(12)]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "a//b", "../x", "a/../../x", ".packs/x"])
def test_no_name_leads_out_of_a_directory(house: House, name: str) -> None:
    """In memory nothing lies outside."""
    if not isinstance(house.storage, MemoryStorage):
        with pytest.raises(InvalidValue):
            house.reader.get(name)


# ---------------------------------------------------------------- putting


@pytest.mark.parametrize("size", [1, 5000, pack_file.OBJECT_BYTES_MAX + 1, direct.OBJECT_BYTES_MIN + 5])
def test_a_name_is_given_once(house: House, size: int) -> None:
    """The same bytes again are mine, other bytes are another's, and nothing changes; the next process says so too."""
    data = data_of(size)
    house.storage.put_if_absent(commit(1), data)
    for _ in range(2):
        assert house.storage.put_if_absent(commit(1), [data[: size // 2], data[size // 2 :]]) is Put.MINE
        assert house.storage.put_if_absent(commit(1), data[:-1] + b"!") is Put.ANOTHER
        assert house.storage.put_if_absent(commit(1), data + b"longer") is Put.ANOTHER
        assert house.storage.put_if_absent(commit(1), bytes(200_000)) is Put.ANOTHER
        assert house.reader.get(commit(1)) == data
        house.reopen()


def test_deleting_twice_is_no_error(house: House) -> None:
    """And the object is gone; what was never there may be deleted too."""
    for name in ("a/x", commit(1), commit(2)):
        house.storage.put_if_absent(name, b"1")
    for name in ("a/x", commit(1), "b/never", commit(9)):
        house.storage.delete(name)
        house.storage.delete(name)
    assert list(house.storage.list("")) == [commit(2)]
    for name in ("a/x", commit(1)):
        assert house.storage.size(name) is None
        with pytest.raises(Missing):
            house.storage.get(name)


def test_free_space_is_a_part_of_the_whole(house: House) -> None:
    """Both are numbers of bytes."""
    assert 0 < house.reader.free_bytes() <= house.reader.total_bytes()


def test_sync_of_a_folder_that_is_not_there_is_no_error(house: House) -> None:
    """A new log is synced before anything is in it."""
    house.storage.sync("meta/")
    house.storage.put_if_absent("meta/x", b"")
    house.storage.sync("meta/")


# ---------------------------------------------------------------- one process after the other


def filled(house: House, count: int, size: int, first: int = 0) -> dict[str, bytes]:
    """So many commits, each answered for."""
    objects = {commit(number): data_of(size, number) for number in range(first, first + count)}
    for name, data in objects.items():
        assert house.storage.put_if_absent(name, data) is Put.WRITTEN
    return objects


def check(house: House, objects: dict[str, bytes]) -> None:
    """Exactly these objects are there; only the view that has seen others may have them still."""
    assert list(house.storage.list("")) == sorted(objects)
    seen = list(house.reader.list(""))
    assert seen == sorted(seen)
    assert set(seen) == objects.keys() or (house.read_only is not None and set(seen) > objects.keys())
    for name, data in objects.items():
        assert house.reader.get(name) == house.storage.get(name) == data


@pytest.mark.parametrize("size", [10, 20_000])
def test_what_one_process_put_the_next_ones_have(house: House, size: int) -> None:
    """More than goes into some packs, with deletions in between."""
    objects: dict[str, bytes] = {}
    for first in (0, 100, 200):
        objects |= filled(house, 30, size, first)
        for name in list(objects)[::4]:
            house.storage.delete(name)
            del objects[name]
        check(house, objects)
        house.reopen()
        check(house, objects)
    for name in objects:
        house.storage.delete(name)
    check(house, {})


@pytest.mark.parametrize("size", [10, 20_000, pack_file.OBJECT_BYTES_MAX + 1])
def test_what_was_answered_for_outlives_a_power_failure(house: House, size: int) -> None:
    """Whole, one failure after the other; what was deleted may come back."""
    objects = filled(house, 20, size)
    house.power_fails()
    check(house, objects)
    more = filled(house, 10, size, first=20)
    gone = [commit(3), commit(25)]
    for name in gone:
        house.storage.delete(name)
    house.power_fails()
    found = set(house.storage.list(""))
    assert found | set(gone) == objects.keys() | more.keys()
    check(house, {name: data for name, data in (objects | more).items() if name in found})


OTHER = "streams/" + 32 * "b" + "/shard-0000"


def beside(house: House) -> dict[str, bytes]:
    """Objects of another stream, in the same packs."""
    objects = {names.commit(OTHER, 1, number): data_of(10, number) for number in range(3)}
    objects[names.manifest(OTHER, 1, 1)] = b"{}"
    for name, data in objects.items():
        assert house.storage.put_if_absent(name, data) is Put.WRITTEN
    return objects


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("size", [10, 20_000, pack_file.OBJECT_BYTES_MAX + 1])
def test_what_was_removed_with_all_others_stays_away(house: House, size: int, begun: bool) -> None:
    """Also what a process that ended had deleted already."""
    gone = filled(house, 12, size) | {names.manifest(SHARD, 1, 1): b"{}"}
    house.storage.put_if_absent(names.manifest(SHARD, 1, 1), b"{}")
    kept = beside(house)
    if begun:
        if isinstance(house.storage, LocalStorage):
            house.storage.close()  # nobody syncs packs again whose ends are registered
        house.reopen()
        for name in gone:
            house.storage.delete(name)
        house.reopen()
    for _ in range(2):
        house.storage.remove_all("streams/" + 32 * "a" + "/")
    check(house, kept)
    house.power_fails()
    check(house, kept)


@pytest.mark.parametrize("kind", DIRECTORIES)
def test_who_dies_while_all_is_removed_leaves_it_to_the_next(disk: Disk, kind: str) -> None:
    """At whichever call of the system, with and without a power failure."""
    place, died = 0, True
    while died:
        for power in POWER.values():
            disk.wipe()
            house = House(lambda: DIRECTORIES[kind](disk.root), disk.power_fails)
            filled(house, 12, 5000)
            kept = beside(house)
            with dying_at(place) as process, suppress(Crashed):
                house.storage.remove_all("streams/" + 32 * "a" + "/")
            died = process.died
            power(disk, place)
            house.reopen()
            if died:
                house.storage.remove_all("streams/" + 32 * "a" + "/")
            house.power_fails()
            check(house, kept)
        place += 3
    assert place > 3


@pytest.mark.parametrize("name", ["a/x", commit(1)])
def test_what_is_said_to_be_mine_outlives_a_power_failure(house: House, name: str) -> None:
    """Though it was another process that put it, or this one at another time."""
    house.storage.put_if_absent(name, b"1")
    house.reopen()
    assert house.storage.put_if_absent(name, b"1") is Put.MINE
    house.power_fails()
    assert house.reader.get(name) == b"1"


POWER: dict[str, Callable[[Disk, int], None]] = {
    "the power stays": lambda disk, place: None,
    "all is lost that was not synced": lambda disk, place: disk.power_fails(),
    "some of it is lost": lambda disk, place: disk.power_fails(survives_by(Random(place))),
}


def survives_by(random: Random) -> Callable[[str], bool]:
    return lambda what: random.random() < 0.5


@pytest.mark.parametrize("size", [5000, pack_file.OBJECT_BYTES_MAX + 1])
@pytest.mark.parametrize("power", POWER)
@pytest.mark.parametrize("kind", DIRECTORIES)
def test_a_process_that_died_in_a_put_left_all_of_it_or_nothing(disk: Disk, kind: str, size: int, power: str) -> None:
    """At whichever call of the system: what was answered before stays, and who puts it again knows where it stands."""
    place = 0
    while dies_in_put(DIRECTORIES[kind], disk, place, size, POWER[power]):
        disk.wipe()
        place += 1
    assert place >= 2


def dies_in_put(
    make: Callable[[Path], Storage], disk: Disk, place: int, size: int, power: Callable[[Disk, int], None]
) -> bool:
    """False if the put came to its end first."""
    storage = make(disk.root)
    before = [data_of(size, number) for number in range(3)]
    for number, data in enumerate(before):
        assert storage.put_if_absent(commit(number), data) is Put.WRITTEN
    with dying_at(place) as process, suppress(Crashed):
        assert storage.put_if_absent(commit(3), data_of(size, 3)) is Put.WRITTEN
    power(disk, place)
    storage, reader = make(disk.root), ReadOnlyLocalStorage(disk.root)
    assert [storage.get(commit(number)) for number in range(3)] == before
    assert [reader.get(commit(number)) for number in range(3)] == before
    assert storage.size(commit(3)) in ({None, size} if process.died else {size})
    assert storage.put_if_absent(commit(3), data_of(size, 3)) in {Put.WRITTEN, Put.MINE}
    disk.power_fails()
    assert make(disk.root).get(commit(3)) == reader.get(commit(3)) == data_of(size, 3)
    return process.died
