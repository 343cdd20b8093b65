"""What every storage does, on the local directory and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.model.errors import Damaged, Missing
from fairlead.storage.interface import Put, Storage
from fairlead.storage.local import LocalStorage
from fairlead.storage.memory import MemoryStorage


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path / "data") if request.param == "local" else MemoryStorage()


def test_an_object_is_read_as_it_was_put(storage: Storage) -> None:
    """Whole, in part, and its size."""
    assert storage.put_if_absent("a/b/one", b"0123456789") is Put.WRITTEN
    assert storage.get("a/b/one") == b"0123456789"
    assert storage.get_range("a/b/one", 3, 4) == b"3456"
    assert storage.size("a/b/one") == 10


def test_buffers_are_stored_one_after_the_other(storage: Storage) -> None:
    """Also thousands of them, and empty ones."""
    pieces = [b"", *[bytes([n % 251]) * (n % 7) for n in range(3000)], memoryview(b"end"), bytearray(b"!")]
    storage.put_if_absent("x", pieces)
    assert storage.get("x") == b"".join(pieces)


def test_a_name_is_given_once(storage: Storage) -> None:
    """The same bytes again are mine, other bytes are another's, and nothing changes."""
    storage.put_if_absent("x", b"one")
    assert storage.put_if_absent("x", [b"o", b"ne"]) is Put.MINE
    assert storage.put_if_absent("x", b"two") is Put.ANOTHER
    assert storage.put_if_absent("x", b"longer than one") is Put.ANOTHER
    assert storage.get("x") == b"one"


def test_an_empty_object_is_an_object(storage: Storage) -> None:
    """Its size is 0 and not None."""
    storage.put_if_absent("x", b"")
    assert storage.size("x") == 0
    assert storage.get("x") == b""
    assert storage.put_if_absent("x", []) is Put.MINE


def test_what_is_missing_is_said_to_be(storage: Storage) -> None:
    """By get and get_range with an error, by size with None."""
    assert storage.size("a/x") is None
    with pytest.raises(Missing, match="a/x"):
        storage.get("a/x")
    with pytest.raises(Missing):
        storage.get_range("a/x", 0, 1)


def test_reading_beyond_the_end_is_damage(storage: Storage) -> None:
    """A shortened object must not be taken for a whole one."""
    storage.put_if_absent("x", b"0123")
    with pytest.raises(Damaged, match="ends at 4 bytes, 6 were expected"):
        storage.get_range("x", 2, 4)


def test_names_are_listed_in_order_at_any_depth(storage: Storage) -> None:
    """Order is that of the whole names, folders included."""
    names = ["a-b", "a/1", "a/2/x", "a/10", "ab/c", "b"]
    for name in reversed(names):
        storage.put_if_absent(name, name.encode())
    assert list(storage.list("")) == sorted(names)
    assert list(storage.list("a/")) == ["a/1", "a/10", "a/2/x"]
    assert list(storage.list("a/2/")) == ["a/2/x"]
    assert list(storage.list("nothing/")) == []


def test_deleting_twice_is_no_error(storage: Storage) -> None:
    """And the object is gone."""
    storage.put_if_absent("a/x", b"1")
    storage.delete("a/x")
    storage.delete("a/x")
    storage.delete("b/never")
    assert storage.size("a/x") is None
    assert list(storage.list("")) == []


def test_free_space_is_a_part_of_the_whole(storage: Storage) -> None:
    """Both are numbers of bytes."""
    assert 0 < storage.free_bytes() <= storage.total_bytes()


def test_sync_of_a_folder_that_is_not_there_is_no_error(storage: Storage) -> None:
    """A new log is synced before anything is in it."""
    storage.sync("meta/")
    storage.put_if_absent("meta/x", b"")
    storage.sync("meta/")
