"""The test storage keeps its promises about faults."""

from __future__ import annotations

import pytest

from fairlead.model.errors import StorageFull, StorageUnavailable
from fairlead.storage.interface import Put
from fairlead.storage.memory import Crashed, Fault, MemoryStorage


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def test_a_power_failure_takes_what_was_never_synced(storage: MemoryStorage) -> None:
    """What was answered for stays."""
    storage.put_if_absent("kept", b"1")
    storage.fail(Fault.UNKNOWN_LANDED)
    assert storage.put_if_absent("lost", b"1") is Put.UNKNOWN
    assert storage.size("lost") == 1
    storage.crash()
    assert list(storage.list("")) == ["kept"]


def test_a_put_again_or_a_sync_makes_it_durable(storage: MemoryStorage) -> None:
    """As on a disk."""
    for name in ("again", "synced"):
        storage.fail(Fault.UNKNOWN_LANDED)
        storage.put_if_absent(f"{name}/x", b"1")
    assert storage.put_if_absent("again/x", b"1") is Put.MINE
    storage.sync("synced/")
    storage.crash()
    assert list(storage.list("")) == ["again/x", "synced/x"]


def test_a_deletion_may_come_undone(storage: MemoryStorage) -> None:
    """Where the test says so."""
    storage.put_if_absent("a", b"1")
    storage.put_if_absent("b", b"1")
    storage.delete("a")
    storage.delete("b")
    storage.crash(survives=lambda name: name == "b")
    assert list(storage.list("")) == ["a"]


def test_a_late_put_lands_when_told_and_not_over_another(storage: MemoryStorage) -> None:
    """It is the put of a writer that slept."""
    storage.fail(Fault.UNKNOWN_LATE, nth=1)
    storage.fail(Fault.UNKNOWN_LATE, nth=2)
    assert storage.put_if_absent("x", b"late") is Put.UNKNOWN
    assert storage.put_if_absent("y", b"late") is Put.UNKNOWN
    storage.put_if_absent("x", b"meanwhile")
    assert [storage.land(1), storage.land()] == ["y", "x"]
    assert (storage.get("x"), storage.get("y")) == (b"meanwhile", b"late")


def test_a_chosen_call_fails_and_the_next_works(storage: MemoryStorage) -> None:
    """Calls are counted by kind."""
    storage.fail(Fault.FAIL, nth=2)
    storage.fail(Fault.FULL, nth=3)
    storage.fail(Fault.FAIL, call="get")
    assert storage.put_if_absent("a", b"1") is Put.WRITTEN
    with pytest.raises(StorageUnavailable):
        storage.put_if_absent("b", b"1")
    with pytest.raises(StorageFull):
        storage.put_if_absent("b", b"1")
    assert storage.put_if_absent("b", b"1") is Put.WRITTEN
    with pytest.raises(StorageUnavailable):
        storage.get("a")
    assert storage.get("a") == b"1"


@pytest.mark.parametrize(("fault", "there"), [(Fault.CRASH_BEFORE, False), (Fault.CRASH_AFTER, True)])
def test_a_crashed_process_calls_no_more(storage: MemoryStorage, fault: Fault, there: bool) -> None:
    """Until it is started again."""
    storage.fail(fault)
    with pytest.raises(Crashed):
        storage.put_if_absent("a", b"1")
    with pytest.raises(Crashed):
        storage.get("a")
    storage.crash()
    assert list(storage.list("")) == (["a"] if there else [])


def test_another_writer_can_run_in_the_middle_of_a_put(storage: MemoryStorage) -> None:
    """The hook sees each call before it is done."""

    def takeover(call: str, name: str) -> None:
        storage.faults.hook = None
        storage.put_if_absent(name, b"of the other")

    storage.faults.hook = takeover
    assert storage.put_if_absent("x", b"mine") is Put.ANOTHER


def test_a_full_storage_refuses_until_there_is_room(storage: MemoryStorage) -> None:
    """By its capacity."""
    storage.capacity_bytes = 10
    storage.put_if_absent("a", bytes(6))
    with pytest.raises(StorageFull):
        storage.put_if_absent("b", bytes(6))
    storage.delete("a")
    assert storage.put_if_absent("b", bytes(6)) is Put.WRITTEN
