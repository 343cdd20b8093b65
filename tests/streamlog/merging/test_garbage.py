"""Objects that nobody needs: what is deleted, and what never is."""

from __future__ import annotations

from tests.streamlog.world import fresh, made, produced

from fairlead.storage import names
from fairlead.streamlog.merging.garbage import unreferenced


def test_left_over_objects_are_found_and_nothing_that_counts() -> None:
    """Of merges that were never installed, and of a writer that was fenced."""
    log = fresh()
    number = made(log).number
    produced(log, number, b"x")
    storage, prefix = log.announced.storage, log.announced.prefix
    assert unreferenced(storage, log.announced.manifest) == []
    stray = [
        names.segment(prefix, b"1" * 16),
        names.checkpoint(prefix, b"2" * 16),
        names.commit(prefix, 0, 1),
        names.manifest(prefix, 0, 4),
    ]
    kept = [
        names.manifest(prefix, 1, 99),
        names.commit(prefix, 1, 2),
        names.commit(prefix, 2, 2),
        names.epoch(prefix, 0),
    ]
    for name in (*stray, *kept):
        storage.put_if_absent(name, b"")
    assert sorted(unreferenced(storage, log.announced.manifest)) == sorted(stray)
