"""Who is connected, and who reads what: which slices of a link are given to which reader task, and under which run.

Pure bookkeeping, no sockets. A slice of a link is held by one task at a time; every grant has a new run, larger than
any before it of its link and shard, also than those that the destination has seen (a restored cluster may have counted
less).
"""

from __future__ import annotations

from collections import Counter
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
    known_as: bytes
    """The link's id for its destination when the grant was given."""
    run: GrantRun
    key: ShardKey
    slices: frozenset[int]
    reader: ConnectedReader
    repair: bool = False


class Runs:
    """Numbers for grants, by link (as its destination knows it) and shard of the source: (writer epoch of the shard,
    counter). They are kept for as long as the process lives, also those of links that are gone."""

    def __init__(self) -> None:
        self._last: dict[tuple[bytes, int], GrantRun] = {}

    def given(self, link: bytes, shard: int, run: GrantRun) -> bool:
        """Whether a run may have been given: none above the newest one was."""
        last = self._last.get((link, shard))
        return last is not None and not last < run

    def next(self, link: bytes, shard: int, epoch: int) -> GrantRun:
        """A run above all that were given or seen."""
        self.seen(link, shard, GrantRun(epoch, 0))
        last = self._last[link, shard]
        self._last[link, shard] = GrantRun(last.epoch, last.counter + 1)
        return self._last[link, shard]

    def seen(self, link: bytes, shard: int, run: GrantRun) -> None:
        """A destination has recorded this one."""
        last = self._last.get((link, shard))
        if last is None or last < run:
            self._last[link, shard] = run


RunKey = tuple[bytes, int, GrantRun]
"""(link as its destination knows it, shard of the source, run)."""


class GrantTable:
    """All reader tasks that are connected, and what each holds; and all sink tasks.

    Thousands of grants may stand, and each answer of a destination looks one up: none is searched for.
    """

    def __init__(self) -> None:
        self.readers: list[ConnectedReader] = []
        self.sinks: set[Outbox] = set()
        self._held: dict[int, Held] = {}
        self._of_link: dict[bytes, dict[int, Held]] = {}
        self._of_run: dict[RunKey, int] = {}
        self._load: Counter[int] = Counter()
        """Grants by the id of the reader."""
        self._answered: dict[int, tuple[int, int]] = {}
        self._sink_of: dict[int, Outbox] = {}
        """By grant, who has spoken of its run; nobody else may, as long as that one is connected."""

    def __len__(self) -> int:
        return len(self._held)

    def get(self, number: int) -> Held | None:
        """The grant of that number, if it still stands."""
        return self._held.get(number)

    def add(self, held: Held) -> None:
        """Note a grant that was given."""
        self._held[held.number] = held
        self._of_link.setdefault(held.link, {})[held.number] = held
        self._of_run[_run_of(held)] = held.number
        self._load[id(held.reader)] += 1

    def drop(self, number: int) -> Held | None:
        """Note that a grant has ended."""
        self._answered.pop(number, None)
        self._sink_of.pop(number, None)
        held = self._held.pop(number, None)
        if held is not None:
            of_link = self._of_link[held.link]
            del of_link[number]
            if not of_link:
                del self._of_link[held.link]
            self._of_run.pop(_run_of(held), None)
            self._load[id(held.reader)] -= 1
        return held

    def answered(self, known_as: bytes, shard: int, run: GrantRun, frames: int, size_bytes: int) -> None:
        """A destination has answered this much more of a grant: its reader may hand on as much."""
        held = self._held.get(self._of_run.get((known_as, shard, run), 0))
        if held is not None:
            before = self._answered.get(held.number, (0, 0))
            total = (before[0] + frames, before[1] + size_bytes)
            self._answered[held.number] = total
            held.reader.credit(held.number, *total)

    def is_sink_of(self, sink: Outbox, known_as: bytes, shard: int, run: GrantRun) -> bool:
        """Whether this one may speak of a run. Of one that no longer stands anybody may."""
        number = self._of_run.get((known_as, shard, run))
        return number is None or self._sink_of.setdefault(number, sink) is sink

    def sink_left(self, sink: Outbox) -> None:
        """A sink has gone."""
        self.sinks.discard(sink)
        self._sink_of = {number: owner for number, owner in self._sink_of.items() if owner is not sink}

    def of(self, link: bytes) -> list[Held]:
        """The grants of a link, repairs included."""
        return list(self._of_link.get(link, {}).values())

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
        del self._load[id(reader)]
        return {held.link for held in lost}

    def free(self) -> list[ConnectedReader]:
        """Readers that may be given more, those with the fewest grants first."""
        with_room = (reader for reader in self.readers if self._load[id(reader)] < reader.slots)
        return sorted(with_room, key=lambda reader: self._load[id(reader)])

    def withdraw(self, held: Iterable[Held], reason: str) -> dict[tuple[bytes, int], GrantRun]:
        """Take grants back; answers the largest run among them, by link (as its destination knows it) and shard."""
        last: dict[tuple[bytes, int], GrantRun] = {}
        for each in list(held):
            if self.drop(each.number) is None:
                continue
            each.reader.withdraw(each.number, None if each.repair else each.key, reason)
            key = each.known_as, each.key[1]
            last[key] = each.run if key not in last or last[key] < each.run else last[key]
        return last


def _run_of(held: Held) -> RunKey:
    return held.known_as, held.key[1], held.run


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
