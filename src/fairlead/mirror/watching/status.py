"""What there is to see of a flow, as values; REST tells them as they are, the page and the metrics in their ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.report import TopicTally
from fairlead.mirror.running.mirror import Mirror
from fairlead.mirror.watching.looking import Looking
from fairlead.model.clock import Clock

_NOTHING = TopicTally()


class Watched(Protocol):
    """A flow of the process."""

    @property
    def label(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def mirror(self) -> Mirror | None:
        """None: its destination has not answered yet."""
        ...

    @property
    def paused(self) -> bool: ...

    @property
    def ended(self) -> bool: ...

    @property
    def failed(self) -> str | None:
        """Why it has ended, if it is not as it should."""
        ...

    def pause(self, paused: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of a source."""

    partition: int
    offset: int
    """The next one to mirror: everything below is at the destination."""
    end: int
    """Where it ends for readers of committed records."""
    lag: int
    """Offsets between the two."""
    lagseconds: float
    """For how long the first of them has been there."""
    held: int
    """Offsets behind the first open transaction; no lag."""
    gone: int
    """Offsets that were lost at the source before they were mirrored."""
    underway: int
    """Records that are fetched and not acknowledged."""
    stopped: str | None
    """Why it does not go on."""


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic of a source."""

    source: str
    topic: str
    to: str
    records: int
    """Mirrored since the process began."""
    bytes: int
    batches: Mapping[str, int]
    """By what was done with them: raw, merged, rebuilt, …"""
    partitions: Sequence[PartitionStatus]

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)

    @property
    def lag_seconds(self) -> float:
        return max((each.lagseconds for each in self.partitions), default=0.0)

    @property
    def held(self) -> int:
        return sum(each.held for each in self.partitions)

    @property
    def gone(self) -> int:
        return sum(each.gone for each in self.partitions)

    @property
    def stopped(self) -> int:
        return sum(each.stopped is not None for each in self.partitions)

    def lag_bytes(self, lag: int) -> float | None:
        """About so much is that lag, going by the records that were mirrored; None: none was yet."""
        return lag * self.bytes / self.records if self.records else None if lag else 0.0


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow."""

    label: str
    name: str
    state: str
    """`running`, `paused`, `waiting` or `ended`."""
    failed: str | None
    """Why it has ended, if it is not as it should."""
    waits: Sequence[str]
    """What it waits for."""
    topics: Sequence[TopicStatus]
    looped: int
    """Records that were left out, as they had come from the destination."""
    aborted: int
    """Records of aborted transactions, that were left out."""
    lost: int
    """Offsets lost at the source since the process began."""
    underway_bytes: int
    failing: Sequence[str]
    """What does not go along with the records now: groups, settings, access rules."""
    stops: Mapping[str, str]
    """Partition or topic → why it stands still."""
    notes: Mapping[str, str]


def status_of(flow: Watched, looking: Looking, clock: Clock) -> FlowStatus:
    """What there is to see now."""
    mirror = flow.mirror
    if mirror is None:
        waits = [] if flow.ended else ["the destination has not answered yet"]
        return FlowStatus(flow.label, flow.name, _state(flow, waits), flow.failed, waits, (), 0, 0, 0, 0, (), {}, {})
    waits, tally = [] if flow.ended else list(mirror.waits()), mirror.tally
    return FlowStatus(
        label=flow.label,
        name=flow.name,
        state=_state(flow, waits),
        failed=flow.failed,
        waits=waits,
        topics=list(_topics(mirror, looking, clock.monotonic_ms())),
        looped=tally.looped_records,
        aborted=tally.aborted_records,
        lost=tally.lost_offsets,
        underway_bytes=mirror.bytes_under_way,
        failing=[f"{what}: {why}" for what, reasons in sorted(tally.failing.items()) for why in reasons],
        stops=dict(tally.stops),
        notes=dict(tally.notes),
    )


def _state(flow: Watched, waits: Sequence[str]) -> str:
    if flow.ended:
        return "ended"
    return "paused" if flow.paused else "waiting" if waits else "running"


def _topics(mirror: Mirror, looking: Looking, now_ms: int) -> Iterator[TopicStatus]:
    found: dict[tuple[str, str, str], list[Standing]] = {}
    for source in mirror.sources:
        for standing in source.copies.values():
            found.setdefault((source.label, standing.part.topic, standing.to), []).append(standing)
    for (label, topic, to), standings in sorted(found.items()):
        tally = mirror.tally.topics.get(topic, _NOTHING)
        partitions = [
            _partition(standing, looking, now_ms)
            for standing in sorted(standings, key=lambda each: each.part.partition)
        ]
        yield TopicStatus(label, topic, to, tally.records, tally.bytes, dict(tally.batches), partitions)


def _partition(standing: Standing, looking: Looking, now_ms: int) -> PartitionStatus:
    position, seen = standing.position, looking.of(standing)
    end = max(seen.end, standing.end, position.offset)
    lag = end - position.offset
    return PartitionStatus(
        partition=standing.part.partition,
        offset=position.offset,
        end=end,
        lag=lag,
        lagseconds=round(seen.seconds_behind(position.offset, now_ms), 3) if lag else 0.0,
        held=max(seen.written - end, 0),
        gone=position.gone,
        underway=standing.records_under_way,
        stopped=standing.stopped,
    )
