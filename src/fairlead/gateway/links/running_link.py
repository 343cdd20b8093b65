"""What the source server knows of one link while it runs; the record in `meta/` is all that outlives the process."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.destination import Backoff, Gateways
from fairlead.model.errors import FairleadError
from fairlead.model.names import SLICES
from fairlead.wire.messages import LinkAnswer, ReadReport

SliceKey = tuple[int, int]
"""(shard of the source, slice)."""


class Phase(Enum):
    """What a link is doing."""

    PAUSED = "paused"
    CONTACTING = "contacting"
    """Asking the destination, for the first time or again; nothing is granted unless it was before."""
    READY = "ready"
    """The destination has answered; slices are granted, or wait for a reader."""
    FAILED = "failed"
    """The destination does not answer or says no; asked again after a while."""
    STOPPED = "stopped"
    """Waits for a person."""


def wire_id(record: LinkRecord) -> bytes:
    """The id by which a destination knows a link: a rescan is another one, without positions."""
    if record.rescan == 0:
        return record.id
    return hashlib.sha256(record.id + record.rescan.to_bytes(8, "big")).digest()[:16]


def urls_of(cluster: Cluster, record: LinkRecord) -> tuple[str, ...]:
    """The gateways of a link's destination; this cluster's own addresses may have changed since it was made."""
    return cluster.urls if record.replica_path.cluster == cluster.name else record.replica_urls


@dataclass(slots=True)
class LinkCounts:
    """What the destination has answered since this server started."""

    frames: int = 0
    records: int = 0
    size_bytes: int = 0
    duplicates: int = 0


@dataclass(slots=True)
class RunningLink:
    """One link, as it runs."""

    record: LinkRecord
    backoff: Backoff
    gateways: Gateways
    phase: Phase = Phase.CONTACTING
    error: FairleadError | None = None
    failed: bool = False
    """A sink could not deliver; wait before asking again."""
    undelivered: bool = False
    """Nothing was delivered since a sink failed: an answer to a contact alone does not shorten the waits."""
    answer: LinkAnswer | None = None
    positions: dict[SliceKey, int] = field(default_factory=dict)
    """Recorded at the destination; a slice without one begins at 0."""
    scanned: dict[SliceKey, tuple[int, int]] = field(default_factory=dict)
    """(read to, last frame handed on) by the present grant."""
    counts: LinkCounts = field(default_factory=LinkCounts)
    copy_bytes: int | None = None
    """Backlog when the link began in this process; None once it has been caught up with."""
    began_empty: bool = True
    """The replica held nothing of this link at first contact: what runs is the first copy."""
    repairs: int = 0
    """Repairs in a row after which no less was behind."""
    left_behind: int = 0
    """Partitions behind, conflicts apart, when a repair was last looked for."""
    copy_ends: tuple[int, ...] = ()
    """Ends of the source's shards when the link began in this process."""
    passed: tuple[int, ...] = ()
    """By shard of the source, the commit below which every slice is done; deletions are remembered until then."""
    shares: bytes | None = None
    """A copy to a replica that has a standing link moves that link's positions, so that nothing is sent twice."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """The record was edited, or a person said resume: end a wait at once."""

    @property
    def wire_id(self) -> bytes:
        """The link's id for its destination."""
        return wire_id(self.record) if self.shares is None else self.shares

    @property
    def conflicts(self) -> int:
        """Partitions set aside at the destination, as it last said."""
        return 0 if self.answer is None else self.answer.conflicts_total

    def effective(self, key: SliceKey) -> int:
        """All commits below this are done: recorded by the destination, or read with nothing to send in them."""
        recorded = self.positions.get(key, 0)
        read, emitted = self.scanned.get(key, (0, 0))
        return max(recorded, read) if recorded >= emitted else recorded

    def effective_of(self, shard: int) -> dict[int, int]:
        """By slice, `effective`."""
        return {each: self.effective((shard, each)) for each in range(SLICES)}

    def read(self, shard: int, report: ReadReport) -> None:
        """Take a reader's report."""
        for each, commit in report.slices.items():
            self.scanned[shard, each] = (commit, report.emitted.get(each, 0))

    def unread(self, shard: int, read_from: Mapping[int, int]) -> None:
        """A new grant begins: what an earlier reader scanned and had not yet delivered counts no more."""
        for each, start in read_from.items():
            self.scanned[shard, each] = (start, 0)

    def advance(self, shard: int, slices: Mapping[int, int]) -> None:
        """Take recorded positions; they never go back."""
        for each, commit in slices.items():
            self.positions[shard, each] = max(self.positions.get((shard, each), 0), commit)

    def unlearn(self, keys: Iterable[SliceKey]) -> None:
        """The destination has lost what it had recorded of these slices."""
        for key in keys:
            self.positions.pop(key, None)
            self.scanned.pop(key, None)

    def start_of(self, shard: int) -> dict[int, int]:
        """By slice, where the frames of a grant begin: what the destination has recorded.

        It records nothing of a stretch in which there is nothing to send. What is known of that (`effective`) a restart
        forgets: then the stretch is read again, which costs a look at the columns.
        """
        return {each: self.positions.get((shard, each), 0) for each in range(SLICES)}

    def note_behind(self, count: int) -> None:
        """So many partitions are behind now, and no repair is under way."""
        less = 0 < count < self.left_behind
        self.repairs = 0 if count == 0 else 1 if less else self.repairs + 1
        self.left_behind = count

    def note_caught_up(self) -> None:
        """All that was there when the link began has arrived: the copy is over, and does not begin again."""
        if self.copy_ends and self.reached(self.copy_ends):
            self.copy_bytes = None
            self.began_empty = False

    def note_passed(self, shards: int) -> bool:
        """Bring `passed` up to date; whether it changed."""
        before, self.passed = self.passed, tuple(min(self.effective_of(shard).values()) for shard in range(shards))
        return before != self.passed

    def reached(self, ends: tuple[int, ...]) -> bool:
        """Everything below these ends of the shards is done."""
        return all(self.effective((shard, each)) >= end for shard, end in enumerate(ends) for each in range(SLICES))

    def forget(self) -> None:
        """A rescan: nothing is known of where the destination stands."""
        self.positions.clear()
        self.scanned.clear()
        self.answer = None
        self.copy_bytes = None
        self.copy_ends = ()
        self.passed = ()

    def delivered(self) -> None:
        """Frames arrive: the next failure begins with the shortest wait."""
        self.undelivered = False
        self.backoff.reset()

    def rouse(self) -> None:
        """Let the link look at its state again, without waiting out a back-off."""
        self.backoff.reset()
        self.failed = False
        self.changed.set()
        self.wake.set()
