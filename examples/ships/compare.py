"""Both ends of a replication compared, record by record, and the numbers that the demo shows. No Kafka in here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Headers = Sequence[tuple[str, bytes | None]]
Place = tuple[str, int, int]
"""Topic, partition, offset."""


def digest(key: bytes | None, value: bytes | None, time_ms: int, headers: Headers) -> bytes:
    """16 bytes that differ where key, value, time or headers differ."""
    parts = [key, value, b"%d" % time_ms, *(part for name, data in headers for part in (name.encode(), data))]
    framed = b"".join(b"-" if part is None else b"%d:" % len(part) + part for part in parts)
    return hashlib.blake2b(framed, digest_size=16).digest()


@dataclass(slots=True)
class Held:
    """What one side holds."""

    records: dict[Place, bytes] = field(default_factory=dict)
    size_bytes: int = 0
    """Of keys and values."""

    def add(self, place: Place, content: bytes, size_bytes: int) -> None:
        self.records[place] = content
        self.size_bytes += size_bytes

    def topics(self) -> int:
        """How many topics hold a record."""
        return len({topic for topic, _, _ in self.records})


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is not the same on both sides."""

    same: int
    missing: int
    """In the source and not, at that offset, in the replica."""
    extra: int
    different: int
    """At the same offset, with another content."""
    unacknowledged: int
    """Acknowledged to the producer and not in the source."""

    @property
    def equal(self) -> bool:
        return self.missing == self.extra == self.different == self.unacknowledged == 0 < self.same


def compare(source: Held, replica: Held, acknowledged: Mapping[Place, bytes] | set[Place]) -> Comparison:
    """Compare by place and content, and the source with what its producer was told."""
    both = source.records.keys() & replica.records.keys()
    same = sum(source.records[place] == replica.records[place] for place in both)
    return Comparison(
        same=same,
        missing=len(source.records) - len(both),
        extra=len(replica.records) - len(both),
        different=len(both) - same,
        unacknowledged=sum(place not in source.records for place in acknowledged),
    )


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value that `part` (0 to 1) of the sorted values do not exceed.

    Raises:
        ValueError: there are none.
    """
    if not ordered:
        raise ValueError("no values")
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True, slots=True)
class Handover:
    """What a consumer group read of some topics at each site."""

    first: tuple[Place, ...]
    second: tuple[Place, ...]
    expected: frozenset[Place]

    @property
    def seamless(self) -> bool:
        """Everything was read once, by one site or the other."""
        read = [*self.first, *self.second]
        return bool(self.first and self.second) and len(read) == len(set(read)) and set(read) == self.expected


@dataclass(frozen=True, slots=True)
class Start:
    """Where a consumer group began to read partitions, beside where it was said that it would."""

    right: int
    wrong: int
    unread: int
    """Partitions of which it read nothing, which says nothing."""

    @property
    def as_said(self) -> bool:
        """In all partitions of which it read something, of which there are some."""
        return self.wrong == 0 < self.right


def started(said: Mapping[tuple[str, int], int], read: Iterable[Place]) -> Start:
    """What was read, compared with the offset that was said for each partition."""
    first: dict[tuple[str, int], int] = {}
    for topic, partition, offset in read:
        first[topic, partition] = min(offset, first.get((topic, partition), offset))
    begun = said.keys() & first.keys()
    right = sum(first[each] == said[each] for each in begun)
    return Start(right, len(begun) - right, len(said) - len(begun))


def busiest(held: Held, count: int) -> list[str]:
    """The topics with the most records."""
    counts: dict[str, int] = {}
    for topic, _, _ in held.records:
        counts[topic] = counts.get(topic, 0) + 1
    return sorted(counts, key=lambda topic: (-counts[topic], topic))[:count]
