"""Small commits in packs: durable by one sync, found by every process, gone with a torn end, never in two places."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.packs import PACK_BYTES, always_packed, kill

from fairlead.model.errors import Damaged, Missing, StorageFull, StorageUnavailable
from fairlead.storage import names, pack_file
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage
from fairlead.storage.packs import PackSettings

BLOCK = pack_file.BLOCK
PREFIX = "streams/" + 32 * "a" + "/shard-0000"


def commit(number: int, epoch: int = 1) -> str:
    return names.commit(PREFIX, epoch, number)


def packs_of(root: Path) -> list[Path]:
    return sorted((root / pack_file.FOLDER).glob("*.pack"))


def test_what_is_left_of_a_changed_record_can_be_saved(storage: LocalStorage, root: Path) -> None:
    """`get` refuses it, since nobody may take it for the object."""
    storage.put_if_absent(commit(1), b"as it was written")
    (pack,) = packs_of(root)
    pack.write_bytes(pack.read_bytes().replace(b"as it was", b"as it is!"))
    with pytest.raises(Damaged):
        storage.get(commit(1))
    assert storage.get_unchecked(commit(1)) == b"as it is! written"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    """With one pack, which the first put makes."""
    return always_packed(root, packs_max=1)


def fail(
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    when: Callable[[str], bool],
    number: int = errno.EIO,
    why: str = "it broke",
) -> None:
    real = getattr(os, call)

    def failing(descriptor: int, *args: Any) -> Any:
        if when(os.readlink(f"/proc/self/fd/{descriptor}")):
            raise OSError(number, "it broke")
        return real(descriptor, *args)

    monkeypatch.setattr(os, call, failing)


def noted(monkeypatch: pytest.MonkeyPatch, *calls: str) -> list[tuple[str, str]]:
    """From now on these calls, and on which file each."""
    made: list[tuple[str, str]] = []
    for call in calls:

        def noting(descriptor: int, *args: Any, call: str = call, real: Any = getattr(os, call)) -> Any:  # noqa: B008
            made.append((call, os.readlink(f"/proc/self/fd/{descriptor}")))
            return real(descriptor, *args)

        monkeypatch.setattr(os, call, noting)
    return made


def in_pack(path: str) -> bool:
    return path.endswith(".pack")


def written(root: Path, place: int, data: bytes, pack: Path | None = None) -> None:
    """Other bytes at a place of a pack; of the only one, if none is given."""
    (pack,) = packs_of(root) if pack is None else [pack]
    with pack.open("r+b") as file:
        file.seek(place)
        file.write(data)


def test_a_small_commit_is_one_sync_of_data(storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.put_if_absent(commit(6), b"makes the pack")
    synced = noted(monkeypatch, "fdatasync", "fsync")
    size = packs_of(root)[0].stat().st_size
    assert storage.put_if_absent(commit(7), [b"one", b"two"]) is Put.WRITTEN
    assert [in_pack(path) for _, path in synced] == [True]
    assert storage.get(commit(7)) == b"onetwo"
    assert storage.get_range(commit(7), 1, 4) == b"netw"
    assert storage.size(commit(7)) == 6
    assert packs_of(root)[0].stat().st_size == size == PACK_BYTES
    assert not list(root.rglob("commit/*"))


def test_reading_beyond_its_end_is_damage(storage: LocalStorage) -> None:
    """The next record is not taken for its rest."""
    storage.put_if_absent(commit(1), b"0123")
    storage.put_if_absent(commit(2), b"next")
    with pytest.raises(Damaged, match="ends at 4 bytes, 6 were expected"):
        storage.get_range(commit(1), 2, 4)


def test_other_names_and_large_commits_are_files(storage: LocalStorage, root: Path) -> None:
    large = os.urandom(pack_file.OBJECT_BYTES_MAX + 1)
    storage.put_if_absent(names.manifest(PREFIX, 1, 1), b"{}")
    storage.put_if_absent(commit(1), large)
    assert storage.get(commit(1)) == large
    assert (root / commit(1)).exists()
    assert (root / names.manifest(PREFIX, 1, 1)).exists()


def test_what_a_java_producer_has_under_way_is_no_file(storage: LocalStorage, root: Path) -> None:
    """Five requests of 16 KB with their columns: a file of its own costs ten times the processor time."""
    data = os.urandom(5 * 16 * 1024 + 4096)
    storage.put_if_absent(commit(1), data)
    assert storage.get(commit(1)) == data
    assert not (root / commit(1)).exists()


def test_the_first_commits_of_a_process_are_files(root: Path) -> None:
    """A cluster that writes a few makes no pack of 16 MB."""
    storage = LocalStorage(root, packs=PackSettings())
    for number in range(PackSettings().files_first):
        storage.put_if_absent(commit(number), b"x")
    assert not packs_of(root)
    assert len(list((root / PREFIX / "commit").glob("*/*"))) == PackSettings().files_first


def test_a_name_is_given_once(storage: LocalStorage) -> None:
    assert storage.put_if_absent(commit(1), b"one") is Put.WRITTEN
    assert storage.put_if_absent(commit(1), [b"o", b"ne"]) is Put.MINE
    assert storage.put_if_absent(commit(1), b"two") is Put.ANOTHER
    assert storage.put_if_absent(commit(1), bytes(10**6)) is Put.ANOTHER
    assert storage.get(commit(1)) == b"one"


def test_a_name_that_a_file_has_is_taken(root: Path) -> None:
    LocalStorage(root).put_if_absent(commit(1), b"one")
    storage = always_packed(root)
    assert storage.put_if_absent(commit(1), b"two") is Put.ANOTHER
    assert storage.put_if_absent(commit(1), b"one") is Put.MINE


def test_the_next_process_finds_them(storage: LocalStorage, root: Path) -> None:
    for number in (3, 1, 2):
        storage.put_if_absent(commit(number), b"%d" % number)
    storage.delete(commit(1))
    again = LocalStorage(root, packs=PackSettings())
    assert list(again.list(names.commits_of(PREFIX))) == [commit(2), commit(3)]
    assert again.get(commit(3)) == b"3"
    with pytest.raises(Missing):
        again.get(commit(1))


def test_a_reader_sees_what_was_put_after_it_was_opened(storage: LocalStorage, root: Path) -> None:
    reader = ReadOnlyLocalStorage(root)
    for number in range(5):
        with pytest.raises(Missing):
            reader.get(commit(number))
        storage.put_if_absent(commit(number), b"%d" % number)
        assert reader.get(commit(number)) == b"%d" % number
    assert list(reader.list("")) == [commit(number) for number in range(5)]


@pytest.mark.parametrize("call", range(1, 6))
def test_what_is_put_while_a_reader_looks_is_no_damage(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """A read takes its blocks one after the other: where it begins nothing was written yet, and further on it finds
    what was put meanwhile."""
    names_put = [commit(number) for number in range(4)]
    storage.put_if_absent(names_put[0], b"makes the pack")
    reader = ReadOnlyLocalStorage(root)
    assert list(reader.list("")) == names_put[:1]
    real, calls = os.pread, 0

    def slow(descriptor: int, length: int, start: int) -> bytes:
        nonlocal calls
        calls += 1
        first = real(descriptor, min(length, BLOCK), start)
        if calls == call:
            for name in names_put[1:]:
                storage.put_if_absent(name, name.encode() * 30)
        return first + real(descriptor, length - len(first), start + len(first))

    monkeypatch.setattr(os, "pread", slow)
    for _ in range(call + 1):
        assert all(len(reader.get(name)) == reader.size(name) for name in reader.list(""))
    assert list(reader.list("")) == names_put
    assert [reader.get(name) for name in names_put[1:]] == [name.encode() * 30 for name in names_put[1:]]


def test_a_reader_forgets_packs_that_are_gone(storage: LocalStorage, root: Path) -> None:
    """It lives long, and must not keep a place for each commit that there ever was."""
    reader = ReadOnlyLocalStorage(root)
    for number in range(10):
        storage.put_if_absent(commit(number), b"x")
        assert reader.get(commit(number)) == b"x"
    for pack in packs_of(root):
        pack.unlink()
    with pytest.raises(Missing):
        reader.get(commit(99))
    assert not list(reader.list(""))
    with pytest.raises(Missing):
        reader.get(commit(3))


def test_a_torn_record_is_none(storage: LocalStorage, root: Path) -> None:
    """The machine stopped in the middle of a put that nobody was answered."""
    storage.put_if_absent(commit(1), b"durable")
    storage.put_if_absent(commit(2), b"torn" * 1000)
    written(root, 2 * BLOCK + 2000, bytes(BLOCK))
    kill(root)
    again = LocalStorage(root, packs=PackSettings())
    assert list(again.list("")) == [commit(1)]
    assert again.size(commit(2)) is None
    assert again.put_if_absent(commit(2), b"other") is Put.WRITTEN
    assert list(LocalStorage(root, packs=PackSettings()).list("")) == [commit(1), commit(2)]


def test_a_torn_head_is_none(storage: LocalStorage, root: Path) -> None:
    """Though some of its blocks came to the disk: they are written in any order."""
    storage.put_if_absent(commit(1), b"durable")
    storage.put_if_absent(commit(2), b"torn" * 10_000)
    written(root, 2 * BLOCK, bytes(BLOCK))
    kill(root)
    assert list(LocalStorage(root, packs=PackSettings()).list("")) == [commit(1)]


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_what_failed_is_unknown_for_good(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """And nothing more goes into that pack: what follows a record of which nothing is known would not be found."""
    storage.put_if_absent(commit(1), b"durable")
    with monkeypatch.context() as patch:
        fail(patch, call, in_pack)
        assert storage.put_if_absent(commit(2), b"unknown") is Put.UNKNOWN
    assert storage.put_if_absent(commit(2), b"unknown") is Put.UNKNOWN
    for number in range(3, 30):
        storage.put_if_absent(commit(number), b"x")
    found = set(LocalStorage(root, packs=PackSettings()).list(""))
    assert found - {commit(2)} == {commit(1), *(commit(number) for number in range(3, 30))}


def test_what_goes_into_a_pack_that_was_removed_is_not_called_durable(root: Path, tmp_path: Path) -> None:
    """Somebody puts a backup into the directory of a server that runs: its open packs have no name any more, and nobody
    finds what is written to them. The backup can be opened all the same."""
    before = always_packed(root)
    before.put_if_absent(commit(0), b"of the backup")
    before.close()
    shutil.copytree(root, tmp_path / "backup")
    storage = always_packed(root, packs_max=1)
    assert storage.put_if_absent(commit(1), b"durable") is Put.WRITTEN
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "backup", root)
    assert storage.put_if_absent(commit(2), b"lost") is Put.UNKNOWN
    assert storage.put_if_absent(commit(2), b"lost") is Put.UNKNOWN
    storage.close()
    kill(root)
    assert list(LocalStorage(root, packs=PackSettings()).list("")) == [commit(0)]


def test_where_a_file_system_refuses_all_of_a_record_the_disk_is_full(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that copies on write has no room kept for what is written over. Nothing was written: the name may be given
    to other bytes, in a file or in the same pack."""
    storage.put_if_absent(commit(1), b"makes the pack")
    with monkeypatch.context() as patch:
        fail(patch, "pwrite", in_pack, errno.ENOSPC)
        assert storage.put_if_absent(commit(2), b"where there is room for a file") is Put.WRITTEN
        fail(patch, "writev", lambda _: True, errno.ENOSPC)
        with pytest.raises(StorageFull):
            storage.put_if_absent(commit(3), b"never")
    assert storage.put_if_absent(commit(3), b"later") is Put.WRITTEN
    kill(root)
    again = LocalStorage(root, packs=PackSettings())
    assert [again.get(name) for name in again.list("")] == [
        b"makes the pack",
        b"where there is room for a file",
        b"later",
    ]
    assert len(packs_of(root)) == 1
    assert [path.name for path in root.rglob("commit/*/*")] == [commit(2).rpartition("/")[2]]


@pytest.mark.parametrize(("call", "taken"), [("pwrite", BLOCK), ("fdatasync", 0)])
def test_a_record_of_which_a_part_was_taken_before_the_disk_was_full_is_unknown(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, call: str, taken: int
) -> None:
    """A reader may have seen it."""
    storage.put_if_absent(commit(1), b"makes the pack")
    write = os.pwrite
    written: list[int] = []

    def short(descriptor: int, data: bytes, start: int) -> int:
        if taken and written:
            raise OSError(errno.ENOSPC, "full")
        written.append(write(descriptor, data[:taken] if taken else data, start))
        return written[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", short)
        if call == "fdatasync":
            fail(patch, call, in_pack, errno.ENOSPC)
        assert storage.put_if_absent(commit(2), b"x" * 2 * BLOCK) is Put.UNKNOWN
    assert storage.put_if_absent(commit(2), b"x" * 2 * BLOCK) is Put.UNKNOWN


def test_a_pack_that_cannot_be_synced_stops_the_next_process(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it can see there is not known to be durable."""
    storage.put_if_absent(commit(1), b"x")
    kill(root)
    fail(monkeypatch, "fsync", in_pack)
    with pytest.raises(StorageUnavailable):
        LocalStorage(root, packs=PackSettings())


def test_a_start_believes_only_what_the_disk_has(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a write that failed the page cache keeps what the disk never got, and tells only the first who syncs: so a
    pack is synced, then forgotten by the page cache, then read."""
    storage.put_if_absent(commit(1), b"x")
    kill(root)
    made = noted(monkeypatch, "fsync", "posix_fadvise", "pread")
    assert list(LocalStorage(root, packs=PackSettings()).list("")) == [commit(1)]
    calls = [call for call, path in made if in_pack(path)]
    assert calls[:3] == ["fsync", "posix_fadvise", "pread"]
    assert set(calls[3:]) == {"pread"}


def test_marks_that_could_not_be_synced_are_never_said_to_be_durable(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells of such a failure once. The next process reads what the disk has."""
    for number in range(2):
        storage.put_if_absent(commit(number), b"1")
    storage.put_if_absent(names.commit("meta", 1, 1), b"another's")
    with monkeypatch.context() as patch:
        fail(patch, "fdatasync", in_pack)
        with pytest.raises(StorageUnavailable, match="it broke"):
            storage.remove_all(PREFIX + "/")
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="it broke"):
            storage.remove_all(PREFIX + "/")
    kill(root)
    always_packed(root).remove_all(PREFIX + "/")
    assert list(always_packed(root).list("")) == [names.commit("meta", 1, 1)]


def test_a_pack_goes_with_its_last_object(storage: LocalStorage, root: Path) -> None:
    per_pack = PACK_BYTES // (pack_file.OBJECT_BYTES_MAX + 4096)
    data = bytes(pack_file.OBJECT_BYTES_MAX)
    number = 0
    while len(packs_of(root)) < 3:
        storage.put_if_absent(commit(number), data)
        number += 1
        assert number < 4 * per_pack
    first = packs_of(root)
    for each in range(number):
        storage.delete(commit(each))
    assert len(packs_of(root)) < len(first)
    assert not list(storage.list(""))
    storage.close()
    assert not packs_of(root)
    assert not list(LocalStorage(root, packs=PackSettings()).list(""))


def test_packs_that_are_gone_are_forgotten(root: Path) -> None:
    """A server makes hundreds of thousands in its life, and each look at the directory went through all of them."""
    storage = always_packed(root, packs_max=1, pack_bytes=4 * BLOCK)  # a commit in each
    reader = ReadOnlyLocalStorage(root)
    for number in range(1, 30):
        storage.put_if_absent(commit(number), b"%d" % number)
        assert len(packs_of(root)) <= 4
        assert len(list(reader.list(""))) <= 3
        if number > 2:
            storage.delete(commit(number - 2))
    left = [commit(28), commit(29)]
    for each in (storage, reader):
        assert list(each.list("")) == left
        assert [each.get(name) for name in left] == [b"28", b"29"]
        # Its memory has no public face.
        known = each._index  # noqa: SLF001
        assert len(known._known) == len(known._packs) == len(packs_of(root))  # noqa: SLF001


def test_a_pack_of_which_nothing_is_there_goes_at_the_next_start(storage: LocalStorage, root: Path) -> None:
    """Its maker was killed before it could remove it."""
    storage.put_if_absent(commit(1), b"x")
    storage.delete(commit(1))
    kill(root)
    again = LocalStorage(root, packs=PackSettings())
    assert not list(again.list(""))
    assert not packs_of(root)
    assert again.check()[1:] == []


def test_without_room_commits_are_files(root: Path) -> None:
    storage = LocalStorage(root, packs=PackSettings(free_packs_min=10**9))
    for number in range(40):
        assert storage.put_if_absent(commit(number), b"x") is Put.WRITTEN
    assert not packs_of(root)


@pytest.mark.parametrize("server", [False, True])
def test_commits_are_put_in_order_once_at_an_opening(root: Path, monkeypatch: pytest.MonkeyPatch, server: bool) -> None:
    """However the packs are named: they are read in another order than they were written in."""
    storage = always_packed(root, packs_max=3, pack_bytes=40 * BLOCK)
    for number in range(500):
        storage.put_if_absent(commit(number), b"x")
    kill(root)
    assert len(packs_of(root)) > 10
    moved: list[int] = []
    argsort = np.argsort

    def counted(rows: Any, **how: Any) -> Any:
        moved.append(len(rows))
        return argsort(rows, **how)

    monkeypatch.setattr(np, "argsort", counted)
    again = always_packed(root) if server else ReadOnlyLocalStorage(root)
    assert list(again.list("")) == [commit(number) for number in range(500)]
    assert moved == [500]


def test_a_commit_that_comes_late_is_put_in_its_place(root: Path) -> None:
    """Several packs are written to at a time, so a reader finds later commits first."""
    storage, reader = always_packed(root), ReadOnlyLocalStorage(root)
    for numbers in ([5, 7, 3, 4], [2, 9, 1], [8, 6, 0]):
        for number in numbers:
            storage.put_if_absent(commit(number), b"%d" % number)
        assert list(storage.list("")) == list(reader.list(""))
    assert [reader.get(commit(number)) for number in range(10)] == [b"%d" % number for number in range(10)]
    assert list(reader.list("")) == [commit(number) for number in range(10)]


class Packed(RuleBasedStateMachine):
    """Against a dict: puts, deletions, and processes that follow one another, with a reader that stays."""

    numbers = st.integers(0, 30)

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(os.environ["PYTEST_PACKS_ROOT"]) / os.urandom(6).hex()
        self.storage = always_packed(self.root)
        self.reader = ReadOnlyLocalStorage(self.root)
        self.model: dict[str, bytes] = {}
        self.used: set[str] = set()

    @rule(number=numbers, epoch=st.integers(1, 2), data=st.binary(max_size=6000))
    def put(self, number: int, epoch: int, data: bytes) -> None:
        name = commit(number, epoch)
        if name in self.model:
            expected = Put.MINE if self.model[name] == data else Put.ANOTHER
            assert self.storage.put_if_absent(name, data) is expected
        elif name not in self.used:  # a name is used once, as the log does
            assert self.storage.put_if_absent(name, data) is Put.WRITTEN
            self.model[name] = data
            self.used.add(name)

    @rule(number=numbers, epoch=st.integers(1, 2))
    def delete(self, number: int, epoch: int) -> None:
        self.storage.delete(commit(number, epoch))
        self.model.pop(commit(number, epoch), None)

    @rule(clean=st.booleans())
    def next_process(self, clean: bool) -> None:
        if clean:
            self.storage.close()
        kill(self.root)
        self.storage = always_packed(self.root)

    @invariant()
    def all_is_there(self) -> None:
        assert list(self.storage.list("")) == sorted(self.model)
        for name, data in self.model.items():
            assert self.storage.get(name) == self.reader.get(name) == data
            assert self.reader.size(name) == len(data)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_PACKS_ROOT", str(tmp_path))


Packed.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
test_packs_are_a_dict = Packed.TestCase
