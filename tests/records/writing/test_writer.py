"""What tasks and the driver of a query do, without Spark and without a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.disk import Disks

from fairlead.records.writing import writer
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.parts import NOTHING, Place
from fairlead.records.writing.writer import Left, RecordsStreamWriter, RecordsWriter

ROWS = pa.RecordBatch.from_pydict({"topic": ["t", "t"], "value": [b"1", b"2"]})


class FourPartitions:
    """Each topic has four."""

    def __init__(self, options: WriteOptions, stack: ExitStack) -> None: ...

    def __call__(self, names: Sequence[str]) -> Mapping[str, int]:
        return dict.fromkeys(names, 4)

    def limits(self, names: Collection[str]) -> Mapping[str, int]:
        return {}


def written(options: WriteOptions) -> dict[Place, int]:
    """Where the only task of a write puts two rows without keys."""
    left = RecordsWriter(options).write(iter([ROWS]))
    assert isinstance(left, Left)
    return left.part.records


def test_rows_without_keys_begin_elsewhere_in_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches of one task would all lie in the first partition. So would writes that have no number."""
    monkeypatch.setattr(writer, "_Topics", FourPartitions)
    numbered = [WriteOptions("/s", (), staging=tmp_path, write_id="q", version=number) for number in range(4)]
    found = [written(options) for options in numbered]
    assert [list(each.values()) for each in found] == [[2]] * 4, "those of a task stay together"
    assert {place.partition for each in found for place in each} == {0, 1, 2, 3}
    others = [written(WriteOptions("/s", (), staging=tmp_path)) for _ in range(50)]
    assert len({place for each in others for place in each}) > 1


def test_spark_s_notes_of_a_batch_are_as_durable_as_ours(tmp_path: Path) -> None:
    """After a power failure Spark would plan the batch anew, with other records, and we would leave them out."""
    with Disks().in_use() as disks:
        disk = disks.add(tmp_path / "disk")
        checkpoint = disk.root / "checkpoint"
        (checkpoint / "offsets").mkdir(parents=True)
        (checkpoint / "metadata").write_text("id")
        (checkpoint / "offsets" / "0").write_text("range")
        options = WriteOptions("/s", (), staging=checkpoint / "fairlead-staged", checkpoint=checkpoint)
        RecordsStreamWriter(options).commit([Left("q", 0, NOTHING)], 0)
        (checkpoint / "offsets" / "1").write_text("of a batch that we know nothing of")
        disk.power_fails(lambda name: "fairlead-staged" in name)
        assert disk.files() == {
            "checkpoint/fairlead-staged/q/done-0": b"",
            "checkpoint/metadata": b"id",
            "checkpoint/offsets/0": b"range",
        }


def test_a_checkpoint_without_notes_is_no_fault(tmp_path: Path) -> None:
    """Where Spark keeps them is its own affair."""
    options = WriteOptions("/s", (), staging=tmp_path / "staged", checkpoint=tmp_path / "nowhere")
    RecordsStreamWriter(options).commit([Left("q", 0, NOTHING)], 0)
    assert (tmp_path / "staged" / "q" / "done-0").exists()
