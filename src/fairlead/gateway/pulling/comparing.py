"""Finds where the history of partitions here and a neighbour's part, by digests: no record is sent.

In: a neighbour, and partitions. Out: how each stands there, and the offset below which both hold the same. What is gone
on either side is not compared, nor gaps; the epochs of both histories bound the answer too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import place_of
from fairlead.gateway.pulling.neighbours import Neighbour
from fairlead.gateway.pulling.serving import WANTED_MAX
from fairlead.gateway.pulling.taking import PartitionKey
from fairlead.model.errors import CorruptBatch
from fairlead.streamlog.parting import parting
from fairlead.streamlog.reading.digests import Range, boundaries, digests
from fairlead.streamlog.values import PartitionState, Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.neighbours import (
    CompareAnswer,
    ComparedPartition,
    CompareRequest,
    HeldPartition,
    OwnedAnswer,
    OwnedRequest,
    OwnedTopic,
)

T = TypeVar("T")
PARTS: Final = 16
"""Into so many parts a range that differs is cut for the next question."""


@dataclass(frozen=True, slots=True)
class Common:
    """What a partition here and a neighbour's have in common."""

    held: HeldPartition
    """How it stands there."""
    offset: int
    """Below it both hold the same, as far as both hold it."""


class Comparing:
    """Of all streams of a cluster."""

    def __init__(self, cluster: Cluster, new_gateways: Callable[[], Gateways]) -> None:
        self._cluster = cluster
        self._gateways = new_gateways()

    async def owned(self, stream: Stream, neighbour: Neighbour) -> list[OwnedTopic]:
        """The topics of this stream that the neighbour has, whether they are here or not. Raises: FairleadError."""
        found, at = list[OwnedTopic](), (0, 0)
        while True:
            request = OwnedRequest(place_of(self._cluster, stream), neighbour.path.path, *at)
            answer = await self._gateways.ask_about(neighbour.urls, "/gateway/owned", request, OwnedAnswer)
            neighbour.check_answers(answer.cluster, answer.stream)
            found += answer.topics
            if answer.next is None:
                return found
            if answer.next <= at:
                raise CorruptBatch(f"answer of {neighbour.path} about its topics: it goes in circles")
            at = answer.next

    async def deleted(self, stream: Stream, neighbour: Neighbour, topics: Sequence[Topic]) -> list[Topic]:
        """Those of these topics here that were deleted there by their present owner, or a later one.

        Raises: FairleadError.
        """
        found: list[Topic] = []
        for first in range(0, len(topics), WANTED_MAX):
            some = topics[first : first + WANTED_MAX]
            held = await self._ask(stream, neighbour, [ComparedPartition(each.incarnation, 0) for each in some])
            found += [
                each for each, there in zip(some, held, strict=True) if there.deleted and there.epoch >= each.epoch
            ]
        return found

    async def common(
        self, stream: Stream, neighbour: Neighbour, keys: Sequence[PartitionKey]
    ) -> dict[PartitionKey, Common]:
        """Of each of these partitions that both hold, where the histories part. Raises: FairleadError."""
        found: dict[PartitionKey, Common] = {}
        for first in range(0, len(keys), WANTED_MAX):
            some = keys[first : first + WANTED_MAX]
            held = await self._ask(stream, neighbour, [ComparedPartition(*key) for key in some])
            found |= {key: Common(each, 0) for key, each in zip(some, held, strict=True) if each.deleted}
            pairs = [
                _Pair(*here, key, each)
                for key, each in zip(some, held, strict=True)
                if each.held and (here := stream.by_incarnation(key[0])) is not None
            ]
            wholes = [pair for pair in pairs if pair.is_comparable]
            theirs = await self._ask(stream, neighbour, [pair.question([pair.range]) for pair in wholes])
            ours = await self._digests([(pair, [pair.range]) for pair in wholes])
            differ = {pair.key for pair, one, other in zip(wholes, ours, theirs, strict=True) if one != other.digests}
            for pair in pairs:
                at = await self._first_difference(stream, neighbour, pair) if pair.key in differ else pair.range[1]
                found[pair.key] = Common(pair.held, at)
        return found

    async def _first_difference(self, stream: Stream, neighbour: Neighbour, pair: _Pair) -> int:
        """Where the first batch of ours begins that the neighbour has not so."""
        first, end = pair.range
        run = asyncio.get_running_loop().run_in_executor
        starts = await run(self._cluster.lookups, pair.boundaries)
        edges = [first, *(each for each in starts if each > first), end]
        low, high = 0, len(edges) - 1
        while high - low > 1:
            step = -(-(high - low) // PARTS)
            places = [*range(low, high, step), high]
            ranges = [(edges[one], edges[other]) for one, other in pairwise(places)]
            (theirs,) = await self._ask(stream, neighbour, [pair.question(ranges)])
            (ours,) = await self._digests([(pair, ranges)])
            found = next((at for at in range(len(ranges)) if ours[at : at + 1] != theirs.digests[at : at + 1]), None)
            if found is None:
                # Something has expired meanwhile: what is not compared counts as different.
                return edges[low]
            low, high = places[found], places[found + 1]
        return edges[low]

    async def _digests(self, wanted: Sequence[tuple[_Pair, Sequence[Range]]]) -> list[tuple[int, ...]]:
        def found() -> list[tuple[int, ...]]:
            return [pair.digests(ranges) for pair, ranges in wanted]

        return await asyncio.get_running_loop().run_in_executor(self._cluster.lookups, found)

    async def _ask(
        self, stream: Stream, neighbour: Neighbour, compared: Sequence[ComparedPartition]
    ) -> list[HeldPartition]:
        found: list[HeldPartition] = []
        while len(found) < len(compared):
            request = CompareRequest(
                place_of(self._cluster, stream), neighbour.path.path, tuple(compared[len(found) :])
            )
            answer = await self._gateways.ask_about(neighbour.urls, "/gateway/compare", request, CompareAnswer)
            neighbour.check_answers(answer.cluster, answer.stream)
            if not 0 < len(answer.partitions) <= len(compared) - len(found):
                raise CorruptBatch(f"answer of {neighbour.path} about histories: not of what was asked for")
            found += answer.partitions
        return found


class _Pair:
    """A partition here and there."""

    def __init__(self, shard: Shard, topic: Topic, key: PartitionKey, held: HeldPartition) -> None:
        self.key = key
        self.held = held
        self._reader = shard.reader
        self._place = (topic.number, key[1])
        state: PartitionState = shard.state.partition(*self._place)
        most = parting(state.history, state.end, held.history, held.end)
        self.range = (max(state.start, held.start), most)
        """What both hold, if the epochs tell all."""
        gaps = ((gap.start, gap.end) for gap in shard.state.gaps_of(*self._place))
        first, end = self.range
        self._without = tuple(sorted({gap for gap in (*gaps, *held.gaps) if gap[1] > first and gap[0] < end}))

    @property
    def is_comparable(self) -> bool:
        """There is something that both hold."""
        return self.range[0] < self.range[1]

    def question(self, ranges: Sequence[Range]) -> ComparedPartition:
        """What the neighbour is asked."""
        return ComparedPartition(*self.key, tuple(ranges), self._without)

    def digests(self, ranges: Sequence[Range]) -> tuple[int, ...]:
        """The same of ours. Blocking."""
        return tuple(digests(self._reader, *self._place, ranges, self._without))

    def boundaries(self) -> list[int]:
        """Where our batches begin. Blocking."""
        found: list[int] = boundaries(self._reader, *self._place, self.range, self._without).tolist()
        return found
