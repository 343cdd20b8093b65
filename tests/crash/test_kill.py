"""`kill -9` of each process at random moments under load: nothing acknowledged is lost, nothing is doubled.

`make crash ROUNDS=20` runs more rounds; FAIRLEAD_TEST_SEED repeats the moments of a run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.crash.conftest import PREFIX, STREAM, Pair
from tests.support.ledger import Ledger, faults
from tests.support.records import differences, read_all
from tests.support.rounds import rounds, seed
from tests.support.sites import kill_pid
from tests.support.waiting import wait_until

pytestmark = pytest.mark.crash

ROUNDS = rounds(1)
SEED = seed()
LOAD_SECONDS = 3.0


def kill_server(pair: Pair) -> None:
    """The source: server and, with it, replicator."""
    pair.source.kill()
    pair.source.start()


def kill_destination(pair: Pair) -> None:
    """The server that applies frames."""
    pair.replica.kill()
    pair.replica.start()


def kill_replicator(pair: Pair) -> None:
    """The driver of the Spark application; `fairlead up` starts another."""
    pid = wait_until(pair.source.replicator_pid, "the replicator runs")
    assert pid is not None
    kill_pid(pid)


def kill_spark_worker(pair: Pair) -> None:
    """One Python process in which a task runs; Spark starts another."""
    kill_pid(random.choice(wait_until(pair.source.spark_worker_pids, "Spark's workers run")))


@pytest.mark.parametrize("victim", [kill_server, kill_destination, kill_replicator, kill_spark_worker])
def test_a_process_killed_under_load_loses_and_doubles_nothing(pair: Pair, victim: Callable[[Pair], None]) -> None:
    """Every acknowledged record is once at its offset in both clusters, and both clusters hold the same."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    moments = random.Random(f"{SEED} {victim.__name__}")
    for number in range(ROUNDS):
        _one_round(pair, victim, f"{victim.__name__}-{number}", moments.uniform(0.05, LOAD_SECONDS))


def _one_round(pair: Pair, victim: Callable[[Pair], None], label: str, after_seconds: float) -> None:
    topics = [f"{label}-{letter}" for letter in "abcde"]
    with Ledger(pair.source.kafka, topics, prefix=PREFIX, label=label) as ledger:
        ledger.wait_for(100)
        time.sleep(after_seconds)
        victim(pair)
        ledger.wait_for(len(ledger.acknowledged) + 1000)
    assert ledger.failed == []
    source = read_all(pair.source.kafka, topics, prefix=PREFIX)
    assert faults(ledger.acknowledged, source) == []
    wait_until(lambda: pair.source.in_sync(STREAM), f"{label}: the replica has all of it")
    replica = read_all(pair.replica.kafka, topics, prefix=PREFIX)
    assert differences(source, replica) == []
