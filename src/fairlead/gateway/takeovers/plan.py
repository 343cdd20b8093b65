"""What is to become of a topic that shall be taken over, by what neighbours say of it.

In: the topic as it stands here and at each neighbour that answers. Out: why it stays, or what is to be brought first
and from whom. It asks nobody and changes nothing.

Whose records are the topic's is said by the newest TOPIC row that anybody has: it names the owner's epoch and the
history before it. What a neighbour holds beyond where its log parts from that is nobody's any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fairlead.streamlog.ownership.epochs import order_of
from fairlead.streamlog.ownership.histories import parts_at
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.values import Topic
from fairlead.wire.neighbours import PartitionAt, StandingTopic


class Witness(NamedTuple):
    """What one neighbour says of a topic."""

    path: str
    stream: bytes
    speaks_for_owner: bool
    """Whether it may tell us who owns the topic."""
    standing: StandingTopic


@dataclass(frozen=True, slots=True)
class Plan:
    """Of one topic."""

    why_not: str = ""
    """Why it stays as it is; empty if it may be taken over."""
    above: int = 0
    """The highest topic epoch that anybody knows who may tell us."""
    to_bring: Mapping[int, Furthest] = field(default_factory=dict)
    """By partition, who has most of it, where that is more than we have."""

    @property
    def records(self) -> int:
        """How many are to be brought."""
        return sum(each.records for each in self.to_bring.values())


class Furthest(NamedTuple):
    """The neighbour that has most of a partition."""

    end: int
    stream: bytes
    path: str
    records: int
    """That we lack."""


_HINT = "(-force takes it over all the same)"


def plan(
    topic: Topic, here: Sequence[PartitionAt], witnesses: Sequence[Witness], *, stream: bytes, force: bool
) -> Plan:
    """What is to become of a topic of the stream with that id, which stands so `here`."""
    trusted = [each for each in witnesses if each.speaks_for_owner]
    newest = max(trusted, key=lambda each: order_of(each.standing.topic), default=None)
    if newest is not None and order_of(newest.standing.topic) <= order_of(topic):
        newest = None
    why = "" if force else _obstacle(topic, newest, trusted, stream)
    if why:
        return Plan(why)
    known = topic if newest is None else newest.standing.topic
    to_bring: dict[int, Furthest] = {}
    for partition in range(max([topic.partitions, *(len(each.standing.partitions) for each in trusted)])):
        own = _shared(known, here, partition)
        best = max(_ends(known, witnesses, partition, own), default=None)
        if best is not None and best.end > own:
            to_bring[partition] = best
    if newest is not None and not to_bring:
        # Its row is to come: by it we cut what we have, or have more partitions.
        to_bring[0] = Furthest(_shared(known, here, 0), newest.stream, newest.path, 0)
    return Plan("", known.epoch, to_bring)


def _obstacle(topic: Topic, newest: Witness | None, trusted: Iterable[Witness], stream: bytes) -> str:
    if newest is not None:
        owner, at = newest.standing.topic.owner, newest.standing.topic.owner_at
        if owner not in {stream, topic.owner}:
            return f"{at or owner.hex()} owns it by now, says {newest.path}: use `stream topic transfer` there {_HINT}"
    for each in trusted:
        # One that was made the owner and has not heard of it does not write.
        if each.stream == topic.owner != stream and each.standing.topic.epoch >= topic.epoch:
            return f"its owner {each.path} answers: use `stream topic transfer` there {_HINT}"
    return ""


def _ends(known: Topic | TopicPayload, witnesses: Iterable[Witness], partition: int, own: int) -> Iterator[Furthest]:
    for each in witnesses:
        end = _shared(known, each.standing.partitions, partition)
        yield Furthest(end, each.stream, each.path, max(end - own, 0))


def _shared(known: Topic | TopicPayload, partitions: Sequence[PartitionAt], number: int) -> int:
    """How far a log of a partition goes along the history that the newest TOPIC row tells."""
    if number >= len(partitions):
        return 0
    found = partitions[number]
    if known.epoch == 0:
        return found.end
    return parts_at(known, number, found.history, found.end)
