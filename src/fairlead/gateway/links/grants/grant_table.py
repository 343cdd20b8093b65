"""Who is connected, and who reads what: which slices of a link are given to which reader task, and under which run.

Pure bookkeeping, no sockets. A slice of a link is held by one task at a time; every grant has a new run, larger than
any before it, also than those that the destination has seen (a restored cluster may have counted less).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairlead.gateway.links.grants.connected_reader import ConnectedReader, ShardKey
from fairlead.gateway.links.grants.outbox import Outbox
from fairlead.streamlog.values import GrantRun

SPLIT_BYTES = 64_000_000
"""A larger backlog of one shard is given to several tasks."""


@dataclass(frozen=True, slots=True)
class Held:
    """One grant that a reader has. A repair holds the slices that nobody else may read meanwhile, if any."""

    number: int
    link: bytes
    run: GrantRun
    key: ShardKey
    slices: frozenset[int]
    reader: ConnectedReader
    repair: bool = False


class Runs:
    """Numbers for grants: (writer epoch of the cluster's own log, counter)."""

    def __init__(self, epoch: int) -> None:
        self._last = GrantRun(epoch, 0)

    @property
    def last(self) -> GrantRun:
        """The newest that was given or seen."""
        return self._last

    def next(self) -> GrantRun:
        """A run above all that were given or seen."""
        self._last = GrantRun(self._last.epoch, self._last.counter + 1)
        return self._last

    def seen(self, runs: Iterable[GrantRun]) -> None:
        """A destination has recorded these."""
        for run in runs:
            if self._last < run:
                self._last = run


class GrantTable:
    """All reader tasks that are connected, and what each holds; and all sink tasks."""

    def __init__(self) -> None:
        self.readers: list[ConnectedReader] = []
        self.sinks: set[Outbox] = set()
        self._held: dict[int, Held] = {}
        self._answered: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, number: int) -> Held | None:
        """The grant of that number, if it still stands."""
        return self._held.get(number)

    def add(self, held: Held) -> None:
        """Note a grant that was given."""
        self._held[held.number] = held

    def drop(self, number: int) -> Held | None:
        """Note that a grant has ended."""
        self._answered.pop(number, None)
        return self._held.pop(number, None)

    def answered(self, run: GrantRun, frames: int, size_bytes: int) -> None:
        """A destination has answered this much more of a grant: its reader may hand on as much."""
        for held in self._held.values():
            if held.run == run:
                before = self._answered.get(held.number, (0, 0))
                total = (before[0] + frames, before[1] + size_bytes)
                self._answered[held.number] = total
                held.reader.credit(held.number, *total)
                return

    def of(self, link: bytes) -> list[Held]:
        """The grants of a link, repairs included."""
        return [held for held in self._held.values() if held.link == link]

    def slices(self, link: bytes, shard: int) -> set[int]:
        """The slices of a link's shard that are held."""
        return {s for held in self.of(link) if held.key[1] == shard for s in held.slices}

    def join(self, reader: ConnectedReader) -> None:
        """A reader has connected."""
        self.readers.append(reader)

    def leave(self, reader: ConnectedReader) -> set[bytes]:
        """A reader has gone: its grants end; answers the links that lost some."""
        self.readers.remove(reader)
        lost = [held for held in self._held.values() if held.reader is reader]
        for held in lost:
            self.drop(held.number)
        return {held.link for held in lost}

    def free(self) -> list[ConnectedReader]:
        """Readers that may be given more, those with the fewest grants first."""
        load = {id(reader): 0 for reader in self.readers}
        for held in self._held.values():
            load[id(held.reader)] += 1
        return sorted(
            (reader for reader in self.readers if load[id(reader)] < reader.slots), key=lambda reader: load[id(reader)]
        )

    def withdraw(self, held: Iterable[Held], reason: str) -> GrantRun | None:
        """Take grants back; answers the largest run among them."""
        last: GrantRun | None = None
        for each in list(held):
            if self.drop(each.number) is None:
                continue
            each.reader.withdraw(each.number, None if each.repair else each.key, reason)
            last = each.run if last is None or last < each.run else last
        return last


def groups(pending_bytes: Mapping[int, int], parts: int) -> list[list[int]]:
    """Divide slices into at most `parts` groups of about equal bytes; one group where there is little to read."""
    if sum(pending_bytes.values()) <= SPLIT_BYTES or parts <= 1:
        return [sorted(pending_bytes)]
    sums = [0] * min(parts, len(pending_bytes))
    found: list[list[int]] = [[] for _ in sums]
    for each in sorted(pending_bytes, key=lambda each: (-pending_bytes[each], each)):
        smallest = min(range(len(sums)), key=lambda index: (sums[index], len(found[index])))
        found[smallest].append(each)
        sums[smallest] += pending_bytes[each]
    return [sorted(group) for group in found]
