"""Manifests say which objects a log consists of."""

from __future__ import annotations

import json
from dataclasses import replace

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.errors import Damaged
from fairlead.storage import names
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.manifest import (
    CheckpointEntry,
    Manifest,
    SegmentEntry,
    SegmentKind,
    SliceCount,
    first_manifest,
)
from fairlead.streamlog.values import EpochRange, LogObject, epoch_of

COUNTS = tuple(SliceCount(n, n * 10, n * 100) for n in range(17))


def segment(first: int, end: int, kind: SegmentKind = "data", random: bytes = b"r" * 16) -> SegmentEntry:
    return SegmentEntry(names.segment("meta", random), kind, first, end, 5, 1000, 1, 2, 3, 4, 5, 6, COUNTS)


def example() -> Manifest:
    epochs = (EpochRange(1, b"1" * 16, 0, 10), EpochRange(4, b"4" * 16, 10, 10), EpochRange(5, b"5" * 16, 10, None))
    segments = (segment(0, 3, "control"), segment(0, 3), segment(3, 8))
    checkpoint = CheckpointEntry(names.checkpoint("meta", b"c" * 16), 8)
    return Manifest("meta", 5, 7, epochs, segments, 0, checkpoint, b"i" * 16)


@given(st.integers(0, 10**12), st.integers(1, 1000), st.integers(0, 10**15))
def test_a_manifest_is_read_as_it_was_written(k: int, numbers: int, at: int) -> None:
    """With all its parts."""
    manifest = replace(example(), k=k)
    segments = tuple(replace(s, rows=numbers, newest_at=at) for s in manifest.segments)
    manifest = replace(manifest, segments=segments)
    assert manifests.decode(manifests.encode(manifest), manifest.name) == manifest


def test_what_a_later_program_adds_is_in_every_manifest_that_follows() -> None:
    """Of this epoch and of the next; a program that knows it reads it as it was, in its order."""
    ext = {"b": "[1, 2.50]", "a": "\u00f6"}
    manifest = replace(example(), ext=ext)
    assert list(manifests.decode(manifests.encode(manifest), manifest.name).ext.items()) == list(ext.items())
    later = replace(manifest.with_epoch(6, b"6" * 16, 12), k=3)
    assert b',"ext":{"b":"[1, 2.50]","a":"\\u00f6"}' in manifests.encode(later)


def test_a_segment_may_lie_below_another_prefix() -> None:
    """Then the manifest says its whole name. None of its own segments has two names."""
    other = names.segment(names.shard_prefix(b"s" * 16, 3), b"r" * 16)
    for name in (other, "lake/cold/0001.arrow"):
        manifest = replace(example(), segments=(replace(segment(0, 8), name=name),))
        assert manifests.decode(manifests.encode(manifest), manifest.name) == manifest
    whole = manifests.encode(replace(example(), segments=(segment(0, 8),)))
    text = whole[: -len(b',"checksum":"00000000"}')].replace(b'"segment/', b'"meta/segment/')
    with pytest.raises(Damaged, match="not in its exact form"):
        manifests.decode(text + b',"checksum":"%08x"}' % crc32c.crc32c(text), "")


def test_objects_are_the_segments_and_then_the_commits() -> None:
    """Those that hold something of the asked commits."""
    manifest = example()
    assert manifest.merged_end == 8
    names_of = [item.name for item in manifest.objects(0, 12)]
    assert names_of == [s.name for s in manifest.segments] + [
        names.commit("meta", 1, 8),
        names.commit("meta", 1, 9),
        names.commit("meta", 5, 10),
        names.commit("meta", 5, 11),
    ]
    assert manifest.objects(9, 10) == [LogObject(names.commit("meta", 1, 9), 9, 10, segment=False)]
    assert [item.first for item in manifest.objects(4, 9)] == [3, 8]
    assert manifest.objects(12, 12) == []


def test_a_new_writer_ends_the_epoch_before_it() -> None:
    """And begins with manifest 0."""
    first = first_manifest("meta", 1, b"1" * 16)
    second = first.with_epoch(2, b"2" * 16, 5)
    assert second.epochs == (EpochRange(1, b"1" * 16, 0, 5), EpochRange(2, b"2" * 16, 5, None))
    assert (second.k, epoch_of(second.epochs, 4), epoch_of(second.epochs, 5)) == (0, second.epochs[0], second.epochs[1])
    assert epoch_of(second.epochs, -1) is None


def test_the_highest_epoch_and_number_rules() -> None:
    """Not the one that came last."""
    storage = MemoryStorage()
    assert manifests.newest(storage, "meta") is None
    older = first_manifest("meta", 1, b"1" * 16)
    for manifest in (older.with_epoch(2, b"2" * 16, 0), older, replace(older, k=10), replace(older, k=9)):
        storage.put_if_absent(manifest.name, manifests.encode(manifest))
    assert manifests.newest(storage, "meta") == older.with_epoch(2, b"2" * 16, 0)


@given(st.integers(0, 7))
def test_a_change_of_any_byte_is_found(bit: int) -> None:
    """A manifest decides what is read and deleted."""
    manifest = first_manifest("meta", 1, b"1" * 16).with_epoch(2, b"2" * 16, 5)
    whole = manifests.encode(manifest)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        with pytest.raises(Damaged):
            manifests.decode(bytes(changed), manifest.name)


@given(
    st.binary(max_size=100)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_garbage_is_damaged(data: bytes) -> None:
    """Whatever it is."""
    with pytest.raises(Damaged):
        manifests.decode(data, "x")


def _encoded(**changes: object) -> bytes:
    fields = json.loads(manifests.encode(example())) | changes
    del fields["checksum"]
    text = json.dumps(fields, separators=(",", ":"))[:-1].encode()
    return text + b',"checksum":"%08x"}' % crc32c.crc32c(text)


def test_another_version_is_refused_naming_both() -> None:
    """Before anything else is looked at."""
    with pytest.raises(Damaged, match="manifest of version 7; this program reads version 3"):
        manifests.decode(_encoded(version=7), "x")


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 4},
        {"epoch": -1},
        {"begin": 1},
        {"epochs": []},
        {"epochs": [[5, "35" * 16, 0, 3]]},
        {"epochs": [[1, "31" * 16, 0, None], [5, "35" * 16, 0, None]]},
        {"epochs": [[5, "35", 0, None]]},
        {"segments": 5},
        {"segments": [[]]},
        {"checkpoint": [1]},
        {"prefix": None},
        {"more": 1},
    ],
)
def test_a_manifest_that_contradicts_itself_is_damaged(changes: dict[str, object]) -> None:
    """Also where its checksum fits."""
    assert manifests.decode(_encoded(), "") == example()
    with pytest.raises(Damaged):
        manifests.decode(_encoded(**changes), "")


def test_segments_must_touch() -> None:
    """A hole in the log is damage and no log."""
    manifest = replace(example(), segments=(segment(0, 3), segment(4, 8)))
    with pytest.raises(Damaged, match=r"segments of \[4, 8\) follow those that end at 3"):
        manifests.decode(manifests.encode(manifest), manifest.name)


def test_a_manifest_under_another_name_is_damaged() -> None:
    """It may be a copy that somebody made."""
    manifest = example()
    with pytest.raises(Damaged, match="is the manifest"):
        manifests.decode(manifests.encode(manifest), names.manifest("meta", 5, 8))
