"""State per topic and per partition as arrays, so that a million idle topics cost no Python object but their names.

A topic's number is its index. A partition's *slot* is an index too; the slots of one topic lie side by side, and move
to the end when partitions are added and there is no room left for them. Of a partition's epoch history, the newest
entry is kept in arrays; older ones exist only after a change of owner.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from fairlead.protocol.batch import TRANSACTIONAL, names_producer
from fairlead.streamlog.numbers import Numbers
from fairlead.streamlog.rows import BATCH, Row
from fairlead.streamlog.topic_policy import Life, life_of
from fairlead.streamlog.values import EMPTY_PARTITION, PartitionState, Since, Terms, Topic

_NO_CONFIGS: Mapping[str, str] = MappingProxyType({})
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_SLOT = -1
V = TypeVar("V")


class PartitionTable:
    """Where each partition's log stands, by slot."""

    def __init__(self) -> None:
        self.start = array("q")
        self.end = array("q")
        self.epoch = array("i")
        self.epoch_first = array("q")
        self.older: dict[int, tuple[tuple[int, int], ...]] = {}

    @property
    def size_bytes(self) -> int:
        """Of its arrays."""
        columns = (self.start, self.end, self.epoch, self.epoch_first)
        return sum(len(column) * column.itemsize for column in columns)

    def allot(self, count: int) -> int:
        """The first of `count` new slots, all empty."""
        first = len(self.start)
        for column in (self.start, self.end, self.epoch_first):
            column.frombytes(bytes(8 * count))
        self.epoch.extend([-1] * count)
        return first

    def move(self, slot: int, to: int, count: int) -> None:
        """Copy `count` slots to their new place."""
        for column in (self.start, self.end, self.epoch, self.epoch_first):
            column[to : to + count] = column[slot : slot + count]
        for i in range(count):
            if slot + i in self.older:
                self.older[to + i] = self.older.pop(slot + i)

    def get(self, slot: int) -> PartitionState:
        """The partition in that slot."""
        epoch = self.epoch[slot]
        if epoch < 0:
            if not self.end[slot]:
                return EMPTY_PARTITION
            return PartitionState(self.start[slot], self.end[slot], -1, ())
        newest = (epoch, self.epoch_first[slot])
        older = self.older.get(slot) if self.older else None
        return PartitionState(self.start[slot], self.end[slot], epoch, (newest,) if older is None else (*older, newest))

    def put(self, slot: int, state: PartitionState) -> None:
        """Set the partition in that slot."""
        self.start[slot] = state.start
        self.end[slot] = state.end
        history = state.history
        self.epoch[slot], self.epoch_first[slot] = history[-1] if history else (-1, 0)
        if len(history) > 1:
            self.older[slot] = history[:-1]
        elif self.older:
            self.older.pop(slot, None)


class TopicTable:
    """The topics by number. Numbers of one slice leave the others' places in between, so they stay dense."""

    def __init__(self, partitions: PartitionTable) -> None:
        self._partitions = partitions
        self.slot = array("q")
        self.count = array("i")
        self._room = array("i")
        """How many slots the topic has, from its first one on."""
        self.epoch = array("i")
        self.version = array("i")
        self.names: list[str | None] = []
        self.incarnations: list[bytes | None] = []
        self.owners: list[bytes] = []
        self.owner_places: list[str] = []
        self.of_kafka: set[int] = set()
        """Numbers of the topics that a Kafka cluster owns."""
        self.configs: dict[int, Mapping[str, str]] = {}
        self.homes: dict[int, str] = {}
        """Of the topics that have another name at their owner than here."""
        self.since: dict[int, Since] = {}
        """Of the topics whose owner has changed."""
        self.owner_changes = 0
        """Grows with each row of a topic whose owner has changed: until it does, no other topic is one."""
        self.deleted_to: dict[int, tuple[int, ...]] = {}
        """Of the topics of which an owner before the present one had deleted records."""
        self.ext: dict[int, Mapping[str, Any]] = {}
        """Of the topics whose row says more than this program knows."""
        self.lives: dict[int, Life] = {}
        """Of the topics whose own settings say how long records live."""
        self.partitions_total = 0
        """Partitions of all topics."""
        self._owner_ids: dict[bytes, bytes] = {}
        self._places: dict[str, str] = {}
        self.owned: dict[bytes, tuple[int, int]] = {}
        """How many topics, with how many partitions, each stream owns."""

    @property
    def size_bytes(self) -> int:
        """Of its arrays and those of its partitions."""
        columns = (self.slot, self.count, self.epoch, self.version)
        return self._partitions.size_bytes + sum(len(column) * column.itemsize for column in columns)

    def has(self, number: int) -> bool:
        """Whether there is a topic with that number. Asked for each batch: `in` would take twice as long."""
        return 0 <= number < len(self.slot) and self.slot[number] != _NO_SLOT

    def partition_count(self, number: int) -> int:
        """How many partitions the topic has; 0 if there is no such topic."""
        return self.count[number] if self.has(number) else 0

    def owner(self, number: int) -> bytes | None:
        """Id of the stream that owns the topic; None if there is no such topic."""
        return self.owners[number] if self.has(number) else None

    def has_begun(self, number: int) -> bool:
        """Whether a record of the topic's present epoch is here, in any of its partitions."""
        first = self.slot[number]
        return self.epoch[number] in self._partitions.epoch[first : first + self.partition_count(number)]

    def numbers(self) -> Iterator[int]:
        """The numbers in use, in order. Topics may come and go meanwhile."""
        for number in range(len(self.slot)):
            if self.slot[number] != _NO_SLOT:
                yield number

    def get(self, number: int) -> Topic | None:
        """The topic with that number."""
        if not self.has(number):
            return None
        name, incarnation = self.names[number], self.incarnations[number]
        assert name is not None
        assert incarnation is not None
        return Topic(
            number,
            name,
            incarnation,
            self.count[number],
            self.owners[number],
            self.epoch[number],
            self.configs.get(number, _NO_CONFIGS),
            self.version[number],
            self.homes.get(number, name),
            self.owner_places[number],
            self.since.get(number, ()),
            self.ext.get(number, _NOTHING),
            self.deleted_to.get(number, ()),
        )

    def terms(self, numbers: Sequence[int | None]) -> Terms:
        """The part of them that deciding on batches needs."""
        count, epoch, owners, slot = self.count, self.epoch, self.owners, self.slot
        known = [-1 if each is None or slot[each] == _NO_SLOT else each for each in numbers]
        return Terms(
            known,
            [0 if each < 0 else count[each] for each in known],
            [0 if each < 0 else epoch[each] for each in known],
            [b"" if each < 0 else owners[each] for each in known],
            [each in self.of_kafka for each in known] if self.of_kafka else [False] * len(known),
            {each: self.since[each] for each in known if each in self.since} if self.since else {},
        )

    def put(self, topic: Topic) -> None:
        """Make or change a topic; the number of partitions only grows."""
        number = topic.number
        self.reserve(number + 1)
        self._count_owned(number, -1)
        self._give_slots(number, topic.partitions)
        self.epoch[number] = topic.epoch
        self.version[number] = topic.version
        self.names[number] = topic.name
        self.incarnations[number] = topic.incarnation
        self.owners[number] = self._owner_ids.setdefault(topic.owner, topic.owner)
        self.owner_places[number] = self._places.setdefault(topic.owner_at, topic.owner_at)
        (self.of_kafka.add if topic.is_of_kafka else self.of_kafka.discard)(number)
        _set(self.configs, number, dict(topic.configs))
        _set(self.lives, number, life_of(topic.configs))
        _set(self.homes, number, topic.home if topic.home != topic.name else None)
        _set(self.since, number, topic.since)
        self.owner_changes += bool(topic.since)
        _set(self.deleted_to, number, topic.deleted_to)
        _set(self.ext, number, topic.ext)
        self._count_owned(number, 1)

    def _count_owned(self, number: int, by: int) -> None:
        if self.names[number] is None:
            return
        topics, partitions = self.owned.pop(self.owners[number], (0, 0))
        if topics + by:
            self.owned[self.owners[number]] = topics + by, partitions + by * self.count[number]

    def remove(self, number: int) -> None:
        """Forget a topic; its number and slots are not used again."""
        self._count_owned(number, -1)
        for slot in range(self.slot[number], self.slot[number] + self.count[number]):
            self._partitions.older.pop(slot, None)
        self.partitions_total -= self.partition_count(number)
        self.slot[number] = _NO_SLOT
        self.names[number] = None
        self.incarnations[number] = None
        self.of_kafka.discard(number)
        few: tuple[dict[int, Any], ...] = (self.configs, self.lives, self.homes, self.since, self.deleted_to)
        for column in (*few, self.ext):
            column.pop(number, None)

    def slot_of(self, number: int, partition: int) -> int:
        """Slot of a partition; -1 if there is no such topic or partition."""
        if not 0 <= number < len(self.slot) or not 0 <= partition < self.count[number]:
            return _NO_SLOT
        first = self.slot[number]
        return _NO_SLOT if first == _NO_SLOT else first + partition

    def standings(self, numbers: Numbers, partitions: Numbers) -> Numbers:
        """The part of partitions that deciding on batches mostly needs, a row for each: its end, the topic epoch of its
        newest record (-1: none), and the first offset of that epoch. What is not there is empty."""
        found = np.zeros((len(numbers), 3), np.int64)
        found[:, 1] = -1
        there = np.flatnonzero((numbers >= 0) & (numbers < len(self.slot)) & (partitions >= 0))
        if not len(there):
            return found
        numbers, partitions = numbers[there], partitions[there]
        # Views of the arrays, which cannot grow while there are any.
        first, count = np.frombuffer(self.slot, np.int64)[numbers], np.frombuffer(self.count, np.int32)[numbers]
        is_there = (first != _NO_SLOT) & (partitions < count)
        slots, there = (first + partitions)[is_there], there[is_there]
        if len(there):
            table = self._partitions
            for place, column in enumerate((table.end, table.epoch, table.epoch_first)):
                found[there, place] = np.frombuffer(column, column.typecode)[slots]
        return found

    def continued(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Take in the batches that do nothing but continue their partition in the epoch that it has: it ends behind
        them then. The others are handed out, each before those behind it are looked at. A commit may have thousands, so
        `slot_of` is written out here."""
        slots, counts, epochs, ends = self.slot, self.count, self._partitions.epoch, self._partitions.end
        for row in rows:
            number, partition = row.topic, row.partition
            if (
                row.kind != BATCH
                or not 0 <= number < len(slots)
                or not 0 <= partition < counts[number]
                or (first := slots[number]) == _NO_SLOT
                or epochs[first + partition] != row.epoch
            ):
                yield row
                continue
            ends[first + partition] = row.last_offset + 1
            if row.batch and (row.bits & TRANSACTIONAL or names_producer(row.batch)):
                yield row

    def leader_epoch(self, number: int, partition: int) -> int:
        """The epoch that clients know of a partition: its topic's, or that of its newest record, if that is higher. So
        it is where a Kafka cluster owns the topic, whose partitions have epochs of their own."""
        slot = self.slot_of(number, partition)
        return self.epoch[number] if slot < 0 else max(self.epoch[number], self._partitions.epoch[slot])

    def leader_epochs(self, number: int) -> int | tuple[int, ...]:
        """The same of all partitions, in order; one number, if it is that of them all."""
        if number not in self.of_kafka:
            return self.epoch[number]
        return tuple(self.leader_epoch(number, each) for each in range(self.count[number]))

    def place(self, number: int, slot: int, count: int) -> None:
        """Give a topic slots that exist already, from a checkpoint."""
        self.reserve(number + 1)
        self.partitions_total += count - self.partition_count(number)
        self.slot[number] = slot
        self.count[number] = self._room[number] = count

    def reserve(self, numbers: int) -> None:
        """Make place for the numbers below `numbers`."""
        missing = numbers - len(self.slot)
        if missing <= 0:
            return
        self.slot.extend([_NO_SLOT] * missing)
        for column in (self.count, self._room, self.epoch, self.version):
            column.frombytes(bytes(4 * missing))
        self.names.extend([None] * missing)
        self.incarnations.extend([None] * missing)
        self.owners.extend([b""] * missing)
        self.owner_places.extend([""] * missing)

    def _give_slots(self, number: int, partitions: int) -> None:
        had = self.count[number] if self.slot[number] != _NO_SLOT else 0
        if partitions <= had:
            return
        self.partitions_total += partitions - had
        if partitions > self._room[number] or not had:
            # Twice as many as there were, so that a topic that grows by one again and again does not use up the memory.
            room = max(partitions, 2 * had)
            first = self._partitions.allot(room)
            if had:
                self._partitions.move(self.slot[number], first, had)
            self.slot[number], self._room[number] = first, room
        self.count[number] = partitions


def _set(column: dict[int, V], number: int, value: V | None) -> None:
    """Remember the value of a topic; a topic without one has no entry."""
    if value:
        column[number] = value
    else:
        column.pop(number, None)
