"""What a shard knows: topics, partitions, cursors, producers, link positions, notes, entries of `meta/`.

In: rows, through `effects.replay`, each once, in the order of the log. Out: frozen values, to be read. Always true:
the state is what replaying the announced log gives; nothing else changes it. It never decides and does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from fairlead.model.names import SLICES
from fairlead.streamlog.cursors import CursorPair
from fairlead.streamlog.numbers import counter_of_number, slice_of_number
from fairlead.streamlog.rows import Row
from fairlead.streamlog.state.cursor_table import CursorTable
from fairlead.streamlog.state.effects import Note, NoteKey, PositionKey, Tombstone
from fairlead.streamlog.state.keyed import Kept, KeptKey, Keyed
from fairlead.streamlog.state.producers import Producers, ProducerState
from fairlead.streamlog.state.tables import PartitionTable, TopicTable
from fairlead.streamlog.state.transactions import NO_TRANSACTIONS, Transactions
from fairlead.streamlog.values import (
    CURSOR_FIRST,
    DELETED_HERE,
    EMPTY_PARTITION,
    UNKNOWN_TOPIC,
    Behind,
    Cut,
    DeadFrom,
    Gap,
    LinkPosition,
    PartitionKey,
    PartitionState,
    Terms,
    Topic,
)

TOPIC_BYTES: Final = 600
"""Of memory for a topic beside the arrays: its name and ids, and their places in tables."""


class ShardState:
    """State of one shard. Made empty; only `effects.replay` calls the `put_…` and `remove_…` methods."""

    def __init__(self, stream_id: bytes) -> None:
        self.stream_id = stream_id
        self.appended_at_last = 0
        """Newest appended_at, milliseconds since 1970; never goes back."""
        self.partition_table = PartitionTable()
        self.topic_table = TopicTable(self.partition_table)
        self.producers = Producers()
        self.next_counter = [0] * SLICES
        self.topic_count = 0
        self._by_name: dict[str, int] = {}
        self._by_incarnation: dict[bytes, int] = {}
        self._tombstones: dict[bytes, Tombstone] = {}
        self.cursor_table = CursorTable()
        self._positions: dict[PositionKey, LinkPosition] = {}
        self._notes: dict[NoteKey, Note] = {}
        self._noted: dict[bytes, dict[NoteKey, None]] = {}
        """Their keys, by incarnation."""
        self._gaps: dict[PartitionKey, tuple[Gap, ...]] = {}
        self._deleted_to: dict[PartitionKey, int] = {}
        """Of the partitions whose owner ever deleted records; few have one, so it is in no array."""
        self._cuts: dict[PartitionKey, tuple[Cut, ...]] = {}
        self._kept: set[PartitionKey] = set()
        """Of these, the partitions of which cuts keep something: mostly none."""
        self.cut_count = 0
        """Grows with each cut; whoever remembers which rows are dead sees by it that there are more."""
        self.cuts_end = 0
        """The commit after the newest cut; 0 if there is none."""
        self._entries: dict[str, Any] = {}
        self.partition_transactions: Keyed[int, Transactions] = Keyed()
        """By partition; of those that have any."""
        self.topic_states: Keyed[str, Any] = Keyed()
        self.kept_rows: Keyed[KeptKey, Kept] = Keyed()
        """Of the kinds of which nothing else is known."""
        self.yielded: dict[int, int] = {}
        """When each topic made room for another one of its name, by number; nobody uses the rows of these topics."""
        self.handed_on: set[int] = set()
        """Numbers of the topics that this stream owned once and owns no more."""
        self.entries: Mapping[str, Any] = MappingProxyType(self._entries)
        """Entries of `meta/`: JSON values by key; never change a value."""
        self.tombstones: Mapping[bytes, Tombstone] = MappingProxyType(self._tombstones)
        """Deleted incarnations."""

    # Topics

    def partition_count(self, number: int) -> int:
        """How many partitions the topic has; 0 if there is no such topic."""
        return self.topic_table.partition_count(number)

    @property
    def tables_bytes(self) -> int:
        """About what topics and partitions take up."""
        return self.topic_table.size_bytes + TOPIC_BYTES * len(self._by_name)

    def topic(self, number: int) -> Topic | None:
        """The topic with that number."""
        return self.topic_table.get(number)

    def owner(self, number: int) -> bytes | None:
        """Id of the stream that owns the topic; None if there is no such topic."""
        return self.topic_table.owner(number)

    def was_ours(self, number: int) -> bool:
        """Whether this stream owns the topic, or did so once."""
        return number in self.handed_on or self.owner(number) == self.stream_id

    def owned_by(self, stream: bytes) -> tuple[int, int]:
        """How many topics that stream owns here, with how many partitions."""
        return self.topic_table.owned.get(stream, (0, 0))

    def number_of(self, name: str) -> int | None:
        """Number of the topic of that name."""
        return self._by_name.get(name)

    def by_name(self, name: str) -> Topic | None:
        """The topic of that name."""
        number = self._by_name.get(name)
        return None if number is None else self.topic_table.get(number)

    def by_incarnation(self, incarnation: bytes) -> Topic | None:
        """The topic with that incarnation id."""
        number = self._by_incarnation.get(incarnation)
        return None if number is None else self.topic_table.get(number)

    def terms(self, incarnations: Iterable[bytes]) -> Terms:
        """What deciding on batches needs of the topics with these incarnation ids."""
        return self.topic_table.terms(list(map(self._by_incarnation.get, incarnations)))

    def number_of_incarnation(self, incarnation: bytes) -> int | None:
        """Number of the topic with that incarnation id."""
        return self._by_incarnation.get(incarnation)

    def tombstone(self, incarnation: bytes) -> Tombstone | None:
        """What is remembered of a deleted incarnation."""
        return self._tombstones.get(incarnation)

    def topics(self) -> Iterator[Topic]:
        """All topics in order of number; those that come or go meanwhile may be missed."""
        for number in self.topic_table.numbers():
            topic = self.topic_table.get(number)
            if topic is not None:
                yield topic

    # Partitions

    def partition(self, number: int, partition: int) -> PartitionState:
        """Where a partition's log stands; an unknown one is empty."""
        slot = self.topic_table.slot_of(number, partition)
        if slot < 0:
            return EMPTY_PARTITION
        found = self.partition_table.get(slot)
        if self._deleted_to and (number, partition) in self._deleted_to:
            return found._replace(deleted_to=self._deleted_to[number, partition])
        return found

    def deleted_to(self) -> Mapping[PartitionKey, int]:
        """The offsets below which the owners have deleted all records, by (topic number, partition)."""
        return dict(self._deleted_to)

    def gap_items(self) -> list[tuple[PartitionKey, tuple[Gap, ...]]]:
        """Gaps by (topic number, partition)."""
        return sorted(self._gaps.items())

    def gaps(self) -> list[Gap]:
        """Gaps that no expiry has passed, in order of topic number."""
        return [gap for key in sorted(self._gaps) for gap in self._gaps[key]]

    def gaps_of(self, number: int, partition: int) -> tuple[Gap, ...]:
        """Gaps of one partition that no expiry has passed, in the order in which they were declared."""
        return self._gaps.get((number, partition), ())

    def cuts_of(self, number: int, partition: int) -> tuple[Cut, ...]:
        """Where the partition was cut, in the order of the log. None is forgotten: older rows may be on disk still."""
        return self._cuts.get((number, partition), ()) if self._cuts else ()

    def cut_items(self) -> list[tuple[PartitionKey, tuple[Cut, ...]]]:
        """Cuts by (topic number, partition)."""
        return sorted(self._cuts.items())

    def dead_in(self, number: int, partition: int) -> list[DeadFrom]:
        """What cuts have made dead of a partition."""
        return [(number, partition, cut.offset, cut.commit, cut.row) for cut in self.cuts_of(number, partition)]

    def dead_from(self, commit: int = 0) -> list[DeadFrom]:
        """What cuts from a commit on have made dead. Any thread may ask."""
        cuts = [(key, cut) for key, found in list(self._cuts.items()) for cut in found]
        return [(*key, cut.offset, cut.commit, cut.row) for key, cut in cuts if cut.commit >= commit]

    @property
    def kept_partitions(self) -> Collection[PartitionKey]:
        """The partitions of which cuts keep what is dead until it was copied."""
        return self._kept

    def kept_from(self) -> list[DeadFrom]:
        """The cuts that keep something."""
        cuts = [(key, cut) for key in self._kept for cut in self.cuts_of(*key)]
        return [(*key, cut.offset, cut.commit, cut.row) for key, cut in cuts if cut.keep is not None]

    def producer(self, number: int, partition: int, producer_id: int) -> ProducerState | None:
        """What is remembered of an idempotent producer."""
        return self.producers.get((number, partition, producer_id))

    def transactions(self, number: int, partition: int) -> Transactions:
        """The transactions of a partition."""
        return self.partition_transactions.get(number, partition) or NO_TRANSACTIONS

    def stable_end(self, number: int, partition: int, end: int) -> int:
        """Where the records end of which it is known whether they were committed, of a partition that ends at `end`.

        A Kafka cluster's topic has no others: Kafka gives out those of a transaction once it is committed. Its marker,
        which says so again, may have been deleted there before it came.
        """
        if number in self.topic_table.of_kafka:
            return end
        return self.transactions(number, partition).stable_end(end)

    # Cursors

    def cursors(self, group: str, number: int, partition: int) -> CursorPair:
        """A group's committed offsets in a partition."""
        return self.cursor_table.get(group, number, partition)

    @property
    def partitions_total(self) -> int:
        """Partitions of all topics."""
        return self.topic_table.partitions_total

    # Links

    def position(self, key: PositionKey) -> LinkPosition | None:
        """How far a link has been applied, for one shard and slice of the source."""
        return self._positions.get(key)

    def positions(self, link: bytes) -> dict[tuple[int, int], LinkPosition]:
        """Positions of a link by (shard, slice) of the source."""
        return {(key[1], key[2]): position for key, position in self._positions.items() if key[0] == link}

    def all_positions(self) -> Mapping[PositionKey, LinkPosition]:
        """The positions of all links."""
        return self._positions

    def note(self, key: NoteKey) -> Note | None:
        """The note that a partition is behind."""
        return self._notes.get(key)

    @property
    def has_notes(self) -> bool:
        """Whether a partition is behind, on any link."""
        return bool(self._notes)

    def note_keys(self, incarnation: bytes) -> Collection[NoteKey]:
        """Of the notes on partitions of an incarnation, of all links."""
        return self._noted.get(incarnation, ())

    def notes(self, link: bytes) -> dict[NoteKey, Note]:
        """All notes of a link."""
        return {key: note for key, note in self._notes.items() if key[0] == link}

    def all_notes(self) -> Mapping[NoteKey, Note]:
        """The notes of all links."""
        return self._notes

    def behind(self, link: bytes) -> list[Behind]:
        """Partitions that the link must bring again, each with its end as it is now. One that was not here may
        have come by another link meanwhile."""
        notes = (note.behind for note in self.notes(link).values())
        # A deletion ends all notes of before. Of a topic that is deleted the row may be damaged that brings it back.
        found = (each for each in notes if not (each.conflict and each.incarnation in self.tombstones))
        return [self._behind_now(behind) for behind in found]

    def deleted_here(self, link: bytes) -> list[Behind]:
        """Topics that the link brought though they were deleted here, a note for each."""
        found = (note.behind for note in self.notes(link).values())
        return [
            each for each in found if each.partition == 0 and each.reason == DELETED_HERE and self._is_deleted(each)
        ]

    def _is_deleted(self, behind: Behind) -> bool:
        return behind.incarnation in self.tombstones

    def _behind_now(self, behind: Behind) -> Behind:
        number = self._by_incarnation.get(behind.incarnation)
        if number is None:
            return behind
        was_unknown = behind.reason in {UNKNOWN_TOPIC, CURSOR_FIRST}
        reason = "gap" if was_unknown and behind.partition < self.partition_count(number) else behind.reason
        return replace(behind, end=self.partition(number, behind.partition).end, reason=reason)

    def entry(self, key: str) -> Any:
        """The value of an entry; None if there is none."""
        return self._entries.get(key)

    def topic_state(self, number: int, key: str) -> Any:
        """The value of a topic's key; None if there is none."""
        return self.topic_states.get(number, key)

    def kept(self, number: int, key: KeptKey) -> Kept | None:
        """The newest row of that key, of a kind that is not known here."""
        return self.kept_rows.get(number, key)

    @property
    def kept_count(self) -> int:
        """Of how many keys a row is kept."""
        return len(self.kept_rows)

    # What rows do; see effects.py

    def put_time(self, appended_at_ms: int) -> None:
        if appended_at_ms > self.appended_at_last:
            self.appended_at_last = appended_at_ms

    def put_topic(self, topic: Topic) -> None:
        if not self.topic_table.has(topic.number):
            self.topic_count += 1
        else:
            self._drop_name(topic.number)
        self._use_number(topic.number)
        if topic.owner != self.stream_id and self.owner(topic.number) == self.stream_id:
            self.handed_on.add(topic.number)
        self.topic_table.put(topic)
        self._forget_tombstone(topic.incarnation)
        self._by_name[topic.name] = topic.number
        self._by_incarnation[topic.incarnation] = topic.number

    def _forget_tombstone(self, incarnation: bytes) -> None:
        """The incarnation was taken again; rows of the number that it had before stay deleted."""
        before = self._tombstones.pop(incarnation, None)
        if before is not None:
            self.yielded[before.number] = before.deleted_at_ms

    def load_topic(self, topic: Topic, slot: int) -> None:
        """Take in a topic of a checkpoint, whose partitions lie from `slot` on."""
        self.topic_table.place(topic.number, slot, topic.partitions)
        self.put_topic(topic)
        self.topic_count += 1

    def remove_topic(self, incarnation: bytes, tombstone: Tombstone, *, remember: bool) -> None:
        number = tombstone.number
        self._use_number(number)
        if remember:
            self._forget_tombstone(incarnation)
            self._tombstones[incarnation] = tombstone
        else:
            self.yielded[number] = tombstone.deleted_at_ms
        for key in list(self.note_keys(incarnation)):
            self.put_note(key, None)
        if not self.topic_table.has(number):
            return
        self._forget_partitions(number)
        self.handed_on.discard(number)
        self._drop_name(number)
        self.topic_table.remove(number)
        self.topic_count -= 1
        self._by_incarnation.pop(incarnation, None)

    def _drop_name(self, number: int) -> None:
        """A topic has the name no more that it had; another one may have got it already."""
        name = self.topic_table.names[number]
        if name is not None and self._by_name.get(name) == number:
            del self._by_name[name]

    def put_topic_state(self, number: int, key: str, value: Any) -> None:
        self.topic_states.put(number, key, value)

    def put_kept(self, number: int, key: KeptKey, kept: Kept | None) -> None:
        self.kept_rows.put(number, key, kept)

    def _forget_partitions(self, number: int) -> None:
        self.partition_transactions.remove(number)
        self.topic_states.remove(number)
        self.kept_rows.remove(number)
        partitions = range(self.topic_table.count[number])
        for partition in partitions:
            self._gaps.pop((number, partition), None)
            self._deleted_to.pop((number, partition), None)
            self._put_cuts(number, partition, ())
        self.cursor_table.forget(number, len(partitions))

    def _use_number(self, number: int) -> None:
        slice = slice_of_number(number)
        self.next_counter[slice] = max(self.next_counter[slice], counter_of_number(number) + 1)

    def put_partition(self, number: int, partition: int, state: PartitionState) -> None:
        slot = self.topic_table.slot_of(number, partition)
        if slot < 0:
            return
        self.partition_table.put(slot, state)
        if state.deleted_to:
            self._deleted_to[number, partition] = state.deleted_to
        elif self._deleted_to:
            self._deleted_to.pop((number, partition), None)
        if self._gaps and (number, partition) in self._gaps:
            self._drop_gaps(number, partition, state.start)

    def continues(self, number: int, partition: int, epoch: int, end: int) -> bool:
        """The partition ends there now, if that is all that a batch of that epoch does to it. Else nothing is done."""
        slot = self.topic_table.slot_of(number, partition)
        if slot < 0 or self.partition_table.epoch[slot] != epoch:
            return False
        self.partition_table.end[slot] = end
        return True

    def continued(self, rows: Iterable[Row]) -> Iterator[Row]:
        """As `TopicTable.continued`."""
        return self.topic_table.continued(rows)

    def _drop_gaps(self, number: int, partition: int, start: int) -> None:
        kept = tuple(gap for gap in self._gaps[number, partition] if gap.end > start)
        if kept:
            self._gaps[number, partition] = kept
        else:
            del self._gaps[number, partition]

    def put_gap(self, number: int, partition: int, gap: Gap) -> None:
        self._gaps[number, partition] = (*self._gaps.get((number, partition), ()), gap)

    def put_cut(self, number: int, partition: int, cut: Cut) -> None:
        self.load_cut(number, partition, cut)
        gaps = gaps_below(self._gaps.pop((number, partition), ()), cut.offset)
        if gaps:
            self._gaps[number, partition] = gaps

    def load_cut(self, number: int, partition: int, cut: Cut) -> None:
        """Take in a cut of a checkpoint, whose tables are as the cut has left them."""
        self._put_cuts(number, partition, (*self.cuts_of(number, partition), cut))
        self.cut_count += 1
        self.cuts_end = max(self.cuts_end, cut.commit + 1)

    def put_copied(self, number: int, partition: int, keep: bytes) -> None:
        self._put_cuts(number, partition, copied(self.cuts_of(number, partition), keep))

    def _put_cuts(self, number: int, partition: int, cuts: tuple[Cut, ...]) -> None:
        key = number, partition
        if cuts:
            self._cuts[key] = cuts
        else:
            self._cuts.pop(key, None)
        (self._kept.add if any(cut.keep is not None for cut in cuts) else self._kept.discard)(key)

    def forget_producers(self, number: int, partition: int, ids: Collection[int] | None) -> None:
        if ids is None:
            self.producers.forget(number, partition)
        else:
            for each in ids:
                self.producers.remove((number, partition, each))

    def put_producer(self, number: int, partition: int, producer_id: int, state: ProducerState) -> None:
        self.producers.put((number, partition, producer_id), state)

    def put_transactions(self, number: int, partition: int, transactions: Transactions) -> None:
        held = None if transactions == NO_TRANSACTIONS else transactions
        self.partition_transactions.put(number, partition, held)

    def put_cursors(self, group: str, number: int, partition: int, cursors: CursorPair) -> None:
        self.cursor_table.put(group, number, partition, cursors)

    def put_position(self, key: PositionKey, position: LinkPosition | None) -> None:
        if position is None:
            self._positions.pop(key, None)
        else:
            self._positions[key] = position

    def put_note(self, key: NoteKey, note: Note | None) -> None:
        if note is not None:
            self._notes[key] = note
            self._noted.setdefault(key[1], {})[key] = None
        elif self._notes.pop(key, None) is not None:
            del self._noted[key[1]][key]
            if not self._noted[key[1]]:
                del self._noted[key[1]]

    def put_entry(self, key: str, value: Any) -> None:
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value


def gaps_below(gaps: Iterable[Gap], offset: int) -> tuple[Gap, ...]:
    """What is left of gaps in a partition that is cut at an offset."""
    return tuple(replace(gap, end=min(gap.end, offset)) for gap in gaps if gap.start < offset)


def copied(cuts: Iterable[Cut], keep: bytes) -> tuple[Cut, ...]:
    """The cuts of a partition once what they keep for a topic was copied into it."""
    return tuple(cut._replace(keep=None, history=()) if cut.keep == keep else cut for cut in cuts)
