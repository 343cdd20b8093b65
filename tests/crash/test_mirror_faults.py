"""A mirror under load while everything around it fails: nodes of both clusters, itself, the wires between them.

`FAIRLEAD_TEST_ROUNDS=20` (`make crash`) takes clusters of three nodes of Apache Kafka, and so many harms in an order by
chance, each of them at least once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.mirrors.ends import End, fairlead_end, kafka_end
from tests.crash.mirrors.harms import ALL, by_chance
from tests.crash.mirrors.story import EXACTLY_ONCE, Story
from tests.support.rounds import rounds, seed
from tests.support.wires import Wires

pytestmark = pytest.mark.crash

ROUNDS = rounds(0)
SEED = seed(14)
NODES = 3 if ROUNDS else 1
AWAY_SECONDS = 60.0 if ROUNDS else 2.0
MODES = {
    "two of each": ["--num.streams", "2", "--num.producers", "2"],
    "exactly once": [EXACTLY_ONCE],
    "spark": ["--engine", "spark", "--num.streams", "2"],
    "spark exactly once": ["--engine", "spark", "--num.streams", "2", EXACTLY_ONCE],
}
"""Ways to run a mirror: its options."""
WAYS = [
    ("kafka", "kafka", "two of each"),
    ("kafka", "fairlead", "two of each"),
]
if ROUNDS:
    WAYS += [
        ("fairlead", "kafka", "two of each"),
        ("fairlead", "fairlead", "two of each"),
        ("kafka", "kafka", "exactly once"),
        ("fairlead", "kafka", "exactly once"),
        ("kafka", "kafka", "spark"),
        ("kafka", "kafka", "spark exactly once"),
    ]
FEW = [
    "the mirror is killed",
    "a node of the source is killed",
    "a topic gets more partitions",
    "the wires to the destination are cut",
    "the destination is away",
]


class Ends:
    """Two clusters of each kind, made when they are first needed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._wires = stack.enter_context(Wires())
        self._made: dict[str, End] = {}

    def of(self, kind: str, name: str) -> End:
        if (key := f"{kind}-{name}") not in self._made:
            made = (
                fairlead_end(self._folder, key, self._wires)
                if kind == "fairlead"
                else kafka_end(self._folder, key, NODES, self._wires)
            )
            self._made[key] = self._stack.enter_context(made)
        return self._made[key]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    with ExitStack() as stack:
        yield Ends(tmp_path_factory.mktemp("ends"), stack)


@pytest.mark.timeout(900)  # it takes minutes where others work beside it
@pytest.mark.parametrize(("source", "target", "mode"), WAYS)
def test_a_mirror_loses_nothing_whatever_fails(ends: Ends, tmp_path: Path, source: str, target: str, mode: str) -> None:
    """And keeps keys, values, headers, times, tombstones, codecs, transactions and the order."""
    story = Story(
        tmp_path / f"{source}-{target}-{mode.replace(' ', '-')}",
        ends.of(source, "source"),
        ends.of(target, "target"),
        SEED,
        options=MODES[mode],
        away_seconds=AWAY_SECONDS,
    )
    story.check(story.tell(_harms(source, target, mode)))


def _harms(source: str, target: str, mode: str) -> list[str]:
    if ROUNDS:
        return by_chance(SEED, ROUNDS)
    return list(ALL) if (source, target, mode) == WAYS[0] else FEW
