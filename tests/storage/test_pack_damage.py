"""A pack that is not as it was written is noticed: at the next start, by `check`, or when an object is read.

One record that cannot be read is a damaged object like any other: it is known by name, and stops its own log."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from tests.support.packs import PACK_BYTES, always_packed, kill

from fairlead.model.errors import Damaged
from fairlead.storage import files, identity, names, pack_file
from fairlead.storage.identity import Identity
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage

PREFIX = "streams/" + 32 * "a" + "/shard-0000"
BLOCK = pack_file.BLOCK
COUNT = 6
"""Records of a block each, behind the header; the last one has more."""
DATA = [*(b"%d|" % number * 50 for number in range(COUNT - 1)), b"0|" * 5000]
HEAD = 36
"""Numbers of a record's head; its name follows."""


def commit(number: int) -> str:
    return names.commit(PREFIX, 1, number)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a pack of some commits, which a process left that was killed."""
    storage = filled(tmp_path / "data", 0)
    storage.put_if_absent(names.CLUSTER, identity.encode(Identity("sanfrancisco", b"i" * 16)))
    kill(tmp_path / "data")
    return tmp_path / "data"


def filled(root: Path, first: int) -> LocalStorage:
    """A process that has put some commits."""
    storage = always_packed(root, packs_max=1)
    for number, data in enumerate(DATA):
        storage.put_if_absent(commit(first + number), data)
    return storage


def the_pack(root: Path) -> Path:
    (pack,) = (root / pack_file.FOLDER).iterdir()
    return pack


def closed(root: Path) -> None:
    """Some process has taken the packs over and was stopped, so their ends are registered."""
    always_packed(root).close()


def flip(file: Path, place: int) -> None:
    zero(file, place, bytes([file.read_bytes()[place] ^ 1]))


def zero(file: Path, place: int, data: bytes = bytes(BLOCK)) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(data)


def refused(root: Path, match: str) -> None:
    """No server starts on it, and fsck says the same."""
    with pytest.raises(Damaged, match=match) as start:
        always_packed(root)
    assert [str(error) for error in ReadOnlyLocalStorage(root).check()] == [str(start.value)]


def damaged_alone(root: Path, number: int, kept: Collection[int] = range(COUNT)) -> None:
    """That commit cannot be read and is there by its name; all others can be, by the next server and by readers."""
    name = commit(number)
    server = always_packed(root)
    for storage in (ReadOnlyLocalStorage(root), server, ReadOnlyLocalStorage(root)):
        assert list(storage.list(PREFIX + "/")) == [commit(each) for each in sorted({*kept, number})]
        with pytest.raises(Damaged, match=rf"{name}: its record at \d+ of .*\.pack is not what was written"):
            storage.get(name)
        for each in set(kept) - {number}:
            assert storage.get(commit(each)) == DATA[each]
        assert list(storage.check()) == []
    with pytest.raises(Damaged):
        server.put_if_absent(name, DATA[number])
    server.close()


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("number", range(COUNT - 1))
@pytest.mark.parametrize("place", [*range(0, HEAD, 4), HEAD, HEAD + len(commit(0)) - 1])
def test_a_damaged_head_is_no_end(root: Path, number: int, place: int, ended: bool) -> None:
    """Wherever it lies before the last record, those behind it were acknowledged too, and the next one names it. The
    mark of deletion is one of two words, and no byte of one makes it the other; a name is not taken for another."""
    if ended:
        closed(root)
    flip(the_pack(root), (number + 1) * BLOCK + place)
    damaged_alone(root, number)


@pytest.mark.parametrize("ended", [False, True])
def test_a_zeroed_block_is_no_end(root: Path, ended: bool) -> None:
    """As a disk leaves it that lost a write."""
    if ended:
        closed(root)
    zero(the_pack(root), 2 * BLOCK)
    damaged_alone(root, 1)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("blocks", [2, 3])
def test_several_records_that_cannot_be_read_stop_the_server(root: Path, blocks: int, ended: bool) -> None:
    """Nobody knows of which logs they were: any may have lost its newest commits, and would give offsets again."""
    if ended:
        closed(root)
    zero(the_pack(root), 2 * BLOCK, bytes(blocks * BLOCK))
    refused(root, rf"{pack_file.FOLDER}/.*\.pack: the record at {2 * BLOCK} cannot be read")


@pytest.mark.parametrize("place", [0, HEAD, 200, 2 * BLOCK])
def test_the_last_record_of_a_registered_end_is_not_torn(root: Path, place: int) -> None:
    """It was whole when its end was registered, and the register names it."""
    closed(root)
    flip(the_pack(root), COUNT * BLOCK + place)
    server = always_packed(root)
    assert list(server.list(PREFIX + "/")) == [commit(each) for each in range(COUNT)]
    with pytest.raises(Damaged, match="is not what was written"):
        server.get(commit(COUNT - 1))
    assert server.get(commit(COUNT - 2)) == DATA[COUNT - 2]


def test_the_last_record_of_a_process_that_was_killed_may_be_torn(root: Path) -> None:
    """Its end is registered then, without the record: nothing of it comes back."""
    flip(the_pack(root), COUNT * BLOCK + 2 * BLOCK)
    again = always_packed(root)
    assert list(again.list(PREFIX + "/")) == [commit(number) for number in range(COUNT - 1)]
    kill(root)
    flip(the_pack(root), COUNT * BLOCK + 2 * BLOCK)
    assert len(list(always_packed(root).list(PREFIX + "/"))) == COUNT - 1


def test_what_was_written_far_behind_a_torn_record_is_damage(root: Path) -> None:
    """At most one record is under way in a pack."""
    flip(the_pack(root), COUNT * BLOCK + 9)
    zero(the_pack(root), PACK_BYTES - BLOCK, b"somebody's")
    refused(root, f"the record at {COUNT * BLOCK} cannot be read, and it is not the last")


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "the pack is missing"),
    "emptied": (lambda file: os.truncate(file, 0), "has not the header"),
    "cut": (lambda file: os.truncate(file, PACK_BYTES - 1), "has not the header"),
    "longer": (lambda file: os.truncate(file, PACK_BYTES + 1), "has not the header"),
    "zeroed": (lambda file: zero(file, 0, bytes(PACK_BYTES)), "has not the header"),
    "another name in its header": (lambda file: flip(file, 20), "has not the header"),
    "behind the name in its header": (lambda file: flip(file, BLOCK - 1), "has not the header"),
}


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("harm", HARMS)
def test_a_pack_that_is_missing_or_cut_is_noticed(root: Path, harm: str, ended: bool) -> None:
    """Though all of its commits are gone with it, and nothing else of them is known."""
    if ended:
        closed(root)
    change, said = HARMS[harm]
    change(the_pack(root))
    refused(root, rf"{pack_file.FOLDER}/.*\.pack: {said}")


@pytest.mark.parametrize("later", [1, 2])
def test_an_older_version_of_a_pack_is_noticed(tmp_path: Path, later: int) -> None:
    """Its last records are as they were before they were written. If it is one, the register names it."""
    root = tmp_path / "data"
    storage = filled(root, 0)
    storage.put_if_absent(names.CLUSTER, identity.encode(Identity("sanfrancisco", b"i" * 16)))
    older = the_pack(root).read_bytes()
    for number in range(later):
        storage.put_if_absent(commit(COUNT + number), b"later")
    storage.close()
    the_pack(root).write_bytes(older)
    if later > 1:
        refused(root, f"the record at {9 * BLOCK} cannot be read; by the register the pack ends at {11 * BLOCK}")
    else:
        with pytest.raises(Damaged, match=f"{commit(COUNT)}: its record at {9 * BLOCK} .* is not what was written"):
            always_packed(root).get(commit(COUNT))


def test_packs_that_changed_places_are_noticed(root: Path) -> None:
    """Each holds its name."""
    filled(root, COUNT).close()
    one, two = (root / pack_file.FOLDER).iterdir()
    shutil.move(one, root / "aside")
    shutil.move(two, one)
    shutil.move(root / "aside", two)
    with pytest.raises(Damaged, match="has not the header of a pack of this name"):
        always_packed(root)
    assert len(ReadOnlyLocalStorage(root).check()) == 2


def test_blocks_that_changed_places_are_no_records(root: Path) -> None:
    """The checksum of a head covers its place."""
    pack = the_pack(root)
    data = pack.read_bytes()
    pack.write_bytes(data[: 2 * BLOCK] + data[3 * BLOCK : 4 * BLOCK] + data[2 * BLOCK : 3 * BLOCK] + data[4 * BLOCK :])
    refused(root, f"the record at {2 * BLOCK} cannot be read")


def test_data_that_looks_like_a_record_is_none(tmp_path: Path) -> None:
    """What a producer sends cannot make a torn commit look like damage: the checksum covers the name of the pack."""
    root = tmp_path / "data"
    storage = always_packed(root, packs_max=1)
    storage.put_if_absent(commit(1), b"x")
    forged = pack_file.Place(commit(9), 3 * BLOCK)
    head = pack_file.head("4711-000000000000", forged, pack_file.Place(commit(2), 2 * BLOCK), [memoryview(b"x")], 1)
    gap = BLOCK - HEAD - len(commit(2)) - 1  # the name of the commit before ends in another digit
    storage.put_if_absent(commit(2), bytes(gap) + head + b"x")
    assert the_pack(root).read_bytes()[3 * BLOCK : 3 * BLOCK + len(head)] == head
    zero(the_pack(root), 2 * BLOCK)
    kill(root)
    assert list(always_packed(root).list("")) == [commit(1)]


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("number", [2, COUNT - 1])
@pytest.mark.parametrize("place", [0, 5, HEAD, HEAD + len(commit(2)), 200])
def test_an_object_is_compared_whenever_it_is_read(root: Path, place: int, number: int, server: bool) -> None:
    """Damage that comes while a server runs is not served, and neither is another record in its place."""
    storage = always_packed(root) if server else ReadOnlyLocalStorage(root)
    name = commit(number)
    assert storage.get(name) == DATA[number]
    flip(the_pack(root), (number + 1) * BLOCK + place)
    for length in (1, len(DATA[number])):
        with pytest.raises(Damaged, match=rf"{name}: its record at \d+ of .*\.pack is not what was written"):
            storage.get_range(name, 0, length)
    assert storage.get(commit(1)) == DATA[1]


def test_marks_of_deletion_hide_no_damage(root: Path) -> None:
    """A record that is marked is still a record, and what comes behind one is still compared. A deletion whose mark
    cannot be read has come undone."""
    storage = always_packed(root)
    for number in (1, 2, COUNT - 1):
        storage.delete(commit(number))
    kill(root)
    assert list(always_packed(root).list(PREFIX + "/")) == [commit(number) for number in (0, 3, 4)]
    kill(root)
    flip(the_pack(root), 3 * BLOCK + 9)
    damaged_alone(root, 2, kept=(0, 3, 4))
    kill(root)
    flip(the_pack(root), 3 * BLOCK + 9)
    flip(the_pack(root), 4 * BLOCK + 9)
    damaged_alone(root, 3, kept=(0, 4))


def test_a_lost_record_at_the_end_is_known_while_fsck_looks(root: Path) -> None:
    """Who has a pack locked is its maker, unless its end is registered: then it is somebody who reads it."""
    closed(root)
    pack = the_pack(root)
    flip(pack, pack.read_bytes().rindex(commit(COUNT - 1).encode()))
    descriptor = os.open(pack, os.O_RDONLY)
    assert files.lock(descriptor)
    try:
        server = always_packed(root)
    finally:
        os.close(descriptor)
    with pytest.raises(Damaged, match="is not what was written"):
        server.get(commit(COUNT - 1))


def test_a_reader_that_checked_knows_the_last_record_of_a_registered_end(root: Path) -> None:
    """As a server does, and so `fsck` names the commit; also if the reader had looked before, checks twice, and
    somebody else looks at the pack with a lock."""
    closed(root)
    flip(the_pack(root), COUNT * BLOCK)
    reader = ReadOnlyLocalStorage(root)
    assert len(list(reader.list(PREFIX + "/"))) == COUNT - 1
    for locked in (False, True):
        with the_pack(root).open("rb") as other:
            assert not locked or files.lock(other.fileno())
            assert list(reader.check()) == []
        assert list(reader.list(PREFIX + "/")) == [commit(each) for each in range(COUNT)]
        with pytest.raises(Damaged, match="is not what was written"):
            reader.get(commit(COUNT - 1))


def test_a_reader_that_checked_sees_nothing_behind_a_registered_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a record whose sync failed: no server takes it for one."""
    root = tmp_path / "data"
    storage = filled(root, 0)
    storage.put_if_absent(names.CLUSTER, identity.encode(Identity("sanfrancisco", b"i" * 16)))
    sync, pack = os.fdatasync, the_pack(root)

    def failing(descriptor: int) -> None:
        if os.path.sameopenfile(descriptor, opened.fileno()):
            raise OSError(errno.EIO, "the disk")
        sync(descriptor)

    with monkeypatch.context() as patch, pack.open("rb") as opened:
        patch.setattr(os, "fdatasync", failing)
        assert storage.put_if_absent(commit(COUNT), b"failed") is Put.UNKNOWN
    reader = ReadOnlyLocalStorage(root)
    assert list(reader.list(PREFIX + "/")) == [commit(each) for each in range(COUNT + 1)]
    assert list(reader.check()) == []
    assert list(reader.list(PREFIX + "/")) == [commit(each) for each in range(COUNT)]
    assert list(always_packed(root).list(PREFIX + "/")) == [commit(each) for each in range(COUNT)]


def test_a_reader_that_checked_still_sees_what_comes_before_the_damage_of_a_pack(root: Path) -> None:
    """The pack is named once, and not each of its commits as missing too."""
    zero(the_pack(root), 3 * BLOCK, bytes(2 * BLOCK))
    reader = ReadOnlyLocalStorage(root)
    assert len(reader.check()) == 1
    assert list(reader.list(PREFIX + "/")) == [commit(0), commit(1)]
    assert reader.get(commit(1)) == DATA[1]


def test_a_reader_that_checked_sees_nothing_of_a_pack_that_is_removed(root: Path) -> None:
    """The process ended before the file was gone; the last record of an empty pack is not marked deleted."""
    pack = the_pack(root)
    last = root / "last"
    os.link(pack, last)
    storage = always_packed(root)
    for number in range(COUNT):
        storage.delete(commit(number))
    assert not pack.exists()
    os.link(last, pack)
    reader = ReadOnlyLocalStorage(root)
    assert list(reader.check()) == []
    assert list(reader.list(PREFIX + "/")) == []
