"""The records in the topic of positions, `fairlead-mirror.<name>.internal`: how far each partition is mirrored, which
offsets of source and destination belong together, and who runs the mirror.

The topic is compacted. A key names a partition by the id of its topic, or the holder; the value is JSON with a version,
so that `kafka-console-consumer` shows where a mirror stands. A program that meets another version stops: it never
guesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from fairlead.mirror.books.points import (
    Barrier,
    Block,
    Moment,
    PointsKey,
    Segment,
    barrier_of,
    block_of,
    part_of,
    topic_text,
)
from fairlead.mirror.lanes import Part, lane_of
from fairlead.model.errors import BadRequest
from fairlead.model.strict_json import JsonForm, Natural, Unreadable

VERSION: Final = 1
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Position:
    """Everything below `offset` is acknowledged by the destination, or was left out for a reason that was told."""

    offset: Natural
    epoch: int
    """Leader epoch of the last batch below, by which a truncation is noticed; -1: not known."""
    name: str
    """The topic, by its name at the source."""
    to: str
    """The topic, by its name at the destination."""
    gone: Natural = 0
    """Offsets that were lost at the source before they were mirrored, in sum."""
    at: int = -1
    """The offset at the destination that belongs to `offset`: what lies at or behind the one, lies at or behind the
    other. -1: not known, or the key chooses the partition."""
    since: int = -1
    """From this offset of the source up to `offset` all lie one after the other at the destination too, up to `at`."""
    sent: Natural = 0
    """Records of the partition that were sent to the destination, in sum."""
    looped: Natural = 0
    """Records that were left out, since they had come from the destination, in sum."""

    @property
    def equal_from(self) -> int | None:
        """From this offset of the source up to `offset` all lie at the same offsets at the destination; None: the last
        ones do not, or there are none."""
        return self.since if self.at == self.offset and 0 <= self.since < self.offset else None


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that runs the mirror."""

    id: str
    """Random, of one start."""
    host: str
    pid: int
    at_ms: Natural
    """When it said so last."""
    turn: Natural
    """One more than that of the holder before: the highest counts, and of equal ones the first."""
    released: bool
    """It has ended in order, so nobody needs to wait."""


@dataclass(frozen=True, slots=True)
class _Key:
    cluster: str
    topic: str
    """Its id in hex; of a source without topic ids `=` and the name."""
    partition: Natural


@dataclass(frozen=True, slots=True)
class _Origins:
    origins: tuple[str, ...]
    """Ids of clusters."""


_POSITION_KEY: Final = JsonForm(_Key, head={"v": VERSION, "of": "position"})
_POSITION: Final = JsonForm(Position, head={"v": VERSION}, sparse=True)
_HOLDER: Final = JsonForm(Holder, head={"v": VERSION})
BookRecords = Mapping[int, Sequence[tuple[bytes, bytes | None]]]
"""Key and value of records of the topic of positions, by the lane, which is the partition."""
NO_RECORDS: Final[BookRecords] = {}
HOLDER_KEY: Final = b'{"v":1,"of":"holder"}'
_ORIGINS: Final = JsonForm(_Origins, head={"v": VERSION})
ORIGINS_KEY: Final = b'{"v":1,"of":"origins"}'


def position_record(part: Part, position: Position) -> tuple[bytes, bytes]:
    """Key and value."""
    return _POSITION_KEY.write(_Key(part.cluster, topic_text(part), part.partition)), _POSITION.write(position)


def position_records(positions: Mapping[Part, Position], more: BookRecords = NO_RECORDS) -> BookRecords:
    """These positions, behind `more`, each in the lane of its partition."""
    lanes = {lane: list(records) for lane, records in more.items()}
    for part, position in positions.items():
        lanes.setdefault(lane_of(part), []).append(position_record(part, position))
    return lanes


def holder_record(holder: Holder) -> tuple[bytes, bytes]:
    """Key and value."""
    return HOLDER_KEY, _HOLDER.write(holder)


def origins_record(origins: Iterable[str]) -> tuple[bytes, bytes]:
    """Key and value of what says for which origins a lane has transactions."""
    return ORIGINS_KEY, _ORIGINS.write(_Origins(tuple(sorted(origins))))


def holder_of(value: bytes) -> Holder:
    """The inverse of the value of `holder_record`. Raises: BadRequest: it is of another version."""
    try:
        return _HOLDER.read(value)
    except Unreadable as error:
        raise BadRequest(f"a record of the holder is of another version or program: {error}") from None


def newer_holder(known: Holder | None, told: Holder) -> Holder:
    """Which of the two counts, where `told` stands behind `known`."""
    return told if known is None or told.turn > known.turn or told.id == known.id else known


@dataclass(frozen=True, slots=True)
class Book:
    """What the topic says, the newest record of each key."""

    positions: Mapping[Part, Position]
    holder: Holder | None
    origins: frozenset[str] = frozenset()
    """For which lanes have transactions, of all that were read."""
    points: Mapping[Part, Mapping[int, Sequence[Segment]]] = field(default_factory=dict)
    """By block."""
    barriers: Mapping[Part, Mapping[int, Barrier]] = field(default_factory=dict)
    """By number; the part is partition 0 of the topic."""

    def made_again(self, part: Part) -> bool:
        """Whether positions of another topic of that name are known, and none of this one: it was made again."""
        same = [other for other in self.positions if (other.cluster, other.topic) == (part.cluster, part.topic)]
        return bool(same) and all(other.topic_id != part.topic_id for other in same)

    def knows(self, cluster: str, topic: str) -> bool:
        """Whether a topic of that name was mirrored before."""
        return any((part.cluster, part.topic) == (cluster, topic) for part in self.positions)


class Reading:
    """What has been read of the topic so far."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._positions: dict[_Key, Position] = {}
        self._blocks: dict[PointsKey, Block] = {}
        self._barriers: dict[PointsKey, Moment] = {}
        self._holder: Holder | None = None
        self._origins: frozenset[str] = frozenset()

    def take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Read more records, the oldest first.

        Raises:
            BadRequest: a record was written by a newer program, or by nobody that keeps positions.
        """
        for key, value in records:
            if key is None:
                raise BadRequest(
                    f"topic {self._topic} holds a record without a key, so it is not a mirror's: choose another --name"
                )
            try:
                self._take(key, value)
            except Unreadable as error:
                raise BadRequest(f"topic {self._topic} holds a record of another version or program: {error}") from None

    def _take(self, key: bytes, value: bytes | None) -> None:
        if key == HOLDER_KEY:
            self._holder = self._holder if value is None else newer_holder(self._holder, _HOLDER.read(value))
        elif key == ORIGINS_KEY:
            self._origins |= set() if value is None else set(_ORIGINS.read(value).origins)
        elif (block := block_of(key, value)) is not None:
            _enter(self._blocks, *block)
        elif (barrier := barrier_of(key, value)) is not None:
            _enter(self._barriers, *barrier)
        else:
            _enter(self._positions, _POSITION_KEY.read(key), None if value is None else _POSITION.read(value))

    @property
    def book(self) -> Book:
        """What the topic says."""
        points: dict[Part, dict[int, Sequence[Segment]]] = {}
        for key, block in self._blocks.items():
            part = part_of(key.cluster, key.topic, block.name, key.partition)
            points.setdefault(part, {})[key.number] = block.segments
        barriers: dict[Part, dict[int, Barrier]] = {}
        for key, moment in self._barriers.items():
            part = part_of(key.cluster, key.topic, moment.name, key.partition)
            barriers.setdefault(part, {})[key.number] = moment.barrier
        positions = {
            part_of(key.cluster, key.topic, position.name, key.partition): position
            for key, position in self._positions.items()
        }
        return Book(positions, self._holder, self._origins, points, barriers)


def _enter(into: dict[K, V], key: K, value: V | None) -> None:
    into.pop(key, None)
    if value is not None:
        into[key] = value


def read_book(records: Iterable[tuple[bytes | None, bytes | None]], topic: str) -> Book:
    """What records of the topic say, the oldest first. Raises: BadRequest: as `Reading.take`."""
    reading = Reading(topic)
    reading.take(records)
    return reading.book
