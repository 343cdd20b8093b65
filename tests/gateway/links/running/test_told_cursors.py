"""What is known of the cursors that links were told of, for metrics."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.gateway.links.running.told_cursors import RUNS_MAX, ToldCursors


def test_what_waits_has_waited_since_the_first_of_it() -> None:
    """Until it is told; what was committed while that was under way has waited since then."""
    told = ToldCursors()
    assert told.waiting_ms(50) == 0
    told.waits(100)
    told.waits(300)
    assert told.waiting_ms(400) == 300
    told.told(since_ms=380)
    assert told.waiting_ms(400) == 20
    told.told(since_ms=None)
    assert told.waiting_ms(400) == 0


def test_a_link_lacks_rows_until_it_has_passed_their_commit() -> None:
    told = ToldCursors()
    told.note(3, commit=7, now_ms=100)
    told.note(0, commit=8, now_ms=150)
    told.note(1, commit=9, now_ms=200)
    assert told.rows == 4
    assert [told.lacking_ms(passed, 300) for passed in (0, 7, 8, 9, 10)] == [200, 200, 100, 100, 0]
    told.forget(8)
    assert [told.lacking_ms(passed, 300) for passed in (0, 9, 10)] == [100, 100, 0]


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(0, 3000))
def test_of_a_day_few_runs_are_kept_and_nothing_is_said_to_be_younger_than_it_is(count: int, passed: int) -> None:
    """Nor much older; and what has come is never said to be lacking."""
    told = ToldCursors()
    for commit in range(count):
        told.note(1, commit, now_ms=1000 * commit)
    found, true = told.lacking_ms(passed, 1000 * count), 1000 * max(count - passed, 0)
    assert true <= found <= true + 4 * 1000 * (count // RUNS_MAX)
    assert (found == 0) is (true == 0)
