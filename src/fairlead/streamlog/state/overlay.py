"""What the rows of one unfinished commit change, on top of a shard's state, which itself stays as it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fairlead.model.names import slice_of
from fairlead.streamlog.cursors import CursorPair
from fairlead.streamlog.numbers import Numbers, counter_of_number, number_at, slice_of_number
from fairlead.streamlog.state.effects import Note, NoteKey, PositionKey, Tombstone
from fairlead.streamlog.state.keyed import Kept, KeptKey
from fairlead.streamlog.state.producers import ProducerState
from fairlead.streamlog.state.shard_state import ShardState, copied, gaps_below
from fairlead.streamlog.state.transactions import NO_TRANSACTIONS, Transactions
from fairlead.streamlog.values import (
    EMPTY_PARTITION,
    Cut,
    Gap,
    LinkPosition,
    PartitionKey,
    PartitionState,
    Terms,
    Topic,
    terms_of,
)

_GONE: Any = object()
"""Marks what the commit has removed."""


class Overlay:
    """Reads like the state after an announcement of the commit's rows so far."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self.stream_id = state.stream_id
        self._topics: dict[int, Any] = {}
        self._names: dict[str, Any] = {}
        self._incarnations: dict[bytes, Any] = {}
        self._tombstones: dict[bytes, Tombstone | None] = {}
        self._partitions: dict[tuple[int, int], PartitionState] = {}
        self._ends: dict[PartitionKey, int] = {}
        """Ends of partitions of which nothing else has changed since `_partitions`, or the state."""
        self._gaps: dict[tuple[int, int], tuple[Gap, ...]] = {}
        self._cuts: dict[tuple[int, int], tuple[Cut, ...]] = {}
        self._cut_count = 0
        self._producers: dict[tuple[int, int, int], Any] = {}
        self._forgotten: set[tuple[int, int]] = set()
        """Partitions of which the state's producers are forgotten."""
        self._cursors: dict[tuple[str, int, int], CursorPair] = {}
        self._positions: dict[PositionKey, Any] = {}
        self._notes: dict[NoteKey, Any] = {}
        self._noted: dict[bytes, dict[NoteKey, None]] = {}
        """Keys of these notes, by incarnation."""
        self._entries: dict[str, Any] = {}
        self._transactions: dict[tuple[int, int], Transactions] = {}
        self._topic_states: dict[tuple[int, str], Any] = {}
        self._kept: dict[tuple[int, KeptKey], Any] = {}
        self._kept_more = 0
        self._counters: dict[int, int] = {}
        self._partitions_more = 0
        self._handed_on: set[int] = set()
        self._owned: dict[bytes, tuple[int, int]] = {}
        """How many topics and partitions more each stream owns."""

    def next_number(self, name: str) -> int:
        """The number of the next topic with that name; never used before."""
        slice = slice_of(name)
        return number_at(slice, self._counter(slice))

    def _counter(self, slice: int) -> int:
        return self._counters.get(slice, self._state.next_counter[slice])

    def _use_number(self, number: int) -> None:
        slice = slice_of_number(number)
        self._counters[slice] = max(self._counter(slice), counter_of_number(number) + 1)

    def partition_count(self, number: int) -> int:
        if number in self._topics:
            topic = self._topics[number]
            return 0 if topic is _GONE else topic.partitions
        return self._state.partition_count(number)

    @property
    def partitions_total(self) -> int:
        """Partitions of all topics."""
        return self._state.partitions_total + self._partitions_more

    def topic(self, number: int) -> Topic | None:
        if number not in self._topics:
            return self._state.topic(number)
        topic: Topic | None = _present(self._topics[number])
        return topic

    def owner(self, number: int) -> bytes | None:
        if number in self._topics:
            topic = self._topics[number]
            return None if topic is _GONE else topic.owner
        return self._state.owner(number)

    def was_ours(self, number: int) -> bool:
        """Whether this stream owns the topic, or did so once."""
        return number in self._handed_on or self._state.was_ours(number) or self.owner(number) == self.stream_id

    def owned_by(self, stream: bytes) -> tuple[int, int]:
        """How many topics that stream owns, with how many partitions."""
        topics, partitions = self._state.owned_by(stream)
        more_topics, more_partitions = self._owned.get(stream, (0, 0))
        return topics + more_topics, partitions + more_partitions

    def _count_owned(self, topic: Topic | None, by: int) -> None:
        if topic is not None:
            topics, partitions = self._owned.get(topic.owner, (0, 0))
            self._owned[topic.owner] = topics + by, partitions + by * topic.partitions

    def by_name(self, name: str) -> Topic | None:
        if name in self._names:
            number = self._names[name]
            return None if number is _GONE else self.topic(number)
        number = self._state.number_of(name)
        return None if number is None else self.topic(number)

    def by_incarnation(self, incarnation: bytes) -> Topic | None:
        if incarnation in self._incarnations:
            number = self._incarnations[incarnation]
            return None if number is _GONE else self.topic(number)
        number = self._state.number_of_incarnation(incarnation)
        return None if number is None else self.topic(number)

    def terms(self, incarnations: Sequence[bytes]) -> Terms:
        """What deciding on batches needs of the topics with these incarnation ids."""
        if not self._topics:
            return self._state.terms(incarnations)
        return terms_of([self.by_incarnation(each) for each in incarnations])

    def tombstone(self, incarnation: bytes) -> Tombstone | None:
        if incarnation in self._tombstones:
            return self._tombstones[incarnation]
        return self._state.tombstone(incarnation)

    def partition(self, number: int, partition: int) -> PartitionState:
        key = number, partition
        found = self._partitions.get(key)
        if found is None:
            if self._topics.get(number) is _GONE:
                return EMPTY_PARTITION
            # Remembered though it is not changed (yet): whoever appends a batch looks three times.
            found = self._partitions[key] = self._state.partition(number, partition)
        if key in self._ends:
            found = self._partitions[key] = found._replace(end=self._ends.pop(key))
        return found

    def standings(self, numbers: Numbers, partitions: Numbers) -> Numbers:
        """As `TopicTable.standings`."""
        found = self._state.topic_table.standings(numbers, partitions)
        if self._partitions or self._ends or self._topics:
            for place, key in enumerate(zip(numbers.tolist(), partitions.tolist(), strict=True)):
                if key in self._partitions or self._topics.get(key[0]) is _GONE:
                    state = self.partition(*key)
                    found[place] = state.end, state.epoch, state.history[-1][1] if state.history else 0
                elif key in self._ends:
                    found[place, 0] = self._ends[key]
        return found

    def noted(self, incarnations: Sequence[bytes]) -> list[bool]:
        """Whether a note may stand on a partition of each of these incarnations."""
        if not self._noted and not self._state.has_notes:
            return [False] * len(incarnations)
        return [each in self._noted or bool(self._state.note_keys(each)) for each in incarnations]

    def producer(self, number: int, partition: int, producer_id: int) -> ProducerState | None:
        found = self._producers.get((number, partition, producer_id))
        if found is not None or (number, partition) in self._forgotten:
            known: ProducerState | None = _present(found)
            return known
        return self._state.producer(number, partition, producer_id)

    def producers_from(self, number: int, partition: int, offset: int) -> set[int]:
        """The producers whose newest batch in a partition stands at that offset or above."""
        found: set[int] = set()
        if (number, partition) not in self._forgotten:
            found.update(self._state.producers.from_offset(number, partition, offset))
        for (in_topic, in_partition, producer_id), state in self._producers.items():
            if (in_topic, in_partition) == (number, partition):
                is_above = state is not _GONE and state.batches[-1].base_offset >= offset
                (found.add if is_above else found.discard)(producer_id)
        return found

    def cuts_of(self, number: int, partition: int) -> tuple[Cut, ...]:
        """Where the partition was cut, in the order of the log."""
        found = self._cuts.get((number, partition))
        return self._state.cuts_of(number, partition) if found is None else found

    @property
    def cut_count(self) -> int:
        """Grows with each cut."""
        return self._state.cut_count + self._cut_count

    def gaps_of(self, number: int, partition: int) -> tuple[Gap, ...]:
        """Gaps of the partition, those that have expired meanwhile perhaps among them."""
        found = self._gaps.get((number, partition))
        return self._state.gaps_of(number, partition) if found is None else found

    def cursors(self, group: str, number: int, partition: int) -> CursorPair:
        key = (group, number, partition)
        return self._cursors[key] if key in self._cursors else self._state.cursors(*key)

    def position(self, key: PositionKey) -> LinkPosition | None:
        return _present(self._positions[key]) if key in self._positions else self._state.position(key)

    def positions(self, link: bytes) -> dict[tuple[int, int], LinkPosition]:
        """Positions of a link by (shard, slice) of the source."""
        found = self._state.positions(link)
        for key, position in self._positions.items():
            if key[0] == link:
                _set(found, (key[1], key[2]), position)
        return found

    def note(self, key: NoteKey) -> Note | None:
        return _present(self._notes[key]) if key in self._notes else self._state.note(key)

    def notes(self, link: bytes) -> dict[NoteKey, Note]:
        """All notes of a link."""
        found = self._state.notes(link)
        for key, note in self._notes.items():
            if key[0] == link:
                _set(found, key, note)
        return found

    def notes_of(self, incarnation: bytes) -> dict[NoteKey, Note]:
        """The notes on partitions of an incarnation, of all links."""
        keys = dict.fromkeys((*self._state.note_keys(incarnation), *self._noted.get(incarnation, ())))
        return {key: note for key in keys if (note := self.note(key)) is not None}

    def every_note(self) -> dict[NoteKey, Note]:
        """The notes of all links."""
        found = dict(self._state.all_notes())
        for key, note in self._notes.items():
            _set(found, key, note)
        return found

    def entry(self, key: str) -> Any:
        return _present(self._entries[key]) if key in self._entries else self._state.entry(key)

    def transactions(self, number: int, partition: int) -> Transactions:
        if self._topics.get(number) is _GONE:
            return NO_TRANSACTIONS
        found = self._transactions.get((number, partition))
        return self._state.transactions(number, partition) if found is None else found

    def topic_state(self, number: int, key: str) -> Any:
        if self._topics.get(number) is _GONE:
            return None
        found = self._topic_states.get((number, key))
        return self._state.topic_state(number, key) if found is None else _present(found)

    def kept(self, number: int, key: KeptKey) -> Kept | None:
        if self._topics.get(number) is _GONE:
            return None
        found = self._kept.get((number, key))
        return self._state.kept(number, key) if found is None else _present(found)

    @property
    def kept_count(self) -> int:
        """Of how many keys a row is kept, those of topics that go in this commit included."""
        return self._state.kept_count + self._kept_more

    # What rows do; see effects.py

    def put_time(self, appended_at_ms: int) -> None:
        """Nothing to keep: the draft has one time for all its rows."""

    def put_topic(self, topic: Topic) -> None:
        self._use_number(topic.number)
        if topic.owner != self.stream_id and self.owner(topic.number) == self.stream_id:
            self._handed_on.add(topic.number)
        self._partitions_more += topic.partitions - self.partition_count(topic.number)
        before = self.topic(topic.number)
        if before is not None:
            self._drop_name(before)
        self._count_owned(before, -1)
        self._count_owned(topic, 1)
        self._topics[topic.number] = topic
        self._tombstones[topic.incarnation] = None
        self._names[topic.name] = topic.number
        self._incarnations[topic.incarnation] = topic.number

    def remove_topic(self, incarnation: bytes, tombstone: Tombstone, *, remember: bool) -> None:
        topic = self.topic(tombstone.number)
        self._use_number(tombstone.number)
        if remember:
            self._tombstones[incarnation] = tombstone
        for key in self.notes_of(incarnation):
            self.put_note(key, None)
        if topic is None:
            return
        self._count_owned(topic, -1)
        self._drop_name(topic)
        self._partitions_more -= topic.partitions
        self._topics[topic.number] = _GONE
        self._incarnations[incarnation] = _GONE
        for partition in range(topic.partitions):
            self._partitions.pop((topic.number, partition), None)
            self._ends.pop((topic.number, partition), None)
            self._cuts[topic.number, partition] = self._gaps[topic.number, partition] = ()

    def _drop_name(self, topic: Topic) -> None:
        """The topic has the name no more that it had; another one may have got it already."""
        holder = self.by_name(topic.name)
        if holder is not None and holder.number == topic.number:
            self._names[topic.name] = _GONE

    def put_partition(self, number: int, partition: int, state: PartitionState) -> None:
        self._partitions[number, partition] = state
        self._ends.pop((number, partition), None)

    def continues(self, number: int, partition: int, epoch: int, end: int) -> bool:
        """The partition ends there now, if that is all that a batch of that epoch does to it. Else nothing is done."""
        found = self._partitions.get((number, partition))
        if found is None or found.epoch != epoch:
            return False
        self._ends[number, partition] = end
        return True

    def extend(self, ends: Mapping[PartitionKey, int]) -> None:
        """Partitions end there now, and nothing else of them has changed."""
        self._ends.update(ends)

    def put_gap(self, number: int, partition: int, gap: Gap) -> None:
        self._gaps[number, partition] = (*self.gaps_of(number, partition), gap)

    def put_cut(self, number: int, partition: int, cut: Cut) -> None:
        key = number, partition
        self._cuts[key] = (*self.cuts_of(*key), cut)
        self._cut_count += 1
        self._gaps[key] = gaps_below(self.gaps_of(*key), cut.offset)

    def put_copied(self, number: int, partition: int, keep: bytes) -> None:
        self._cuts[number, partition] = copied(self.cuts_of(number, partition), keep)

    def forget_producers(self, number: int, partition: int, ids: Collection[int] | None) -> None:
        if ids is None:
            key = number, partition
            self._forgotten.add(key)
            self._producers = {known: state for known, state in self._producers.items() if known[:2] != key}
        else:
            self._producers.update(dict.fromkeys(((number, partition, each) for each in ids), _GONE))

    def put_producer(self, number: int, partition: int, producer_id: int, state: ProducerState) -> None:
        self._producers[number, partition, producer_id] = state

    def put_cursors(self, group: str, number: int, partition: int, cursors: CursorPair) -> None:
        self._cursors[group, number, partition] = cursors

    def put_position(self, key: PositionKey, position: LinkPosition | None) -> None:
        self._positions[key] = _or_gone(position)

    def put_note(self, key: NoteKey, note: Note | None) -> None:
        self._notes[key] = _or_gone(note)
        self._noted.setdefault(key[1], {})[key] = None

    def put_entry(self, key: str, value: Any) -> None:
        self._entries[key] = _or_gone(value)

    def put_transactions(self, number: int, partition: int, transactions: Transactions) -> None:
        self._transactions[number, partition] = transactions

    def put_topic_state(self, number: int, key: str, value: Any) -> None:
        self._topic_states[number, key] = _or_gone(value)

    def put_kept(self, number: int, key: KeptKey, kept: Kept | None) -> None:
        self._kept_more += (kept is not None) - (self.kept(number, key) is not None)
        self._kept[number, key] = _or_gone(kept)


def _present(value: Any) -> Any:
    return None if value is _GONE else value


def _or_gone(value: Any) -> Any:
    return _GONE if value is None else value


def _set(found: dict[Any, Any], key: Any, value: Any) -> None:
    if value is _GONE:
        found.pop(key, None)
    else:
        found[key] = value
