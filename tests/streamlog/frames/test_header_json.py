"""The exact header of a frame, and every header that is refused."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import crc32c
import pytest
from tests.support.spoiled import (
    NO_OBJECTS,
    negative,
    of_bad_hex,
    of_other_kinds,
    of_short_ids,
    said_twice,
    with_more,
    without_each,
)

from fairlead.model.errors import CorruptBatch
from fairlead.streamlog.frames.codec import decode_frame, encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.values import GrantRun

BARE = Frame(b"\xab" * 16, GrantRun(0, 2**63 - 1), b"s" * 16, 0, 2**16 - 1, 10, 2**53, b"e" * 16, {}, [])
TEXT_BARE = (
    '{"v":2,"link":"' + "ab" * 16 + '","run":[0,9223372036854775807],"source":"' + "73" * 16 + '",'
    '"shard":0,"slices":65535,"from":10,"to":9007199254740992,"epoch_id":"' + "65" * 16 + '",'
    '"topics":[],"repair":null,"created":null,"end":0,"features":[],"ext":{},"rows":0,"batch_bytes":0}'
)
TOPICS = {5: FrameTopic(b"i" * 16, 'flöte 船 \U0001f6a2 "\\/\n\x01'), 2**32 - 33: FrameTopic(bytes(16), "")}
FULL = replace(BARE, topics=TOPICS, repair=Repair(21, 0, 11, True, 7), created=7, end=2**53, ext={"a": [1, None]})
TEXT_FULL = (
    TEXT_BARE.replace(
        '"topics":[]',
        '"topics":[[5,"' + "69" * 16 + '","fl\\u00f6te \\u8239 \\ud83d\\udea2 \\"\\\\/\\n\\u0001"],'
        '[4294967263,"' + "00" * 16 + '",""]]',
    )
    .replace('"repair":null', '"repair":[21,0,11,true,7]')
    .replace('"created":null,"end":0', '"created":7,"end":9007199254740992')
    .replace('"ext":{}', '"ext":{"a":[1,null]}')
)
FRAMES = [(BARE, TEXT_BARE), (FULL, TEXT_FULL)]


def _sealed(header: str | bytes) -> bytes:
    """A frame without rows, of this header."""
    data = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<II", len(data), crc32c.crc32c(data)) + data


@pytest.mark.parametrize(("frame", "text"), FRAMES)
def test_a_header_is_this_text(frame: Frame, text: str) -> None:
    """Byte for byte; and the text is this frame."""
    assert encode_frame(frame) == _sealed(text)
    assert decode_frame(_sealed(text)) == frame


@pytest.mark.parametrize("text", [TEXT_BARE, TEXT_FULL])
def test_a_value_of_another_kind_is_refused(text: str) -> None:
    """A bool is no int, and neither are 1.0 and "1"; ids have 16 bytes, and no number is below 0."""
    spoiled = of_other_kinds(text, "repair", "created") | of_bad_hex(text) | of_short_ids(text) | negative(text)
    for said, wrong in spoiled.items():
        if said.startswith(("v = ", "ext.")):
            continue
        with pytest.raises(CorruptBatch, match="frame: "):
            raise AssertionError(f"{said} was read as {decode_frame(_sealed(wrong))}")


def test_a_missing_field_is_refused_by_name() -> None:
    """Each."""
    for field, shorter in without_each(TEXT_FULL).items():
        with pytest.raises(CorruptBatch, match=rf"frame: its header cannot be read \(.*\b{field}\b"):
            decode_frame(_sealed(shorter))


def test_an_unknown_field_is_refused() -> None:
    """Whatever may be passed over stands in `ext`."""
    with pytest.raises(CorruptBatch, match="unknown field 'more'"):
        decode_frame(_sealed(with_more(TEXT_FULL)))


def test_a_frame_that_needs_more_than_this_program_knows_is_refused_by_name() -> None:
    """Passed over, its rows would be missing for ever."""
    with pytest.raises(CorruptBatch, match="frame needs later, which this program does not know; upgrade"):
        decode_frame(_sealed(TEXT_BARE.replace('"features":[]', '"features":["later"]')))


def test_another_version_is_refused_naming_both_whatever_else_is_there() -> None:
    """Its fields are another matter."""
    with pytest.raises(CorruptBatch, match="frame of version 3; this program knows version 2"):
        decode_frame(_sealed('{"v":3}'))
    for version in (None, "1", 0, [1]):
        with pytest.raises(CorruptBatch, match="frame"):
            decode_frame(_sealed(json.dumps({**json.loads(TEXT_BARE), "v": version})))


@pytest.mark.parametrize("data", [*(text.encode() for text in NO_OBJECTS), b"\xff", b"[" * 100_000, b'{"v":' * 9_000])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    """However deep."""
    with pytest.raises(CorruptBatch, match="frame: its header cannot be read"):
        decode_frame(_sealed(data))


@pytest.mark.parametrize(
    "changes",
    [
        {"slices": 2**16},
        {"slices": 0},
        {"end": 2**62},
        {"features": ["x"] * 101},
        {"shard": 256},
        {"to": 2**62},
        {"run": [0, 2**63]},
        {"topics": [[2**32 - 1, "69" * 16, "t"]]},
        {"topics": [[5, "69" * 16, "x" * 1001]]},
        {"created": 2**62},
        {"repair": [2**32 - 1, 2, 3, True, 5]},
        {"repair": [1, 4096, 3, True, 5]},
        {"repair": [1, 2, 2**62, True, 5]},
        {"repair": [1, 2, 3, True, 2**62]},
        {"from": 2**53 + 1},
        {"run": []},
        {"run": [1, 2, 3]},
        {"topics": [[5, "69" * 16]]},
        {"topics": [[5, "69" * 16, "t", 1]]},
        {"topics": [[]]},
        {"repair": []},
        {"repair": [1, 2, 3, True]},
        {"repair": [1, 2, 3, True, 5, 6]},
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    """Lists of another length, numbers that contradict each other."""
    with pytest.raises(CorruptBatch, match="frame: its header cannot be read"):
        decode_frame(_sealed(json.dumps({**json.loads(TEXT_FULL), **changes})))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e3", "1" + "0" * 5_000])
def test_what_is_no_whole_number_is_refused(number: str) -> None:
    """Also what only some readers of JSON know, or that is too long for any use."""
    with pytest.raises(CorruptBatch, match="frame: its header cannot be read"):
        decode_frame(_sealed(TEXT_BARE.replace('"shard":0', f'"shard":{number}')))


def test_of_a_field_that_stands_twice_the_last_counts() -> None:
    """As everywhere in JSON."""
    assert decode_frame(_sealed(said_twice(TEXT_FULL, "shard", "x"))) == FULL
