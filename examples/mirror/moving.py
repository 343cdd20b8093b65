"""A consumer group that reads at one cluster, and goes on at another one to which its topics are mirrored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from confluent_kafka import Consumer
from examples.mirror.counting import Moved, moved
from examples.ships.asked import QUIET, Asked
from examples.ships.compare import Held, Place
from examples.ships.traffic import consumer, read_places

READERS = "harbour-office"
"""Its name."""
BEYOND = 500
"""So many records it reads at the first cluster after its last commit: they come again, as after any failure."""


class MovingGroup:
    """Of one member, which commits only when told."""

    def __init__(self, first: Asked, second: Asked) -> None:
        """Both with the topics that it reads."""
        self._first = first
        self._second = second
        self._committed: list[Place] = []
        """What it read at the first cluster before its last commit."""
        self._there: list[Place] = []
        """What it read at the second."""

    def read(self, count: int) -> None:
        """Read so many records at the first cluster, commit, read a few more, and leave."""

        def act(member: Consumer) -> None:
            self._committed += read_places(member, count)
            member.commit(asynchronous=False)
            read_places(member, BEYOND)

        self._as_member(self._first, act)

    @property
    def has_arrived(self) -> bool:
        """Whether its last commit is known at the second cluster, where no record has a lower offset."""
        there = self._second.committed(READERS)
        return all(there.get(place, -1) >= offset for place, offset in self._first.committed(READERS).items())

    def go_on(self) -> None:
        """Read at the second cluster, from where it is there, all that there is."""
        count = self._second.lag(READERS)

        def act(member: Consumer) -> None:
            self._there += read_places(member, count)

        self._as_member(self._second, act)

    def judged(self, source: Held, copy: Held) -> Moved:
        """What came of it, once both clusters have been read."""
        topics = set(self._first.topics)
        return moved(
            [source.records[place] for place in self._committed],
            [copy.records[place] for place in self._there],
            source.records.values(),
            [content for place, content in copy.records.items() if place[0] in topics],
        )

    def _as_member(self, cluster: Asked, act: Callable[[Consumer], None]) -> None:
        with closing(consumer(cluster.bootstrap, READERS, **QUIET)) as member:
            member.subscribe(list(cluster.topics))
            act(member)
