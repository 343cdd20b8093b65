"""Mirrors that face this one: they carry topics of the destination into topics of the same names at the source. There a
group reads records of both clusters. How far it has read those of the destination, the books of such a mirror say; they
lie at the source."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from dataclasses import replace

from fairlead.mirror.books.book import Book, Position, Reading
from fairlead.mirror.books.journal import Journal
from fairlead.mirror.groups.history import History
from fairlead.mirror.groups.translating import inverse
from fairlead.mirror.groups.turning import first_of
from fairlead.mirror.names import is_positions_topic
from fairlead.mirror.ports import Cluster, Place


class Facing:
    """Their books, as far as they concern one pair of clusters."""

    def __init__(self, source: Cluster, destination: str) -> None:
        self._source = source
        self._destination = destination
        self._readings: dict[str, tuple[Journal, Reading]] = {}
        self._parts: dict[Place, tuple[Position, History]] = {}
        """By the partition of the source that they write to."""
        self._topics: set[str] = set()
        """Those that they write to."""
        self._reading = asyncio.Lock()

    def look(self, topics: Iterable[str]) -> None:
        """The source has these topics now."""
        for topic in topics:
            if topic not in self._readings and is_positions_topic(topic):
                self._readings[topic] = (Journal(self._source, topic), Reading(topic))

    async def refresh(self) -> None:
        """Read what was written since. Raises: BadRequest: a book cannot be read; TryAgain."""
        async with self._reading:
            for journal, reading in list(self._readings.values()):
                if news := await journal.news():
                    reading.take(news)
                    self._enter(reading.book)

    def _enter(self, book: Book) -> None:
        for part, position in book.positions.items():
            if part.cluster == self._destination and part.topic == position.to:
                if first_of(part) in book.barriers:
                    position = replace(position, at=-1)  # the key has dealt of it, so its records may lie anywhere
                self._parts[Place(position.to, part.partition)] = (position, History(book.points.get(part)))
                self._topics.add(position.to)

    def writes(self, place: Place) -> bool:
        """Whether one of them writes to a partition of the source."""
        return place in self._parts

    @property
    def topics(self) -> Container[str]:
        """Those of the source that one of them writes to."""
        return self._topics

    def read_until(self, place: Place, offset: int) -> int | None:
        """Below which offset of the destination's partition everything lies before `offset` at the source; None: that
        is not known."""
        found = self._parts.get(place)
        return None if found is None else inverse(offset, *found)
