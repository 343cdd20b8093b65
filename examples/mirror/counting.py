"""A source and what a mirror made of it, compared record by record, partition by partition. No Kafka in here.

Every record at the source has a content that no other has, so each one at the destination can be told: where it comes
from, and whether it is there for the first time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from examples.ships.compare import Held

Partition = tuple[str, int]
Found = tuple[int, bytes]
"""Offset and content."""


@dataclass(frozen=True, slots=True)
class Copied:
    """One partition."""

    records: int
    """At the source."""
    lost: int
    doubled: int
    foreign: int
    """At the destination, and not in this partition of the source; also what was changed on its way."""
    disordered: int
    """Records that stand behind a later one, once doubled ones are left out."""
    same_offset: int
    unexplained: int
    """Records that are moved by another number of offsets than there are doubled ones before them."""
    back_to: tuple[int, ...]
    """The source's offsets to which the order goes back: one for each time that something is mirrored again."""


def copied(source: Sequence[Found], there: Iterable[Found]) -> Copied:
    """Both in the order of their offsets.

    Raises:
        ValueError: two records at the source have one content, so nobody could tell a doubled one.
    """
    offsets = {content: offset for offset, content in source}
    if len(offsets) != len(source):
        raise ValueError("records at the source have the same content")
    there = list(there)
    known = [(offset, offsets[content]) for offset, content in there if content in offsets]
    first: dict[int, tuple[int, int]] = {}
    """Offset at the source → how it is moved, and how many doubled ones are before it."""
    for number, (offset, at_source) in enumerate(known):
        first.setdefault(at_source, (offset - at_source, number - len(first)))
    return Copied(
        records=len(source),
        lost=len(source) - len(first),
        doubled=len(known) - len(first),
        foreign=len(there) - len(known),
        disordered=sum(after < before for before, after in pairwise(first)),
        same_offset=sum(moved == 0 for moved, _ in first.values()),
        unexplained=sum(moved != doubled for moved, doubled in first.values()),
        back_to=tuple(after for (_, before), (_, after) in pairwise(known) if after <= before),
    )


@dataclass(frozen=True, slots=True)
class Mirrored:
    """All partitions."""

    partitions: Mapping[Partition, Copied]

    def sum_of(self, what: str) -> int:
        """The sum of one number of `Copied`."""
        return sum(getattr(each, what) for each in self.partitions.values())

    @property
    def doubled_in(self) -> int:
        """How many partitions have doubled records."""
        return sum(each.doubled > 0 for each in self.partitions.values())

    def before(self, positions: Mapping[Partition, int]) -> int:
        """How many partitions were mirrored again from before their position; without one there is nothing before."""
        return sum(back < positions.get(place, 0) for place, each in self.partitions.items() for back in each.back_to)

    @property
    def back_most(self) -> int:
        """How often the order goes back in the partition where it does so most."""
        return max((len(each.back_to) for each in self.partitions.values()), default=0)


def mirrored(sources: Iterable[Held], there: Held) -> Mirrored:
    """All that the sources hold, whose topics have different names, and what is at the destination."""
    wanted: dict[Partition, list[Found]] = {}
    for source in sources:
        wanted |= by_partition(source)
    found = by_partition(there)
    return Mirrored({place: copied(wanted.get(place, []), found.get(place, [])) for place in wanted.keys() | found})


@dataclass(frozen=True, slots=True)
class Moved:
    """A group that has read at the source up to a commit, and then at the destination."""

    before: int
    """Records that it read at the source before its last commit."""
    after: int
    """Records that it read at the destination."""
    skipped: int
    """Records of the source that it read nowhere; those at the source beyond its commit are to be read again."""
    again: int
    """Records that it read at both and that are there once, or more often at the destination than they are there."""
    doubled: int
    """Records that it read at both, and that the mirror has doubled."""


def moved(before: Sequence[bytes], after: Sequence[bytes], source: Iterable[bytes], there: Iterable[bytes]) -> Moved:
    """Contents: what the group read, and all that is at the source and at the destination of its topics."""
    copies = Counter(there)
    reads = Counter(after)
    known = set(before)
    both = known & reads.keys()
    again = {content for content in both if copies[content] == 1}
    again |= {content for content, count in reads.items() if count > copies[content]}
    return Moved(
        before=len(before),
        after=len(after),
        skipped=len(set(source) - known - reads.keys()),
        again=len(again),
        doubled=len(both - again),
    )


def by_partition(held: Held) -> dict[Partition, list[Found]]:
    """Each partition in the order of its offsets."""
    found: dict[Partition, list[Found]] = {}
    for (topic, partition, offset), content in sorted(held.records.items()):
        found.setdefault((topic, partition), []).append((offset, content))
    return found
