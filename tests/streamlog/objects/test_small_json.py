"""The exact bytes of the claim of a writer epoch and of a checkpoint's header, and headers that are damaged."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import crc32c
import numpy as np
import pytest
from tests.support.rows import joined
from tests.support.spoiled import said_twice, with_more, without_each

from fairlead.model.errors import Damaged
from fairlead.storage import names
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.objects import checkpoint
from fairlead.streamlog.objects import claim as claims
from fairlead.streamlog.objects.opening import claim, last_claim
from fairlead.streamlog.values import Opener

HEADER = (
    '{"version": 2, "name": "x", "commit": 7, "meta": {"configs": [[16, {"a": "\\u00fc"}]], "entries": {"k": null}}, '
    '"tables": [["a", "<i8", 3, [24]], ["t", "text", 1, [8, 2]]]}'
)
META = {"configs": [[16, {"a": "ü"}]], "entries": {"k": None}}


class Fixed:
    """Randomness that is none."""

    def id16(self) -> bytes:
        return b"\xab" * 16


def test_a_claim_is_these_bytes() -> None:
    """A newer writer only looks at its name."""
    storage = MemoryStorage()
    claim(storage, "meta", b"l" * 16, Fixed(), Opener(7, b"r" * 16), 1234)
    text = b'{"v":3,"prefix":"meta","epoch":1,"id":"' + b"ab" * 16 + b'","log":"' + b"6c" * 16 + b'"'
    text += b',"node":7,"run":"' + b"72" * 16 + b'","moves":0,"at":1234'
    assert storage.get(names.epoch("meta", 1)) == text + b',"checksum":"%08x"}' % crc32c.crc32c(text)


def test_a_claim_says_how_often_the_log_went_to_another_server() -> None:
    """Counted from the newest claim that can be read: what is lost of it stops nobody."""
    storage = MemoryStorage()
    for number, node in enumerate((1, 1, 2, 2, 1), start=1):
        assert claim(storage, "x", b"l" * 16, Fixed(), Opener(node), 0).number == number
    found = [claims.decode(storage.get(names.epoch("x", number)), names.epoch("x", number)) for number in range(1, 6)]
    assert [each.moves for each in found] == [0, 0, 1, 1, 2]
    storage.replace({**storage.snapshot(), names.epoch("x", 5): b""})
    claim(storage, "x", b"l" * 16, Fixed(), Opener(2), 0)
    newest = last_claim(storage, "x")
    assert newest is not None
    assert (newest.epoch, newest.moves) == (6, 1)


def test_a_change_of_any_byte_of_a_claim_is_found() -> None:
    """And its copy under another name, and another version."""
    made = claims.Claim("meta", 3, b"i" * 16, b"l" * 16, 1, b"r" * 16, 0, 1234)
    whole = claims.encode(made)
    assert claims.decode(whole, made.name) == made
    for place in range(len(whole)):
        with pytest.raises(Damaged):
            claims.decode(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :], made.name)
        with pytest.raises(Damaged):
            claims.decode(whole[:place], made.name)
    with pytest.raises(Damaged, match="is the claim meta/epoch/00000000000000000003"):
        claims.decode(whole, names.epoch("meta", 4))
    with pytest.raises(Damaged, match="claim of version 1; this program reads version 3"):
        claims.decode(b'{"v": 1}', made.name)


def test_a_header_is_this_text() -> None:
    """Padded with spaces."""
    whole = joined(checkpoint.write({"a": np.arange(3, dtype=np.int64), "t": ["ü"]}, META, name="x", commit=7))
    assert whole[16:].startswith(HEADER.encode() + b" " * (-len(HEADER) % 8))
    tables, meta = checkpoint.read(whole, "x")
    assert meta == META
    assert (tables["a"].tolist(), tables["t"]) == ([0, 1, 2], ["ü"])


def _sealed(header: str) -> bytes:
    whole = joined(checkpoint.write({"a": np.arange(3, dtype=np.int64), "t": ["ü"]}, META, name="x", commit=7))
    body = whole[16 + struct.unpack_from("<I", whole, 12)[0] :]
    data = header.encode()
    rest = struct.pack("<I", len(data)) + data + body
    return b"FLCHKPT1" + struct.pack("<I", crc32c.crc32c(rest)) + rest


def _with(**changes: object) -> str:
    return json.dumps({**json.loads(HEADER), **changes})


def test_a_header_is_read_whatever_else_it_holds() -> None:
    """And of a field that stands twice the last counts."""
    for header in (HEADER, with_more(HEADER), said_twice(HEADER, "meta", 1)):
        assert checkpoint.read(_sealed(header), "x")[1] == META


@pytest.mark.parametrize(
    "header",
    [
        *without_each(HEADER).values(),
        "",
        "{",
        "[]",
        "null",
        "7",
        _with(tables=5),
        _with(tables=[["a", "<i8", 3]]),
        _with(tables=[["a", 5, 3, [24]]]),
        _with(tables=[["a", "<i8", "3", [24]]]),
        _with(tables=[["a", "<i8", 3, 24]]),
        _with(tables=[["a", "<i8", 3, ["24"]]]),
        _with(tables=[["a", "nothing", 3, [24]]]),
    ],
)
def test_a_header_of_another_shape_is_damage(header: str) -> None:
    """The log is then replayed instead."""
    with pytest.raises(Damaged, match="a checkpoint that cannot be read"):
        checkpoint.read(_sealed(header), "x")


def test_another_version_is_refused_naming_both_whatever_else_is_there() -> None:
    """Its fields are another matter."""
    with pytest.raises(Damaged, match="checkpoint of version 1; this program reads version 2"):
        checkpoint.read(_sealed('{"version": 1}'), "x")


@pytest.mark.parametrize("value", [{"deep": [[[[[[{}]]]]]]}, "ü", 2**70, [1.5, True], {}])
def test_meta_may_be_any_value(value: Mapping[str, Any]) -> None:
    """It is the state's matter."""
    assert checkpoint.read(joined(checkpoint.write({}, value, name="x")), "x")[1] == value
