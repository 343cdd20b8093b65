"""What travels through Spark."""

from __future__ import annotations

from dataclasses import replace

from fairlead.replication.link_rows import (
    Address,
    LinkFrame,
    filler_batch,
    from_batch,
    parse_address,
    to_batch,
)
from fairlead.replication.options import LinkOptions

from .fakes import link_frame


def test_a_frame_survives_the_way_into_arrow_and_back() -> None:
    """Address, place and every byte."""
    frame = link_frame(bytes(range(256)) * 100, "http://one", "http://two", shard=7)
    (found,) = from_batch(to_batch([frame]))
    assert bytes(memoryview(found.data)) == frame.data
    assert (found.address, found.shard, found.size_bytes) == (frame.address, 7, 25_600)


def test_frames_that_share_a_row_come_out_as_they_went_in() -> None:
    """Each with its own place, length and bytes, in their order; an empty one and one that is referred to as well."""
    frames = [
        link_frame(b"one", "http://one", shard=1),
        link_frame(b"", "http://one", shard=2),
        replace(link_frame(b"three", "http://one", shard=15), size_bytes=1 << 40, referred=True),
    ]
    found = from_batch(to_batch(frames))
    assert [replace(frame, data=bytes(memoryview(frame.data))) for frame in found] == frames


def test_an_empty_frame_and_filler_are_told_apart() -> None:
    """Filler is dropped; a frame is not, whatever its length."""
    assert from_batch(filler_batch()) == []
    assert len(from_batch(to_batch([link_frame(b"", "http://one")]))) == 1


def test_filler_fills_a_segment() -> None:
    """65,536 bytes are a packet of the loopback interface; less than one waits for an acknowledgement."""
    assert len(filler_batch().column("frames")[0].as_py()) > 65_536


def test_an_address_is_the_same_after_its_text() -> None:
    """Hello and destination with all addresses."""
    address = parse_address(link_frame(b"", "http://one").address)
    assert isinstance(address, Address)
    assert parse_address(address.to_json()) == address
    assert address.destination.urls == ("http://one",)


def test_frames_are_plain_values() -> None:
    """Equal fields, equal frames."""
    assert LinkFrame("a", 0, b"x", 1) == LinkFrame("a", 0, b"x", 1)


def test_options_survive_as_text() -> None:
    """Spark carries options as text."""
    options = LinkOptions("http://one", workers=3, round_seconds=2.5, once=True)
    assert LinkOptions.from_texts(options.to_texts()) == options
