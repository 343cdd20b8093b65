"""The folder of a query: what is settled once stays, and what is not finished is not forgotten."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.model.errors import InvalidValue, StorageUnavailable
from fairlead.protocol.batch import HEADER_BYTES, build_batch
from fairlead.records.writing.encoding import Encoded
from fairlead.records.writing.parts import NOTHING, Place, read_part
from fairlead.records.writing.publishing import missing_batches
from fairlead.records.writing.staging import VERSION, Manifest, Staging


def batches(*topics: str) -> Iterator[Encoded]:
    for topic in topics:
        whole = build_batch([(b"k", topic.encode()), (None, b"2")], timestamp_ms=1)
        yield Encoded(topic, 3, 2, whole[:HEADER_BYTES], whole[HEADER_BYTES:])


def manifest(query: str, batch: int, *parts: tuple[str, int]) -> Manifest:
    return Manifest(VERSION, query, batch, 5, 60_000, parts, {"a": {3: 7}})


def test_what_a_task_leaves_is_read_again(tmp_path: Path) -> None:
    """With what it has of each partition."""
    staging = Staging(tmp_path, "q")
    info = staging.write(0, batches("a", "b", "a"))
    assert info.records == {Place("a", 3): 4, Place("b", 3): 2}
    found = list(read_part(staging.part(0, info.name), info.size_bytes))
    assert [(batch.place, batch.records) for batch in found] == [(Place(t, 3), 2) for t in ("a", "b", "a")]
    assert found[1].of_producer(9, 0, 4) != bytes(found[1].head)


def test_a_task_without_rows_leaves_nothing(tmp_path: Path) -> None:
    """No file, no folder, nothing to sync; and nothing to remove."""
    staging = Staging(tmp_path, "q")
    assert staging.write(0, batches()) == NOTHING
    assert list(tmp_path.iterdir()) == []
    one = staging.write(0, batches("a"))
    staging.discard(0, [NOTHING.name, one.name])
    assert list((tmp_path / "q" / "0").iterdir()) == []


def failing() -> Iterator[Encoded]:
    """A row that is refused behind others that are not."""
    yield from batches("a")
    raise InvalidValue("a row has no topic")


def full(descriptor: int) -> None:
    """No room is found for what was written."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_task_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where a row is refused, nor where the disk is full: what failed before would keep it full."""
    staging = Staging(tmp_path, "q")
    with pytest.raises(InvalidValue, match="a row has no topic"):
        staging.write(0, failing())
    monkeypatch.setattr(os, "fdatasync", full)
    said = f"the query cannot write into {tmp_path / 'q' / '0'}: No space left on device"
    with pytest.raises(StorageUnavailable, match=f"^{re.escape(said)}$"):
        staging.write(0, batches("a"))
    with pytest.raises(StorageUnavailable, match=f"^{re.escape(said)}$"):
        staging.settle(manifest("q", 0))
    assert list((tmp_path / "q" / "0").iterdir()) == []


def test_a_part_that_is_gone_cut_or_longer_is_refused(tmp_path: Path) -> None:
    staging = Staging(tmp_path, "q")
    info = staging.write(0, batches("a", "b"))
    file = staging.part(0, info.name)
    whole = file.read_bytes()
    for data in (whole[:-1], whole + b"x"):
        file.write_bytes(data)
        with pytest.raises(InvalidValue, match="it was written with"):
            list(read_part(file, info.size_bytes))
    file.write_bytes(whole[:-1])
    with pytest.raises(InvalidValue, match="its last batch is cut"):
        list(read_part(file, info.size_bytes - 1))
    file.unlink()
    with pytest.raises(InvalidValue, match="it is gone; do all executors see the folder"):
        list(read_part(file, info.size_bytes))


def test_a_manifest_is_put_once_and_the_second_goes_by_the_first(tmp_path: Path) -> None:
    """Two drivers of one query, one of them paused in the middle."""
    staging = Staging(tmp_path, "q")
    assert staging.manifest(4) is None
    first = manifest("q", 4, ("part-1", 10))
    assert staging.settle(first) == first
    assert Staging(tmp_path, "q").settle(manifest("q", 4, ("part-2", 20))) == first
    assert staging.manifest(4) == first
    assert staging.manifest(5) is None


def test_parts_of_a_failed_batch_go_unless_a_manifest_names_them(tmp_path: Path) -> None:
    staging = Staging(tmp_path, "q")
    one, two = staging.write(1, batches("a")), staging.write(2, batches("a"))
    staging.settle(manifest("q", 2, (two.name, two.size_bytes)))
    staging.discard(1, [one.name])
    staging.discard(2, [two.name])
    assert not staging.part(1, one.name).exists()
    assert staging.part(2, two.name).exists()


def test_a_finished_batch_leaves_its_number_alone(tmp_path: Path) -> None:
    """And those before it; a later one stays."""
    staging = Staging(tmp_path, "q")
    assert staging.done() == -1
    for batch in (1, 2, 3):
        staging.write(batch, batches("a"))
    staging.finish(2)
    assert staging.done() == 2
    assert sorted(each.name for each in (tmp_path / "q").iterdir()) == ["3", "done-2"]


def test_a_driver_that_comes_late_takes_nothing_back(tmp_path: Path) -> None:
    """It was suspended before it said that its batch is there; another one has gone on since."""
    staging = Staging(tmp_path, "q")
    for batch in (3, 4, 5, 3):
        staging.finish(batch)
    assert staging.done() == 5
    assert sorted(each.name for each in (tmp_path / "q").iterdir()) == ["done-4", "done-5"]


def test_any_text_names_a_query(tmp_path: Path) -> None:
    """Users choose txnAppId; none leaves the folder, and two do not meet."""
    names = ["../../x", "a/b", "a b", "", "x" * 300, "plain-1"]
    for name in names:
        Staging(tmp_path / "s", name).finish(0)
    assert len(list((tmp_path / "s").iterdir())) == len(names)
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_records_that_end_within_a_batch_are_anothers(tmp_path: Path) -> None:
    """Nothing that comes behind it is sent, of other partitions neither: its numbers would be those of what is left
    out."""
    staging = Staging(tmp_path, "q")
    parts = [staging.write(0, batches(topic)) for topic in ("a", "b")]
    settled = manifest("q", 0, *((part.name, part.size_bytes) for part in parts))
    missing = missing_batches(staging, settled, {Place("a", 3): 1, Place("b", 3): 0})
    with pytest.raises(InvalidValue, match="topic a, partition 3 has 1 records of query q that batch 0 does not"):
        next(missing)
