"""Where Kafka's partitions begin: records that were deleted there are deleted here, by a row of the topic's owner.

A partition's start moves in Kafka as records get too old, and as somebody deletes records (DeleteRecords); nothing
tells the two apart. What gets too old is each site's own affair. So starts are followed where nothing gets too old, and
of all topics where the upstream says that deletions are followed.

Always true: that nothing gets too old was said by Kafka after it said where the partition begins; else retention that
was set a moment ago would count as a deletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from fairlead.cluster.values import KafkaUpstream
from fairlead.kafka import EARLIEST, ConfigValue, TopicPartition
from fairlead.kafka import Cluster as Kafka
from fairlead.streamlog.ownership.standing import Partitions
from fairlead.streamlog.requests.deletion import put_deletion
from fairlead.streamlog.topic_policy import DELETE, cleanup_policies
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

TOGETHER: Final = 500
"""Partitions in one commit."""
_NEVER: Final = "-1"


class Begins(NamedTuple):
    """Where a partition begins in Kafka."""

    number: int
    partition: int
    start: int


def keeps_all(configs: Mapping[str, ConfigValue]) -> bool:
    """Whether records of the topic may be deleted in Kafka and none gets too old, by the settings that hold for it."""
    values = {name: each.value for name, each in configs.items() if each.value is not None}
    is_kept = values.get("retention.ms") == values.get("retention.bytes") == _NEVER
    return is_kept and DELETE in cleanup_policies(values)


async def follow_starts(
    kafka: Kafka, upstream: KafkaUpstream, owned: Mapping[str, tuple[Shard, Topic]], partitions: Mapping[str, int]
) -> int:
    """Delete below where partitions of these topics begin in Kafka, by whose names they are given, as far as they are
    here; `partitions` says how many Kafka has. Answers of how many partitions records were deleted.

    Raises:
        FairleadError: Kafka does not answer, or the log takes nothing.
    """
    places = {TopicPartition(name, each): owned[name] for name, count in partitions.items() for each in range(count)}
    found = await kafka.offsets(places, EARLIEST) if places else {}
    moved: dict[str, list[Begins]] = {}
    for place, (shard, topic) in places.items():
        begins = Begins(topic.number, place.partition, found[place].offset)
        if place.partition < topic.partitions and _deleted_to(begins, shard.state) is not None:
            moved.setdefault(place.topic, []).append(begins)
    is_followed = upstream.deletes == "follow"
    configs = await kafka.describe_configs(moved) if moved and not is_followed else {}
    by_shard: dict[Shard, list[Begins]] = {}
    for name, its in moved.items():
        if is_followed or keeps_all(configs.get(name, {})):
            by_shard.setdefault(owned[name][0], []).extend(its)
    for shard, each in by_shard.items():
        for first in range(0, len(each), TOGETHER):
            await shard.submit(partial(_delete, upstream.source, each[first : first + TOGETHER]))
    return sum(map(len, by_shard.values()))


def _deleted_to(begins: Begins, state: Partitions) -> int | None:
    """Up to where records here are to be deleted; None: there are none. Records that are still to come are no matter
    of this: where the log begins in Kafka is told with them."""
    stands = state.partition(begins.number, begins.partition)
    to = min(begins.start, stands.end)
    return to if to > stands.log_start else None


def _delete(source: bytes, moved: Sequence[Begins], draft: Draft) -> None:
    for each in moved:
        topic = draft.state.topic(each.number)
        to = _deleted_to(each, draft.state)
        if topic is not None and topic.owner == source and to is not None:
            put_deletion(draft, each.number, each.partition, to, origin=source, via=source, epoch=topic.epoch)
