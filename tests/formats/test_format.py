"""A data directory of this format is read by every later program, or by its converter.

The directory is committed (`making.py` has made it). A change of format keeps it and adds one of its own: see "a change
of a format" in CONTRIBUTING.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.formats.making import PATH, SAID, held, make, merged, opened, said, shard_log, unpack
from tests.streamlog.world import batch_of, rows_of, values_at
from tests.support.batches import produced_to

from fairlead.cluster.diverged import copy_tails
from fairlead.storage import names
from fairlead.storage.local import LocalStorage
from fairlead.storage.packs import PackSettings
from fairlead.streamlog import payloads
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.objects import format
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.rows import KEPT_KINDS, Kind, Row

EXPECTED: dict[str, Any] = json.loads(SAID.read_text())
DECODE: dict[int, Callable[[bytes], payloads.Payload]] = {
    Kind.START: payloads.decode_start,
    Kind.TOPIC: payloads.decode_topic,
    Kind.TOPIC_DELETED: payloads.decode_topic_deleted,
    Kind.CURSOR: payloads.decode_cursor,
    Kind.POSITION: payloads.decode_position,
    Kind.BEHIND: payloads.decode_behind,
    Kind.ENTRY: payloads.decode_entry,
    Kind.TRUNCATE: payloads.decode_truncate,
    Kind.EXPIRED: payloads.decode_expired,
    Kind.STATE: payloads.decode_state,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the directory."""
    unpack(tmp_path)
    return tmp_path


@pytest.fixture
def storage(root: Path) -> Iterator[LocalStorage]:
    storage = LocalStorage(root, packs=PackSettings())
    yield storage
    storage.close()


def prefix_in(storage: LocalStorage) -> str:
    """Of the log of the one shard that has topics."""
    stream = bytes.fromhex(EXPECTED["upstreams"][0]["stream"])
    return names.shard_prefix(stream, 0)


def rows_there(storage: LocalStorage) -> list[Row]:
    """All rows of that log, in objects that count."""
    stream = bytes.fromhex(EXPECTED["upstreams"][0]["stream"])
    return rows_of(shard_log(storage, stream, 8))


async def test_a_directory_of_this_format_is_read(root: Path) -> None:
    """Every record at its offset, and all that is known of topics, groups, links and owners."""
    assert await held(root) == EXPECTED


def test_nothing_of_it_is_damaged(storage: LocalStorage) -> None:
    """What this program takes for damage would stop a server."""
    assert check_all(storage) == []


def test_every_kind_of_object_is_there(root: Path, storage: LocalStorage) -> None:
    """A kind that is missing here could change unseen."""
    prefix = prefix_in(storage)
    found = [name for name in storage.list("") if name.startswith(prefix)]
    commits = [name for name in found if names.parse_commit(name) is not None]
    forms = {bytes(storage.get(name)[:6]) for name in commits}
    assert forms == {b"FLCOMM", b"ARROW1"}
    assert "seal" in {format.read_meta(storage.get(name), name).kind for name in commits}
    ruling = manifests.newest(storage, prefix)
    assert ruling is not None
    assert {segment.kind for segment in ruling.segments} == {"data", "control"}
    assert ruling.checkpoint is not None
    assert any(names.parse_epoch(name) for name in found)
    assert list(root.rglob("*.pack"))
    assert list((root / ".register").iterdir())


def test_every_kind_of_row_is_there(storage: LocalStorage) -> None:
    """And some that only a later program knows, local and sent. The directory is older than
    COMMITTED rows."""
    kinds = {row.kind for row in rows_there(storage)}
    assert kinds >= set(Kind) - {Kind.COMMITTED}
    assert kinds & KEPT_KINDS >= {Kind.TXN, Kind.COMPACTED, 70, 71, 100, 101}


def test_every_payload_is_written_as_it_stands_there(storage: LocalStorage) -> None:
    """Another field, or another order, is another format: a decision, a converter and a directory of its own."""
    seen = set()
    for row in rows_there(storage):
        if row.kind in DECODE:
            assert payloads.encode(DECODE[row.kind](bytes(row.batch))) == bytes(row.batch)
            seen.add(row.kind)
    assert seen == DECODE.keys()


async def test_it_goes_on_and_copies_the_tail_that_a_cut_has_kept(storage: LocalStorage) -> None:
    """The next record gets the next offset."""
    with ThreadPoolExecutor(1) as executor:
        cluster = await opened(storage, executor, 11)
        stream = cluster.stream(PATH)
        shard, ships = stream.topic("ships")
        assert (await produced_to(shard, ships.number, 0, batch_of(b"next"))).base_offset == 8
        assert shard.state.kept_from()
        await copy_tails(stream, shard)
        assert not shard.state.kept_from()
        diverged = [topic for topic in stream.topics() if ".diverged." in topic.name]
        tails = [values_at(shard, topic.number, 1) for topic in diverged]
        assert {2: b"late"} in tails
        await cluster.close()


def test_a_merge_of_all_of_it_says_the_same(storage: LocalStorage) -> None:
    """Segments of before and commits of before become one run."""
    log = shard_log(storage, bytes.fromhex(EXPECTED["upstreams"][0]["stream"]), 12)
    merged(log)
    assert said(log) == EXPECTED["shard"]


async def test_it_can_be_made_anew(tmp_path: Path) -> None:
    """As long as this is the newest format: the one that the program writes is the one that is kept."""
    await make(tmp_path)
    assert await held(tmp_path) == EXPECTED
