"""What the server knows of its replicator: by what it says, by its connection, by who starts it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.streamlog.world import START_MS, FakeClock

from fairlead.gateway.links.replicator_life import ReplicatorLife
from fairlead.wire.control import ReplicatorState

GRACE_S = 20.0
ONE = ReplicatorState(b"1" * 16, START_MS, "waiting", 0, "")
TWO = replace(ONE, process=b"2" * 16)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def life(clock: FakeClock) -> ReplicatorLife:
    return ReplicatorLife(clock, lambda: "http://here:7660", GRACE_S)


def ailment(life: ReplicatorLife) -> str:
    """What keeps it from carrying."""
    found = life.ailment()
    return "" if found is None else str(found.error)


def test_one_that_never_came_is_missed_after_a_while(life: ReplicatorLife, clock: FakeClock) -> None:
    """A server that has just started says nothing bad; then it says which command runs one."""
    clock.pass_ms(19_000)
    assert (life.now().state, ailment(life)) == ("down", "")
    clock.pass_ms(1_000)
    assert "fairlead replicator --server http://here:7660" in ailment(life)
    found = life.ailment()
    assert found is not None
    assert found.since_ms == START_MS


def test_one_that_lives_says_what_it_does(life: ReplicatorLife, clock: FakeClock) -> None:
    """And since when it does, by its own word: a server that was restarted does not make it younger."""
    clock.pass_ms(60_000)
    life.said(ONE)
    assert (life.now().state, life.now().age_ms, life.now().started_again) == ("waiting", 60_000, 0)
    life.said(replace(ONE, doing="carrying"))
    assert (life.now().row()["state"], life.now().row()["seconds"], ailment(life)) == ("carrying", 60, "")


def test_the_last_words_of_one_that_gave_up_are_kept_until_another_carries(
    life: ReplicatorLife, clock: FakeClock
) -> None:
    """A missing Java is shown at once, through all starts that end the same way, with the age of the first."""
    for process in (ONE, TWO):
        life.said(process)
        life.said(replace(process, doing="failed", failures=1, error="no java found"))
        life.gone(process.process)
        assert "no java found" in ailment(life)
        clock.pass_ms(5_000)
    found = life.ailment()
    assert found is not None
    assert found.since_ms == START_MS
    third = replace(ONE, process=b"3" * 16)
    life.said(third)
    assert "no java found" in ailment(life)
    life.said(replace(third, doing="carrying"))
    assert (ailment(life), life.now().error) == ("", "")


def test_one_that_was_killed_has_a_while_to_come_back(life: ReplicatorLife, clock: FakeClock) -> None:
    """Then it is down since its connection broke, for the reason that its parent knows."""
    life.began()
    life.said(ONE)
    clock.pass_ms(100_000)
    life.gone(ONE.process)
    life.ended("it was killed by signal 9")
    clock.pass_ms(10_000)
    assert (life.now().state, life.now().age_ms, ailment(life)) == ("down", 10_000, "")
    assert life.now().error == "it was killed by signal 9"
    clock.pass_ms(10_000)
    assert "it was killed by signal 9" in ailment(life)
    life.began()
    life.said(TWO)
    assert (ailment(life), life.now().error, life.now().started_again) == ("", "", 1)


def test_each_new_start_is_counted_once(life: ReplicatorLife) -> None:
    """Whether its parent says so, or itself, or both; a connection that was only lost is none."""
    life.began()
    life.said(ONE)
    life.gone(ONE.process)
    life.said(ONE)
    assert life.now().started_again == 0
    life.said(TWO)
    assert life.now().started_again == 1
    life.began()
    life.ended("it ended with exit code 1")
    life.began()
    assert life.now().started_again == 3


def test_starts_of_spark_are_counted_too(life: ReplicatorLife) -> None:
    """A query that dies again and again is no life."""
    life.said(ONE)
    life.said(replace(ONE, doing="failed", failures=1, error="x"))
    life.said(replace(ONE, doing="carrying", failures=1, error="x"))
    assert ailment(life) == "the replicator fails: x"
    life.gone(ONE.process)
    life.said(replace(ONE, doing="failed", failures=2, error="x"))
    assert life.now().started_again == 2


def test_the_end_of_an_old_connection_says_nothing_of_a_new_process(life: ReplicatorLife) -> None:
    """It may be noticed late."""
    life.said(ONE)
    life.said(TWO)
    life.gone(ONE.process)
    assert life.now().alive
