"""Topics of a source that are the destination's own: a stream of Fairlead keeps topics of a Kafka cluster at Kafka's
offsets, and a mirror from there to that same Kafka cluster would write all of them into themselves.

Such a topic says by a setting of its own who owns it (`model/kafka_clusters.py`), at every site that has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from fairlead.mirror.ports import Cluster, Topic
from fairlead.model.errors import NotAllowed, TryAgain, UnknownTopic
from fairlead.model.kafka_clusters import ORIGIN_CLUSTER, owner_of


class Returning:
    """Of one source."""

    def __init__(self, source: Cluster, destination: str) -> None:
        self._source = source
        self._mark = str(UUID(bytes=owner_of(destination)))
        self._others: dict[str, bytes] = {}
        """Topics that are not the destination's, and their ids; they never become so."""
        self.topics: frozenset[str] = frozenset()

    async def look(self, topics: Iterable[Topic]) -> None:
        """Find those that are the destination's among these: all that may be mirrored. One that is taken over from the
        destination is not any more.

        Raises:
            TryAgain: the source does not answer, or a topic has gone meanwhile.
        """
        asked = {each.name: each.topic_id for each in topics if self._others.get(each.name) != each.topic_id}
        try:
            configs = await self._source.configs(asked) if asked else {}
        except UnknownTopic as error:
            raise TryAgain(str(error)) from error
        except NotAllowed:
            configs = {}  # whoever hides the settings of its topics is no stream that keeps ours
        marks = {name: its.get(ORIGIN_CLUSTER) for name, its in configs.items()}
        self.topics = frozenset(name for name, mark in marks.items() if mark is not None and mark.value == self._mark)
        self._others.update((name, id) for name, id in asked.items() if name not in self.topics)
