"""Large objects pass the page cache: the same bytes, at every length and place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.errors import Damaged, StorageFull
from fairlead.storage import direct
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage

KB = 1024
SIZES = st.one_of(
    st.integers(0, 20_000),
    st.integers(-5, 5).map(lambda n: direct.OBJECT_BYTES_MIN + n),
    st.integers(-5000, 5000).map(lambda n: 4 * KB * KB + n),
    st.integers(5_000_000, 9_000_000),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=4), st.data())
def test_what_was_put_is_read(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject) -> None:
    """Whole and in part, whatever the pieces were."""
    storage = LocalStorage(tmp_path_factory.mktemp("direct"))
    pieces = [os.urandom(size) for size in sizes]
    whole = b"".join(pieces)
    assert storage.put_if_absent("x", pieces) is Put.WRITTEN
    assert storage.size("x") == len(whole)
    assert storage.get("x") == whole
    start = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, len(whole) - start))
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


def test_it_leaves_nothing_in_the_page_cache(tmp_path: Path) -> None:
    """Else it would cost what it is to save. A read that must not wait finds only what is in memory."""
    storage = LocalStorage(tmp_path)
    storage.put_if_absent("large", os.urandom(1_000_000))
    storage.put_if_absent("small", os.urandom(100_000))
    storage.get("large")
    with (tmp_path / "small").open("rb") as file:
        assert os.preadv(file.fileno(), [bytearray(4096)], 0, os.RWF_NOWAIT) == 4096
    with (tmp_path / "large").open("rb") as file:
        if not direct.enable(file.fileno()):
            pytest.skip("the file system of the temporary folder knows no O_DIRECT")
    with (tmp_path / "large").open("rb") as file, pytest.raises(BlockingIOError):
        os.preadv(file.fileno(), [bytearray(4096)], 0, os.RWF_NOWAIT)


def test_a_full_disk_is_told_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(direct, "write", full)
    storage = LocalStorage(tmp_path)
    with pytest.raises(StorageFull):
        storage.put_if_absent("x", bytes(1_000_000))
    assert storage.size("x") is None
