"""The exact bytes of every payload, and all that is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.spoiled import (
    NO_OBJECTS,
    of_bad_hex,
    of_other_kinds,
    of_short_ids,
    said_twice,
    with_more,
    without_each,
)

from fairlead.model.errors import CorruptBatch
from fairlead.streamlog import payloads as p

Decode = Callable[[bytes], p.Payload]
LINK, OWNER, EPOCH, TOPIC = b"\xab" * 16, b"s" * 16, b"e" * 16, b"\x00" * 16
TEXT_LINK, TEXT_OWNER = '"link":"' + "ab" * 16 + '"', '"owner":"' + "73" * 16 + '"'
TEXT_EPOCH, TEXT_TOPIC = '"epoch_id":"' + "65" * 16 + '"', '"incarnation":"' + "00" * 16 + '"'
NAME = 'flöte 船 \U0001f6a2 "\\/\n\x01'
TEXT_NAME = '"flöte 船 \U0001f6a2 \\"\\\\/\\n\\u0001"'
SINCE = ((2**62 - 1, ((0, 0), (3, 2**61))), (0, ()))
TEXT_SINCE = "[[4611686018427387903,[[0,0],[3,2305843009213693952]]],[0,[]]]"
CREATE = p.TopicPayload(
    "t", TOPIC, 3, OWNER, 0, 1, {"cleanup.policy": "compact"}, "h", "/mapr/flöte/ships", SINCE, (2**61,)
)
TEXT_CREATE = (
    f'{{"name":"t",{TEXT_TOPIC},"partitions":3,{TEXT_OWNER},"epoch":0,"version":1,'
    f'"configs":{{"cleanup.policy":"compact"}},"home":"h","owner_at":"/mapr/flöte/ships","since":{TEXT_SINCE},'
    '"deleted_to":[2305843009213693952]}'
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
WAITING = replace(CREATE, ext={"later": [1, None]})
TEXT_WAITING = TEXT_CREATE[:-1] + ',"ext":{"later":[1,null]}}'

PAYLOADS: list[tuple[Decode, p.Payload, str]] = [
    (
        p.decode_start,
        p.StartPayload("ttl", 2**62 - 1, ((0, 0), (3, 2**61)), 7, 2**62 - 1, 2**30 - 1),
        (
            '{"v":3,"reason":"ttl","log_end":4611686018427387903,"history":[[0,0],[3,2305843009213693952]],"gap_from":7,'
            '"deleted_to":4611686018427387903,"epoch":1073741823}'
        ),
    ),
    (
        p.decode_start,
        p.StartPayload("", 0, ()),
        '{"v":3,"reason":"","log_end":0,"history":[],"gap_from":null,"deleted_to":0,"epoch":0}',
    ),
    (
        p.decode_topic,
        p.TopicPayload(NAME, TOPIC, 1, OWNER, 2**30 - 1, 2**31 - 1),
        (
            f'{{"v":3,"name":{TEXT_NAME},{TEXT_TOPIC},"partitions":1,{TEXT_OWNER},"epoch":1073741823,'
            '"version":2147483647,"configs":{},"home":"","owner_at":"","since":[],"deleted_to":[]}'
        ),
    ),
    (p.decode_topic, CREATE, '{"v":3,' + TEXT_CREATE[1:]),
    (
        p.decode_topic_deleted,
        p.TopicDeletedPayload("t", TOPIC, True, 7),
        f'{{"v":3,"name":"t",{TEXT_TOPIC},"yielded":true,"epoch":7}}',
    ),
    (
        p.decode_topic_deleted,
        p.TopicDeletedPayload("t", TOPIC),
        f'{{"v":3,"name":"t",{TEXT_TOPIC},"yielded":false,"epoch":0}}',
    ),
    (
        p.decode_cursor,
        p.CursorPayload(NAME, 2**63 - 1, -1, "", 1_700_000_000_000, 1),
        (
            f'{{"v":3,"group":{TEXT_NAME},"offset":9223372036854775807,"leader_epoch":-1,"metadata":"",'
            '"committed_at":1700000000000,"version":1}'
        ),
    ),
    (
        p.decode_cursor,
        p.CursorPayload("g", None, 0, "m", 0, 2),
        '{"v":3,"group":"g","offset":null,"leader_epoch":0,"metadata":"m","committed_at":0,"version":2}',
    ),
    (
        p.decode_position,
        p.PositionPayload(LINK, 0, 2**16 - 1, 12, EPOCH, 3, 4),
        f'{{"v":3,{TEXT_LINK},"shard":0,"slices":65535,"commit":12,{TEXT_EPOCH},"run_epoch":3,"run_counter":4}}',
    ),
    (
        p.decode_position,
        p.PositionPayload(LINK, 0, 1, None, EPOCH, 0, 0),
        f'{{"v":3,{TEXT_LINK},"shard":0,"slices":1,"commit":null,{TEXT_EPOCH},"run_epoch":0,"run_counter":0}}',
    ),
    (
        p.decode_behind,
        p.BehindPayload(LINK, "t", TOPIC, 2, 7, "conflict: …", 1_700, (3, 4), WAITING),
        (
            f'{{"v":3,{TEXT_LINK},"topic":"t",{TEXT_TOPIC},"partition":2,"end":7,"reason":"conflict: …",'
            f'"noted_at":1700,"refused_in":[3,4],"create":{TEXT_WAITING}}}'
        ),
    ),
    (
        p.decode_behind,
        p.BehindPayload(LINK, "t", TOPIC, 2, 7, None, 1_700),
        (
            f'{{"v":3,{TEXT_LINK},"topic":"t",{TEXT_TOPIC},"partition":2,"end":7,"reason":null,"noted_at":1700,'
            '"refused_in":null,"create":null}'
        ),
    ),
    (
        p.decode_entry,
        p.EntryPayload("stream/ü", {"b": [1, True, None, "ü", 0.5, {}], "a": 2**70}),
        '{"v":3,"key":"stream/ü","value":{"b":[1,true,null,"ü",0.5,{}],"a":1180591620717411303424}}',
    ),
    (p.decode_entry, p.EntryPayload("", None), '{"v":3,"key":"","value":null}'),
    (p.decode_expired, p.ExpiredPayload(), '{"v":3,"reason":"ttl"}'),
    (
        p.decode_truncate,
        p.TruncatePayload("owner", 2**30 - 1, TOPIC, (0, 2**63 - 1), ((0, 0), (7, 3))),
        (
            '{"v":3,"reason":"owner","by_epoch":1073741823,"keep":"'
            + "00" * 16
            + '","forgets":[0,9223372036854775807],"history":[[0,0],[7,3]]}'
        ),
    ),
    (
        p.decode_truncate,
        p.TruncatePayload("", 0, None, None),
        '{"v":3,"reason":"","by_epoch":0,"keep":null,"forgets":null}',
    ),
]
NAMES = [type(payload).__name__ for _, payload, _ in PAYLOADS]
MAY_BE_NULL = ("offset", "commit", "reason", "refused_in", "create", "gap_from", "keep", "forgets", "history")


@pytest.mark.parametrize(("decode", "payload", "text"), PAYLOADS, ids=NAMES)
def test_a_payload_is_these_bytes(decode: Decode, payload: p.Payload, text: str) -> None:
    """And the bytes, or a view of them, are this payload."""
    assert p.encode(payload) == text.encode()
    assert decode(text.encode()) == payload
    assert decode(memoryview(text.encode())) == payload  # type: ignore[arg-type]


@pytest.mark.parametrize(("decode", "payload", "text"), PAYLOADS, ids=NAMES)
def test_a_value_of_another_kind_is_refused(decode: Decode, payload: p.Payload, text: str) -> None:
    """A bool is no int, and neither are 1.0 and "1"; an id has 16 bytes. Only an entry's value may be anything."""
    nullable = MAY_BE_NULL if not isinstance(payload, p.StartPayload) else ("gap_from",)
    spoiled = of_other_kinds(text, *nullable) | of_bad_hex(text) | of_short_ids(text)
    for said, wrong in spoiled.items():
        if said.startswith(("value", "v = ", "create.ext.")):
            continue
        with pytest.raises(CorruptBatch, match="row cannot be read"):
            raise AssertionError(f"{said} was read as {decode(wrong.encode())}")


@pytest.mark.parametrize(("decode", "payload", "text"), PAYLOADS, ids=NAMES)
def test_a_missing_field_is_refused(decode: Decode, payload: p.Payload, text: str) -> None:
    """Those with a default in the value too: this version writes all. Cuts of before one was added lack that one."""
    for field, shorter in without_each(text).items():
        if isinstance(payload, p.TruncatePayload) and field == "history":
            assert decode(shorter.encode()) == replace(payload, history=None)
            continue
        with pytest.raises(CorruptBatch, match=rf"row cannot be read: .*\b{field}\b"):
            decode(shorter.encode())


@pytest.mark.parametrize(("decode", "payload", "text"), PAYLOADS, ids=NAMES)
def test_an_unknown_field_is_passed_over(decode: Decode, payload: p.Payload, text: str) -> None:
    """A field that changes the meaning comes with another version. What others will read is kept."""
    found = decode(with_more(text).encode())
    if isinstance(found, p.StartPayload | p.TopicPayload | p.TopicDeletedPayload):
        assert found.ext == {"more": 1}
        assert p.encode(found) == text[:-1].encode() + b',"more":1}'
        found = replace(found, ext={})
    assert found == payload


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=3), st.sampled_from(range(6)))
def test_what_another_program_says_in_a_row_is_passed_on(more: dict[str, Any], place: int) -> None:
    """Unless this one knows a field of that name: any JSON, and the row says all else as before."""
    decode, _, text = PAYLOADS[place]
    known = json.loads(text)
    more = {name: value for name, value in more.items() if name not in known}
    found = decode(json.dumps({**known, **more}).encode())
    assert isinstance(found, p.StartPayload | p.TopicPayload | p.TopicDeletedPayload)
    assert found.ext == more
    assert json.loads(p.encode(found)) == {**known, **more}
    assert decode(p.encode(found)) == found


def test_what_is_no_json_in_an_unknown_field_is_refused() -> None:
    """It would be written again."""
    with pytest.raises(CorruptBatch, match="TOPIC row cannot be read: not JSON"):
        p.decode_topic(b'{"v":3,' + TEXT_CREATE[1:-1].encode() + b',"more":NaN}')


@pytest.mark.parametrize(("decode", "payload", "text"), PAYLOADS, ids=NAMES)
def test_another_version_is_refused_naming_both_whatever_else_is_there(
    decode: Decode, payload: p.Payload, text: str
) -> None:
    """Its fields are another matter."""
    with pytest.raises(CorruptBatch, match="row of version 4; this program knows version 3"):
        decode(b'{"v":4}')
    with pytest.raises(CorruptBatch, match="row of version 2; this program knows version 3"):
        decode(json.dumps({**json.loads(text), "v": 2}).encode())
    versions: tuple[Any, ...] = (None, "1", [1], {})
    for version in versions:
        with pytest.raises(CorruptBatch, match="row"):
            decode(json.dumps({**json.loads(text), "v": version}).encode())


def test_a_row_deletes_no_records_beyond_the_end() -> None:
    """Its writer's log ended there, or it is no honest row."""
    with pytest.raises(CorruptBatch, match="deleted up to 8, and the log ends at 7"):
        p.decode_start(p.encode(p.StartPayload("deleted-records", 7, (), deleted_to=8)))


@pytest.mark.parametrize("decode", {decode for decode, _, _ in PAYLOADS}, ids=lambda decode: decode.__name__)
@pytest.mark.parametrize("data", [*(text.encode() for text in NO_OBJECTS), b"\xff", b"\xef\xbb\xbf{}", b"\x00{\x00}"])
def test_what_is_no_object_is_refused(decode: Decode, data: bytes) -> None:
    """Naming the kind of row."""
    with pytest.raises(CorruptBatch, match=r"^[A-Z_]+ row cannot be read"):
        decode(data)


@pytest.mark.parametrize(
    ("decode", "changes"),
    [
        (p.decode_start, {"history": [[0]]}),
        (p.decode_start, {"history": [[0, 1, 2]]}),
        (p.decode_start, {"history": [0, 1]}),
        (p.decode_behind, {"create": {}}),
        (p.decode_behind, {"create": {**json.loads(TEXT_WAITING), "owner": "00"}}),
        (p.decode_topic, {"configs": {"a": 1}}),
        (p.decode_position, {"shard": 256}),
        (p.decode_position, {"slices": 2**16}),
        (p.decode_position, {"slices": 0}),
        (p.decode_position, {"commit": 2**62}),
        (p.decode_position, {"run_epoch": 2**63}),
        (p.decode_behind, {"partition": 4096}),
        (p.decode_behind, {"end": 2**62}),
        (p.decode_topic_deleted, {"name": "x" * 1001}),
        (p.decode_topic, {"owner_at": "x" * 1201}),
        (p.decode_topic, {"since": [[0]]}),
        (p.decode_topic, {"since": [[0, [[0]]]]}),
        (p.decode_topic, {"deleted_to": [-1]}),
        (p.decode_start, {"epoch": 2**30}),
    ],
)
def test_a_list_of_another_length_is_refused(decode: Decode, changes: dict[str, Any]) -> None:
    """And an object that lacks something, or a number out of its range."""
    text = next(text for each, _, text in PAYLOADS if each is decode)
    with pytest.raises(CorruptBatch, match="row cannot be read"):
        decode(json.dumps({**json.loads(text), **changes}).encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e3", "1" + "0" * 5_000])
def test_what_is_no_whole_number_is_refused(number: str) -> None:
    """Also what only some readers of JSON know, or that is too long for any use."""
    text = PAYLOADS[1][2].replace('"log_end":0', f'"log_end":{number}')
    with pytest.raises(CorruptBatch, match="START row cannot be read"):
        p.decode_start(text.encode())


def test_of_a_field_that_stands_twice_the_last_counts() -> None:
    """As everywhere in JSON."""
    decode, payload, text = PAYLOADS[8]
    assert decode(said_twice(text, "shard", "x").encode()) == payload


@pytest.mark.parametrize(
    "changes",
    [
        {"refused_in": []},
        {"refused_in": [1]},
        {"refused_in": [1, 2, 3]},
        {"create": {n: v for n, v in json.loads(TEXT_WAITING).items() if n != "configs"}},
    ],
)
def test_what_a_note_holds_is_whole(changes: dict[str, Any]) -> None:
    """A run is a pair, and the topic has all its fields."""
    _, payload, text = PAYLOADS[10]
    assert isinstance(payload, p.BehindPayload)
    with pytest.raises(CorruptBatch, match="BEHIND row cannot be read"):
        p.decode_behind(json.dumps({**json.loads(text), **changes}).encode())


@pytest.mark.parametrize(
    ("partitions", "since", "why"),
    [
        (1, ((0, ()), (0, ())), "2 partitions of a topic with 1"),
        (1, ((5, ((0, 0), (1, 6))),), "epoch 1 from offset 6 does not continue a history that ends at 5"),
        (1, ((5, ((1, 0), (1, 5))),), "epoch 1 from offset 5 does not continue"),
    ],
)
def test_an_epoch_that_begins_nowhere_is_refused(partitions: int, since: p.Since, why: str) -> None:
    """Its history ends where it begins, and only partitions that the topic has can begin."""
    payload = replace(CREATE, partitions=partitions, since=since, deleted_to=())
    with pytest.raises(CorruptBatch, match=why):
        p.decode_topic(p.encode(payload))


@pytest.mark.parametrize("deleted_to", [(6,), (5, 0)])
def test_nobody_deleted_more_than_there_was_before_the_epoch(deleted_to: tuple[int, ...]) -> None:
    """A row that said so would hide the new owner's records, from a stranger too."""
    payload = replace(CREATE, partitions=2, since=((5, ((0, 0),)),), deleted_to=deleted_to)
    with pytest.raises(CorruptBatch, match="beyond where the topic's epoch begins"):
        p.decode_topic(p.encode(payload))


def test_what_is_too_deep_is_refused() -> None:
    """As any other row that cannot be read."""
    with pytest.raises(CorruptBatch, match="ENTRY row cannot be read: not JSON"):
        p.decode_entry(b'{"v":3,"key":"k","value":' + b"[" * 100_000)
