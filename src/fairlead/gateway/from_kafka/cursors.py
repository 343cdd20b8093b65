"""What groups have committed in Kafka becomes cursors of another site: the same numbers, since offsets are the same.

Which of two commits counts is told by their versions. What Kafka says anew was committed after all that is known here,
so it gets the version above; the members of a group that has committed here are not moved by it
(`docs/decisions/0048-cursors-of-two-sites.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.kafka import OffsetAndEpoch, TopicPartition
from fairlead.model.errors import FairleadError
from fairlead.model.expressions import whole_matches
from fairlead.model.limits import OFFSET_METADATA_BYTES_MAX
from fairlead.model.names import GROUP_ID_BYTES_MAX
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.ranges import COUNTER_MAX, EPOCH_MAX, OFFSET_MAX
from fairlead.streamlog.requests.cursors import put_published
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

TOGETHER: Final = 500
"""Cursors in one commit."""
Commits = Mapping[str, Mapping[TopicPartition, OffsetAndEpoch] | FairleadError]
"""By group, what it has committed, or why that is not known."""


class Committed(NamedTuple):
    """A group's offset in a partition, as Kafka has it."""

    group: str
    number: int
    partition: int
    at: OffsetAndEpoch


def kept_of(cursors: str, groups: Sequence[str]) -> list[str]:
    """Those of some groups whose commits are kept."""
    if cursors in {"all", "none"}:
        return list(groups) if cursors == "all" else []
    return [group for group, kept in zip(groups, whole_matches(cursors, groups).to_pylist(), strict=True) if kept]


async def put_cursors(
    stream: Stream, upstream: KafkaUpstream, topics: Mapping[str, tuple[Shard, Topic]], commits: Commits
) -> int:
    """Note what is new in these commits; `topics` by Kafka's names. Answers how many there were."""
    by_shard: dict[Shard, list[Committed]] = {}
    for group in kept_of(upstream.cursors, list(commits)):
        found = commits[group]
        if isinstance(found, FairleadError):
            continue
        for place, at in found.items():
            known = topics.get(place.topic)
            if known is not None and _is_possible(group, place, at, known[1]):
                shard, topic = known
                committed = Committed(group, topic.number, place.partition, at)
                if _is_new(shard.state.cursors(group, topic.number, place.partition).theirs, at, upstream.source):
                    by_shard.setdefault(shard, []).append(committed)
    for shard, new in by_shard.items():
        for first in range(0, len(new), TOGETHER):
            await _put(shard, upstream.source, new[first : first + TOGETHER])
    return sum(map(len, by_shard.values()))


def _is_possible(group: str, place: TopicPartition, at: OffsetAndEpoch, topic: Topic) -> bool:
    return (
        0 <= place.partition < topic.partitions
        and 0 <= at.offset <= OFFSET_MAX
        and at.epoch <= EPOCH_MAX
        and 1 <= len(group.encode()) <= GROUP_ID_BYTES_MAX
        and len(at.metadata.encode()) <= OFFSET_METADATA_BYTES_MAX
    )


def _is_new(theirs: Cursor | None, at: OffsetAndEpoch, source: bytes) -> bool:
    if theirs is None or theirs.origin != source:
        return True
    epoch = theirs.leader_epoch if at.epoch < 0 else at.epoch  # an old client names none
    return (theirs.offset, theirs.leader_epoch, theirs.metadata) != (at.offset, epoch, at.metadata)


async def _put(shard: Shard, source: bytes, committed: Sequence[Committed]) -> None:
    def request(draft: Draft) -> None:
        for group, number, partition, at in committed:
            before = draft.state.cursors(group, number, partition)
            topic = draft.state.topic(number)
            if topic is None or topic.owner != source or not _is_new(before.theirs, at, source):
                continue
            version = min(before.highest + 1, COUNTER_MAX)
            epoch = at.epoch if at.epoch >= 0 else draft.state.partition(number, partition).epoch_before(at.offset)
            cursor = Cursor(at.offset, epoch, at.metadata, draft.now_ms, version, source)
            put_published(draft, group, number, partition, cursor)

    await shard.submit(request)
