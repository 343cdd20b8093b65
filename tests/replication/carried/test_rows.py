"""What travels through Spark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.replication.fakes import link_frame

from fairlead.replication.carried.addresses import FrameAddress, parse_address
from fairlead.replication.spark.options import LinkOptions
from fairlead.spark.buffer import SPARK_BUFFER_BYTES
from fairlead.spark.packets import ARROW_SCHEMA, Packet, from_batch, to_batch


def test_a_frame_survives_the_way_into_arrow_and_back() -> None:
    """Address, place and every byte."""
    frame = link_frame(bytes(range(256)) * 100, "http://one", "http://two", shard=7)
    (found,) = from_batch(to_batch([frame], last=False))
    assert bytes(memoryview(found.data)) == frame.data
    assert (found.address, found.size_bytes) == (frame.address, 25_600)


def test_frames_that_share_a_row_come_out_as_they_went_in() -> None:
    """Each with its own place, length and bytes, in their order; an empty one and one that is referred to as well."""
    frames = [
        link_frame(b"one", "http://one", shard=1),
        link_frame(b"", "http://one", shard=1),
        replace(link_frame(b"three", "http://one", shard=1), size_bytes=1 << 40, referred=True),
    ]
    found = from_batch(to_batch(frames, last=False))
    assert [replace(frame, data=bytes(memoryview(frame.data))) for frame in found] == frames


@pytest.mark.parametrize("size_bytes", [0, 1, 63, 64, 70_000])
def test_filler_goes_with_the_last_frames_and_is_dropped(size_bytes: int) -> None:
    """A row of its own behind theirs; a frame is one whatever its length."""
    frame = link_frame(bytes(size_bytes), "http://one")
    batch = to_batch([frame], last=True)
    assert len(batch) == 2
    (found,) = from_batch(batch)
    assert bytes(memoryview(found.data)) == frame.data


class Pipe:
    """Notes how much is written at once."""

    closed = False

    def __init__(self) -> None:
        self.writes: list[int] = []

    def write(self, data: bytes) -> int:
        self.writes.append(len(data))
        return len(data)


@pytest.mark.parametrize("size_bytes", [0, 1, 63, 64, 500, 70_000])
def test_the_last_frames_leave_nothing_in_the_buffer_of_sparks_process(size_bytes: int) -> None:
    """The end of the batch is written at once, with all before it: a buffer keeps only what is smaller than itself."""
    pipe = Pipe()
    stream = pa.ipc.new_stream(pa.PythonFile(pipe, "w"), ARROW_SCHEMA)
    stream.write_batch(to_batch([link_frame(bytes(size_bytes), "http://one")], last=True))
    assert pipe.writes[-1] > SPARK_BUFFER_BYTES


def test_the_smallest_row_is_larger_than_the_buffer_of_the_jvm() -> None:
    """One that is smaller would wait there for the row behind the filler."""
    batch = to_batch([link_frame(b"", "http://a")], last=True)
    assert batch.slice(0, 1).serialize().size > SPARK_BUFFER_BYTES


def test_an_address_is_the_same_after_its_text() -> None:
    """Hello and destination with all addresses."""
    address = parse_address(link_frame(b"", "http://one").address)
    assert isinstance(address, FrameAddress)
    assert parse_address(address.to_json()) == address
    assert address.destination.urls == ("http://one",)


def test_frames_are_plain_values() -> None:
    """Equal fields, equal frames."""
    assert Packet("a", b"x", 1) == Packet("a", b"x", 1)


def test_options_survive_as_text() -> None:
    """Spark carries options as text."""
    options = LinkOptions("http://one", workers=3, round_seconds=2.5, once=True)
    assert LinkOptions.from_texts(options.to_texts()) == options
