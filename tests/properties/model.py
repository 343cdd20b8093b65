"""What must hold of four sites: every record that A ever had at an offset, which of them were acknowledged, and every
row that any site announced by commit number. It knows nothing of epochs, manifests, merges or positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tests.streamlog.world import FakeClock, rows_of, values_at

from fairlead.protocol.batch import records_of
from fairlead.storage.interface import Storage
from fairlead.storage.memory import Call, Fault, Faults
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.writer import Sealed, ShardLog

IDS = {name: name.encode() * 16 for name in "abcd"}
LINKS = {("a", "b"): b"1" * 16, ("a", "c"): b"2" * 16, ("b", "d"): b"3" * 16, ("c", "d"): b"4" * 16}

Place = tuple[bytes, int]
"""(incarnation, partition)."""
Link = tuple[str, str]


class FaultyStorage(Storage, Protocol):
    """A storage whose calls fail and whose power does."""

    faults: Faults
    late: list[tuple[str, bytes]]

    def fail(self, fault: Fault, *, call: Call = "put", nth: int = 1) -> None: ...
    def crash(self, survives: Callable[[str], bool] = ...) -> None: ...
    def restart(self) -> None: ...
    def land(self, place: int = 0) -> str: ...


class Seen(NamedTuple):
    """A batch that a site announced."""

    commit: int
    slice: int
    place: Place
    last_offset: int
    origin: bytes | None
    via: bytes | None


@dataclass
class Site:
    """One site: its storage and clock live on, its log is opened again and again."""

    name: str
    storage: FaultyStorage
    clock: FakeClock
    log: ShardLog
    shard: Shard
    sleepers: list[tuple[ShardLog, Sealed]] = field(default_factory=list)
    scanned: int = 0
    seen: list[Seen] = field(default_factory=list)
    starts: dict[Place, int] = field(default_factory=dict)
    """The furthest log start that the site ever had, for merging and links."""
    log_starts: dict[Place, int] = field(default_factory=dict)
    """The same for clients."""
    names: dict[int, bytes] = field(default_factory=dict)
    """Incarnation of every topic number."""

    @property
    def stream_id(self) -> bytes:
        return IDS[self.name]


class Model:
    """All that the sites have shown."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self.sites = sites
        self.acked: dict[tuple[Place, int], bytes] = {}
        self.history: dict[Place, dict[int, bytes]] = {}
        self.deleted: dict[Place, int] = {}
        """Up to where records were deleted, as A has acknowledged."""

    def see(self, site: Site, row: Row) -> None:
        """A row that a site announced."""
        topic = site.log.announced.state.topic(row.topic)
        if topic is not None:
            site.names[row.topic] = topic.incarnation
        if row.kind != Kind.BATCH or row.topic not in site.names:
            return
        place = (site.names[row.topic], row.partition)
        site.seen.append(Seen(row.commit, slice_of_number(row.topic), place, row.last_offset, row.origin, row.via))
        if site.name == "a":
            known = self.history.setdefault(place, {})
            for record in records_of(row.batch):
                assert record.offset not in known, "an offset was given twice"
                assert record.value is not None
                assert record.value not in known.values(), "a record was appended twice"
                known[record.offset] = record.value

    def note_starts(self, site: Site) -> None:
        """Remember how far each log start has come."""
        for topic in site.log.announced.state.topics():
            for partition in range(topic.partitions):
                place = (topic.incarnation, partition)
                state = site.log.announced.state.partition(topic.number, partition)
                site.starts[place] = max(state.start, site.starts.get(place, 0))
                assert state.log_start >= site.log_starts.get(place, 0), f"{site.name}: deleted records are back"
                site.log_starts[place] = state.log_start

    def check(self) -> None:
        """Everything that must hold at any moment."""
        for site in self.sites.values():
            self._check_records(site)
        for link in LINKS:
            self._check_positions(link)

    def _check_records(self, site: Site) -> None:
        for topic in site.log.announced.state.topics():
            for partition in range(topic.partitions):
                place = (topic.incarnation, partition)
                state = site.log.announced.state.partition(topic.number, partition)
                found = values_at(site.log, topic.number, partition)
                known = self.history.get(place, {})
                for offset, value in found.items():
                    assert known.get(offset) == value, f"{site.name}: another record at {offset}"
                gaps = {
                    offset
                    for gap in site.log.announced.state.gaps()
                    if (gap.topic, gap.partition) == (topic.name, partition)
                    for offset in range(gap.start, gap.end)
                }
                missing = set(range(state.log_start, state.end)) - set(found)
                assert missing <= gaps, f"{site.name}: offsets {sorted(missing - gaps)} are silently missing"
                if site.name == "a":
                    assert state.log_start >= self.deleted.get(place, 0), "a deletion that was acknowledged is lost"
                    self._check_acked(place, state.log_start, found)
                else:
                    self._check_gaps(site, place, gaps)

    def _check_acked(self, place: Place, start: int, found: dict[int, bytes | None]) -> None:
        for (of, offset), value in self.acked.items():
            if of == place and offset >= start:
                assert found.get(offset) == value, f"an acknowledged record at {offset} is lost"

    def _check_gaps(self, site: Site, place: Place, gaps: set[int]) -> None:
        """A gap is only what was gone at A (what B or C passed on was gone there, or they had it expired)."""
        upstream = [self.sites[link[0]] for link in LINKS if link[1] == site.name]
        gone = max(s.starts.get(place, 0) for s in upstream)
        gone = max(gone, self.sites["a"].starts.get(place, 0))
        assert all(offset < gone for offset in gaps), f"{site.name}: a false gap {sorted(gaps)}, gone below {gone}"

    def _check_positions(self, link: Link) -> None:
        """Whatever lies before a position is there, or noted, or what did away with it at the source is here or to
        come: a tombstone or the start of a log lies behind the rows that it stands for, and so behind a position that
        was recorded between them."""
        source, destination = (self.sites[name] for name in link)
        state = destination.log.announced.state
        positions = {slice: p.commit for (_, slice), p in state.positions(LINKS[link]).items()}
        assert all(commit <= source.log.announced.end for commit in positions.values())
        noted = {(key[1], key[2]) for key in state.notes(LINKS[link])}
        for seen in source.seen:
            if seen.commit >= positions.get(seen.slice, 0) or IDS[link[1]] in {seen.origin, seen.via}:
                continue
            if seen.place in noted or state.tombstone(seen.place[0]) is not None or self._is_here(destination, seen):
                continue
            assert self._will_be_gone(source, seen, positions[seen.slice]), (
                f"{link}: the position skipped offset {seen.last_offset} of {seen.place}"
            )

    def _is_here(self, site: Site, seen: Seen) -> bool:
        """The batch, or the gap in its place."""
        incarnation, partition = seen.place
        topic = site.log.announced.state.by_incarnation(incarnation)
        return topic is not None and site.log.announced.state.partition(topic.number, partition).end > seen.last_offset

    def _will_be_gone(self, source: Site, seen: Seen, position: int) -> bool:
        """From the position on the source tells that the batch's topic was deleted, or that it expired."""
        incarnation, partition = seen.place
        return any(
            row.kind == Kind.TOPIC_DELETED
            or (row.kind == Kind.START and row.partition == partition and row.base_offset > seen.last_offset)
            for row in rows_of(source.log, position)
            if source.names.get(row.topic) == incarnation
        )

    def check_equal(self) -> None:
        """Every replica stands where A stands."""
        a = self.sites["a"].log.announced.state
        for name in "bcd":
            state = self.sites[name].log.announced.state
            for topic in a.topics():
                copy = state.by_incarnation(topic.incarnation)
                assert copy is not None, f"{name}: topic {topic.name} never came"
                assert copy.partitions == topic.partitions
                for partition in range(topic.partitions):
                    expected = a.partition(topic.number, partition)
                    got = state.partition(copy.number, partition)
                    assert got.end == expected.end, f"{name}: ends at {got}, A at {expected}"
                    assert got.log_start >= expected.deleted_to, f"{name}: {got} has records that A has deleted"
            for link in LINKS:
                if link[1] == name:
                    assert not state.behind(LINKS[link]), f"{link}: {state.behind(LINKS[link])}"
            assert state.topic_count == a.topic_count
