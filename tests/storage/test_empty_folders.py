"""Empty folders go, and nothing that is put beside their removal."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.storage.test_local import Calls
from tests.streamlog.merging.test_wiring import QUICK, merged
from tests.streamlog.world import FakeClock, made, opened, produced, values_at

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import StreamSettings
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import StorageUnavailable
from fairlead.model.settings import Settings
from fairlead.storage import files
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "data")


@pytest.fixture
def calls(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def folders(storage: LocalStorage, prefix: str) -> list[str]:
    """The folders right below one."""
    return sorted(os.listdir(storage.root / prefix))


def test_each_start_leaves_no_folders_behind(storage: LocalStorage) -> None:
    """There were two more for each, for ever, and each start synced all of them."""
    clock = FakeClock()
    number = made(opened(storage, clock=clock, settings=QUICK)).number
    values: dict[int, bytes | None] = {}
    for start in range(4):
        log = opened(storage, clock=clock, settings=QUICK)
        values[start] = b"%d" % start
        produced(log, number, b"%d" % start)
        if start == 3:
            merged(log)
        clock.pass_ms(600_000)
        log.upkeep.sweep(log.upkeep.take_due())
    assert folders(storage, "x/commit") == folders(storage, "x/manifest") == [f"{5:020d}"]
    assert values_at(log, number) == values
    produced(log, number, b"4")
    assert values_at(opened(storage, clock=clock), number) == {**values, 4: b"4"}


async def test_a_deleted_stream_leaves_no_folders(storage: LocalStorage) -> None:
    with ThreadPoolExecutor(2) as executor:
        cluster = await Cluster.open(
            storage,
            name="sanfrancisco",
            settings=Settings(),
            clock=SystemClock(),
            randomness=SystemRandomness(),
            executor=executor,
        )
        before = folders(storage, "streams")
        stream = await cluster.create_stream("/ships", StreamSettings())
        await stream.create_topic("positions")
        assert folders(storage, "streams") != before
        await cluster.delete_stream("/ships")
        await cluster.close()
        assert folders(storage, "streams") == before


def test_only_empty_folders_before_a_name_go(storage: LocalStorage) -> None:
    """Neither one with an object, nor the named one, nor what lies behind."""
    for name in ("a/1/x", "a/2/x", "a/3/x", "a/4/x", "b/1/x"):
        storage.put_if_absent(name, b"")
    for name in ("a/1/x", "a/3/x", "a/4/x", "b/1/x"):
        storage.delete(name)
    storage.remove_empty("a/", "a/3")
    assert folders(storage, "a") == ["2", "3", "4"]
    storage.remove_empty("none/", "none/3")
    assert folders(storage, "") == [".tmp", "a", "b"]
    storage.remove_all("none/")
    storage.remove_all("b/")
    assert folders(storage, "") == [".tmp", "a"]
    assert [*storage.list("")] == ["a/2/x"]


def test_a_folder_that_gets_an_object_meanwhile_stays(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses to remove it."""
    storage.put_if_absent("a/1/x", b"")
    storage.delete("a/1/x")
    remove = os.rmdir

    def after_a_put(path: str) -> None:
        assert storage.put_if_absent("a/1/y", b"mine") is Put.WRITTEN
        remove(path)

    monkeypatch.setattr(os, "rmdir", after_a_put)
    storage.remove_empty("a/", "a/2")
    assert storage.get("a/1/y") == b"mine"


def test_a_put_makes_a_folder_again_that_went(storage: LocalStorage, calls: Calls) -> None:
    """And its parents are synced as for the first time: what the power failure would take is not called written."""
    storage.put_if_absent("a/1/x", b"")
    storage.delete("a/1/x")
    storage.remove_empty("a/", "a/2")
    calls.seen.clear()
    assert storage.put_if_absent("a/1/y", b"mine") is Put.WRITTEN
    synced = [path for call, path in calls.seen if call == "fsync"]
    assert synced[:2] == [str(storage.root / "a/1"), str(storage.root / "a")]
    assert storage.get("a/1/y") == b"mine"


def test_a_put_whose_folder_goes_again_and_again_never_happens(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, and leaves nothing."""
    make = files.make_directories

    def made_and_gone(path: str) -> None:
        make(path)
        storage.remove_empty("a/", "a/2")

    monkeypatch.setattr(files, "make_directories", made_and_gone)
    with pytest.raises(StorageUnavailable, match="a/1/x"):
        storage.put_if_absent("a/1/x", b"mine")
    assert [*storage.list("")] == []
    assert folders(storage, ".tmp") == []


def test_puts_and_removals_side_by_side_lose_nothing(storage: LocalStorage) -> None:
    """What was said to be written is there."""
    written: list[str] = []
    done = threading.Event()

    def put(names: Iterator[str]) -> None:
        for name in names:
            try:
                assert storage.put_if_absent(name, name.encode()) is Put.WRITTEN
            except StorageUnavailable:
                continue
            written.append(name)

    def remove() -> None:
        while not done.is_set():
            storage.remove_empty("a/", "a/9")

    with ThreadPoolExecutor(3) as threads:
        removing = threads.submit(remove)
        putting = [threads.submit(put, iter([f"a/{n % 8}/{n}-{who}" for n in range(40)])) for who in range(2)]
        for future in putting:
            future.result()
        done.set()
        removing.result()
    assert written
    assert {name: storage.get(name) for name in written} == {name: name.encode() for name in written}
    assert [*storage.list("")] == sorted(written)
