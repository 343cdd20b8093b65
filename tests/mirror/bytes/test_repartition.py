"""Records go to the partitions that Kafka's clients would choose, and stay in order there."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mirror.bytes.test_rewriter import source_batches, spoiled
from tests.support.batches import bomb, changed
from tests.support.mirrored import Said, batch_of, sent, shown, some, sourced

from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How
from fairlead.mirror.bytes.repartition import Dealt, Repartitioner, partition_of
from fairlead.protocol.batch import read_header
from fairlead.protocol.records import CODECS, Record, compress

HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""As in the tests of Kafka's own client."""


@pytest.mark.parametrize(("key", "hashed"), HASHES.items(), ids=[key.decode() for key in HASHES])
def test_keys_go_where_java_s_client_puts_them(key: bytes, hashed: int) -> None:
    """Its murmur2, without the sign."""
    for partitions in (1, 2, 7, 100, 2**31 - 1):
        assert partition_of(key, partitions) == (hashed & 0x7FFFFFFF) % partitions
    dealt = Repartitioner(100, Limits()).take(sourced(batch_of([Record(0, 0, key, None)])))
    assert list(dealt.outgoing) == [(hashed & 0x7FFFFFFF) % 100]


def test_an_empty_key_is_a_key() -> None:
    """A record without one may go anywhere."""
    assert partition_of(b"", 1_000_000) == 275_646_681 % 1_000_000
    assert partition_of(None, 5) is None


def records_of(dealt: Dealt) -> dict[int, list[Said]]:
    return {partition: sent(outgoing) for partition, outgoing in dealt.outgoing.items()}


@given(source_batches(), st.integers(1, 9), st.sampled_from([300, 1_048_588]), st.data())
@settings(max_examples=100, deadline=None)
def test_each_partition_gets_its_records_in_order(
    batches: list[bytes], partitions: int, message_bytes_max: int, data: st.DataObject
) -> None:
    """All records of a key in one partition, those without a key in the one that was chosen for them."""
    heads = [read_header(batch) for batch in batches]
    position = data.draw(st.integers(heads[0].base_offset, heads[-1].last_offset))
    keyless = data.draw(st.integers(0, partitions - 1))
    left = sourced(*batches, position=position)
    dealer = Repartitioner(partitions, Limits(message_bytes_max), keyless=keyless)
    found: dict[int, list[Said]] = {}
    refused = []
    while left:
        dealt = dealer.take(left)
        assert all(one.size_bytes <= message_bytes_max for all_of in dealt.outgoing.values() for one in all_of)
        for partition, records in records_of(dealt).items():
            found.setdefault(partition, []).extend(records)
        left = dealt.rest
        if dealt.refused:
            refused.append(dealt.refused)
            ends = [one.last_offset for all_of in dealt.outgoing.values() for one in all_of]
            assert all(end < dealt.refused.first_offset for end in ends)
    expected: dict[int, list[Said]] = {}
    for record in shown(*batches, low=position):
        chosen = partition_of(record[1], partitions)
        expected.setdefault(keyless if chosen is None else chosen, []).append(record)
    if not refused:
        assert found == expected
    else:
        assert sum(map(len, found.values())) + len(refused) == sum(map(len, expected.values()))


def test_records_without_a_key_are_spread_batch_by_batch() -> None:
    """Never all to one partition, and never one by one, which would make a batch for each partition of each batch."""
    batches = [batch_of([Record(10 * b + i, 0, None, b"v") for i in range(10)]) for b in range(12)]
    dealer = Repartitioner(4, Limits())
    counts: Counter[int] = Counter()
    for part in (batches[:5], batches[5:6], batches[6:]):
        for partition, records in records_of(dealer.take(sourced(*part))).items():
            counts[partition] += len(records)
    assert counts == {0: 30, 1: 30, 2: 30, 3: 30}


def test_where_order_is_kept_all_without_a_key_go_to_one_partition() -> None:
    """That of their own partition's number, so that those of others go elsewhere."""
    batches = [batch_of([Record(b, 0, None, b"v")]) for b in range(6)]
    assert list(Repartitioner(4, Limits(), keyless=3).take(sourced(*batches)).outgoing) == [3]


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_what_is_dealt_out_has_the_source_s_codec(codec: int) -> None:
    """And its batches hold the records of many of the source's."""
    batches = [batch_of(some(100, first=100 * b, seed=b), codec=codec) for b in range(10)]
    dealt = Repartitioner(3, Limits()).take(sourced(*batches))
    assert [len(outgoing) for outgoing in dealt.outgoing.values()] == [1, 1, 1]
    ones = [outgoing[0] for outgoing in dealt.outgoing.values()]
    assert {read_header(one.head).codec for one in ones} == {codec}
    assert {one.how for one in ones} == {How.REPARTITIONED}
    assert sum(one.records for one in ones) == 1_000


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_what_is_behind_a_record_that_is_too_large_is_handed_back(codec: int) -> None:
    """Nothing behind it is sent before somebody has decided to skip it."""
    records = some(400)
    records[250] = some(1, first=250, value_bytes=20_000)[0]
    batches = [batch_of(records[at : at + 100], codec=codec) for at in range(0, 400, 100)]
    dealer = Repartitioner(2, Limits(message_bytes_max=10_000))
    dealt = dealer.take(sourced(*batches))
    assert dealt.refused is not None
    assert dealt.refused[:2] == (250, 250)
    assert "offset 250: one record" in dealt.refused.why
    assert sum(map(len, records_of(dealt).values())) == 250
    assert [batch.low for batch in dealt.rest] == [251, 300]
    assert sum(map(len, records_of(dealer.take(dealt.rest)).values())) == 149


def test_a_batch_that_does_not_hold_together_is_refused() -> None:
    """Also as the first one."""
    batches = [batch_of(some(3, first=3 * i)) for i in range(3)]
    batches[1] = spoiled(batches[1], b"\xff" * 50)
    dealer = Repartitioner(1, Limits())
    dealt = dealer.take(sourced(*batches))
    assert dealt.refused is not None
    assert dealt.refused[:2] == (3, 5)
    assert records_of(dealt) == {0: shown(batches[0])}
    again = dealer.take(sourced(*batches[1:]))
    assert (again.outgoing, again.refused) == ({}, dealt.refused)
    assert [batch.header.base_offset for batch in again.rest] == [6]


@given(st.binary(max_size=120), st.sampled_from(range(5)), st.integers(0, 2**31 - 1))
@settings(max_examples=200, deadline=None)
def test_hostile_records_are_refused_or_dealt_out(body: bytes, codec: int, count: int) -> None:
    """As they are rebuilt."""
    batch = spoiled(batch_of(some(1), attributes=codec, last_offset=2**31 - 1), compress(codec, body))
    dealt = Repartitioner(3, Limits()).take(sourced(changed(batch, record_count=count, attributes=codec)))
    assert (dealt.refused is None) == (count == 0 or bool(dealt.outgoing))


def test_a_bomb_is_refused() -> None:
    """What decompresses to more than is allowed is not decompressed to the end."""
    dealt = Repartitioner(3, Limits(inflated_bytes_max=1_000_000)).take(sourced(bomb(200_000)))
    assert dealt.outgoing == {}
    assert dealt.refused is not None
    assert "more than 1,000,000 bytes" in dealt.refused.why
