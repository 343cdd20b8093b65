"""The records in the topic of positions, `fairlead-mirror.<name>.internal`: how far each partition is mirrored, and who
runs the mirror.

The topic is compacted. A key names a partition by the id of its topic, or the holder; the value is JSON with a version,
so that `kafka-console-consumer` shows where a mirror stands. A program that meets another version stops: it never
guesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.mirror.lanes import Part
from fairlead.model.errors import BadRequest
from fairlead.model.strict_json import JsonForm, Natural, Unreadable

VERSION: Final = 1


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
_POSITION: Final = JsonForm(Position, head={"v": VERSION})
_HOLDER: Final = JsonForm(Holder, head={"v": VERSION})
HOLDER_KEY: Final = b'{"v":1,"of":"holder"}'
_ORIGINS: Final = JsonForm(_Origins, head={"v": VERSION})
ORIGINS_KEY: Final = b'{"v":1,"of":"origins"}'


def position_record(part: Part, position: Position) -> tuple[bytes, bytes]:
    """Key and value."""
    topic = part.topic_id.hex() if any(part.topic_id) else f"={part.topic}"
    return _POSITION_KEY.write(_Key(part.cluster, topic, part.partition)), _POSITION.write(position)


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

    def made_again(self, part: Part) -> bool:
        """Whether positions of another topic of that name are known, and none of this one: it was made again."""
        same = [other for other in self.positions if (other.cluster, other.topic) == (part.cluster, part.topic)]
        return bool(same) and all(other.topic_id != part.topic_id for other in same)

    def knows(self, cluster: str, topic: str) -> bool:
        """Whether a topic of that name was mirrored before."""
        return any((part.cluster, part.topic) == (cluster, topic) for part in self.positions)


def read_book(records: Iterable[tuple[bytes | None, bytes | None]], topic: str) -> Book:
    """What records of the topic say, the oldest first.

    Raises:
        BadRequest: a record was written by a newer program, or by nobody that keeps positions.
    """
    positions: dict[_Key, Position] = {}
    holder: Holder | None = None
    origins: frozenset[str] = frozenset()
    for key, value in records:
        if key is None:
            raise BadRequest(
                f"topic {topic} holds a record without a key, so it is not a mirror's: choose another --name"
            )
        try:
            if key == HOLDER_KEY:
                holder = holder if value is None else newer_holder(holder, _HOLDER.read(value))
                continue
            if key == ORIGINS_KEY:
                origins |= set() if value is None else set(_ORIGINS.read(value).origins)
                continue
            found = _POSITION_KEY.read(key)
            position = None if value is None else _POSITION.read(value)
        except Unreadable as error:
            raise BadRequest(f"topic {topic} holds a record of another version or program: {error}") from None
        positions.pop(found, None)
        if position is not None:
            positions[found] = position
    return Book({_part(key, position): position for key, position in positions.items()}, holder, origins)


def _part(key: _Key, position: Position) -> Part:
    topic_id = bytes(16) if key.topic.startswith("=") else bytes.fromhex(key.topic)
    return Part(key.cluster, topic_id, position.name, key.partition)
