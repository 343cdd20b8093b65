"""What is to become of the topics of a stream that was restored from a backup, by what its neighbours have; rows of it
for people.

It changes nothing, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.cluster.stream import Stream
from fairlead.gateway.pulling.comparing import Common
from fairlead.gateway.pulling.neighbours import Neighbour
from fairlead.gateway.pulling.taking import PartitionKey
from fairlead.streamlog.ownership.standing import pending_partitions
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard


@dataclass(frozen=True, slots=True)
class Source:
    """A neighbour, and what it has in common with a partition here."""

    neighbour: Neighbour
    common: Common

    @property
    def rank(self) -> tuple[int, int, int]:
        """The longest history counts: topic epoch, last epoch, end."""
        held = self.common.held
        return held.epoch, held.history[-1][0] if held.history else -1, held.end


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to become of a topic."""

    shard: Shard
    topic: Topic
    better: Mapping[int, Source] = field(default_factory=dict)
    """By partition, whose history goes on where ours does not, or goes on otherwise."""
    missing: Mapping[int, Source] = field(default_factory=dict)
    """Partitions that were cut already and are still to be brought."""
    deletions: Mapping[int, int] = field(default_factory=dict)
    """By partition, the offset below which records were deleted since the backup."""
    deleted_at: Source | None = None
    """It was deleted since the backup, as this neighbour knows."""

    @property
    def given_up(self) -> bool:
        """A neighbour knows of a later owner."""
        return any(each.common.held.epoch > self.topic.epoch for each in self.better.values())

    @property
    def only_heard(self) -> set[bytes]:
        """The neighbours that know of a later owner, and get our topics without bringing us any."""
        later = (each for each in self.better.values() if each.common.held.epoch > self.topic.epoch)
        return {each.neighbour.stream for each in later if not each.neighbour.admission.speaks_for_all}

    def brought(self, stream: Stream) -> list[tuple[int, Source]]:
        """By partition, who brings what is missing. Of a topic that another stream owns by now, none of who brings
        nothing: it comes by its links, if there are any."""
        is_ours = our_topic(stream, self.topic.incarnation) is not None
        found = {**self.missing, **self.better}.items()
        return [each for each in found if is_ours or each[1].neighbour.stream not in self.only_heard]


def planned(stream: Stream, incarnation: bytes, sources: Mapping[PartitionKey, Sequence[Source]]) -> Plan | None:
    """None: it is as it should be."""
    found = stream.by_incarnation(incarnation)
    if found is None:
        return None
    shard, topic = found
    every = [source for each in range(topic.partitions) for source in sources.get((incarnation, each), ())]
    for source in every:
        if source.common.held.deleted and source.common.held.epoch >= topic.epoch:
            return Plan(shard, topic, deleted_at=source)
    better: dict[int, Source] = {}
    missing: dict[int, Source] = {}
    deletions: dict[int, int] = {}
    pending = {each.partition: each.start for each in pending_partitions(topic, shard.state)}
    for partition in range(topic.partitions):
        of = [each for each in sources.get((incarnation, partition), ()) if each.common.held.held]
        deleted_to = max((each.common.held.deleted_to for each in of), default=0)
        if deleted_to > shard.state.partition(topic.number, partition).deleted_to:
            deletions[partition] = deleted_to
        if partition in pending:
            whole = [each for each in of if each.common.held.end >= pending[partition]]
            if whole:
                missing[partition] = max(whole, key=lambda each: each.rank)
                continue
        longer = [each for each in of if _goes_on(topic, each)]
        if longer:
            better[partition] = max(longer, key=lambda each: each.rank)
    return Plan(shard, topic, better, missing, deletions) if better or missing or deletions else None


def _goes_on(topic: Topic, source: Source) -> bool:
    """A neighbour that does not know our present epoch yet is brought to it by our link, not we to what it has."""
    common = source.common
    if common.held.epoch != topic.epoch:
        return common.held.epoch > topic.epoch
    return common.held.end > common.offset


def our_topic(stream: Stream, incarnation: bytes) -> Topic | None:
    """The topic, if it is here and ours."""
    found = stream.by_incarnation(incarnation)
    return found[1] if found is not None and found[1].owner == stream.id else None


def is_ours_or_gone(stream: Stream, incarnation: bytes) -> bool:
    """The topic is here and ours, or was here and is deleted."""
    if our_topic(stream, incarnation) is not None:
        return True
    return any(shard.state.tombstone(incarnation) is not None for shard in stream.shards)


def shown(plan: Plan) -> Iterator[dict[str, object]]:
    """A row for each partition that changes."""
    if plan.deleted_at is not None:
        for each in range(plan.topic.partitions):
            end = plan.shard.state.partition(plan.topic.number, each).end
            yield row_of(plan.topic.name, each, end, end, 0, f"was deleted at {plan.deleted_at.neighbour.path}")
    for partition, source in sorted({**plan.missing, **plan.better}.items()):
        end = plan.shard.state.partition(plan.topic.number, partition).end
        common = source.common
        yield row_of(plan.topic.name, partition, end, common.offset, common.held.end, str(source.neighbour.path))


def row_of(topic: str, partition: int, end: int, common: int, there: int, source: str) -> dict[str, object]:
    """What a plan shows of a partition: where it ends here, what both have, and where it ends at `source`."""
    return {
        "topic": topic,
        "partition": partition,
        "end": end,
        "common": common,
        "diverged": max(end - common, 0),
        "brought": max(there - common, 0),
        "from": source,
    }


def why_new(stream: Stream, incarnation: bytes) -> str:
    """Of a topic that comes as a whole."""
    is_here = stream.by_incarnation(incarnation) is not None
    return "topic was given to this stream" if is_here else "topic is not here"
