"""`fairlead fsck` and what it sets aside count what the server counts, also where packs end."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path

import pytest

from fairlead.model.errors import NotAllowed, StorageUnavailable
from fairlead.storage import identity, names
from fairlead.storage.identity import Identity
from fairlead.storage.local import ReadOnlyLocalStorage
from tests.cli.desk import CommandLine
from tests.streamlog.test_damage import MERGING, merged
from tests.streamlog.world import made, opened, produced, values_at
from tests.support.packs import always_packed, kill

VALUES = (b"a", b"b", b"c", b"last")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data directory with nothing but the cluster's description."""
    storage = always_packed(tmp_path / "data", packs_max=1)
    storage.put_if_absent(names.CLUSTER, identity.encode(Identity("sanfrancisco", b"i" * 16)))
    return tmp_path / "data"


def ended_pack(root: Path, harmed: Collection[bytes]) -> tuple[int, dict[bytes, str]]:
    """The number of a topic with the `VALUES`, a commit each in a pack whose end is registered, and their names. The
    heads of some of the records cannot be read."""
    storage = always_packed(root, packs_max=1)
    log = opened(storage)
    number = made(log).number
    where = {}
    for value in VALUES:
        where[value] = names.commit(log.announced.prefix, log.epoch.number, log.announced.end)
        produced(log, number, value)
    storage.close()
    (pack,) = (root / ".packs").iterdir()
    data = bytearray(pack.read_bytes())
    for value in harmed:
        data[data.index(where[value].encode())] ^= 1
    pack.write_bytes(data)
    return number, where


def check_gives_no_offset_again(root: Path, number: int, kept: Collection[bytes]) -> None:
    """The next servers go on with what is left, and take no record where the end was lost."""
    for _ in range(2):
        storage = always_packed(root, packs_max=1)
        log = opened(storage)
        assert log.health.stopped is None
        assert set(values_at(log, number).values()) == set(kept)
        with pytest.raises(NotAllowed, match="takes no records"):
            produced(log, number, b"NEW")
        storage.close()


def test_the_last_commit_of_a_pack_is_named_and_set_aside(empty: CommandLine, root: Path) -> None:
    """The register of packs alone knows it. The server's log stops there, so there must be a way on."""
    number, where = ended_pack(root, [b"last"])
    done = empty(f"fsck --data {root}")
    assert done.code == 1
    assert done.out.startswith(f"{where[b'last']}: its record at ")
    assert done.out.count("\n") == 1
    done = empty.ok(f"fsck --data {root} --set-aside {where[b'last']}")
    assert "nobody knows where they ended; they take no records" in done.out
    assert "no damage" in done.out
    check_gives_no_offset_again(root, number, VALUES[:-1])


def test_a_commit_is_not_set_aside_without_the_damaged_last_one_of_its_pack(empty: CommandLine, root: Path) -> None:
    """The log would end before it, and its offset would be given again."""
    number, where = ended_pack(root, [b"b", b"last"])
    done = empty(f"fsck --data {root}")
    assert [line.partition(": ")[0] for line in done.out.splitlines()] == [where[b"b"], where[b"last"]]
    empty.refused(f"fsck --data {root} --set-aside {where[b'b']}", f"{where[b'last']} is damaged too")
    empty.ok(f"fsck --data {root} --set-aside {where[b'b']} --set-aside {where[b'last']}")
    check_gives_no_offset_again(root, number, (b"a", b"c"))


def test_a_commit_whose_sync_failed_counts_for_no_cure(
    empty: CommandLine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies behind the registered end, where the next server does not see it: a manifest that counts it would stop
    the log."""
    storage = always_packed(root, packs_max=1)
    log = opened(storage, settings=MERGING)
    number = made(log).number
    for value in VALUES:
        produced(log, number, value)
    merged(log, 5)
    produced(log, number, b"later")
    sync = os.fdatasync

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".pack"):
            raise OSError(errno.EIO, "the disk")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", failing)
        with pytest.raises(StorageUnavailable):
            produced(log, number, b"failed")
    kill(root)
    (segment,) = (each.name for each in log.announced.manifest.segments if each.kind == "data")
    data = bytearray((root / segment).read_bytes())
    data[300] ^= 1
    (root / segment).write_bytes(data)
    assert "no damage" in empty.ok(f"fsck --data {root} --set-aside {segment}").out
    log = opened(always_packed(root, packs_max=1))
    assert log.health.stopped is None
    assert values_at(log, number, offset=4) == {4: b"later"}
    assert produced(log, number, b"NEW").base_offset == 5


def test_a_name_that_no_directory_can_have_is_told(empty: CommandLine, root: Path) -> None:
    """It was said to be a bug."""
    empty.refused(f"fsck --data {root}/{'x' * 300}", "File name too long")


def test_a_directory_of_another_user_is_named(empty: CommandLine, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a file of it cannot be opened."""

    def refusing(storage: ReadOnlyLocalStorage) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", f"{root}/meta")

    monkeypatch.setattr(ReadOnlyLocalStorage, "check", refusing)
    empty.refused(f"fsck --data {root}", f"fairlead: {root}/meta: Permission denied\n")
