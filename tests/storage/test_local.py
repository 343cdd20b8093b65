"""The local directory: durable before it says so, never two writers of one name, clear refusals."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.disk import bad_sector

from fairlead.model.errors import Damaged, InvalidValue, StorageFull, StorageUnavailable
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage
from fairlead.storage.lock import lock_directory


class Calls:
    """Records system calls of a put in order, and lets chosen ones fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, str]] = []
        self.failures: dict[tuple[str, str], int] = {}
        for name in ("fdatasync", "fsync"):
            self._wrap(monkeypatch, name, lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
        self._wrap(monkeypatch, "link", lambda _, target: str(target))

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str, describe: Any) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            what = describe(*args)
            for (failing, part), number in self.failures.items():
                if failing == name and part in what:
                    raise OSError(number, os.strerror(number))
            self.seen.append((name, what))
            return real(*args, **options)

        monkeypatch.setattr(os, name, call)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "data")


@pytest.fixture
def calls(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def test_a_put_syncs_file_then_links_then_syncs_every_folder(storage: LocalStorage, calls: Calls) -> None:
    """F2: a reader must never see what a power failure can take back."""
    storage.put_if_absent("a/b/x", b"1")
    root = str(storage.root)
    kinds = [kind for kind, _ in calls.seen]
    assert kinds == ["fdatasync", "link", "fsync", "fsync", "fsync"] or kinds == [
        "fdatasync",
        "link",
        "link",
        "fsync",
        "fsync",
        "fsync",
    ]
    assert [what for kind, what in calls.seen if kind == "fsync"] == [f"{root}/a/b", f"{root}/a", root]


def test_a_folder_in_use_is_synced_alone(storage: LocalStorage, calls: Calls) -> None:
    """Its parents are durable already, so a commit costs one fsync of a folder."""
    storage.put_if_absent("a/b/x", b"1")
    calls.seen.clear()
    storage.put_if_absent("a/b/y", b"1")
    assert [what for kind, what in calls.seen if kind == "fsync"] == [f"{storage.root}/a/b"]


def test_mine_is_said_only_after_the_same_syncs(storage: LocalStorage, tmp_path: Path, calls: Calls) -> None:
    """Another process may have linked the object and died before its fsync."""
    storage.put_if_absent("a/x", b"1")
    other = LocalStorage(storage.root)
    calls.seen.clear()
    assert other.put_if_absent("a/x", b"1") is Put.MINE
    synced = [what for kind, what in calls.seen if kind in {"fsync", "fdatasync"}]
    root = str(storage.root)
    assert [what for what in synced if ".tmp" not in what] == [f"{root}/a/x", f"{root}/a", root]


def test_a_folder_that_failed_to_sync_leaves_the_outcome_unknown_for_good(storage: LocalStorage, calls: Calls) -> None:
    """The kernel tells of such a failure once; a second fsync that succeeds means nothing."""
    storage.put_if_absent("a/x", b"0")
    calls.failures["fsync", f"{storage.root}/a"] = errno.EIO
    assert storage.put_if_absent("a/y", b"1") is Put.UNKNOWN
    calls.failures.clear()
    assert storage.put_if_absent("a/y", b"1") is Put.UNKNOWN
    with pytest.raises(StorageUnavailable, match="could not be synced"):
        storage.sync("a/")


def test_a_failed_fdatasync_writes_nothing_and_is_not_repeated_on_that_file(
    storage: LocalStorage, calls: Calls
) -> None:
    """The next attempt has a file of its own."""
    calls.failures["fdatasync", ".tmp"] = errno.EIO
    with pytest.raises(StorageUnavailable, match="cannot write a/x: input/output error"):
        storage.put_if_absent("a/x", b"1")
    assert storage.size("a/x") is None
    calls.failures.clear()
    assert storage.put_if_absent("a/x", b"1") is Put.WRITTEN
    assert os.listdir(storage.root / ".tmp") == []


def test_an_fdatasync_of_an_object_that_failed_is_not_repeated(storage: LocalStorage, calls: Calls) -> None:
    """The second would succeed and mean nothing: the outcome stays unknown."""
    storage.put_if_absent("a/x", b"1")
    calls.failures["fdatasync", f"{storage.root}/a/x"] = errno.EIO
    assert storage.put_if_absent("a/x", b"1") is Put.UNKNOWN
    calls.failures.clear()
    assert storage.put_if_absent("a/x", b"1") is Put.UNKNOWN


def test_a_full_disk_is_told_from_other_failures(storage: LocalStorage, calls: Calls) -> None:
    """Nothing was written, and later puts work."""
    calls.failures["fdatasync", ".tmp"] = errno.ENOSPC
    with pytest.raises(StorageFull):
        storage.put_if_absent("a/x", b"1")
    calls.failures.clear()
    assert storage.put_if_absent("a/x", b"2") is Put.WRITTEN


@pytest.fixture
def bad_block(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An object of three blocks and a half, of which the disk cannot give the second back."""
    storage.put_if_absent("a/x", b"1" * 4096 + b"2" * 4096 + b"3" * 6144)
    with bad_sector(monkeypatch, f"{storage.root}/a/x", 5000):
        yield "a/x"


def test_what_the_disk_cannot_give_back_is_damage_of_that_object(storage: LocalStorage, bad_block: str) -> None:
    """A disk that lost a sector does not get it back, so its log must stop by name, and the others go on."""
    for read in (
        lambda: storage.get(bad_block),
        lambda: storage.get_range(bad_block, 4999, 2),
        lambda: storage.get_ranges(bad_block, [(0, 10), (5000, 10)]),
    ):
        with pytest.raises(Damaged, match="a/x: cannot be read: input/output error"):
            read()
    assert storage.get_range(bad_block, 0, 4096) == b"1" * 4096


def test_what_is_left_of_a_lost_object_can_be_saved(storage: LocalStorage, bad_block: str) -> None:
    """Only the block is lost."""
    assert storage.get_unchecked(bad_block) == b"1" * 4096 + bytes(4096) + b"3" * 6144


def test_a_process_without_descriptors_finds_no_damage(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may find some later."""
    storage.put_if_absent("a/x", b"1")

    def refused(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StorageUnavailable, match="cannot read a/x: too many open files"):
        storage.get("a/x")


def test_a_folder_that_cannot_be_looked_into_is_not_taken_for_synced(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader finds there a moment later could be gone after a power failure."""
    storage.put_if_absent("a/b/x", b"1")
    real = os.scandir

    def refused(path: str) -> Any:
        if path == f"{storage.root}/a":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(StorageUnavailable, match="cannot list a/: too many open files"):
        storage.sync("a/")
    storage.sync("not-there/")


def test_of_many_writers_of_one_name_one_wins(storage: LocalStorage) -> None:
    """The others are told that it is another's."""
    outcomes: list[Put] = []
    threads = [
        threading.Thread(target=lambda n=n: outcomes.append(storage.put_if_absent("a/b/x", bytes([n]) * 5000)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.value for outcome in outcomes) == ["another"] * 7 + ["written"]
    assert len(set(storage.get("a/b/x"))) == 1


def test_temporary_files_of_dead_processes_are_removed_at_open(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a living one stay: the merging process puts while others open the directory."""
    folder = storage.root / ".tmp"
    (folder / "999999999-1-1").write_bytes(b"left over")
    (folder / f"{os.getpid()}-of-another-with-our-id").write_bytes(b"left over in a container")
    alive = folder / f"{os.getppid()}-1-1"
    alive.write_bytes(b"being written")
    link = os.link
    left: list[Path] = []

    def opened_meanwhile(temporary: str, path: str) -> None:
        monkeypatch.setattr(os, "link", link)
        LocalStorage(storage.root)
        left.extend(set(folder.iterdir()) - {Path(temporary)})
        link(temporary, path)

    monkeypatch.setattr(os, "link", opened_meanwhile)
    assert storage.put_if_absent("x", b"being written by another thread") is Put.WRITTEN
    assert left == [alive]


def test_a_file_system_without_links_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAT, CIFS and some FUSE file systems have none."""

    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StorageUnavailable, match=f"data directory {tmp_path} is on a file system without hard links"):
        LocalStorage(tmp_path)


def test_a_directory_that_cannot_be_written_is_refused_by_name() -> None:
    """In one line that says why; nobody, not even root, may make a folder in /proc."""
    with pytest.raises(StorageUnavailable, match="data directory /proc/fairlead: ") as refused:
        LocalStorage(Path("/proc/fairlead"))
    assert "\n" not in str(refused.value)


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """With the reason of the system."""
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(StorageUnavailable, match="data directory"):
        LocalStorage(tmp_path / "data")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "a//b", "../x", "a/../../x", "a/.", ".tmp/x"])
def test_names_do_not_leave_the_directory(storage: LocalStorage, name: str) -> None:
    """Whoever made them up."""
    with pytest.raises(InvalidValue):
        storage.get(name)
    with pytest.raises(InvalidValue):
        storage.put_if_absent(name, b"1")


def test_the_lock_is_no_object(storage: LocalStorage) -> None:
    """Nor are temporary files."""
    lock_directory(storage.root).close()
    storage.put_if_absent("x", b"1")
    assert list(storage.list("")) == ["x"]
