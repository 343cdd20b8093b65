"""The exact bytes of a manifest, and every manifest that is damaged."""

from __future__ import annotations

import json
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

from fairlead.model.errors import Damaged
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.manifest import CheckpointEntry, Manifest, SegmentEntry, SliceCount, first_manifest
from fairlead.streamlog.values import EpochRange

COUNTS = (SliceCount(2**63, 20, 1), *(SliceCount(0, 0, 0),) * 16)
FIRST = first_manifest("meta", 1, b"\xab" * 16)
TEXT_FIRST = (
    '{"version":3,"epoch":1,"k":0,"begin":0,"epochs":[[1,"' + "ab" * 16 + '",0,null]],'
    '"segments":[],"checkpoint":null,"prefix":"meta","log":"' + "00" * 16 + '","ext":{}'
)
FULL = Manifest(
    "streams/fl\u00f6te",
    5,
    2**70,
    (EpochRange(1, b"1" * 16, 0, 10), EpochRange(5, b"5" * 16, 10, None)),
    (
        SegmentEntry("lake/b.arrow", "keyed", 3, 8, 5, 1000, -1, 2, 0, 0, 6, 7, COUNTS),
        SegmentEntry("streams/fl\u00f6te/segment/a.arrow", "control", 3, 8, 5, 1000, -1, 2, 0, 2**70, -1, -1, COUNTS),
    ),
    3,
    CheckpointEntry("streams/fl\u00f6te/checkpoint/c", 8),
    b"i" * 16,
    {"z": "1.50", "a": "\u00f6\n{}"},
)
TEXT_FULL = (
    '{"version":3,"epoch":5,"k":1180591620717411303424,"begin":3,'
    '"epochs":[[1,"' + "31" * 16 + '",0,10],[5,"' + "35" * 16 + '",10,null]],'
    '"segments":[["lake/b.arrow","keyed",3,8,5,1000,-1,2,0,0,6,7,[[9223372036854775808,20,1]'
    + ",[0,0,0]" * 16
    + ']],["segment/a.arrow","control",3,8,5,1000,-1,2,0,1180591620717411303424,-1,-1,[[9223372036854775808,20,1]'
    + ",[0,0,0]" * 16
    + ']]],"checkpoint":["streams/fl\\u00f6te/checkpoint/c",8],"prefix":"streams/fl\\u00f6te","log":"'
    + "69" * 16
    + '","ext":{"z":"1.50","a":"\\u00f6\\n{}"}'
)
MANIFESTS = [(FIRST, TEXT_FIRST), (FULL, TEXT_FULL)]


def _sealed(text: str) -> bytes:
    """The object, from its JSON without the last brace."""
    data = text.encode()
    return data + b',"checksum":"%08x"}' % crc32c.crc32c(data)


def _resealed(text: str) -> bytes:
    """The object, from whole JSON, written as manifests are."""
    return _sealed(json.dumps(json.loads(text), separators=(",", ":"))[:-1])


@pytest.mark.parametrize(("manifest", "text"), MANIFESTS)
def test_a_manifest_is_these_bytes(manifest: Manifest, text: str) -> None:
    """And the bytes are this manifest."""
    assert manifests.encode(manifest) == _sealed(text)
    assert manifests.decode(_sealed(text), manifest.name) == manifest


def test_a_value_of_another_kind_is_damage() -> None:
    """A bool is no int, and neither are 1.0 and "1"; ids have 16 bytes."""
    text = TEXT_FULL + "}"
    spoiled = of_other_kinds(text, "checkpoint") | of_bad_hex(text) | of_short_ids(text)
    for said, wrong in spoiled.items():
        with pytest.raises(Damaged):
            raise AssertionError(f"{said} was read as {manifests.decode(_resealed(wrong), '')}")


def test_a_number_below_0_is_damage() -> None:
    """Where it counts something; times may be."""
    times = tuple(f"segments.{at}.{place} = " for at in (0, 1) for place in range(4, 12))
    for said, wrong in negative(TEXT_FULL + "}").items():
        if not said.startswith(times):
            with pytest.raises(Damaged):
                raise AssertionError(f"{said} was read as {manifests.decode(_resealed(wrong), '')}")


def test_a_missing_field_is_damage_that_is_named() -> None:
    """Each."""
    for field, shorter in without_each(TEXT_FULL + "}").items():
        with pytest.raises(Damaged, match=rf"not a manifest that can be read \(.*\b{field}\b"):
            manifests.decode(_resealed(shorter), "")
    with pytest.raises(Damaged, match=r"not a manifest that can be read"):
        manifests.decode(TEXT_FULL.encode() + b"}", "")


@pytest.mark.parametrize(
    "data",
    [
        _resealed(with_more(TEXT_FULL + "}")),
        _sealed(TEXT_FULL.replace(":", ": ")),
        _sealed(TEXT_FULL.replace("\\u00f6", "ö")),
        _sealed(said_twice(TEXT_FULL, "k", 1)),
        _sealed(TEXT_FIRST.replace("ab" * 16, "AB" * 16)),
        _sealed(TEXT_FULL) + b"\n",
        b" " + _sealed(TEXT_FULL),
    ],
)
def test_what_this_program_would_not_write_is_damage(data: bytes) -> None:
    """An unknown field, other spaces, other escapes, a field twice, upper case."""
    with pytest.raises(Damaged):
        manifests.decode(data, "")


def test_another_version_is_refused_naming_both_whatever_else_is_there() -> None:
    """Its fields are another matter, and its checksum too."""
    for data in (b'{"version":1}', _sealed(TEXT_FULL.replace('"version":3', '"version":1'))):
        with pytest.raises(Damaged, match="manifest of version 1; this program reads version 3"):
            manifests.decode(data, "")


def test_a_checksum_that_does_not_fit_is_named() -> None:
    """Where the JSON still holds."""
    with pytest.raises(Damaged, match=r"not a manifest that can be read \(the checksum does not fit\)"):
        manifests.decode(_sealed(TEXT_FULL).replace(b",1000,", b",1001,"), "")


@pytest.mark.parametrize(
    "data", [*(text.encode() for text in NO_OBJECTS), b"\xff", b"[" * 100_000, b'{"version":' * 9_000]
)
def test_what_is_no_object_is_damage(data: bytes) -> None:
    """However deep."""
    with pytest.raises(Damaged, match="not a manifest that can be read"):
        manifests.decode(data, "x")


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": []},
        {"epochs": [[]]},
        {"epochs": [[5, "35" * 16, 10, None, 1]]},
        {"checkpoint": []},
        {"checkpoint": ["c"]},
        {"segments": [[]]},
        {"segments": [["a", "other", *json.loads(TEXT_FULL + "}")["segments"][0][2:]]]},
        {"segments": [[*json.loads(TEXT_FULL + "}")["segments"][0][:12], [[0, 0, 0]] * 16]]},
        {"segments": [[*json.loads(TEXT_FULL + "}")["segments"][0][:12], [[0, 0]] * 17]]},
        {"segments": [[*json.loads(TEXT_FULL + "}")["segments"][0][:12], [[0, 0, 0, 0]] * 17]]},
    ],
)
def test_a_list_of_another_length_is_damage(changes: dict[str, Any]) -> None:
    """And a kind of segment that nobody knows."""
    with pytest.raises(Damaged):
        manifests.decode(_resealed(json.dumps({**json.loads(TEXT_FULL + "}"), **changes})), "")
