"""A frame that is referred to is, when it is read, the very frame that would have been carried."""

from __future__ import annotations

import asyncio
import threading
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.fakes import DESTINATION, LINK, RUN, SOURCE
from tests.streamlog.reading.test_slices import Log
from tests.support.rows import batch_row, control_row
from tests.support.waiting import in_time

from fairlead.model.errors import Damaged, Missing
from fairlead.replication.carried.referred import ReferredFrame, pieces_of, refer, referred_frame
from fairlead.spark.packets import Packet
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.frames.codec import encode_body
from fairlead.streamlog.frames.codec import frame_of as bytes_of
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.objects import format, short
from fairlead.streamlog.reading.slices import SlicePart, read_slices
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import LogObject

ALL = dict.fromkeys(range(16), 0)


def frame_of(part: SlicePart) -> Frame:
    topics = {int(number): FrameTopic(bytes(16), f"t{number}") for number in part.columns.topic}
    return Frame(LINK, RUN, SOURCE, 0, part.slices, part.from_commit, part.to_commit, DESTINATION, topics, ())


def large(seed: int, size: int = 30) -> Log:
    """A log whose commits are stored as large ones are."""
    with patch.object(short, "BYTES_MAX", 0):
        return Log(seed, size=size)


def parts_of(log: Log, frame_bytes: int, refer_bytes: int | None) -> list[SlicePart]:
    """With no object small enough to be read at once."""
    with patch.object(format, "READ_WHOLE_BYTES", 0), patch.object(short, "BYTES_MAX", 0):
        return list(read_slices(log.storage, log.objects, ALL, frame_bytes=frame_bytes, refer_bytes=refer_bytes))


def one(seed: int = 1) -> tuple[Log, ReferredFrame]:
    log = large(seed)
    part = next(part for part in parts_of(log, 10**9, 0) if part.referred is not None)
    assert part.referred is not None
    return log, refer("/data", frame_of(part), part.referred)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 500, 10**9]), st.sampled_from([0, 1, 20_000]))
def test_it_has_the_same_bytes_in_the_same_parts(seed: int, frame_bytes: int, size: int) -> None:
    """Out of segments in which a slice is scattered, out of single commits, with large and small holes."""
    log = large(seed, size)
    carried, named = parts_of(log, frame_bytes, None), parts_of(log, frame_bytes, 0)
    assert any(part.referred for part in named)
    for whole, part in zip(carried, named, strict=True):
        expected = bytes_of(frame_of(whole), encode_body(whole.columns))
        if part.referred is None:
            assert bytes_of(frame_of(part), encode_body(part.columns)) == expected
            continue
        sent = referred_frame(refer("/data", frame_of(part), part.referred).to_bytes())
        assert sent.root == "/data"
        assert b"".join(sent.pieces(log.storage)) == expected
        assert sent.size_bytes == len(expected)


def test_control_rows_are_always_carried() -> None:
    """Only who has read the whole object knows that their checksum fits; the parts behind them are referred to."""
    rows = [control_row(Kind.TOPIC, b"topic", topic=1, commit=0)]
    rows += [batch_row(1, place, commit=place + 1, row=0, value=b"x" * 100) for place in range(9)]
    storage = MemoryStorage()
    for row in rows:
        storage.put_if_absent(f"{row.commit}", format.encode([row], name=f"{row.commit}"))
    objects = [LogObject(f"{commit}", commit, commit + 1, False) for commit in range(10)]
    first, *others = read_slices(storage, objects, ALL, frame_bytes=1, refer_bytes=0)
    assert first.referred is None
    assert len(others) == 9
    assert all(part.referred is not None for part in others)


def test_a_control_row_makes_no_large_frame_of_the_batches_around_it() -> None:
    """Spark clears as much memory for every row as the largest one of the round took."""
    rows = [batch_row(1, place, commit=place, row=0, value=b"x" * 100) for place in range(100)]
    rows[50] = control_row(Kind.TOPIC, b"topic", topic=1, commit=50)
    storage = MemoryStorage()
    for row in rows:
        storage.put_if_absent(f"{row.commit}", format.encode([row], name=f"{row.commit}"))
    objects = [LogObject(f"{commit}", commit, commit + 1, False) for commit in range(100)]
    parts = list(read_slices(storage, objects, ALL, frame_bytes=10**9, refer_bytes=1000))
    assert [commit for part in parts for commit in part.columns.commit.tolist()] == list(range(100))
    assert [part.from_commit for part in parts] == [0, *(part.to_commit for part in parts[:-1])]
    (carried,) = (part for part in parts[:-1] if part.referred is None)
    assert 50 in carried.columns.commit
    assert carried.columns.batch_bytes() < 2000


def test_little_is_carried_as_it_is() -> None:
    assert not any(part.referred for part in parts_of(large(1), 10**9, 10**6))


def test_an_object_that_is_gone_is_missing() -> None:
    log, frame = one()
    log.storage.delete(frame.names[0])
    with pytest.raises(Missing):
        frame.pieces(log.storage)


def test_an_object_that_was_cut_is_damaged() -> None:
    log, frame = one()
    name = frame.names[0]
    cut = MemoryStorage()
    for other in frame.names:
        cut.put_if_absent(other, log.storage.get(other)[: 100 if other == name else None])
    with pytest.raises(Damaged):
        frame.pieces(cut)


def test_neighbours_are_one_piece() -> None:
    """A frame of many small batches of one topic is not sent batch by batch."""
    rows = [batch_row(1, place, commit=place, row=0, value=b"x" * 100) for place in range(50)]
    storage = MemoryStorage()
    storage.put_if_absent("segment", format.encode(rows, name="segment", object_kind="segment"))
    with patch.object(format, "READ_WHOLE_BYTES", 0):
        (part,) = read_slices(storage, [LogObject("segment", 0, 50, True)], ALL, refer_bytes=0)
    assert part.referred is not None
    _, _, *batches = refer("/data", frame_of(part), part.referred).pieces(storage)
    assert [bytes(batch) for batch in batches] == [b"".join(row.batch for row in rows)]


async def test_frames_are_read_though_names_of_hosts_are_looked_up_for_ever() -> None:
    """Of destinations that do not resolve; the loop's threads do both otherwise, and all others would wait."""
    log, referred = one()
    may_end = threading.Event()
    looking_up = [asyncio.get_running_loop().run_in_executor(None, may_end.wait) for _ in range(40)]
    try:
        async with in_time():
            packet = Packet("", referred.to_bytes(), referred.size_bytes, referred=True)
            pieces = await pieces_of(packet, lambda _root: log.storage)
        assert sum(len(memoryview(piece).cast("B")) for piece in pieces) == referred.size_bytes
    finally:
        may_end.set()
        await asyncio.gather(*looking_up)
