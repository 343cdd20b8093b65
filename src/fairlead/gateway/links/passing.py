"""Which topics of a log go over a link that leaves some out. Owns nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from fairlead.cluster.stream import Stream
from fairlead.cluster.topic_filter import LinkTopics
from fairlead.streamlog.state.effects import Tombstone
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import CURSOR_FIRST, Behind, Topic
from fairlead.wire.neighbours import BehindPartition

Noted = TypeVar("Noted", Behind, BehindPartition)
"""A partition that is behind, as a replica has noted it or says it."""


def passing_numbers(state: ShardState, passing: LinkTopics, numbers: Iterable[int]) -> list[int]:
    """Those of these topics that pass. A deleted one passes by the name that it had last, so that its deletion is told
    where it was; what this log does not know at all passes nowhere."""
    known = {number: topic.name for number in numbers if (topic := state.topic(number)) is not None}
    gone = set(numbers) - known.keys()
    if gone:
        known |= {each.number: each.name for each in state.tombstones.values() if each.number in gone}
    return [number for number, passes in zip(known, passing.passing([*known.values()]), strict=True) if passes]


def passing_partitions(
    state: ShardState, passing: LinkTopics, forward: str, behind: Iterable[Noted]
) -> list[tuple[int, Noted]]:
    """The partitions that are behind and whose topics are known here and pass, each with its topic's number: a replica
    asks for what it likes. Of a deleted topic the repair tells that it is."""
    known = ((_known(state, each.incarnation), each) for each in behind)
    found = [(topic, each) for topic, each in known if topic is not None and _may_come(state, forward, topic, each)]
    passes = passing.passing([topic.name for topic, _ in found])
    return [(topic.number, each) for (topic, each), goes in zip(found, passes, strict=True) if goes]


def sent_ones(stream: Stream, passing: LinkTopics, forward: str, behind: Sequence[Noted]) -> list[Noted]:
    """The partitions that are behind, but for those of topics that are known here and that the link does not bring."""
    out: set[Noted] = set()
    for shard in stream.shards:
        here = {each for each in behind if _known(shard.state, each.incarnation) is not None}
        out |= here - {each for _, each in passing_partitions(shard.state, passing, forward, here)}
    return [each for each in behind if each not in out]


def _known(state: ShardState, incarnation: bytes) -> Topic | Tombstone | None:
    return state.by_incarnation(incarnation) or state.tombstone(incarnation)


def _may_come(state: ShardState, forward: str, topic: Topic | Tombstone, noted: Noted) -> bool:
    """With `-forward own`, what a group has committed here makes no topic of others known to the replica: it waits
    there until another link brings the topic."""
    return forward != "own" or noted.reason != CURSOR_FIRST or state.was_ours(topic.number)
