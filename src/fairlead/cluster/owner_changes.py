"""What changes of owner have left behind in a stream, counted for people and for monitoring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from fairlead.cluster.claims import Claiming, parent
from fairlead.cluster.stream import Stream
from fairlead.streamlog.ownership.standing import pending_partitions
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.requests.pending import put_aside_at
from fairlead.streamlog.state.tables import TopicTable
from fairlead.streamlog.values import Topic

TopicPlace: TypeAlias = tuple[int, int]
"""A topic of a stream: the place of its shard, and its number there, which no other topic ever has."""


class OwnerChanges(NamedTuple):
    """Of a stream."""

    pending_topics: int
    """That it owns and cannot write yet, as it lacks records of the owner before."""
    cut_partitions: int
    """Whose log was cut here, since its end was not in the owner's history."""
    uncopied_partitions: int
    """Those of them whose tail is not whole in a diverged topic yet."""
    diverged_topics: int
    """That keep such tails, of this site or of others."""
    put_aside_topics: int = 0
    """That keep what was put aside while an owner could not be reached."""
    unclaimed_records: int = 0
    """What is in those and not in the topics that they are for, as far as it is known here."""


def owner_changes(stream: Stream) -> OwnerChanges:
    """Blocking: every topic whose owner has changed is looked at."""
    pending = sum(1 for _ in pending_of(stream))
    cuts = [found for shard in stream.shards for _, found in shard.state.cut_items()]
    uncopied = sum(any(cut.keep is not None for cut in found) for found in cuts)
    apart = [each for each, _ in _kept_apart(stream)]
    aside = [each for each in apart if _is_pending(each)]
    unclaimed = sum(_unclaimed(stream, each) for each in aside)
    return OwnerChanges(pending, len(cuts), uncopied, len(apart) - len(aside), len(aside), unclaimed)


def _unclaimed(stream: Stream, topic: Topic) -> int:
    into = parent(stream, topic)
    if into is None:
        return 0
    claiming = Claiming(stream, topic, into)
    return sum(claiming.unclaimed(partition) for partition in range(topic.partitions))


def diverged_of(stream: Stream, topic: Topic) -> list[str]:
    """The names of the topics here that keep what was cut off a topic."""
    return _names_of(stream, topic, pending=False)


def put_aside_for(stream: Stream, topic: Topic) -> list[str]:
    """The names of the topics here that keep what was put aside for a topic."""
    return _names_of(stream, topic, pending=True)


def kept_apart(stream: Stream) -> Iterator[str]:
    """The names of all topics here that keep something for another one."""
    return (topic.name for topic, _ in _kept_apart(stream))


def _names_of(stream: Stream, topic: Topic, *, pending: bool) -> list[str]:
    kept = (each for each, of in _kept_apart(stream) if of == topic.incarnation)
    return sorted(each.name for each in kept if _is_pending(each) is pending)


def _is_pending(topic: Topic) -> bool:
    return put_aside_at(topic) is not None


def _kept_apart(stream: Stream) -> Iterator[tuple[Topic, bytes]]:
    """With the incarnation of the topic from which each was cut off, or for which it was put aside."""
    for shard in stream.shards:
        table = shard.state.topic_table
        for topic in map(table.get, list(table.ext)):
            parent = None if topic is None else parent_of(topic)
            if topic is not None and parent is not None:
                yield topic, parent


def pending_of(stream: Stream) -> Iterator[tuple[TopicPlace, int]]:
    """The topics that the stream owns and cannot write yet, and how many records of the owner before each lacks.
    Blocking: every topic of its own whose owner has changed is looked at."""
    for place in _changed_to(stream, stream.id):
        state = stream.shards[place[0]].state
        topic = state.topic(place[1])
        lacking = [] if topic is None else [each.start - each.end for each in pending_partitions(topic, state)]
        if lacking:
            yield place, sum(max(each, 0) for each in lacking)


def unheard_by(stream: Stream, owner: bytes) -> Iterator[TopicPlace]:
    """The topics that another stream owned before that owner, but for those of which a record of its own is here: of
    these it has heard. Blocking: every topic whose owner has changed is looked at."""
    return (place for place in _changed_to(stream, owner) if not _table(stream, place).has_begun(place[1]))


def owned_ones(stream: Stream, owner: bytes, places: Iterable[TopicPlace]) -> Iterator[TopicPlace]:
    """Those of these topics that are there and owned by that stream."""
    return (place for place in places if _table(stream, place).owner(place[1]) == owner)


def _changed_to(stream: Stream, owner: bytes) -> Iterator[TopicPlace]:
    numbers = ((n, number) for n, shard in enumerate(stream.shards) for number in list(shard.state.topic_table.since))
    return owned_ones(stream, owner, numbers)


def _table(stream: Stream, place: TopicPlace) -> TopicTable:
    return stream.shards[place[0]].state.topic_table
