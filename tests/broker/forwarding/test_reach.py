"""When an owner counts as one that cannot be reached."""

from __future__ import annotations

from tests.streamlog.world import FakeClock

from fairlead.broker.forwarding.reach import TRIED_WITHIN_SECONDS, TRY_EVERY_SECONDS, Reach

WAY = b"here" * 4, b"away" * 4


def test_an_owner_cannot_be_reached_once_nothing_answered_for_so_long() -> None:
    """One answer is enough to reach it, and it begins anew."""
    clock = FakeClock()
    reach = Reach(clock)
    assert not reach.is_failing(WAY, 0)
    reach.failed(WAY)
    assert reach.is_failing(WAY, 0)
    assert not reach.is_failing(WAY, 10)
    clock.pass_ms(10_000)
    reach.failed(WAY)
    assert reach.is_failing(WAY, 10)
    reach.reached(WAY)
    assert not reach.is_failing(WAY, 0)
    reach.failed(WAY)
    assert not reach.is_failing(WAY, 10)


def test_what_was_seen_long_ago_counts_no_more() -> None:
    """Somebody who writes looks again now and then; after a pause, the next write is the one that looks."""
    clock = FakeClock()
    reach = Reach(clock)
    assert reach.is_to_be_tried(WAY)
    reach.reached(WAY)
    assert reach.is_reached(WAY)
    assert not reach.is_to_be_tried(WAY)
    reach.failed(WAY)
    assert not reach.is_reached(WAY)
    assert not reach.is_to_be_tried(WAY)
    clock.pass_ms(int(TRY_EVERY_SECONDS * 1000))
    assert reach.is_to_be_tried(WAY)
    clock.pass_ms(int(TRIED_WITHIN_SECONDS * 1000))
    assert not reach.is_failing(WAY, 0)
