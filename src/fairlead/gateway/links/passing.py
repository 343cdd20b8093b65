"""Which topics of a log go over a link that leaves some out. Owns nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.cluster.stream import Stream
from fairlead.cluster.topic_filter import LinkTopics
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Topic
from fairlead.wire.neighbours import BehindPartition


def passing_numbers(state: ShardState, passing: LinkTopics, numbers: Iterable[int]) -> list[int]:
    """Those of these topics that pass. A deleted one passes by the name that it had last, so that its deletion is told
    where it was; what this log does not know at all passes nowhere."""
    known = {number: topic.name for number in numbers if (topic := state.topic(number)) is not None}
    gone = set(numbers) - known.keys()
    if gone:
        known |= {each.number: each.name for each in state.tombstones.values() if each.number in gone}
    return [number for number, passes in zip(known, passing.passing([*known.values()]), strict=True) if passes]


def passing_partitions(
    state: ShardState, passing: LinkTopics, behind: Sequence[BehindPartition]
) -> list[tuple[Topic, BehindPartition]]:
    """The partitions that are behind whose topics are here and pass: a replica asks for what it likes."""
    found = [(topic, each) for each in behind if (topic := state.by_incarnation(each.incarnation)) is not None]
    if not passing:
        return found
    passes = passing.passing([topic.name for topic, _ in found])
    return [each for each, goes in zip(found, passes, strict=True) if goes]


def sent_ones(stream: Stream, passing: LinkTopics, behind: Sequence[BehindPartition]) -> list[BehindPartition]:
    """The partitions that are behind, but for those of topics that are here and are left out."""
    if not passing:
        return list(behind)
    topics = {each.incarnation: stream.by_incarnation(each.incarnation) for each in behind}
    known = {id: found[1].name for id, found in topics.items() if found is not None}
    out = {id for id, passes in zip(known, passing.passing([*known.values()]), strict=True) if not passes}
    return [each for each in behind if each.incarnation not in out]
