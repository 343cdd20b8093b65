"""What groups have committed in Kafka becomes cursors of another site: the same numbers, since offsets are the same.

Which of two commits counts is told by their versions. What Kafka says anew was committed after all that is known here,
so it gets the version above; the members of a group that has committed here are not moved by it
(`docs/decisions/0048-cursors-of-two-sites.md`). Kafka goes on saying what a group that has moved away committed there
last. So what it said is kept, in a STATE row beside the cursor: what another site has committed since counts, until
Kafka says something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.kafka import OffsetAndEpoch, TopicPartition
from fairlead.kafka.errors import PASSING
from fairlead.model.errors import FairleadError, UnknownGroup
from fairlead.model.expressions import whole_matches
from fairlead.model.limits import OFFSET_METADATA_BYTES_MAX
from fairlead.model.names import GROUP_ID_BYTES_MAX
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.payloads import StatePayload
from fairlead.streamlog.ranges import COUNTER_MAX, EPOCH_MAX, OFFSET_MAX
from fairlead.streamlog.requests.cursors import put_published
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

TOGETHER: Final = 500
"""Cursors in one commit."""
Commits = Mapping[str, Mapping[TopicPartition, OffsetAndEpoch] | FairleadError]
"""By group, what it has committed, or why that is not known."""


Said = list[int | str]
"""What a STATE row keeps of a commit in Kafka: offset, epoch and metadata."""


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
    return [group for group, kept in zip(groups, whole_matches(cursors, groups), strict=True) if kept]


async def put_cursors(
    stream: Stream, upstream: KafkaUpstream, topics: Mapping[str, tuple[Shard, Topic]], commits: Commits
) -> int:
    """Note what is new in these commits; `topics` by Kafka's names. Answers how many cursors there were."""
    by_shard: dict[Shard, list[Committed]] = {}
    for group, found in commits.items():
        if isinstance(found, FairleadError) or not group or _is_too_long(group):
            continue
        for place, at in found.items():
            known = topics.get(place.topic)
            if known is not None and _is_possible(place, at, known[1]):
                shard, topic = known
                committed = Committed(group, topic.number, place.partition, _cut(at))
                if not _is_known(shard.state, committed, upstream.source):
                    by_shard.setdefault(shard, []).append(committed)
    count = 0
    for shard, new in by_shard.items():
        for first in range(0, len(new), TOGETHER):
            count += await shard.submit(partial(_put, upstream.source, new[first : first + TOGETHER]))
    return count


def unread(commits: Commits) -> dict[str, str]:
    """Groups whose offsets are not known or cannot be kept, and why; but for what passes, and groups that are gone."""
    found: dict[str, str] = {}
    for group, its in commits.items():
        if isinstance(its, FairleadError):
            if not isinstance(its, (*PASSING, UnknownGroup)):
                found[group] = str(its)
        elif its and _is_too_long(group):
            found[group] = f"a group's name has more than {GROUP_ID_BYTES_MAX:,} bytes"
    return found


def _is_too_long(group: str) -> bool:
    return len(group.encode()) > GROUP_ID_BYTES_MAX


def _is_possible(place: TopicPartition, at: OffsetAndEpoch, topic: Topic) -> bool:
    return 0 <= place.partition < topic.partitions and 0 <= at.offset <= OFFSET_MAX and at.epoch <= EPOCH_MAX


def _cut(at: OffsetAndEpoch) -> OffsetAndEpoch:
    """The commit with as much of what was written beside it as is kept here: a broker of Kafka may allow more."""
    whole = at.metadata.encode()
    if len(whole) <= OFFSET_METADATA_BYTES_MAX:
        return at
    return at._replace(metadata=whole[:OFFSET_METADATA_BYTES_MAX].decode(errors="ignore"))


def _is_known(state: ShardState, committed: Committed, source: bytes) -> bool:
    """Whether there is nothing to note."""
    group, number, partition, at = committed
    said = state.topic_state(number, _key(committed))
    return said == _value(at) and not _is_new(state.cursors(group, number, partition).theirs, said, at, source)


def _is_new(theirs: Cursor | None, said: Said | None, at: OffsetAndEpoch, source: bytes) -> bool:
    """Whether Kafka has got this commit after all that is known from elsewhere. `said`: what it said last, None: that
    is not known."""
    if theirs is None:
        return True
    if theirs.origin != source:
        return said is not None and said != _value(at)
    epoch = theirs.leader_epoch if at.epoch < 0 else at.epoch  # an old client names none
    return (theirs.offset, theirs.leader_epoch, theirs.metadata) != (at.offset, epoch, at.metadata)


def _put(source: bytes, committed: Sequence[Committed], draft: Draft) -> int:
    """A request: write down what Kafka says now, and the cursors that are new by that; how many there were."""
    count = 0
    for each in committed:
        group, number, partition, at = each
        topic, said = draft.state.topic(number), draft.state.topic_state(number, _key(each))
        if topic is None or topic.owner != source:
            continue
        if said != _value(at):
            draft.add_control(Kind.STATE, StatePayload(_key(each), _value(at)), number=number)
        before = draft.state.cursors(group, number, partition)
        if _is_new(before.theirs, said, at, source):
            version = min(before.highest + 1, COUNTER_MAX)
            epoch = at.epoch if at.epoch >= 0 else draft.state.partition(number, partition).epoch_before(at.offset)
            cursor = Cursor(at.offset, epoch, at.metadata, draft.now_ms, version, source)
            put_published(draft, group, number, partition, cursor)
            count += 1
    return count


def _key(committed: Committed) -> str:
    return f"said by kafka {committed.partition} {sha256(committed.group.encode()).hexdigest()[:32]}"


def _value(at: OffsetAndEpoch) -> Said:
    return [at.offset, at.epoch, at.metadata]
