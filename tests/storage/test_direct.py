"""Large objects pass the page cache: the same bytes, at every length and place."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.errors import Damaged, StorageFull
from fairlead.storage import direct
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage

KB = 1024
BUFFER_BYTES = 64 * KB
SIZES = st.one_of(
    st.integers(0, 20_000),
    st.integers(-5, 5).map(lambda n: direct.OBJECT_BYTES_MIN + n),
    st.integers(-5000, 5000).map(lambda n: 8 * BUFFER_BYTES + n),
    st.integers(400_000, 700_000),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=4), st.data())
def test_what_was_put_is_read(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject) -> None:
    """Whole and in part, whatever the pieces were, through a buffer that is smaller."""
    storage = LocalStorage(tmp_path_factory.mktemp("direct"))
    pieces = [os.urandom(size) for size in sizes]
    length = sum(sizes)
    start = data.draw(st.integers(0, length))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "BUFFER", direct.Buffer(BUFFER_BYTES))
        check(storage, pieces, start, data.draw(st.integers(0, length - start)))


def test_what_is_larger_than_the_buffer_is_read_as_it_was_put(tmp_path: Path) -> None:
    size = len(direct.BUFFER.get())
    check(LocalStorage(tmp_path), [os.urandom(size + 5), os.urandom(77)], 3, size + 70)


def check(storage: LocalStorage, pieces: list[bytes], start: int, length: int) -> None:
    whole = b"".join(pieces)
    assert storage.put_if_absent("x", pieces) is Put.WRITTEN
    assert storage.size("x") == len(whole)
    assert storage.get("x") == whole
    assert storage.get_range("x", start, length) == whole[start : start + length]
    assert storage.put_if_absent("x", whole) is Put.MINE
    with pytest.raises(Damaged, match=f"ends at {len(whole)} bytes"):
        storage.get_range("x", start, len(whole) - start + 1)


def test_a_file_system_without_it_is_used_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "enable", lambda _: False)
    storage = LocalStorage(tmp_path)
    data = os.urandom(3_000_001)
    assert storage.put_if_absent("x", data) is Put.WRITTEN
    assert storage.get("x") == data


def test_large_objects_are_written_and_read_past_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would cost what it is to save; small ones go through it."""
    with (tmp_path / "probe").open("wb") as file:
        if not direct.enable(file.fileno()):
            pytest.skip("the file system of the temporary folder knows no O_DIRECT")
    storage = LocalStorage(tmp_path)
    for name, size, past in (("large", 1_000_000, True), ("small", 100_000, False)):
        data = os.urandom(size)
        with monkeypatch.context() as patch:
            asked = moved_past_the_cache(patch)
            storage.put_if_absent(name, data)
            assert storage.get(name) == data
            assert storage.get_range(name, 10, 50_000) == data[10:50_010]
        assert len(asked) >= 3
        assert set(asked) == {past}


def test_small_ranges_of_one_object_are_read_through_one_descriptor_and_ahead_of_being_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large object lies on the disk only: hundreds of small batches would wait for it one by one. Ranges that are far
    apart are not worth reading what is between them."""
    storage = LocalStorage(tmp_path)
    data = os.urandom(3_000_000)
    storage.put_if_absent("x", data)
    expected: list[tuple[int, int]] = []
    opened: list[str] = []
    really_open = os.open

    def open_noted(path: str, flags: int) -> int:
        opened.append(path)
        return really_open(path, flags)

    monkeypatch.setattr(os, "posix_fadvise", lambda _, start, length, __: expected.append((start, length)))
    monkeypatch.setattr(os, "open", open_noted)
    near = [(5_000 + 20_000 * place, 2_000) for place in range(100)]
    assert [*storage.get_ranges("x", near)] == [data[start : start + length] for start, length in near]
    assert (len(opened), expected) == (1, [(5_000, 99 * 20_000 + 2_000)])
    far = [(200_000 * place, 100) for place in range(14)]
    assert [*storage.get_ranges("x", far)] == [data[start : start + length] for start, length in far]
    assert (len(opened), len(expected)) == (2, 1)


def moved_past_the_cache(patch: pytest.MonkeyPatch) -> list[bool]:
    """Of each call from now on that moves bytes of a file, whether its file is open with `O_DIRECT`."""
    asked: list[bool] = []
    for call in ("write", "writev", "pread", "preadv"):

        def noting(descriptor: int, *args: Any, real: Callable[..., Any] = getattr(os, call)) -> Any:  # noqa: B008
            asked.append(bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT))
            return real(descriptor, *args)

        patch.setattr(os, call, noting)
    return asked


def test_a_full_disk_is_told_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(direct, "write", full)
    storage = LocalStorage(tmp_path)
    with pytest.raises(StorageFull):
        storage.put_if_absent("x", bytes(1_000_000))
    assert storage.size("x") is None
