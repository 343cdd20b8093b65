"""What is made in a data directory is private: files 0600, directories 0700, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.packs import always_packed

from fairlead.storage import names
from fairlead.storage.local import LocalStorage
from fairlead.storage.lock import lock_directory

PREFIX = "streams/" + 32 * "a" + "/shard-0000"


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """Whoever starts the server may have none."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """Of everything there, by its path."""
    found = [root, *root.rglob("*")]
    return {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in found}


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    """Objects, packs, the lock, what is being written, and the parents that had to be made."""
    root = tmp_path / "parent" / "data"
    lock_directory(root).close()
    storage = always_packed(root)
    storage.put_if_absent(names.commit(PREFIX, 1, 1), b"in a pack")
    storage.put_if_absent(names.commit(PREFIX, 1, 2), bytes(10**6))
    storage.put_if_absent("meta/x", b"a file")
    found = modes(tmp_path / "parent")
    assert len(found) > 10
    assert {path for path, mode in found.items() if mode & 0o077} == set()


def test_an_empty_directory_becomes_private_and_another_stays(tmp_path: Path) -> None:
    """An empty one was made for us; whatever else lies in the other, its owner decides who may see it."""
    for name in ("empty", "used"):
        (tmp_path / name).mkdir(0o755)
    (tmp_path / "used" / "notes").write_text("of the owner")
    for name in ("empty", "used"):
        LocalStorage(tmp_path / name).put_if_absent("meta/x", b"1")
    assert modes(tmp_path / "empty")["."] == 0o700
    assert modes(tmp_path / "used")["."] == 0o755
    assert modes(tmp_path / "used")["meta"] == 0o700
