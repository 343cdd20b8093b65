"""A header with other fields gets the right CRC, though nobody reads the records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.batches import changed

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import HEADER_BYTES, LENGTH_END, build_batch, read_header, with_crc
from fairlead.protocol.heads import for_another_log, with_producer

bodies = st.one_of(st.binary(max_size=300), st.integers(0, 2**17).map(bytes))
headers = st.fixed_dictionaries(
    {
        "base_offset": st.integers(0, 2**63 - 1),
        "attributes": st.integers(0, 0x7F),
        "leader_epoch": st.integers(-1, 2**31 - 1),
        "producer_id": st.integers(-1, 2**63 - 1),
        "max_timestamp": st.integers(-1, 2**63 - 1),
    }
)


@given(bodies, headers, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1), st.booleans())
def test_a_batch_is_of_the_producer_that_sends_it(
    body: bytes, fields: dict[str, int], producer_id: int, epoch: int, sequence: int, transactional: bool
) -> None:
    """With its id, epoch and sequence, in a transaction or not; all else is as it was."""
    old = read_header(changed(build_batch([(None, None)])[:HEADER_BYTES] + body, **fields))
    whole = with_crc(old, body)[1]
    head = with_producer(whole[:HEADER_BYTES], len(body), producer_id, epoch, sequence, transactional=transactional)
    attributes = old.attributes | 0x10 if transactional else old.attributes & ~0x10
    producer = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    assert head + body == with_crc(old._replace(attributes=attributes, **producer), body)[1]


@given(bodies, headers)
def test_a_batch_for_another_log_has_nothing_of_its_log(body: bytes, fields: dict[str, int]) -> None:
    """Neither offset, epoch, producer, transaction nor delete horizon."""
    length = HEADER_BYTES - LENGTH_END + len(body)
    header, whole = with_crc(read_header(changed(build_batch([(b"k", b"v")]), length=length, **fields)), body)
    new = header._replace(
        base_offset=0,
        leader_epoch=-1,
        attributes=header.attributes & ~0x50,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    assert for_another_log(header, whole) + body == with_crc(new, body)[1]


def test_damage_stays_visible() -> None:
    """A head that did not fit the records does not fit them after it either."""
    whole = bytearray(build_batch([(b"k", b"v")]))
    whole[-1] ^= 1
    head = with_producer(bytes(whole), len(whole) - HEADER_BYTES, 1, 0, 0)
    header = read_header(head)
    assert with_crc(header, bytes(whole[HEADER_BYTES:]))[0].crc != header.crc


def test_fewer_bytes_than_a_head_are_refused() -> None:
    """They are no batch."""
    with pytest.raises(CorruptBatch, match="60 bytes"):
        with_producer(bytes(60), 0, 1, 0, 0)
