"""What of an answer is mirrored: what Kafka's own consumer would show with read_committed, and nothing damaged."""

from __future__ import annotations

import struct
import zlib

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import changed
from tests.support.mirrored import batch_of, control, sent, shown, some

from fairlead.mirror.bytes.committed import Committed, committed
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.rewriter import Rewriter
from fairlead.protocol.batch import HEADER_BYTES, empty_batch
from fairlead.protocol.records import CODECS, compress

PLACE = "topic ships, partition 3"


def taken(*batches: bytes, aborted: tuple[tuple[int, int], ...] = (), position: int = 0) -> Committed:
    return committed(b"".join(batches), aborted, position, PLACE)


def bases(found: Committed) -> list[int]:
    return [batch.header.base_offset for batch in found.batches]


def of_transaction(first: int, producer_id: int, count: int = 2) -> bytes:
    return batch_of(some(count, first=first), attributes=0x10, producer_id=producer_id, producer_epoch=0)


def test_aborted_batches_are_left_out_until_their_marker() -> None:
    """Those of the producers named, from their first offset on; others and later ones of the same producer stay."""
    found = taken(
        of_transaction(0, 7),
        of_transaction(2, 8),
        of_transaction(4, 7),
        control(6, 7, abort=True),
        of_transaction(7, 7),
        control(9, 8, abort=False),
        control(10, 7, abort=False),
        batch_of(some(2, first=11)),
        aborted=((7, 0),),
    )
    assert bases(found) == [2, 7, 11]
    assert (found.next_offset, found.aborted_records, found.control_batches) == (13, 4, 3)
    assert found.damage is None


def test_aborted_transactions_interleave_and_follow_one_another() -> None:
    """One producer aborts twice and commits between; another aborts across all of it."""
    found = taken(
        of_transaction(0, 1),
        of_transaction(2, 2),
        control(4, 1, abort=True),
        of_transaction(5, 1),
        control(7, 1, abort=False),
        of_transaction(8, 1),
        of_transaction(10, 2),
        control(12, 2, abort=True),
        control(13, 1, abort=True),
        aborted=((1, 8), (2, 2), (1, 0)),
    )
    assert bases(found) == [5]
    assert found.aborted_records == 8


def test_a_fetch_from_inside_an_aborted_batch_leaves_it_out() -> None:
    """The source names the transaction, which began before."""
    found = taken(of_transaction(4, 7, 5), control(9, 7, abort=True), aborted=((7, 2),), position=6)
    assert (bases(found), found.next_offset) == ([], 10)


def test_a_batch_outside_a_transaction_of_that_producer_stays() -> None:
    """Only transactional batches are aborted."""
    found = taken(batch_of(some(2), producer_id=7, producer_epoch=0), aborted=((7, 0),))
    assert bases(found) == [0]


def test_nothing_is_left_out_where_the_source_names_nothing() -> None:
    """Markers are, whatever it names."""
    found = taken(of_transaction(0, 7), control(2, 7, abort=True))
    assert (bases(found), found.next_offset) == ([0], 3)


def test_the_position_moves_over_what_is_left_out() -> None:
    """Java's consumer commits the offset behind the marker too; so holes and emptied batches are passed."""
    found = taken(batch_of(some(2), last_offset=5), control(6, 7, abort=False), empty_batch(7, 19, 4))
    assert (bases(found), found.next_offset, found.next_epoch) == ([0], 20, 4)


def test_each_offset_has_the_epoch_of_the_record_before_it() -> None:
    """One that is too low would be a truncation that there is not, one that is too high hides one that there is. In a
    hole between two leaders nobody knows."""
    first, second = batch_of(some(2), leader_epoch=4), batch_of(some(2, first=5), leader_epoch=4)
    third, fourth = batch_of(some(2, first=9), leader_epoch=6), empty_batch(11, 19, 7)
    found = taken(first, second, third, fourth)
    assert [found.epoch_before(offset) for offset in (1, 2, 4, 5, 7)] == [4] * 5
    assert [found.epoch_before(offset) for offset in (8, 9, 10, 11, 15, 20)] == [-1, -1, 6, 6, -1, 7]
    assert taken(first, batch_of(some(1, first=2))[:-1]).epoch_before(2) == 4


def test_batches_below_the_position_are_passed_over() -> None:
    """A source may send some."""
    found = taken(batch_of(some(3)), batch_of(some(3, first=3)), batch_of(some(3, first=6)), position=4)
    assert [(batch.header.base_offset, batch.low) for batch in found.batches] == [(3, 4), (6, 6)]
    assert taken(batch_of(some(3)), position=7).next_offset == 7


@pytest.mark.parametrize("rest", [1, 11, 16, 17, 60, 61, 100])
def test_a_batch_that_is_cut_is_fetched_again(rest: int) -> None:
    """The last one of an answer often is; its size says how much to ask for."""
    last = batch_of(some(3, first=3))
    found = taken(batch_of(some(3)), last[:rest])
    assert (bases(found), found.next_offset, found.damage) == ([0], 3, None)
    assert found.cut_bytes == (len(last) if rest > 16 else HEADER_BYTES)
    assert taken(batch_of(some(3))).cut_bytes == 0


def test_an_empty_answer_moves_nothing() -> None:
    """There is nothing new."""
    assert taken(position=9) == Committed([], 9, -1, 0, 0, 0, None)


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(deadline=None)
def test_a_flipped_byte_is_refused_before_rewriting(place: int, by: int) -> None:
    """Else the mirror would put a right CRC upon it. What is before goes on; the message names the place."""
    batches = [batch_of(some(3)), batch_of(some(3, first=3)), batch_of(some(3, first=6))]
    damaged = bytearray(batches[1])
    place %= len(damaged)
    if place in range(12, 16):  # the leader epoch, which nothing covers
        return
    damaged[place] ^= by
    found = taken(batches[0], bytes(damaged), batches[2])
    if place < 8 and found.damage is None:  # the base offset, which nothing covers: it must rise, at least
        return
    assert bases(found)[:1] == [0]
    if found.cut_bytes and found.damage is None:  # its length says that it is not whole
        assert (bases(found), found.next_offset) == ([0], 3)
        return
    assert str(found.damage).startswith(f"{PLACE}, offset {found.next_offset}: ")
    assert len(bases(found)) < 3


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"length": -1}, "says 11 bytes"),
        ({"length": -(2**31)}, "bytes"),
        ({"length": 48}, "says 60 bytes"),
        ({"length": 2**31 - 1}, "says 2147483659 bytes"),
        ({"magic": 3}, "format v3"),
        ({"magic": -1}, "format v-1"),
        ({"last_offset_delta": -1}, "records for 0 offsets"),
        ({"last_offset_delta": 1}, "3 records for 2 offsets"),
        ({"record_count": -1}, "-1 records"),
        ({"record_count": 2**31 - 1}, "2147483647 records"),
        ({"attributes": 5}, "codec 5 is not known"),
        ({"base_offset": -1}, "begins at offset -1"),
        ({"base_offset": 2**63 - 2}, "begins at offset"),
        ({"crc": 1}, "CRC-32C"),
    ],
    ids=str,
)
def test_a_header_that_cannot_be_is_damage(fields: dict[str, int], why: str) -> None:
    """Nothing of it is believed, neither as a size to ask for nor as an offset to go on from."""
    bad = changed(batch_of(some(3)), **fields)
    if "crc" in fields:
        bad = bad[:17] + b"\0\0\0\1" + bad[21:]
    found = taken(bad)
    assert found.damage is not None
    assert why in str(found.damage)
    assert (found.batches, found.next_offset, found.cut_bytes) == ([], 0, 0)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_offsets_that_do_not_rise_are_damage(first: int) -> None:
    """A position never goes back, and no record is sent twice."""
    found = taken(batch_of(some(3)), batch_of(some(3, first=first)))
    assert (bases(found), found.next_offset) == ([0], 3)
    assert "ends at 2" in str(found.damage)


@given(st.binary(max_size=300), st.integers(0, 2**40))
@settings(max_examples=300, deadline=None)
def test_hostile_answers_end_in_batches_or_damage(data: bytes, position: int) -> None:
    """Whatever comes: no other error, and never a step back."""
    for answer in (data, batch_of(some(1)) + data, b"\0" * 16 + b"\2" + data, b"\0" * 11 + b"\x20\0\0\0\0\1" + data):
        assert committed(answer, ((1, 0),), position, PLACE).next_offset >= position


Message = tuple[int, int, bytes | None, bytes | None]
"""Offset, time, key, value."""


def message(
    offset: int, time: int, key: bytes | None, value: bytes | None, *, magic: int, attributes: int = 0
) -> bytes:
    def field(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = (
        struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"") + field(key) + field(value)
    )
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapped(
    messages: list[Message], *, magic: int, codec: int, offset: int, attributes: int = 0, time: int = 0
) -> bytes:
    inner = b"".join(message(at, when, key, value, magic=magic) for at, when, key, value in messages)
    return message(offset, time, None, compress(codec, inner), magic=magic, attributes=codec | attributes)


def records_sent(found: Committed) -> list[tuple[int, bytes | None, bytes | None]]:
    made = Rewriter(Limits()).take(found.batches)
    assert made.refused == []
    return [(time, key, value) for time, key, value, _ in sent(made.outgoing)]


@pytest.mark.parametrize("magic", [0, 1])
def test_v0_v1_records(magic: int) -> None:
    """Old logs hold messages instead of batches. v0 has no time."""
    old = [(4, 70, b"k", b"v"), (5, 71, None, b""), (9, 72, b"t", None)]
    found = taken(*(message(*one, magic=magic) for one in old), batch_of(some(1, first=10)), position=4)
    assert (bases(found), found.next_offset) == ([4, 5, 9, 10], 11)
    expected = [(time if magic else -1, key, value) for _, time, key, value in old]
    assert records_sent(found)[:3] == expected


@pytest.mark.parametrize("codec", [1, 2, 3], ids=CODECS[1:4])
def test_compressed_v0_v1_records(codec: int) -> None:
    """Messages inside a message: with the log's offsets in v0, with relative ones in v1."""
    texts = [(b"a", b"1"), (None, b"2"), (b"c", None)]
    v0 = wrapped([(20 + i, 0, *text) for i, text in enumerate(texts)], magic=0, codec=codec, offset=22)
    v1 = wrapped([(i, 50 + i, *text) for i, text in enumerate(texts)], magic=1, codec=codec, offset=32)
    appended = wrapped([(0, 5, b"x", b"y")], magic=1, codec=codec, offset=40, attributes=8, time=99)
    found = taken(v0, v1, appended, position=20)
    assert (bases(found), found.next_offset) == ([20, 30, 40], 41)
    assert [batch.header.codec for batch in found.batches] == [codec] * 3
    times = [-1, -1, -1, 50, 51, 52, 99]
    assert records_sent(found) == [
        (time, *text) for time, text in zip(times, [*texts, *texts, (b"x", b"y")], strict=True)
    ]


def test_lz4_with_the_wrong_checksum_of_old_clients_is_read() -> None:
    """Java wrote it so into v0."""
    inner = message(0, 0, b"k", b"v", magic=0)
    packed = bytearray(lz4.frame.compress(inner, block_linked=False, store_size=False))
    packed[6] ^= 0x55
    found = taken(message(0, 0, None, bytes(packed), magic=0, attributes=3))
    assert records_sent(found) == [(-1, b"k", b"v")]
    assert taken(message(0, 0, None, bytes(packed), magic=1, attributes=3)).damage is not None


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (message(0, 0, b"k", b"v", magic=1)[:-1] + b"w", "CRC-32 is wrong"),
        (message(0, 0, None, b"rubbish", magic=1, attributes=1), "do not decompress"),
        (wrapped([], magic=1, codec=1, offset=0), "holds none"),
        (wrapped([(1, 0, b"", b""), (1, 0, b"", b"")], magic=0, codec=1, offset=1), "do not rise"),
        (wrapped([(5, 0, b"", b"")], magic=0, codec=1, offset=1), "offsets up to 5"),
        (wrapped([(9, 0, b"", b""), (3, 0, b"", b"")], magic=1, codec=1, offset=3), "do not rise"),
        (message(0, 0, None, compress(1, message(0, 0, b"", b"", magic=0)), magic=1, attributes=1), "another kind"),
        (message(0, 0, None, compress(1, message(0, 0, b"", b"", magic=0)[:-1]), magic=0, attributes=1), "is cut"),
        (message(-1, 0, b"", b"", magic=1), "do not rise"),
    ],
)
def test_damaged_old_messages_are_refused(bad: bytes, why: str) -> None:
    """As batches are."""
    found = taken(bad)
    assert why in str(found.damage)
    assert found.batches == []


def test_all_codecs_pass_the_filter() -> None:
    """It opens none but those of markers."""
    batches = [batch_of(some(3, first=3 * codec), codec=codec) for codec in range(5)]
    found = taken(*batches)
    assert sent(Rewriter(Limits()).take(found.batches).outgoing) == shown(*batches)
