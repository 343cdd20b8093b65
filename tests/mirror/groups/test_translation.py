"""Offsets of groups are translated, beside a plain model: no unread record is ever skipped, and where nothing was sent
twice and nothing was removed, the place is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mirror.groups.model import ABORTED, FOREIGN, HOLE, MARKER, RECORD, Way

from fairlead.mirror.carrying import line
from fairlead.mirror.groups import history

BATCH = st.lists(st.sampled_from([RECORD, RECORD, RECORD, HOLE]), min_size=1, max_size=6)
WRITES = st.one_of(BATCH, st.just([MARKER]), st.lists(st.just(ABORTED), min_size=1, max_size=3))
SIZES = st.lists(st.integers(1, 6), max_size=8)


@pytest.fixture(autouse=True)
def close() -> Iterator[None]:
    """Stretches are kept for so little data, and so few of them, that short tests see what long logs do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line, "SPACING_BYTES", 100)
        patch.setattr(history, "BLOCK", 2)
        patch.setattr(history, "BLOCKS_MAX", 3)
        yield


@settings(deadline=None)
@given(st.lists(st.tuples(WRITES, SIZES, st.booleans()), max_size=30))
def test_what_was_sent_once_is_translated_exactly(turns: list[tuple[list[str], list[int], bool]]) -> None:
    """Whatever markers, aborted records and holes lie between; also after restarts in which nothing was under way."""

    async def play() -> None:
        way = Way()
        for kinds, sizes, restarts in turns:
            way.write(kinds)
            await way.mirror_all(sizes)
            await way.answer()
            if restarts:
                way.record()
                way.start()
        for offset in range(len(way.source) + 1):
            assert way.translated(offset) == way.exact(offset)

    asyncio.run(play())


HAPPENS = st.one_of(
    st.tuples(st.sampled_from(["carry", "send"]), WRITES, SIZES),
    st.tuples(st.sampled_from(["carry", "answer", "record", "kill", "others", "silent"]), st.just([RECORD]), SIZES),
    st.tuples(st.just("compact"), st.lists(st.integers(0, 40), max_size=5), SIZES),
)


@settings(deadline=None)
@given(st.lists(HAPPENS, min_size=5, max_size=40))
def test_no_unread_record_is_skipped_whatever_happens(happens: list[tuple[str, list[Any], list[int]]]) -> None:
    """Kills while batches are under way, records that others write between, answers that name no offset, compaction."""

    async def play() -> None:
        way = Way()
        for what, given_, sizes in happens:
            match what:
                case "carry" | "send":
                    way.write(given_)
                    await way.mirror(sizes)
                    if what == "carry":
                        await way.answer()
                case "answer":
                    await way.answer()
                case "record":
                    way.record()
                case "kill":
                    way.start()
                case "others":
                    way.destination.append(FOREIGN)
                case "silent":
                    way.told = not way.told
                case "compact":
                    way.gone |= set(given_)
            for offset in range(len(way.source) + 1):
                assert not way.skipped(offset), offset

    asyncio.run(play())


async def test_what_others_write_at_the_destination_is_counted_in() -> None:
    """Between two batches, and also where the mirror was off meanwhile."""
    way = Way()
    for _ in range(3):
        way.write([RECORD] * 2)
        await way.mirror([2])
        await way.answer()
        way.record()
        way.destination.append(FOREIGN)
        way.start()
    way.write([RECORD] * 2)
    await way.mirror([2])
    await way.answer()
    assert [way.translated(offset) for offset in range(9)] == [0, 1, 3, 4, 6, 7, 9, 10, 11]


async def test_a_commit_behind_a_marker_is_the_end_of_the_destination() -> None:
    """Java's consumer of committed records commits 9 where the last record is 6."""
    way = Way()
    way.write([RECORD] * 3 + [MARKER] + [RECORD] * 3 + [ABORTED, MARKER])
    await way.mirror([3, 1, 3, 2])
    await way.answer()
    assert len(way.source) == 9
    assert [way.translated(offset) for offset in (9, 8, 7, 6, 3, 0)] == [6, 6, 6, 5, 3, 0]


async def test_after_a_restart_a_group_that_idles_far_behind_is_translated_too() -> None:
    """What is needed for that lies in the books."""
    way = Way()
    for _ in range(40):
        way.write([RECORD] * 3 + [MARKER])
        await way.mirror([4])
        await way.answer()
        way.record()
    way.start()
    assert len(way.tracks.kept[("t", 0)].history) > 1  # type: ignore[index]
    assert [way.translated(offset) for offset in (0, 5, 50, 160)] == [way.exact(offset) for offset in (0, 5, 50, 160)]


async def test_offsets_before_the_mirror_began_are_not_translated() -> None:
    """Somebody else may have brought what lies there."""
    way = Way()
    way.write([RECORD] * 5)
    way.copy.skip(5, 0)
    assert way.translated(5) == 0


async def test_what_is_not_mirrored_yet_begins_at_the_end_of_the_destination() -> None:
    way = Way()
    way.write([RECORD] * 5)
    await way.mirror([5])
    await way.answer()
    way.write([RECORD] * 5)
    assert way.translated(8) == 5
