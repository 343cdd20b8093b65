"""What is sent instead of a source's batches: the same records, in batches that a broker takes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import bomb, changed
from tests.support.mirrored import batch_of, header_of, sent, shown, some, sourced

from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How
from fairlead.mirror.bytes.repartition import Repartitioner
from fairlead.mirror.bytes.rewriter import Rewriter
from fairlead.protocol.batch import HEADER_BYTES, LENGTH_END, read_header, records_of, with_crc
from fairlead.protocol.records import CODECS, Record, compress, write_records

ALONE = Limits(small_bytes_max=0)
"""Nothing is merged."""

small = st.one_of(st.none(), st.binary(max_size=40), st.integers(0, 300).map(lambda n: b"x" * n))
header_lists = st.lists(st.tuples(st.text(max_size=5), small), max_size=3).map(tuple)
times = st.one_of(st.just(-1), st.integers(0, 2**45), st.integers(-(2**61), 2**61))
contents = st.tuples(st.integers(1, 2**20), times, small, small, header_lists)


@st.composite
def source_batches(draw: st.DrawFn) -> list[bytes]:
    """Neighbouring batches with holes in them, behind them and between them, perhaps of compacted logs with
    LogAppendTime or a delete horizon, of any codec."""
    made, offset = [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 6))):
        records = []
        for step, time, key, value, headers in draw(st.lists(contents, min_size=1, max_size=8)):
            step = step if draw(st.booleans()) else 1
            records.append(Record(offset := offset + step, time, key, value, headers))
        offset += draw(st.integers(0, 3))
        attributes = draw(st.sampled_from([0, 0x10, 0x40, 0x08]))
        codec = draw(st.integers(0, 4))
        fields = {"attributes": attributes | codec, "leader_epoch": draw(st.integers(-1, 9))}
        latest = draw(times) if attributes == 0x08 else max(record.timestamp for record in records)
        producer = draw(st.sampled_from([-1, 77]))
        made.append(
            batch_of(records, codec=codec, last_offset=offset, max_timestamp=latest, producer_id=producer, **fields)
        )
    return made


@given(source_batches(), st.sampled_from([0, 65_536]), st.sampled_from([200, 500, 1_048_588]), st.data())
@settings(max_examples=100, deadline=None)
def test_what_is_sent_is_what_consumers_were_shown(
    batches: list[bytes], small_bytes_max: int, message_bytes_max: int, data: st.DataObject
) -> None:
    """Key, value, headers, time and order of each record, whatever is rebuilt, merged or split; what is refused is
    named, and what is sent settles every offset that is not."""
    heads = [read_header(batch) for batch in batches]
    position = data.draw(st.integers(heads[0].base_offset, heads[-1].last_offset))
    source = sourced(*batches, position=position)
    made = Rewriter(Limits(message_bytes_max, 1_000_000, small_bytes_max)).take(source)
    refused = {one.first_offset for one in made.refused}
    assert all(one.size_bytes <= message_bytes_max for one in made.outgoing)
    expected = []
    for batch in source:
        whole = bytes(batch.data)
        for record, as_shown in zip(_offsets(whole), shown(whole), strict=True):
            if record >= batch.low and record not in refused:
                expected.append(as_shown)
    assert sent(made.outgoing) == expected
    settled = [(sent_one.first_offset, sent_one.last_offset) for sent_one in made.outgoing]
    settled = sorted(settled + [(refused_one.first_offset, refused_one.last_offset) for refused_one in made.refused])
    assert all(before[1] < after[0] for before, after in pairwise(settled))
    if settled:
        assert settled[-1][1] == heads[-1].last_offset


def _offsets(batch: bytes) -> list[int]:
    return [record.offset for record in records_of(batch)]


def test_a_batch_that_a_broker_takes_goes_as_it_is() -> None:
    """Its records are not even copied; transaction, producer, epoch and offset are not the destination's."""
    batch = batch_of(some(5, first=70), attributes=0x10, producer_id=9, producer_epoch=1, base_sequence=3)
    (one,) = Rewriter(ALONE).take(source := sourced(batch)).outgoing
    assert one.how is How.RAW
    assert one.body.obj is source[0].data.obj  # type: ignore[union-attr]
    assert header_of(one) == (0, -1)
    assert (one.first_offset, one.last_offset) == (70, 74)
    assert sent([one]) == shown(batch)


def test_the_head_is_that_of_the_producer_that_sends_it() -> None:
    """Producer, sequence and transaction, with the CRC of the whole."""
    (one,) = Rewriter(ALONE).take(sourced(batch_of(some(5)))).outgoing
    whole = one.of_producer(7, 2, 40, transactional=True) + bytes(one.body)
    header = read_header(whole)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.attributes) == (7, 2, 40, 0x10)
    assert with_crc(header, whole[HEADER_BYTES:])[0].crc == header.crc


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_a_batch_with_holes_is_rebuilt_not_relabelled(codec: int) -> None:
    """Kafka takes a batch whose header was made to fit, and stores it with offsets that overlap the next one's."""
    records = [record for record in some(9, first=100) if record.offset not in (103, 104, 107)]
    batch = batch_of(records, codec=codec, last_offset=110)
    (one,) = Rewriter(ALONE).take(sourced(batch)).outgoing
    assert one.how is How.REBUILT
    assert (one.records, one.first_offset, one.last_offset) == (6, 100, 110)
    assert read_header(one.head).codec == codec
    assert sent([one]) == shown(batch)


def test_append_time_is_what_consumers_saw() -> None:
    """A topic with CreateTime at the destination would show the producer's times."""
    batch = batch_of(some(4), attributes=0x08, max_timestamp=5_000)
    (one,) = Rewriter(ALONE).take(sourced(batch)).outgoing
    header = read_header(one.head)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (0, 5_000, 5_000)
    assert [record[0] for record in sent([one])] == [5_000] * 4


def test_delete_horizon_is_cleared() -> None:
    """The destination would remove tombstones at a time that the source's cleaner chose. Times count from the horizon,
    and stay as they were."""
    records = [Record(3, 1_000, b"a", None), Record(4, 1_500, b"b", b"")]
    whole = batch_of(records)
    body = write_records(records, 3, 99_000)
    batch = changed(whole[:HEADER_BYTES] + body, length=HEADER_BYTES - LENGTH_END + len(body), attributes=0x40,
                    base_timestamp=99_000)  # fmt: skip
    (one,) = Rewriter(ALONE).take(sourced(batch)).outgoing
    assert one.how is How.RAW
    assert header_of(one) == (0, -1)
    assert sent([one]) == [(1_000, b"a", None, ()), (1_500, b"b", b"", ())]


def test_tombstones_and_null_keys_stay_null() -> None:
    """Empty is another thing."""
    records = [Record(0, 1, None, b"v"), Record(2, 1, b"k", None), Record(3, 1, b"", b""), Record(4, 1, None, None)]
    made = Rewriter(Limits()).take(sourced(batch_of(records)))
    assert [(key, value) for _, key, value, _ in sent(made.outgoing)] == [
        (None, b"v"),
        (b"k", None),
        (b"", b""),
        (None, None),
    ]


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_batch_larger_than_the_destination_takes_is_split(codec: int) -> None:
    """Into batches that it does take, nearly as large as they may be."""
    batch = batch_of(some(500), codec=codec)
    made = Rewriter(Limits(message_bytes_max=10_000)).take(sourced(batch))
    assert made.refused == []
    assert {one.how for one in made.outgoing} == {How.SPLIT}
    assert max(one.size_bytes for one in made.outgoing) <= 10_000
    assert len(made.outgoing) <= 2 * len(batch) // 10_000 + 1
    assert sent(made.outgoing) == shown(batch)


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_a_record_that_is_too_large_is_refused_by_name(codec: int) -> None:
    """Those around it are sent, in batches that do not span it."""
    records = some(9, first=40)
    records[5] = some(1, first=45, value_bytes=20_000)[0]
    made = Rewriter(Limits(message_bytes_max=10_000)).take(sourced(batch_of(records, codec=codec)))
    (refused,) = made.refused
    assert (refused.first_offset, refused.last_offset) == (45, 45)
    assert "offset 45" in refused.why
    assert "raise its max.message.bytes" in refused.why
    settled = [(one.first_offset, one.last_offset) for one in made.outgoing]
    assert settled[0][0] == 40
    assert settled[-1][1] == 48
    assert all(last < 45 or first > 45 for first, last in settled)
    assert [key for _, key, _, _ in sent(made.outgoing)] == [b"%d" % i for i in (0, 1, 2, 3, 4, 6, 7, 8)]


def test_small_batches_that_wait_are_merged() -> None:
    """Those of one codec that lie side by side, up to the size that is merged."""
    batches = [batch_of(some(10, first=10 * i, seed=i), codec=0 if i < 15 else 3) for i in range(30)]
    made = Rewriter(Limits(merged_bytes_max=12_000)).take(sourced(*batches))
    assert {one.how for one in made.outgoing} == {How.MERGED}
    settled = [(one.first_offset, one.last_offset) for one in made.outgoing]
    assert settled == [(0, 99), (100, 149), (150, 249), (250, 299)]
    assert sent(made.outgoing) == shown(*batches)


def test_a_large_batch_is_not_merged() -> None:
    """It would be copied for nothing."""
    batches = [batch_of(some(10, first=first)) for first in (0, 10, 610, 620)]
    batches.insert(2, batch_of(some(590, first=20, value_bytes=200)))
    made = Rewriter(Limits()).take(sourced(*batches))
    assert [one.how for one in made.outgoing] == [How.MERGED, How.RAW, How.MERGED]


@pytest.mark.parametrize(("codec", "merged"), [(0, True), (1, False), (2, True), (3, True), (4, False)])
def test_what_is_compressed_is_merged_only_if_that_is_cheaper(codec: int, merged: bool) -> None:
    """To compress 16 KB anew by gzip or zstd costs as much as what the brokers save, or more."""
    batches = [batch_of(some(16, first=first, value_bytes=1_000), codec=codec) for first in (0, 16, 32)]
    made = Rewriter(Limits()).take(sourced(*batches))
    assert [one.how for one in made.outgoing] == ([How.MERGED] if merged else [How.RAW] * 3)


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_batches_of_one_record_are_merged_in_any_codec(codec: int) -> None:
    """As a producer without a linger makes them."""
    batches = [batch_of(some(1, first=first), codec=codec) for first in range(9)]
    made = Rewriter(Limits()).take(sourced(*batches))
    assert [one.how for one in made.outgoing] == [How.MERGED]


def test_a_fetch_that_begins_inside_a_batch_leaves_out_what_is_before() -> None:
    """It was mirrored already."""
    batch = batch_of(some(8, first=20))
    made = Rewriter(Limits()).take(sourced(batch, position=25))
    assert [one.how for one in made.outgoing] == [How.REBUILT]
    assert sent(made.outgoing) == shown(batch, low=25)


def test_a_batch_behind_whose_records_the_fetch_begins_gives_nothing() -> None:
    """Compaction has left a hole at its end."""
    made = Rewriter(Limits()).take(sourced(batch_of(some(3), last_offset=9), position=5))
    assert made == ([], [])


def spoiled(batch: bytes, body: bytes) -> bytes:
    """The batch with other records, and a CRC that fits."""
    return changed(batch[:HEADER_BYTES] + body, length=HEADER_BYTES - LENGTH_END + len(body))


def test_a_batch_that_does_not_hold_together_is_refused_and_those_around_it_are_sent() -> None:
    """Its CRC is right: it was made so."""
    batches = [batch_of(some(3, first=3 * i)) for i in range(5)]
    batches[2] = spoiled(batches[2], b"\xff" * 50)
    made = Rewriter(Limits()).take(sourced(*batches))
    (refused,) = made.refused
    assert (refused.first_offset, refused.last_offset) == (6, 8)
    assert "offset 6" in refused.why
    assert [(one.first_offset, one.last_offset) for one in made.outgoing] == [(0, 5), (9, 14)]
    assert sent(made.outgoing) == shown(*batches[:2], *batches[3:])


@pytest.mark.parametrize("offsets", [(0, 1, 1), (0, 2, 1), (1, 0, 2), (0, 1, 3), (-1, 0, 1)], ids=str)
def test_offsets_in_a_batch_rise_and_end_with_it(offsets: tuple[int, ...]) -> None:
    """Else it is not said which records a position covers."""
    records = [Record(offset, 1_000, b"k", b"v") for offset in offsets]
    batch = changed(spoiled(batch_of(some(3)), write_records(records, 0, 1_000)), attributes=0x08)
    made = Rewriter(Limits()).take(sourced(batch))
    assert made.outgoing == []
    assert "offset does not rise" in made.refused[0].why
    dealt = Repartitioner(2, Limits()).take(sourced(batch))
    assert (dealt.outgoing, dealt.refused) == ({}, made.refused[0])


def test_bytes_behind_the_last_record_are_damage() -> None:
    """The count in the header is too small, or they are anybody's."""
    batch = changed(spoiled(batch_of(some(3)), write_records(some(3), 0, 1_000) + b"\0"), attributes=0x08)
    assert "does not fit" in Rewriter(Limits()).take(sourced(batch)).refused[0].why
    refused = Repartitioner(2, Limits()).take(sourced(batch)).refused
    assert refused is not None


@given(st.binary(max_size=120), st.sampled_from(range(5)), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
@settings(max_examples=300, deadline=None)
def test_hostile_records_are_refused_or_sent(body: bytes, codec: int, count: int, beyond: int) -> None:
    """A batch with a right CRC may hold anything: the outcome is one refusal, or batches that a broker takes."""
    for packed in (body, compress(codec, body)):
        batch = spoiled(batch_of(some(1), attributes=codec, last_offset=min(count + beyond, 2**31 - 1)), packed)
        batch = changed(batch, record_count=count, attributes=codec | 0x08)
        made = Rewriter(ALONE).take(sourced(batch))
        assert len(made.refused) <= 1
        sent(made.outgoing)


@given(st.integers(2, 6), st.data())
@settings(max_examples=200, deadline=None)
def test_changed_bytes_among_records_are_refused_or_sent(count: int, data: st.DataObject) -> None:
    """Near what is right more is read before something is noticed."""
    whole = bytearray(write_records([r._replace(headers=(("h", b"1"), ("i", None))) for r in some(count)], 0, 1_000))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for body in (bytes(whole), bytes(whole[:cut])):
        batch = changed(spoiled(batch_of(some(count)), body), attributes=0x08)
        made = Rewriter(Limits(message_bytes_max=300, small_bytes_max=0)).take(sourced(batch))
        sent(made.outgoing)


def test_a_bomb_is_refused() -> None:
    """What decompresses to more than is allowed is not decompressed to the end."""
    batch = changed(bomb(200_000), attributes=4 | 0x08)
    made = Rewriter(Limits(inflated_bytes_max=1_000_000)).take(sourced(batch))
    assert made.outgoing == []
    assert "more than 1,000,000 bytes" in made.refused[0].why


def test_what_is_large_inside_is_split_so_that_readers_can_hold_it() -> None:
    """A batch of 20 MB of records, compressed to a thousandth."""
    records = [Record(i, i, None, bytes(1_000)) for i in range(20_000)]
    made = Rewriter(Limits()).take(sourced(batch_of(records, codec=4, attributes=4 | 0x08)))
    assert made.refused == []
    assert [one.records > 8_000 for one in made.outgoing] == [True, True, False]
    assert sum(one.records for one in made.outgoing) == 20_000


@pytest.mark.parametrize("codec", range(1, 5), ids=CODECS[1:])
def test_what_compresses_worse_than_expected_is_split_again(codec: int) -> None:
    """The first half of the batch to nearly nothing, the other half not at all."""
    records = [Record(i, i, None, bytes(1_000)) for i in range(100)] + some(100, first=100, value_bytes=1_000)
    batch = batch_of(records, codec=codec)
    made = Rewriter(Limits(message_bytes_max=30_000)).take(sourced(batch))
    assert made.refused == []
    assert max(one.size_bytes for one in made.outgoing) <= 30_000
    assert sent(made.outgoing) == shown(batch)


def test_batches_that_are_much_larger_inside_are_opened_some_at_a_time() -> None:
    """Twenty batches of 4 KB that decompress to 80 MB."""
    batches = [batch_of([Record(4 * b + i, 0, None, bytes(1_000_000)) for i in range(4)], codec=4) for b in range(20)]
    made = Rewriter(Limits()).take(sourced(*batches))
    assert sum(one.records for one in made.outgoing) == 80
    assert len(made.outgoing) >= 10
    settled = [(one.first_offset, one.last_offset) for one in made.outgoing]
    assert all(before[1] + 1 == after[0] for before, after in pairwise(settled))
    assert settled[-1][1] == 79


def test_memory_that_is_looked_at_is_not_used_again() -> None:
    """Batches that wait for their acknowledgement keep their bytes."""
    rewriter = Rewriter(Limits())
    waiting: list[Any] = []
    for round_ in range(20):
        batches = [batch_of(some(10, first=10 * i, seed=100 * round_ + i)) for i in range(3)]
        waiting.append((rewriter.take(sourced(*batches)).outgoing, shown(*batches)))
        if round_ % 3 == 0:
            del waiting[0]
    for outgoing, expected in waiting:
        assert sent(outgoing) == expected
