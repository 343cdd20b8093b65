"""Topics of the destination are there and have as many partitions as those of their source, before they are mirrored.

A topic that one of the two clusters refuses is named, and tried again with the next look; the others are mirrored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.mirror.books.origins import Origins
from fairlead.mirror.configs import Copied, Setting
from fairlead.mirror.destination import Destination
from fairlead.mirror.planning.plan import PlannedTopic
from fairlead.mirror.planning.returning import Returning
from fairlead.mirror.ports import Cluster, Topic
from fairlead.mirror.report import Tally
from fairlead.model.errors import BadRequest, FairleadError, NotFound, TryAgain


class Topics:
    """Of one source."""

    def __init__(
        self,
        source: Cluster,
        destination: Destination,
        origins: Origins,
        returning: Returning,
        copied: Copied,
        tally: Tally,
    ) -> None:
        self._source = source
        self._destination = destination
        self._origins = origins
        self._returning = returning
        self._copied = copied
        self._tally = tally
        self._refused: set[str] = set()
        """Topics that stand still for that."""
        self.made: set[str] = set()
        """Those of the destination that were not there when they were looked at, and in which nothing was begun yet:
        none of what the books say of them is there, also if a later look finds them."""

    def begun(self, topics: Iterable[PlannedTopic]) -> None:
        """The books say where these begin."""
        self.made.difference_update(topic.to for topic in topics)

    async def ready(self, topics: Iterable[PlannedTopic]) -> list[PlannedTopic]:
        """Those of these that can be mirrored now: they were made or have grown where that was planned, and what they
        take is known.

        Raises:
            NotFound: a topic has gone since it was planned.
            TryAgain
        """
        topics = list(topics)
        made = [topic.source.name for topic in topics if topic.makes]
        told = await self._source.configs(made) if made else {}
        refused: dict[str, FairleadError] = {}
        for topic in topics:
            name = topic.source.name
            settings = told.get(name, {})
            try:
                if isinstance(settings, FairleadError):
                    raise settings
                await self._make(topic, settings)
            except NotFound:
                raise
            except BadRequest as error:
                refused[name] = error
        there = {topic.to: topic.source.name for topic in topics if topic.source.name not in refused}
        for to, why in (await self._destination.learn_limits(there)).items():
            if isinstance(why, NotFound):
                raise why
            refused[there[to]] = why
        self._note(refused, {topic.source.name for topic in topics})
        return [topic for topic in topics if topic.source.name not in refused]

    def _note(self, refused: Mapping[str, FairleadError], asked: set[str]) -> None:
        for name in self._refused & (asked - refused.keys()):
            self._tally.goes_on(f"topic {name}")
        for name, error in refused.items():
            why = f"it is refused, and tried again with each look at the topics: {error}"
            self._tally.stopped(f"topic {name}", why)
        self._refused = self._refused - asked | refused.keys()

    async def _make(self, topic: PlannedTopic, settings: Mapping[str, Setting]) -> None:
        name = topic.source.name
        found, was_made = self._destination.topics.get(topic.to), False
        if topic.makes:
            if topic.to != name:
                await self._destination.enter_topic(topic.to, self._origins.path(name))
            self.made.add(topic.to)
            found, was_made = await self._destination.make(topic.to, topic.partitions, settings, self._copied)
        if topic.is_new and found is not None and not was_made:
            await self._check_new(topic, found)
        if topic.grows:
            await self._destination.grow(topic.to, topic.partitions)
            self._tally.notes[name] = "it got more partitions, so keys have other partitions from now on"

    async def _check_new(self, topic: PlannedTopic, found: Topic) -> None:
        """Make sure that a topic was not there when it was planned. A broker that has just begun, or is cut off, shows
        topics late that were there all the time; then all would be mirrored again.

        Raises:
            NotFound
            TryAgain: it was there, or is another one than was planned.
        """
        is_old = self._returning.is_same(topic.source.name, found) or await self._destination.has_records(found)
        if is_old:
            self.made.discard(topic.to)
        if is_old or (topic.makes and found.partitions != topic.partitions):
            raise TryAgain(f"the destination's topic {topic.to} is there after all; a broker did not show it")
