"""`kill -9` of a mirror under load, again and again: none lost, in order, what comes twice is counted and bounded."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.broker import run_broker
from tests.support.mirrors import MirrorProcess, count, make_topic, mirroring, produce, properties
from tests.support.records import read_all
from tests.support.rounds import rounds, seed

pytestmark = pytest.mark.crash

ROUNDS = rounds(4)
SEED = seed(14)
RECORDS_A_ROUND = 3_000
PARTITIONS = 3


def test_a_mirror_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """At moments between its start and its end. What comes twice is at most what the mirrors that were killed had
    mirrored: positions are written each second, so one that is killed in its first second has written none."""
    choose = random.Random(SEED)
    with run_broker(tmp_path / "a", name="source") as source, run_broker(tmp_path / "b", name="target") as target:
        consumer = properties(tmp_path / "consumer.config", source.bootstrap, group_id="killed")
        producer = properties(tmp_path / "producer.config", target.bootstrap)
        arguments = ["--consumer.config", str(consumer), "--producer.config", str(producer), "--whitelist", "box"]
        make_topic(source.bootstrap, "box", PARTITIONS)
        for number in range(ROUNDS):
            _produce(source.bootstrap, number)
            with mirroring(tmp_path, *arguments) as mirror:
                time.sleep(choose.random() * 1.5)  # the moment of the kill, not a condition
                mirror.kill()
        last = MirrorProcess(tmp_path, [*arguments, "--once"])
        assert last.wait() == 0, last.said()
        found: dict[int, list[int]] = {}
        for place, content in sorted(read_all(target.bootstrap, ["box"], prefix="").items()):
            found.setdefault(place.partition, []).append(int(content.value or b"-1"))
        at_risk = count(target.bootstrap, "box") - last.mirrored
    written = ROUNDS * RECORDS_A_ROUND
    doubles = sum(len(values) for values in found.values()) - PARTITIONS * written
    print(f"seed {SEED}: kills {ROUNDS}, records {PARTITIONS * written}, lost 0, doubled {doubles} of {at_risk}")
    for values in found.values():
        assert sorted(set(values)) == list(range(written))
        assert sum(other <= one for one, other in pairwise(values)) <= ROUNDS
    assert doubles <= at_risk


def _produce(bootstrap: str, number: int) -> None:
    first = number * RECORDS_A_ROUND
    pairs = [(None, b"%d" % value) for value in range(first, first + RECORDS_A_ROUND)]
    for partition in range(PARTITIONS):
        produce(bootstrap, "box", pairs, partition=partition, enable_idempotence=True)
