"""What a mirror tells people: what it is going to do, how far it is, what became of it, and its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.lanes import Part

Say = Callable[[str], None]
"""Tells people a line."""
STOPPED_SHOWN_MAX: Final = 50
"""Lines of the summary about partitions that stopped; beyond that only their number."""
FAILING_SHOWN_MAX: Final = 50
"""The same, about groups, settings and access rules that do not go along."""
EQUAL_SHOWN_MAX: Final = 10
"""Partitions of a topic that are named as those whose offsets are equal, where not all are."""


@dataclass(slots=True)
class TopicTally:
    """What was mirrored of a topic, acknowledged by the destination."""

    records: int = 0
    bytes: int = 0
    batches: Counter[str] = field(default_factory=Counter)
    """By what was done with them: raw, merged, rebuilt, …"""


@dataclass(slots=True)
class GroupTally:
    """Counts of the consumer groups of one source."""

    matched: int = 0
    """Groups that go with their topics, as of the last look."""
    moved: int = 0
    """Offsets that were committed at the destination."""
    busy: int = 0
    """Groups that are not moved, since they have members at the destination, as of the last look."""
    unknown: int = 0
    """Offsets that cannot be translated, as of the last look."""
    checkpoints: int = 0
    """That were written."""


@dataclass(slots=True)
class Tally:
    """Counts of one run, and what somebody must look at."""

    topics: dict[str, TopicTally] = field(default_factory=dict)
    aborted_records: int = 0
    """Left out, of transactions that were aborted."""
    looped_records: int = 0
    """Left out, since they came from the destination."""
    truncated: int = 0
    """Partitions of which the source lost what was mirrored."""
    lost_offsets: int = 0
    """Gone at the source before they were mirrored."""
    stops: dict[str, str] = field(default_factory=dict)
    """Partition or topic → why it stands still."""
    groups: dict[str, GroupTally] = field(default_factory=dict)
    """By the source."""
    settings_changed: int = 0
    """Settings of topics that were carried after their topics were made."""
    acls_made: int = 0
    failing: dict[str, Sequence[str]] = field(default_factory=dict)
    """What goes along with the records, and does not now (groups, settings, access rules) → why."""
    unacknowledged: bool = False
    """The end came before the destination had acknowledged all that was sent."""
    notes: dict[str, str] = field(default_factory=dict)
    """Topic → what is worth knowing and is no failure."""

    def of(self, topic: str) -> TopicTally:
        """The counts of a topic of the source."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTally()
        return found

    def groups_of(self, label: str) -> GroupTally:
        """The counts of the groups of a source."""
        return self.groups.setdefault(label, GroupTally())

    def mirrored(self, topic: str, outgoing: Outgoing) -> None:
        """A batch is durable at the destination."""
        self.count(topic, outgoing.records, outgoing.size_bytes, str(outgoing.how))

    def count(self, topic: str, records: int, size_bytes: int, how: str) -> None:
        """The same of one that is no more there."""
        found = self.of(topic)
        found.records += records
        found.bytes += size_bytes
        found.batches[how] += 1

    def stopped(self, what: Part | str, why: str) -> None:
        """A partition, or a topic as a whole, does not go on."""
        self.stops[str(what)] = why

    def goes_on(self, what: str) -> None:
        """A topic stood still, and does no more."""
        self.stops.pop(what, None)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics.values())

    @property
    def bytes(self) -> int:
        return sum(topic.bytes for topic in self.topics.values())

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, refused or stopped."""
        return not (self.stops or self.lost_offsets or self.truncated or self.unacknowledged)


def summary(tally: Tally, left: int, equal_from: Mapping[Part, int | None]) -> str:
    """What became of the run: a table of topics, then what somebody must look at. `equal_from`: for each partition that
    is mirrored, from which offset on its records have the source's offsets; None: the last one has another."""
    parts: dict[str, list[tuple[int, int | None]]] = {}
    for part, since in sorted(equal_from.items()):
        parts.setdefault(part.topic, []).append((part.partition, since))
    rows = [("topic", "records", "bytes", "batches", "offsets equal")]
    rows += [
        (
            *(name, f"{topic.records:,}", f"{topic.bytes:,}", _batches(topic.batches)),
            _equal(parts.get(name, [])),
        )
        for name, topic in sorted(tally.topics.items())
    ]
    rows.append(("in all", f"{tally.records:,}", f"{tally.bytes:,}", "", ""))
    return "\n".join((*_aligned(rows), *_remarks(tally, left)))


def _remarks(tally: Tally, left: int) -> Iterable[str]:
    if left:
        yield f"not mirrored yet: {left:,} offsets, which the next start brings"
    if tally.aborted_records:
        yield f"left out: {tally.aborted_records:,} records of transactions that were aborted"
    if tally.looped_records:
        yield f"left out: {tally.looped_records:,} records that had come from the destination"
    if tally.lost_offsets:
        yield f"LOST at the source before they were mirrored: {tally.lost_offsets:,} offsets"
    yield from _of_groups(tally)
    if tally.settings_changed:
        yield f"settings of topics that followed their source: {tally.settings_changed:,}"
    if tally.acls_made:
        yield f"ACLs that followed their source: {tally.acls_made:,}"
    if tally.unacknowledged:
        yield "NOT ACKNOWLEDGED by the destination: the last of what was sent, which the next start sends again"
    failing = [f"{what}: {why}" for what, reasons in sorted(tally.failing.items()) for why in reasons]
    yield from (f"NOT BROUGHT: {line}" for line in failing[:FAILING_SHOWN_MAX])
    if len(failing) > FAILING_SHOWN_MAX:
        yield f"NOT BROUGHT: {len(failing) - FAILING_SHOWN_MAX:,} more"
    for what, note in sorted(tally.notes.items()):
        yield f"note: {what}: {note}"
    for number, (what, why) in enumerate(sorted(tally.stops.items())):
        if number == STOPPED_SHOWN_MAX:
            yield f"STOPPED: {len(tally.stops) - number} more"
            return
        yield f"STOPPED: {what}: {why}"


def _of_groups(tally: Tally) -> Iterable[str]:
    for label, groups in sorted(tally.groups.items()):
        if not groups.matched:
            continue
        busy = f", {groups.busy:,} of them have members at the destination" if groups.busy else ""
        unknown = f"; {groups.unknown:,} offsets cannot be translated" if groups.unknown else ""
        yield f"groups of {label}: {groups.matched:,}{busy}; {groups.moved:,} offsets committed{unknown}"


def _batches(batches: Counter[str]) -> str:
    return ", ".join(f"{count:,} {how}" for how, count in sorted(batches.items()))


def _equal(partitions: Sequence[tuple[int, int | None]]) -> str:
    """The partitions of a topic whose last records have the source's offsets; from where on, if not from 0."""
    found = [(number, since) for number, since in partitions if since is not None]
    if found and len(found) == len(partitions) and not any(since for _, since in found):
        return "all"
    shown = [f"{number} from {since:,}" if since else str(number) for number, since in found[:EQUAL_SHOWN_MAX]]
    if len(found) > len(shown):
        shown.append(f"{len(found) - len(shown):,} more")
    return f"partitions {', '.join(shown)}" if shown else "none"


def _aligned(rows: list[tuple[str, str, str, str, str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for name, records, size, batches, equal in rows:
        line = f"{name:<{widths[0]}}  {records:>{widths[1]}}  {size:>{widths[2]}}  {batches:<{widths[3]}}  {equal}"
        yield line.rstrip()


class Pace:
    """Progress lines: totals, and what they grew by since the line before."""

    def __init__(self, now: float) -> None:
        self._at = now
        self._bytes = 0
        self._records = 0

    def line(self, tally: Tally, now: float, behind: int, waits: Iterable[str]) -> str:
        """One line about the whole mirror."""
        seconds = max(now - self._at, 1e-6)
        rate = (tally.bytes - self._bytes) / seconds / 1e6
        records = (tally.records - self._records) / seconds
        self._at, self._bytes, self._records = now, tally.bytes, tally.records
        parts = [f"{tally.records:,} records", f"{tally.bytes / 1e6:,.1f} MB", f"{rate:,.1f} MB/s", f"{records:,.0f}/s"]
        parts.append(f"{behind:,} behind" if behind else "nothing behind")
        if tally.stops:
            parts.append(f"{len(tally.stops)} stopped")
        return "; ".join((", ".join(parts), *waits))


def topic_lines(tally: Tally) -> Iterable[str]:
    """A line for each topic."""
    for name, topic in sorted(tally.topics.items()):
        yield f"  {name}: {topic.records:,} records, {topic.bytes / 1e6:,.1f} MB"
