"""What an opening log does with segments that later programs make, or that lie elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.streamlog.world import SETTINGS, SeededRandomness, installed, made, opened, produced, values_at

from fairlead.model.errors import Damaged
from fairlead.storage import names
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.garbage import replaced_by
from fairlead.streamlog.merging.job import MergeResult
from fairlead.streamlog.objects import format
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.manifest import Manifest, SegmentEntry, order
from fairlead.streamlog.writing.writer import ShardLog

MERGING = replace(SETTINGS, merge_commits_min=3, delete_grace_seconds=0.0)
COLD = names.segment("lake/cold", b"c" * 16)


def merged() -> ShardLog:
    """A log of five batches in segments."""
    log = opened(MemoryStorage(), settings=MERGING)
    number = made(log).number
    for value in range(5):
        produced(log, number, b"%d" % value)
    merge(log, 1)
    return log


def merge(log: ShardLog, seed: int) -> None:
    job = log.upkeep.plan()
    assert job is not None
    installed(log, run_job.run(log.announced.storage, SeededRandomness(seed), job))
    log.upkeep.sweep(log.upkeep.take_due())


def data_segment(manifest: Manifest) -> SegmentEntry:
    return next(segment for segment in manifest.segments if segment.kind == "data")


def put_changed(log: ShardLog, changed: SegmentEntry) -> Manifest:
    """The next manifest, with the data segment so."""
    ruling = log.announced.manifest
    others = [segment for segment in ruling.segments if segment.kind != "data"]
    manifest = replace(ruling, k=ruling.k + 1, segments=order([*others, changed]))
    log.announced.storage.put_if_absent(manifest.name, manifests.encode(manifest))
    return manifest


def test_a_log_with_a_segment_of_a_reserved_kind_is_not_opened() -> None:
    """What is in it only a newer program knows: to open the log without it would give its offsets again."""
    log = merged()
    storage = log.announced.storage
    keyed = replace(data_segment(log.announced.manifest), kind="keyed")
    put_changed(log, keyed)
    with pytest.raises(Damaged, match=r"is a keyed segment, which this program cannot read; .* a newer program"):
        opened(storage, settings=MERGING)
    assert [(problem.name, "keyed" in problem.why) for problem in check_all(storage)] == [(keyed.name, True)]


def elsewhere(log: ShardLog) -> SegmentEntry:
    """The data segment below another prefix, where the next manifest names it."""
    storage, entry = log.announced.storage, data_segment(log.announced.manifest)
    columns = format.read_whole(storage.get(entry.name), entry.name)
    commits = {"first": entry.first, "end": entry.end}
    buffers = format.encode_columns(columns, columns.runs(), name=COLD, object_kind="segment", **commits)
    storage.put_if_absent(COLD, buffers)
    storage.delete(entry.name)
    return replace(entry, name=COLD)


def test_a_segment_below_another_prefix_is_read_and_never_deleted() -> None:
    """Another log may need it too: merging takes its rows over and leaves it where it is."""
    log = merged()
    storage = log.announced.storage
    put_changed(log, elsewhere(log))
    log = opened(storage, settings=MERGING)
    number = next(iter(log.announced.state.topics())).number
    assert check_all(storage) == []
    produced(log, number, b"5")
    assert list(values_at(opened(storage), number).values()) == [b"%d" % value for value in range(6)]
    before = log.announced.manifest
    own = names.segment(before.prefix, b"o" * 16)
    result = MergeResult(0, before.merged_end, 0, (), (COLD, own), 0, None, None)
    replaced = replaced_by(before, replace(before, k=before.k + 1, segments=()), result)
    assert replaced.names[:2] == (own, before.name)


def test_a_segment_that_is_missing_elsewhere_is_damage() -> None:
    """As one of the log's own is."""
    log = merged()
    storage = log.announced.storage
    put_changed(log, elsewhere(log))
    storage.delete(COLD)
    again = opened(storage)
    assert isinstance(again.health.stopped, Damaged)
    assert again.health.stopped.name == COLD
    assert [problem.name for problem in check_all(storage)] == [COLD]
