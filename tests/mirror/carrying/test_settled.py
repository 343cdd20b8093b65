"""A position covers only what is acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.mirror.carrying.settled import Settled, Step


def test_a_position_waits_for_the_oldest_send() -> None:
    """However far the later ones are."""
    settled = Settled(0, -1)
    first, second = settled.add(10, 1, 1), settled.add(20, 2, 1)
    settled.acknowledged(second)
    assert (settled.offset, settled.epoch) == (0, -1)
    settled.acknowledged(first)
    assert (settled.offset, settled.epoch) == (20, 2)


def test_what_was_left_out_moves_the_position_once_its_turn_comes() -> None:
    """Markers and aborted records are settled with what is before them."""
    settled = Settled(0, -1)
    first = settled.add(10, 1, 2)
    settled.add(15, 1, 0)
    settled.acknowledged(first)
    assert settled.offset == 0
    settled.acknowledged(first)
    assert settled.offset == 15
    assert settled.idle


@given(st.lists(st.integers(0, 3), max_size=12), st.randoms(use_true_random=False))
def test_a_position_is_the_highest_contiguous_one(sends: list[int], random: object) -> None:
    """In whatever order the acknowledgements come."""
    settled = Settled(0, -1)
    steps = [settled.add(number + 1, 0, count) for number, count in enumerate(sends)]
    open_ones: list[Step] = [step for step, count in zip(steps, sends, strict=True) for _ in range(count)]
    random.shuffle(open_ones)  # type: ignore[attr-defined]
    left = list(sends)
    for step in open_ones:
        settled.acknowledged(step)
        left[step.until - 1] -= 1
        expected = next((number for number, count in enumerate(left) if count), len(left))
        assert settled.offset == expected
