"""Asks all direct neighbours of a stream at once how topics stand there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import place_of
from fairlead.gateway.pulling.neighbours import Neighbour, neighbours
from fairlead.gateway.takeovers.plan import Witness
from fairlead.model.errors import CorruptBatch, FairleadError, UnknownCluster, UnknownStream
from fairlead.streamlog.ranges import check_history, check_since
from fairlead.streamlog.values import Topic
from fairlead.wire.neighbours import StandingAnswer, StandingRequest, StandingTopic


@dataclass(frozen=True, slots=True)
class Answers:
    """Of all neighbours."""

    heard: Mapping[Neighbour, Mapping[bytes, StandingTopic]]
    """By those that answer, the topics that they have."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """By path, why the others do not."""

    def about(self, topic: Topic) -> list[Witness]:
        """What they say of a topic."""
        return [
            Witness(
                str(each.path),
                each.stream,
                each.admission.moves_owners or each.admission.speaks_for(topic.owner),
                topics[topic.incarnation],
            )
            for each, topics in self.heard.items()
            if topic.incarnation in topics
        ]


class Asking:
    """Of all streams of a cluster."""

    def __init__(self, cluster: Cluster, new_gateways: Callable[[], Gateways]) -> None:
        self._cluster = cluster
        self._gateways = new_gateways()

    async def ask(self, stream: Stream, incarnations: Sequence[bytes]) -> Answers:
        """How these topics stand at every neighbour. Whoever does not answer holds up nobody for longer than a question
        may take."""
        asked = neighbours(self._cluster, stream)
        found = await asyncio.gather(*(self._ask(stream, each, incarnations) for each in asked))
        heard: dict[Neighbour, Mapping[bytes, StandingTopic]] = {}
        silent: dict[str, str] = {}
        for neighbour, outcome in zip(asked, found, strict=True):
            if isinstance(outcome, FairleadError):
                silent[str(neighbour.path)] = str(outcome)
            else:
                heard[neighbour] = outcome
        return Answers(heard, silent)

    async def _ask(
        self, stream: Stream, neighbour: Neighbour, incarnations: Sequence[bytes]
    ) -> Mapping[bytes, StandingTopic] | FairleadError:
        try:
            if not neighbour.urls:
                raise UnknownCluster("the addresses of its cluster are not known; it has not asked anything here yet")
            return await self._whole(stream, neighbour, incarnations)
        except FairleadError as error:
            return error

    async def _whole(
        self, stream: Stream, neighbour: Neighbour, incarnations: Sequence[bytes]
    ) -> Mapping[bytes, StandingTopic]:
        found: dict[bytes, StandingTopic] = {}
        asker = place_of(self._cluster, stream)
        done = 0
        while True:
            rest = tuple(incarnations[done:])
            request = StandingRequest(asker, neighbour.path.path, rest)
            answer = await self._gateways.ask_about(neighbour.urls, "/gateway/standing", request, StandingAnswer)
            _check(neighbour, answer, rest)
            found.update((each.topic.incarnation, each) for each in answer.topics)
            done += answer.asked
            if done >= len(incarnations):
                return found


def _check(neighbour: Neighbour, answer: StandingAnswer, asked: Sequence[bytes]) -> None:
    """
    Raises:
        UnknownStream: another stream answers. CorruptBatch: the answer makes no sense.
    """
    if (answer.cluster, answer.stream) != (neighbour.path.cluster, neighbour.stream):
        raise UnknownStream("another stream answers there than the one that is bound here")
    if not min(1, len(asked)) <= answer.asked <= len(asked):
        raise CorruptBatch(f"it answers {answer.asked} questions of {len(asked)}")
    for each in answer.topics:
        if len(each.partitions) != each.topic.partitions:
            raise CorruptBatch(f"topic {each.topic.name}: {len(each.partitions)} partitions of {each.topic.partitions}")
        check_since(each.topic.since, each.topic.partitions)
        for partition in each.partitions:
            check_history(partition.history, partition.end)
