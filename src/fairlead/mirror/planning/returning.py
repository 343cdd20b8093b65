"""Topics of a source that are the destination's own: a stream of Fairlead keeps topics of a Kafka cluster at Kafka's
offsets, and a mirror from there to that same Kafka cluster would write all of them into themselves.

Such a topic says by a setting of its own who owns it (`model/kafka_clusters.py`), at every site that has it. Once it is
taken over it says which topic of Kafka's it was. The destination has all that was there before; from which offset on it
lacks records nobody says. So it stays left out while the destination has that topic, unless somebody lets it begin with
what is new, or it was begun before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from fairlead.mirror.configs import Setting
from fairlead.mirror.ports import Cluster, Topic
from fairlead.model.errors import FairleadError, NotAllowed, NotFound, TryAgain
from fairlead.model.kafka_clusters import ORIGIN_CLUSTER, ORIGIN_TOPIC, owner_of


class Returning:
    """Of one source."""

    def __init__(self, source: Cluster, destination: str) -> None:
        self._source = source
        self._mark = str(UUID(bytes=owner_of(destination)))
        self._others: dict[str, bytes] = {}
        """Topics that are not the destination's, and their ids; they never become so."""
        self._were: dict[str, str] = {}
        """Which topic some of them have been since they were made, where that is told."""
        self.topics: frozenset[str] = frozenset()

    async def look(self, topics: Iterable[Topic]) -> None:
        """Find those that are the destination's among these: all that may be mirrored. One that is taken over from the
        destination is not any more.

        Raises:
            TryAgain: the source does not answer, or a topic has gone meanwhile.
        """
        asked = {each.name: each.topic_id for each in topics if self._others.get(each.name) != each.topic_id}
        configs: dict[str, Mapping[str, Setting]] = {}
        for name, told in (await self._source.configs(asked) if asked else {}).items():
            if isinstance(told, NotFound):
                raise TryAgain(str(told))
            if not isinstance(told, FairleadError):
                configs[name] = told
            elif not isinstance(told, NotAllowed):
                raise told  # whoever hides the settings of a topic is no stream that keeps ours
        self.topics = frozenset(name for name, its in _told(configs, ORIGIN_CLUSTER) if its == self._mark)
        self._others.update((name, id) for name, id in asked.items() if name not in self.topics)
        self._were = {name: its for name, its in self._were.items() if name not in asked}
        self._were.update(_told(configs, ORIGIN_TOPIC))

    def is_same(self, topic: str, found: Topic | None) -> bool:
        """Whether a topic of the source, as of the last look, and this one of the destination were one topic."""
        return found is not None and self._were.get(topic) == str(UUID(bytes=found.topic_id))


def _told(configs: Mapping[str, Mapping[str, Setting]], setting: str) -> Iterator[tuple[str, str]]:
    return ((name, its[setting].value) for name, its in configs.items() if setting in its)
