"""Object names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.storage import names

NUMBERS = st.integers(0, 10**20 - 1)
IDS = st.binary(min_size=16, max_size=16)
PREFIXES = st.one_of(st.just(names.META), st.builds(names.shard_prefix, IDS, st.integers(0, 9999)))


@given(PREFIXES, NUMBERS, NUMBERS)
def test_names_are_parsed_as_they_were_built(prefix: str, epoch: int, number: int) -> None:
    """And each is of one kind only."""
    commit, manifest = names.commit(prefix, epoch, number), names.manifest(prefix, epoch, number)
    assert names.parse_commit(commit) == (epoch, number)
    assert names.parse_manifest(manifest) == (epoch, number)
    assert names.parse_epoch(names.epoch(prefix, epoch)) == epoch
    assert names.parse_commit(manifest) is None
    assert names.parse_manifest(commit) is None
    assert names.parse_epoch(commit) is None
    assert names.prefix_of(commit) == names.prefix_of(manifest) == prefix


@given(IDS, IDS, st.integers(0, 9999))
def test_segments_and_checkpoints_are_known(stream: bytes, random: bytes, shard: int) -> None:
    """By their folders."""
    prefix = names.shard_prefix(stream, shard)
    assert names.is_segment(names.segment(prefix, random))
    assert not names.is_segment(names.checkpoint(prefix, random))


@given(NUMBERS, NUMBERS)
def test_what_lies_below_a_reserved_name_is_of_no_log(epoch: int, number: int) -> None:
    """A later program may keep whole logs there; this one leaves them alone."""
    for reserved in names.RESERVED:
        assert names.prefix_of(names.commit(f"{reserved}/x", epoch, number)) is None
        assert names.prefix_of(names.manifest(reserved, epoch, number)) is None
        assert names.prefix_of(names.epoch(f"{reserved}d", epoch)) == f"{reserved}d"


@given(PREFIXES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_the_order_of_names_is_that_of_numbers(prefix: str, e1: int, n1: int, e2: int, n2: int) -> None:
    """So the newest manifest is the last name."""
    first, second = names.manifest(prefix, e1, n1), names.manifest(prefix, e2, n2)
    assert (first < second) == ((e1, n1) < (e2, n2))
