"""The register knows which packs there are: before their first record, at their end, and when they go."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.disk import Disks
from tests.support.packs import always_packed, kill

from fairlead.model.errors import Damaged, StorageUnavailable
from fairlead.storage import files, names, pack_file, pack_register
from fairlead.storage.interface import Put
from fairlead.storage.memory import Crashed
from fairlead.storage.pack_register import End, Entry, PackRegister, decode, encode

BLOCK = pack_file.BLOCK
PREFIX = "streams/" + 32 * "a" + "/shard-0000"


def commit(number: int) -> str:
    return names.commit(PREFIX, 1, number)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def register_of(root: Path) -> PackRegister:
    return PackRegister(root=os.fspath(root), temporary=lambda: os.fspath(root / f"{os.urandom(8).hex()}.tmp"))


def entries(root: Path) -> list[Path]:
    return sorted((root / pack_register.FOLDER).iterdir())


def packs_of(root: Path) -> list[Path]:
    return sorted((root / pack_file.FOLDER).iterdir())


def test_an_entry_survives_its_bytes() -> None:
    """And any other byte is damage."""
    entry = Entry(7, {"1-a": None, "2-b": End(12_288, commit(1), 4096), "3-c": End(4096, "", 0)}, ("4-d",))
    data = encode(entry)
    assert decode(data, entry.name) == entry
    for place in range(len(data)):
        spoiled = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(Damaged, match="not an entry of the register of packs"):
            decode(spoiled, entry.name)
    for short in (b"", data[:-1], data + b" ", bytes(len(data))):
        with pytest.raises(Damaged, match="not an entry"):
            decode(short, entry.name)
    with pytest.raises(Damaged, match=r"is the entry .*7 of the register"):
        decode(data, Entry(8).name)


def test_a_pack_is_registered_before_its_first_record_and_with_its_end(root: Path) -> None:
    """Until it is removed."""
    storage = always_packed(root, packs_max=1)
    storage.put_if_absent(commit(1), b"x")
    (pack,) = packs_of(root)
    assert register_of(root).read().packs == {pack.stem: None}
    storage.close()
    assert register_of(root).read().packs == {pack.stem: End(2 * BLOCK, commit(1), BLOCK)}
    again = always_packed(root)
    again.delete(commit(1))
    assert packs_of(root) == []
    assert register_of(root).read() == Entry(3, {}, (pack.stem,))


def test_one_entry_is_kept(root: Path) -> None:
    """It says all; so the register does not grow."""
    for number in range(5):
        storage = always_packed(root)
        storage.put_if_absent(commit(number), b"x")
        storage.close()
    assert len(entries(root)) == 1
    assert len(register_of(root).read().packs) == len(packs_of(root)) == 5


def test_a_packs_name_is_forgotten_once_its_file_is_gone_for_good(root: Path) -> None:
    """A power failure may bring the file back; it is removed again then."""
    storage = always_packed(root)
    storage.put_if_absent(commit(1), b"x")
    storage.close()
    (pack,) = packs_of(root)
    data = pack.read_bytes()
    storage = always_packed(root)
    storage.delete(commit(1))
    kill(root)
    pack.write_bytes(data)
    storage = always_packed(root)
    assert packs_of(root) == []
    assert list(storage.list("")) == []
    storage.put_if_absent(commit(2), b"x")
    assert register_of(root).read().removed == ()


@pytest.mark.parametrize(
    "harm", [Path.unlink, lambda file: file.write_bytes(b""), lambda file: file.write_bytes(file.read_bytes()[:-1])]
)
def test_an_entry_that_is_lost_or_damaged_stops_the_next_process(root: Path, harm: Callable[[Path], object]) -> None:
    """A pack that it does not know may be one of several of which the others were lost."""
    storage = always_packed(root, packs_max=1)
    storage.put_if_absent(commit(1), b"x")
    storage.close()
    (entry,) = entries(root)
    harm(entry)
    with pytest.raises(Damaged, match="register of packs"):
        always_packed(root)


def test_an_older_entry_stops_the_next_process(root: Path) -> None:
    """Under its own number it does not know a pack; under the number of the newest it is not that."""
    storage = always_packed(root, packs_max=1)
    storage.put_if_absent(commit(1), b"x")
    storage.close()
    (older,) = entries(root)
    data = older.read_bytes()
    storage = always_packed(root, packs_max=1)
    storage.put_if_absent(commit(2), b"x")
    storage.close()
    (newest,) = entries(root)
    kept = newest.read_bytes()
    newest.write_bytes(data)
    with pytest.raises(Damaged, match=f"is the entry .*{older.name}"):
        always_packed(root)
    newest.unlink()
    older.write_bytes(data)
    with pytest.raises(Damaged, match="is not in the register of packs"):
        always_packed(root)
    older.unlink()
    newest.write_bytes(kept)
    assert list(always_packed(root).list("")) == [commit(1), commit(2)]


def test_a_pack_that_was_never_used_goes(root: Path) -> None:
    """Its maker ended before it was registered, or while it was made."""
    storage = always_packed(root)
    storage.put_if_absent(commit(1), b"x")
    kill(root)
    pack_file.make(pack_file.path_of(os.fspath(root), "1-unused"), "1-unused", 1 << 16)
    kill(root)
    (root / pack_file.FOLDER / "1-unmade.pack.new").write_bytes(b"half of it")
    (used,) = (pack for pack in packs_of(root) if "-un" not in pack.name)
    assert list(always_packed(root).list("")) == [commit(1)]
    assert packs_of(root) == [used]


def test_changes_of_several_processes_are_all_kept(root: Path) -> None:
    """Each is made on the newest entry."""
    root.mkdir()
    (root / pack_file.FOLDER).mkdir()
    registers = [register_of(root) for _ in range(4)]

    def change(number: int) -> None:
        for each in range(10):
            registers[number].change({f"{number}-{each}": None})

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(register_of(root).read().packs) == 40


def test_without_a_register_commits_are_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack that may not be registered is not used."""
    storage = always_packed(root, packs_max=1)
    monkeypatch.setattr(PackRegister, "change", failing)
    for number in range(3):
        assert storage.put_if_absent(commit(number), b"x") is Put.WRITTEN
    monkeypatch.undo()
    kill(root)
    assert len(list((root / PREFIX / "commit").glob("*/*"))) == 3
    assert list(always_packed(root).list("")) == [commit(number) for number in range(3)]
    assert packs_of(root) == []


def test_an_end_that_is_told_late_brings_no_pack_back(root: Path) -> None:
    """Another thread may have removed the empty pack meanwhile; registered again, it would be missing at the next
    start."""
    (root / pack_file.FOLDER).mkdir(parents=True)
    register = register_of(root)
    register.change({"1-a": None})
    register.change({}, remove=["1-a"])
    register.change({"1-a": End(BLOCK, "", 0)})
    assert register.read().packs == {}


def test_an_entry_is_written_whole_however_little_the_kernel_takes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that becomes full takes a part, and half an entry would let no server start."""
    (root / pack_file.FOLDER).mkdir(parents=True)
    monkeypatch.setattr(os, "writev", lambda descriptor, parts: os.write(descriptor, bytes(parts[0])[:7]))
    register_of(root).change({"1-a": None})
    assert register_of(root).read().packs == {"1-a": None}


def test_a_name_is_remembered_while_its_file_goes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed by another thread while the folder is being synced: that sync may have come too early for it."""
    (root / pack_file.FOLDER).mkdir(parents=True)
    register = register_of(root)
    for name in ("1-a", "1-b"):
        (root / pack_file.FOLDER / f"{name}.pack").touch()
        register.change({name: None})
    register.change({}, remove=["1-a", "1-b"])
    (root / pack_file.FOLDER / "1-b.pack").unlink()
    sync = files.sync_directory

    def removed_meanwhile(path: str) -> None:
        sync(path)
        (root / pack_file.FOLDER / "1-a.pack").unlink(missing_ok=True)

    monkeypatch.setattr(files, "sync_directory", removed_meanwhile)
    register.change({"1-c": None})
    assert register.read().removed == ("1-a",)


def test_a_pack_that_could_not_be_removed_is_removed_later(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk has no room for the entry that says so."""
    storage = always_packed(root)
    for number in (1, 2):
        storage.put_if_absent(commit(number), b"x")
        storage.close()
        storage = always_packed(root)
    monkeypatch.setattr(PackRegister, "change", failing)
    with pytest.raises(StorageUnavailable):
        storage.delete(commit(1))
    monkeypatch.undo()
    storage.delete(commit(2))
    assert packs_of(root) == []


def test_an_entry_that_is_acted_upon_is_durable(tmp_path: Path) -> None:
    """A process is killed between the name of the entry that removes a pack and its sync; the next one removes the
    pack. After a power failure the entry may not be missing, if the pack is."""
    disks = Disks()
    with disks.in_use():
        disk = disks.add(tmp_path / "data")
        storage = always_packed(disk.root, packs_max=1)
        storage.put_if_absent(commit(1), b"x")
        storage.close()
        disk.process_ended()
        storage = always_packed(disk.root, packs_max=1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "sync_directory", killed_at_the_register)
            with pytest.raises(Crashed):
                storage.delete(commit(1))
        disk.process_ended()
        always_packed(disk.root, packs_max=1)
        disk.synced(-1, os.fspath(disk.root / pack_file.FOLDER))
        disk.process_ended()
        disk.power_fails()
        assert list(always_packed(disk.root).list("")) == []


def killed_at_the_register(path: str) -> None:
    if path.endswith(pack_register.FOLDER):
        raise Crashed(path)


def failing(*_: object, **__: object) -> None:
    raise OSError(5, "it broke")
