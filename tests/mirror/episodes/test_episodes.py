"""Mirrors between clusters in memory, whatever happens to both: nothing is lost, doubled, out of order or skipped by a
group, beyond what the guide says.

`FAIRLEAD_TEST_RUNS` episodes are played; with `FAIRLEAD_TEST_SEEDS=<first>:<count>` others. A failure says the seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.mirror.episodes.episode import play
from tests.mirror.episodes.rules import RULES
from tests.properties.switching import Mutation, switched_off

FIRST, _, COUNT = os.environ.get("FAIRLEAD_TEST_SEEDS", "").partition(":")
RUNS = int(COUNT or "1") if FIRST else int(os.environ.get("FAIRLEAD_TEST_RUNS", "84"))
AGAIN = 300
"""A change of the code moves what a seed does: so many others may notice that a rule is off."""


def test_a_mirror_keeps_what_it_promises_whatever_happens(tmp_path: Path) -> None:
    """By both engines, killed, taken over, with refusals, losses, topics made anew and partitions that come."""
    for seed in range(int(FIRST or 0), int(FIRST or 0) + RUNS):
        play(seed, tmp_path)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_of_a_mirror_that_is_switched_off_is_noticed(rule: Mutation, tmp_path: Path) -> None:
    """By the recorded seed, or another one, which passes with the rule."""
    with switched_off(rule):
        seed = next((seed for seed in (rule.seed, *range(AGAIN)) if _fails(seed, tmp_path)), None)
    assert seed is not None, f"no seed notices any more that {rule.name} is off"
    play(seed, tmp_path)


def _fails(seed: int, folder: Path) -> bool:
    try:
        play(seed, folder)
    except Exception:
        return True
    return False
