"""The records by which offsets of the source become offsets of the destination, beside the positions.

Of a partition that keeps its number: segments, in blocks, a record for each block. Of a topic whose records are dealt
by key: barriers, a record for each. How they come to be is told in `carrying/line.py` and `groups/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from fairlead.mirror.lanes import Part
from fairlead.model.strict_json import AS_ARRAY, JsonForm, Natural


class Segment(NamedTuple):
    """A stretch of a partition without holes: offset `source + n` of it is at `destination + n`, for n up to `run`.
    With a run of 0 it is a point: what lies at or behind the one, lies at or behind the other."""

    source: int
    destination: int
    run: int
    sent: int
    """Records of the partition that were sent before it. What lies below `destination` beside them, others wrote."""

    @property
    def end(self) -> int:
        """Of the source."""
        return self.source + self.run

    @property
    def destination_end(self) -> int:
        return self.destination + self.run


class Barrier(NamedTuple):
    """A moment: whatever lay at or behind `source` then, in any partition, was sent later, so it lies at or behind
    `destination`."""

    source: tuple[int, ...]
    destination: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Segment:
    source: Natural
    destination: Natural
    run: Natural
    sent: Natural


@dataclass(frozen=True, slots=True)
class Block:
    """The value of a record with segments."""

    name: str
    """The topic, by its name at the source."""
    points: tuple[Annotated[_Segment, AS_ARRAY], ...]

    @property
    def segments(self) -> Sequence[Segment]:
        return [Segment(each.source, each.destination, each.run, each.sent) for each in self.points]


@dataclass(frozen=True, slots=True)
class Moment:
    """The value of a record with a barrier."""

    name: str
    source: tuple[Natural, ...]
    destination: tuple[Natural, ...]

    @property
    def barrier(self) -> Barrier:
        return Barrier(self.source, self.destination)


@dataclass(frozen=True, slots=True)
class PointsKey:
    """Which segments, or which barrier."""

    cluster: str
    topic: str
    """Its id in hex; of a source without topic ids `=` and the name."""
    partition: Natural
    """Of a barrier 0."""
    number: Natural
    """Of the block, or of the barrier."""


_BLOCK_KEY: Final = JsonForm(PointsKey, head={"v": 1, "of": "points"})
_BLOCK: Final = JsonForm(Block, head={"v": 1})
_BARRIER_KEY: Final = JsonForm(PointsKey, head={"v": 1, "of": "barrier"})
_BARRIER: Final = JsonForm(Moment, head={"v": 1})
_BLOCK_START: Final = b'{"v":1,"of":"points",'
_BARRIER_START: Final = b'{"v":1,"of":"barrier",'


def topic_text(part: Part) -> str:
    """The topic of a part, as keys have it."""
    return part.topic_id.hex() if any(part.topic_id) else f"={part.topic}"


def part_of(cluster: str, topic: str, name: str, partition: int) -> Part:
    """The inverse, with the name from the value."""
    return Part(cluster, bytes(16) if topic.startswith("=") else bytes.fromhex(topic), name, partition)


def block_record(part: Part, number: int, segments: Sequence[Segment] | None) -> tuple[bytes, bytes | None]:
    """Key and value; None: the block is gone."""
    key = _BLOCK_KEY.write(_key(part, number))
    return key, None if segments is None else _BLOCK.write(Block(part.topic, tuple(_Segment(*s) for s in segments)))


def barrier_record(part: Part, number: int, barrier: Barrier | None) -> tuple[bytes, bytes | None]:
    """Key and value; None: the barrier is gone."""
    key = _BARRIER_KEY.write(_key(part, number))
    return key, None if barrier is None else _BARRIER.write(Moment(part.topic, *barrier))


def _key(part: Part, number: int) -> PointsKey:
    return PointsKey(part.cluster, topic_text(part), part.partition, number)


def block_of(key: bytes, value: bytes | None) -> tuple[PointsKey, Block | None] | None:
    """The inverse of `block_record`; None: it is a record of another sort. Raises: Unreadable."""
    if not key.startswith(_BLOCK_START):
        return None
    return _BLOCK_KEY.read(key), None if value is None else _BLOCK.read(value)


def barrier_of(key: bytes, value: bytes | None) -> tuple[PointsKey, Moment | None] | None:
    """The inverse of `barrier_record`; None: it is a record of another sort. Raises: Unreadable."""
    if not key.startswith(_BARRIER_START):
        return None
    return _BARRIER_KEY.read(key), None if value is None else _BARRIER.read(value)
