"""The same four sites under Hypothesis, which shrinks a failing run to a few steps.

Two profiles: the same examples each time, and new ones; a failure prints the blob that repeats it.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from tests.properties.links import Links
from tests.properties.model import LINKS
from tests.properties.sites import NAMES, RUNS, TTL_MS, World

from fairlead.model.names import slice_of
from fairlead.storage.memory import Call, Fault

SITES = st.sampled_from("abcd")
LINK = st.sampled_from(sorted(LINKS))
TOPIC = st.sampled_from(NAMES)
CALLS = st.sampled_from(["put", "size", "list", "get", "get_range", "delete"])
STEPS = 30
EXAMPLES = RUNS * 2 // 5


class Sites(RuleBasedStateMachine):
    """Every action of `World`, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(0)
        self.links = Links(self.world)

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        """A world with one topic."""
        self.world.close()
        self.world = World(seed)
        self.links = Links(self.world)
        self.world.create(NAMES[0])

    @rule(name=TOPIC, partition=st.integers(0, 3), records=st.integers(1, 3))
    def produce(self, name: str, partition: int, records: int) -> None:
        """An idempotent producer sends until it is acknowledged."""
        self.world.produce(name, partition, records)

    @rule(name=TOPIC, partition=st.integers(0, 3), more=st.integers(0, 5))
    def delete_records(self, name: str, partition: int, more: int) -> None:
        """The first records of a partition are deleted at their owner."""
        self.world.delete_records(name, partition, more)

    @rule(link=LINK, name=TOPIC, back=st.integers(-1, 9), length=st.none() | st.integers(1, 5), new_run=st.booleans())
    def send(self, link: tuple[str, str], name: str, back: int, length: int | None, new_run: bool) -> None:
        """A frame is in flight, cut anywhere."""
        self.links.send(link, [slice_of(name)], back, length, new_run=new_run)

    @rule(link=LINK, which=st.integers(0, 5), count=st.sampled_from([1, 3]), keep=st.booleans(), damage=st.booleans())
    def deliver(self, link: tuple[str, str], which: int, count: int, keep: bool, damage: bool) -> None:
        """Frames arrive, perhaps not for the last time."""
        self.links.deliver(link, which, count, keep=keep, damage=damage)

    @rule(link=LINK, lose=st.booleans())
    def repair(self, link: tuple[str, str], lose: bool) -> None:
        """Partitions that are behind are brought again."""
        self.links.repair(link, lose=lose)

    @rule(site=SITES)
    def merge(self, site: str) -> None:
        """One merge job."""
        self.world.merge(site)

    @rule(site=SITES, ms=st.sampled_from([10, 1500, TTL_MS // 2, 3 * TTL_MS]))
    def pass_time(self, site: str, ms: int) -> None:
        """Time goes by."""
        self.world.pass_time(site, ms)
        self.world.sweep(site)

    @rule(site=SITES, fault=st.sampled_from(Fault), call=CALLS, nth=st.integers(1, 3), times=st.sampled_from([1, 5]))
    def fault(self, site: str, fault: Fault, call: Call, nth: int, times: int) -> None:
        """A later call fails."""
        self.world.fault(site, fault, call, nth, times)

    @rule(site=SITES, power_fails=st.booleans())
    def reopen(self, site: str, power_fails: bool) -> None:
        """A server dies and another starts."""
        self.world.reopen(site, power_fails=power_fails)

    @rule(site=SITES)
    def take_over(self, site: str) -> None:
        """A second writer opens the shard, the first one sleeps."""
        self.world.take_over(site)

    @rule(site=SITES)
    def wake(self, site: str) -> None:
        """A writer that slept goes on, and a late put lands."""
        self.world.land(site)
        self.world.wake(site)

    @rule(name=TOPIC)
    def create(self, name: str) -> None:
        """A topic is made."""
        self.world.create(name)

    @rule(name=TOPIC)
    def grow(self, name: str) -> None:
        """A topic gets a partition."""
        self.world.grow(name)

    @rule(name=TOPIC)
    def delete(self, name: str) -> None:
        """A topic is deleted."""
        self.world.delete(name)

    @rule()
    def check(self) -> None:
        """Everything that must hold at any moment."""
        self.world.check()

    def teardown(self) -> None:
        with closing(self.world):
            self.links.settle()


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
