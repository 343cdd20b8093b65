"""What is done to clusters, wires and the mirror. A harm returns once it is over; what is lasting returns soon."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.crash.mirrors.ends import End
from tests.crash.mirrors.load import Load

_TRICKLE_BYTES = 60_000
"""A second: less than is written."""


class Harmed(Protocol):
    """What is under way while it is harmed: a mirror, or a stream that keeps topics of Kafka."""

    source: End
    target: End
    load: Load
    choose: random.Random
    away_seconds: float
    """How long a destination stays away, in units."""
    kills_of_destination: int

    @property
    def mirror_pid(self) -> int:
        """Of the process that carries."""

    def kill_mirror(self) -> None:
        """`kill -9` of it."""

    def start_mirror(self) -> None:
        """Begin anew."""

    def stop_mirror(self) -> None:
        """End it in order."""

    def wait(self, units: float) -> None:
        """A part of a harm; not for a condition."""


Harm = Callable[[Harmed], None]


def kill_mirror(story: Harmed) -> None:
    """`kill -9`, and a new start at once."""
    story.kill_mirror()
    story.start_mirror()


def pause_mirror(story: Harmed) -> None:
    """It stands still, as in a long collection of garbage, and does not know."""
    pid = story.mirror_pid
    os.kill(pid, signal.SIGSTOP)
    story.wait(1)
    os.kill(pid, signal.SIGCONT)


def stop_mirror(story: Harmed) -> None:
    """In order; under load it ends in time, and well."""
    story.stop_mirror()
    story.start_mirror()


def kill_source_node(story: Harmed) -> None:
    _kill_node(story, story.source)


def kill_destination_node(story: Harmed) -> None:
    _kill_node(story, story.target)


def destination_is_away(story: Harmed) -> None:
    """All of it, for a while."""
    story.kills_of_destination += 1
    bring_back = story.target.kill_all()
    story.wait(story.away_seconds)
    bring_back()


def source_is_away(story: Harmed) -> None:
    bring_back = story.source.kill_all()
    story.wait(1)
    bring_back()


def cut_source(story: Harmed) -> None:
    _cut(story, story.source)


def cut_destination(story: Harmed) -> None:
    _cut(story, story.target)


def trickle(story: Harmed) -> None:
    """Both ends are reached, slowly; then one of the connections is cut in the middle of what it carries."""
    wires = [*story.source.wires, *story.target.wires]
    for wire in wires:
        wire.trickle(_TRICKLE_BYTES)
    story.wait(1.5)
    for wire in wires:
        wire.cut()
        wire.trickle(None)
        wire.heal()


def new_topic(story: Harmed) -> None:
    story.load.new_topic()


def more_partitions(story: Harmed) -> None:
    story.load.more_partitions()


def _kill_node(story: Harmed, end: End) -> None:
    story.kills_of_destination += end is story.target
    bring_back = end.kill_one(story.choose)
    story.wait(1)
    bring_back()


def _cut(story: Harmed, end: End) -> None:
    """Some times in a row."""
    for _ in range(3):
        for wire in end.wires:
            wire.cut()
        time.sleep(story.choose.random() / 2)
        for wire in end.wires:
            wire.heal()
        time.sleep(story.choose.random() / 2)


ALL: Mapping[str, Harm] = {
    "the mirror is killed": kill_mirror,
    "a node of the source is killed": kill_source_node,
    "a node of the destination is killed": kill_destination_node,
    "the wires to the source are cut": cut_source,
    "a topic is made": new_topic,
    "the wires to the destination are cut": cut_destination,
    "a topic gets more partitions": more_partitions,
    "the mirror stands still": pause_mirror,
    "all wires are slow": trickle,
    "the destination is away": destination_is_away,
    "the mirror is stopped and started": stop_mirror,
    "the source is away": source_is_away,
}
"""Each once, in this order, is the short form."""


def by_chance(seed: int, number: int) -> list[str]:
    """So many of them in some order, each at least once."""
    choose = random.Random(seed)
    print(f"FAIRLEAD_TEST_SEED={seed}")
    harms = [*ALL, *choose.choices(list(ALL), k=max(number - len(ALL), 0))]
    choose.shuffle(harms)
    return harms
