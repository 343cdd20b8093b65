"""`kill -9` of the copy, or of the owner, while an idempotent producer writes at the copy.

`make crash ROUNDS=20` runs more rounds; FAIRLEAD_TEST_SEED repeats the moments of a run.
"""

from __future__ import annotations

import random
import time
from functools import partial

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.conftest import PREFIX, STREAM, Pair
from tests.support.ledger import Ledger, faults
from tests.support.records import differences, read_all
from tests.support.rounds import rounds, seed
from tests.support.sites import Site
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

ROUNDS = rounds(1)
SEED = seed()


@pytest.fixture(scope="module")
def forwarding(pair: Pair) -> Pair:
    """The replica passes writes on, to the address that it has learned from the source."""
    here, there = f"/mapr/{pair.source.name}{STREAM}", f"/mapr/{pair.replica.name}{STREAM}"
    pair.source.cli("stream", "replica", "edit", "-path", here, "-replica", there, "-acceptwrites", "true")
    pair.replica.cli("stream", "edit", "-path", there, "-forwardwrites", "true")
    return pair


@pytest.mark.parametrize("victim", ["owner", "copy"])
def test_a_server_killed_while_writes_are_passed_on_loses_and_doubles_nothing(forwarding: Pair, victim: str) -> None:
    """Every record that was acknowledged at the copy is once at the owner, at the offset that was answered."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    pair, moments = forwarding, random.Random(f"{SEED} {victim}")
    killed = pair.source if victim == "owner" else pair.replica
    for number in range(ROUNDS):
        label = f"forwarded-{victim}-{number}"
        topics = [f"{label}-{letter}" for letter in "abc"]
        admin = AdminClient({"bootstrap.servers": pair.source.kafka})
        for future in admin.create_topics([NewTopic(PREFIX + topic, 2) for topic in topics]).values():
            future.result(WAIT_SECONDS)
        wait_until(partial(known, pair.replica, topics), "the copy knows the topics")
        with Ledger(pair.replica.kafka, topics, prefix=PREFIX, label=label) as ledger:
            ledger.wait_for(100)
            time.sleep(moments.uniform(0.05, 2.0))
            killed.kill()
            killed.start()
            ledger.wait_for(len(ledger.acknowledged) + 1000)
        assert ledger.failed == []
        source = read_all(pair.source.kafka, topics, prefix=PREFIX)
        assert faults(ledger.acknowledged, source) == []
        assert len(source) == ledger.sent
        wait_until(lambda: pair.source.in_sync(STREAM), f"{label}: the copy has all of it")
        assert differences(source, read_all(pair.replica.kafka, topics, prefix=PREFIX)) == []


def known(site: Site, topics: list[str]) -> bool:
    """A site has these topics."""
    listed = httpx.get(f"{site.url}/rest/stream/topic/list", params={"path": STREAM}, timeout=WAIT_SECONDS).json()
    return {row["topic"] for row in listed["data"]} >= set(topics)
