"""What is acknowledged at a copy that is cut off is in the topic once, after it was claimed: many seeded runs.

`FAIRLEAD_TEST_RUNS` are played; with `FAIRLEAD_TEST_SEEDS=<first>:<count>` others. A failure says the seed.
"""

from __future__ import annotations

import os

import pytest
from tests.properties.mutations import PENDING, off_as_asked
from tests.properties.pending import World
from tests.properties.switching import switched_off

FIRST, _, COUNT = os.environ.get("FAIRLEAD_TEST_SEEDS", "").partition(":")
RUNS = int(COUNT or "1") if FIRST else min(int(os.environ.get("FAIRLEAD_TEST_RUNS", "100")), 100)
AGAIN = 150
"""A change of the code moves what a seed does: so many others may notice that a rule is off."""


def test_what_was_put_aside_is_in_the_topic_once() -> None:
    """And every producer gets on, with no error after which a client stops."""
    with off_as_asked(PENDING):
        for seed in range(int(FIRST or 0), int(FIRST or 0) + RUNS):
            try:
                World(seed).run()
            except BaseException as error:
                error.add_note(f"seed {seed}: again with make simulate SEEDS={seed}:1")
                raise


@pytest.mark.parametrize("name", PENDING)
def test_a_rule_that_is_switched_off_is_noticed(name: str) -> None:
    """By the recorded seed, or one near it, which passes with the rule."""
    rule = PENDING[name]
    with switched_off(rule):
        seed = next((seed for seed in (rule.seed, *range(AGAIN)) if _fails(seed)), None)
    assert seed is not None, f"no seed notices any more that {rule.name} is off"
    World(seed).run()


def _fails(seed: int) -> bool:
    try:
        World(seed).run()
    except Exception:
        return True
    return False
