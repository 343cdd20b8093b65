"""The same world under Hypothesis, which shrinks a failing run to a few steps.

Two profiles: the same examples each time, and new ones; a failure prints the blob that repeats it.
"""

from __future__ import annotations

from contextlib import closing
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from tests.properties.actions import ACTIONS, Action, Play
from tests.properties.healing import heal
from tests.properties.shape import DIAMOND
from tests.properties.sites import RUNS

STEPS = 30
EXAMPLES = RUNS // 3


class Sites(RuleBasedStateMachine):
    """Every action, in any order, on a diamond of four sites or on more."""

    def __init__(self) -> None:
        super().__init__()
        self.play = Play(0)

    @initialize(seed=st.integers(0, 1000), diamond=st.booleans())
    def begin(self, seed: int, diamond: bool) -> None:
        """A world with a topic."""
        self.play.world.close()
        self.play = Play(seed, shape=DIAMOND if diamond else None)
        self.play.begin()

    @rule(action=st.sampled_from(ACTIONS), choose=st.randoms(use_true_random=False))
    def act(self, action: Action, choose: Random) -> None:
        """It does this, to whom Hypothesis chooses."""
        self.play.choose = choose
        self.play.take(action)

    def teardown(self) -> None:
        with closing(self.play.world):
            heal(self.play.world, self.play.links)


@pytest.mark.parametrize("derandomize", [True, False])
def test_every_order_of_actions_keeps_the_promises(derandomize: bool) -> None:
    """Known examples, then new ones."""
    run_state_machine_as_test(
        Sites,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=derandomize,
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
