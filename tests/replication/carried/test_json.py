"""The exact texts that travel through Spark beside frames."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.spoiled import of_bad_hex, of_other_kinds, with_more, without_each

from fairlead.model.errors import InvalidValue
from fairlead.replication.carried.addresses import FrameAddress, parse_address
from fairlead.replication.carried.referred import ReferredFrame, referred_frame
from fairlead.streamlog.values import GrantRun
from fairlead.wire.apply import ApplyHello
from fairlead.wire.link_protocol import StreamPlace

ADDRESS = FrameAddress(
    ApplyHello(1, b"\xab" * 16, GrantRun(3, 4), StreamPlace("a", "/ü", b"s" * 16, ("http://a",)), b"d" * 16, 7),
    StreamPlace("b", "/ships", b"d" * 16, ()),
)
TEXT = (
    '{"hello":{"protocol":1,"link":"' + "ab" * 16 + '","run":[3,4],'
    '"source":{"cluster":"a","path":"/\\u00fc","stream":"' + "73" * 16 + '","urls":["http://a"]},'
    '"destination":"' + "64" * 16 + '","shard":7,"features":["txn","compact","opaque"],"ext":{},"topic_prefix":""},'
    '"destination":{"cluster":"b","path":"/ships","stream":"' + "64" * 16 + '","urls":[]}}'
)


def test_an_address_is_this_text() -> None:
    """And the text is this address."""
    assert ADDRESS.to_json() == TEXT
    assert parse_address(TEXT) == ADDRESS


def test_an_address_of_another_shape_is_refused() -> None:
    """By name."""
    for said, wrong in (of_other_kinds(TEXT) | of_bad_hex(TEXT)).items():
        with pytest.raises(InvalidValue):
            raise AssertionError(f"{said} was read as {parse_address(wrong)}")
    for field, shorter in without_each(TEXT, "topic_prefix").items():
        with pytest.raises(InvalidValue, match=f"field '{field}' is missing"):
            parse_address(shorter)
    with pytest.raises(InvalidValue, match="unknown field 'more'"):
        parse_address(with_more(TEXT))


@pytest.mark.parametrize("root", ["/data", "/flöte/\udcff"])
def test_a_referred_frame_names_its_objects_in_this_text(root: str) -> None:
    """Whatever the directory is called."""
    empty = np.zeros(0, np.int64)
    frame = ReferredFrame(root, ["a", "ü"], b"head", b"region", empty.astype(np.int32), empty, empty)
    data = frame.to_bytes()
    named = data[12 : 12 + int.from_bytes(data[:4], "little")]
    assert named.endswith(b'", ["a", "\\u00fc"]]')
    assert (referred_frame(data).root, list(referred_frame(data).names)) == (root, ["a", "ü"])
