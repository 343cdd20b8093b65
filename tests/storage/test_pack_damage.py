"""A pack that is not as it was written is noticed: at the next start, by `check`, or when an object is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.packs import PACK_BYTES, always_packed, kill

from fairlead.model.errors import Damaged
from fairlead.storage import identity, names, pack_file
from fairlead.storage.identity import Identity
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage

PREFIX = "streams/" + 32 * "a" + "/shard-0000"
BLOCK = pack_file.BLOCK
COUNT = 6
"""Records of a block each, behind the header."""


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
    """A process that has put some commits; the last one has another size."""
    storage = always_packed(root, packs_max=1)
    for number in range(first, first + COUNT - 1):
        storage.put_if_absent(commit(number), b"%d|" % number * 50)
    storage.put_if_absent(commit(first + COUNT - 1), b"%d|" % first * 5000)
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
    assert list(ReadOnlyLocalStorage(root).check()) != []


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("number", range(1, COUNT))
@pytest.mark.parametrize("place", range(0, 24, 4))
def test_a_damaged_head_is_no_end(root: Path, number: int, place: int, ended: bool) -> None:
    """Wherever it lies before the last record: those behind it were acknowledged too. The mark of deletion is one of
    two words, and no byte of one makes it the other."""
    if ended:
        closed(root)
    flip(the_pack(root), number * BLOCK + place)
    refused(root, rf"{pack_file.FOLDER}/.*\.pack: the record at {number * BLOCK} cannot be read")


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("blocks", [1, 2])
def test_zeroed_blocks_are_no_end(root: Path, blocks: int, ended: bool) -> None:
    """As a disk leaves them that lost writes."""
    if ended:
        closed(root)
    zero(the_pack(root), 2 * BLOCK, bytes(blocks * BLOCK))
    refused(root, f"the record at {2 * BLOCK} cannot be read")


def test_the_last_record_of_a_registered_end_is_not_torn(root: Path) -> None:
    """It was whole when its end was registered."""
    closed(root)
    flip(the_pack(root), COUNT * BLOCK + 2 * BLOCK)
    refused(root, f"the record at {COUNT * BLOCK} cannot be read; by the register the pack ends at {9 * BLOCK}")


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


def test_an_older_version_of_a_pack_is_noticed(tmp_path: Path) -> None:
    """Its last records are as they were before they were written."""
    root = tmp_path / "data"
    storage = filled(root, 0)
    storage.put_if_absent(names.CLUSTER, identity.encode(Identity("sanfrancisco", b"i" * 16)))
    older = the_pack(root).read_bytes()
    storage.put_if_absent(commit(COUNT), b"later")
    storage.close()
    the_pack(root).write_bytes(older)
    refused(root, f"the record at {9 * BLOCK} cannot be read; by the register the pack ends at {10 * BLOCK}")


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
    head = pack_file.head("4711-000000000000", commit(9).encode(), [memoryview(b"x")], 1, 3 * BLOCK)
    gap = BLOCK - 24 - len(commit(2))
    storage.put_if_absent(commit(2), bytes(gap) + head + b"x")
    assert the_pack(root).read_bytes()[3 * BLOCK : 3 * BLOCK + len(head)] == head
    zero(the_pack(root), 2 * BLOCK)
    kill(root)
    assert list(always_packed(root).list("")) == [commit(1)]


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("place", [0, 5, 24, 24 + len(commit(2)), BLOCK - 24])
def test_an_object_is_compared_whenever_it_is_read(root: Path, place: int, server: bool) -> None:
    """Damage that comes while a server runs is not served, and neither is another record in its place."""
    data = {commit(number): b"%d|" % number * 50 for number in range(COUNT - 1)}
    big = b"0|" * 5000
    storage = always_packed(root) if server else ReadOnlyLocalStorage(root)
    assert storage.get(commit(2)) == data[commit(2)]
    assert storage.get(commit(COUNT - 1)) == big
    flip(the_pack(root), (3 if place != BLOCK - 24 else COUNT) * BLOCK + place)
    name = commit(2 if place != BLOCK - 24 else COUNT - 1)
    for length in (1, len(big) if name == commit(COUNT - 1) else 100):
        with pytest.raises(Damaged, match=rf"{name}: its record at \d+ of .*\.pack is not what was written"):
            storage.get_range(name, 0, length)
    assert storage.get(commit(1)) == data[commit(1)]


def test_marks_of_deletion_hide_no_damage(root: Path) -> None:
    """A record that is marked is still a record, and what comes behind one is still compared."""
    storage = always_packed(root)
    for number in (1, 2, COUNT - 1):
        storage.delete(commit(number))
    kill(root)
    kept = [commit(number) for number in (0, 3, 4)]
    assert list(always_packed(root).list(PREFIX + "/")) == kept
    kill(root)
    flip(the_pack(root), 3 * BLOCK + 9)
    refused(root, f"the record at {3 * BLOCK} cannot be read")
