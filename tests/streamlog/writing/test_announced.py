"""Many rows that take effect at once do what each of them does by itself."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streamlog.reading.test_lasting import OURS, lived, one_by_one, tables

from fairlead.streamlog.state import effects
from fairlead.streamlog.state.shard_state import ShardState


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(3, 200), st.integers(1, 40))
def test_the_state_is_the_same(seed: int, count: int, at_once: int) -> None:
    """Batches that continue their partitions, or name producers, begin epochs and follow rows of topics that are made,
    grow and go; a commit has so many, all of one time."""
    rows = [
        row._replace(commit=place // at_once, row=place % at_once, appended_at=1000 + place // at_once)
        for place, row in enumerate(lived(seed, count))
    ]
    state = ShardState(OURS)
    for _, commit in groupby(rows, lambda row: row.commit):
        effects.replay_announced(state, list(commit))
    assert tables(state) == tables(one_by_one(rows))
