"""Four sites, A → B → D and A → C → D, on storage with every fault, beside a plain model of what must hold.

The model knows every record that A ever had at an offset, which of them were acknowledged, and every row that any site
announced by commit number. It knows nothing of epochs, manifests, merges or positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from tests.streamlog.world import (
    FakeClock,
    Names,
    SeededRandomness,
    committed,
    installed,
    repair_frame,
    rows_of,
    sendable,
    values_at,
)
from tests.support.batches import produce

from fairlead.model.errors import Damaged, FairleadError, Fenced
from fairlead.model.settings import Settings
from fairlead.protocol.batch import CRC_AT, build_batch, records_of
from fairlead.storage.memory import Crashed, Fault, MemoryStorage
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.frames.codec import decode_frame, encode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.values import GrantRun, epoch_before
from fairlead.streamlog.writing.topics import create_topic, delete_topic, set_partitions
from fairlead.streamlog.writing.writer import Sealed, ShardLog

IDS = {name: name.encode() * 16 for name in "abcd"}
LINKS = {("a", "b"): b"1" * 16, ("a", "c"): b"2" * 16, ("b", "d"): b"3" * 16, ("c", "d"): b"4" * 16}
NAMES = ("ships", "ports", "t7")
TTL_MS = 10_000
SETTINGS = Settings(
    merge_commits_min=2, merge_idle_seconds=1.0, delete_grace_seconds=2.0, checkpoint_interval_seconds=5.0
)

Place = tuple[bytes, int]
"""(incarnation, partition)."""


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
    storage: MemoryStorage
    clock: FakeClock
    log: ShardLog
    sleepers: list[tuple[ShardLog, Sealed]] = field(default_factory=list)
    scanned: int = 0
    seen: list[Seen] = field(default_factory=list)
    starts: dict[Place, int] = field(default_factory=dict)
    """The furthest log start that the site ever had."""
    names: dict[int, bytes] = field(default_factory=dict)
    """Incarnation of every topic number."""


class World:
    """All sites and the model. Every method is one action; the caller chooses, by a seed or by Hypothesis."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.opened = 0
        self.sites: dict[str, Site] = {}
        for name in "abcd":
            storage, clock = MemoryStorage(), FakeClock()
            self.sites[name] = Site(name, storage, clock, self._open(name, storage, clock))
        self.counter = 0
        self.acked: dict[tuple[Place, int], bytes] = {}
        self.history: dict[Place, dict[int, bytes]] = {}
        self.frames: dict[tuple[str, str], list[Frame]] = {link: [] for link in LINKS}
        self.runs = dict.fromkeys(LINKS, 1)
        self.retries: list[tuple[Place, int, bytes]] = []
        self.sequence: dict[Place, int] = {}
        self.deleted: set[bytes] = set()

    # Opening

    def _open(self, name: str, storage: MemoryStorage, clock: FakeClock) -> ShardLog:
        self.opened += 1
        log = ShardLog.open(
            storage,
            "x",
            stream_id=IDS[name],
            clock=clock,
            randomness=SeededRandomness(self.opened * 7919 + ord(name)),
            settings=SETTINGS,
        )
        log.upkeep.ttl_ms = TTL_MS
        return log

    def reopen(self, name: str, *, power_fails: bool) -> None:
        """The process dies and another starts; with a power failure some of what was not synced is lost."""
        site = self.sites[name]
        if power_fails:
            lucky = self.random.random()
            site.storage.crash(lambda _: self.random.random() < lucky)
            site.sleepers.clear()
        else:
            site.storage.restart()
        self._open_until_it_opens(site)

    def _open_until_it_opens(self, site: Site) -> None:
        while True:
            try:
                site.log = self._open(site.name, site.storage, site.clock)
                break
            except (Crashed, FairleadError):
                site.storage.restart()
        self.scan(site)

    def take_over(self, name: str) -> None:
        """A second writer opens the shard while the first sleeps with a commit in its hand."""
        site = self.sites[name]
        old = site.log
        if old.announced.state.topic_count:
            self.counter += 1
            value = b"never %d" % self.counter
            topic = next(iter(old.announced.state.topics()))
            sealed = old.seal([lambda d: produce(d, topic.number, 0, build_batch([(None, value)]))])
            site.sleepers.append((old, sealed))
        self._open_until_it_opens(site)

    def wake(self, name: str) -> None:
        """A writer that slept through a takeover goes on: it must find out."""
        site = self.sites[name]
        if not site.sleepers:
            return
        log, sealed = site.sleepers.pop(self.random.randrange(len(site.sleepers)))
        if not sealed.rows:
            return
        try:
            log.write(sealed)
        except (Fenced, FairleadError):
            return
        except Crashed:
            self.reopen(name, power_fails=False)
            return
        raise AssertionError("a writer that slept through a takeover was acknowledged")

    def fault(self, name: str, fault: Fault, call: str, nth: int, times: int = 1) -> None:
        """Let a later call of the site's storage fail."""
        for more in range(times):
            self.sites[name].storage.fail(fault, call=call, nth=nth + more)  # type: ignore[arg-type]

    def land(self, name: str) -> None:
        """A late put lands."""
        storage = self.sites[name].storage
        if storage.late:
            storage.land(self.random.randrange(len(storage.late)))

    # Rows at A

    def run(self, site: Site, request) -> object | None:  # type: ignore[no-untyped-def]
        """A request's answer; None if it was not acknowledged. The site is open again afterwards."""
        try:
            return committed(site.log, request)[0].result()
        except Crashed:
            self.reopen(site.name, power_fails=self.random.random() < 0.5)
        except FairleadError:
            if site.log.health.stopped is not None:
                _no_damage(site.log)
                self.reopen(site.name, power_fails=self.random.random() < 0.3)
        finally:
            self.scan(site)
        return None

    def create(self, name: str) -> None:
        """A topic is made at A."""
        a = self.sites["a"]
        if a.log.announced.state.by_name(name) is None:
            self.run(a, lambda d: create_topic(d, name, self.random.randint(1, 2)))

    def grow(self, name: str) -> None:
        """A topic gets one more partition."""
        topic = self.sites["a"].log.announced.state.by_name(name)
        if topic is not None and topic.partitions < 4:
            self.run(self.sites["a"], lambda d: set_partitions(d, name, topic.partitions + 1))

    def delete(self, name: str) -> None:
        """A topic is deleted at A."""
        a = self.sites["a"]
        topic = a.log.announced.state.by_name(name)
        if topic is not None:
            self.run(a, lambda d: delete_topic(d, name))
            if a.log.announced.state.by_name(name) is None:
                self.deleted.add(topic.incarnation)

    def produce(self, name: str, partition: int, records: int) -> None:
        """An idempotent producer sends a batch, and sends it again until it is acknowledged."""
        a = self.sites["a"]
        topic = a.log.announced.state.by_name(name)
        if topic is None:
            return
        partition %= topic.partitions
        place = (topic.incarnation, partition)
        values = [b"%d" % (self.counter + i) for i in range(records)]
        self.counter += records
        sequence = self.sequence.get(place, 0)
        batch = build_batch([(None, v) for v in values], producer_id=9, producer_epoch=0, base_sequence=sequence)
        for _ in range(12):
            result = self.run(a, lambda d: produce(d, topic.number, partition, batch))
            if result is not None:
                base = result.base_offset  # type: ignore[attr-defined]
                self.acked.update({(place, base + i): value for i, value in enumerate(values)})
                self.sequence[place] = sequence + records
                return
        raise AssertionError("a produce was never acknowledged, though faults pass")

    # Upkeep

    def merge(self, name: str) -> None:
        """One merge job, installed by the writer that planned it, or by one that was taken over meanwhile."""
        site = self.sites[name]
        log = site.log
        try:
            job = log.upkeep.plan()
            if job is None:
                return
            self.opened += 1
            result = run_job.run(site.storage, SeededRandomness(self.opened * 104_729), job)
            if self.random.random() < 0.1:
                self.take_over(name)
                try:
                    installed(log, result)
                except Fenced:
                    return
                except FairleadError:
                    return
                raise AssertionError("a writer that was taken over installed a manifest")
            installed(log, result)
        except Crashed:
            self.reopen(name, power_fails=self.random.random() < 0.5)
        except FairleadError:
            if log.health.stopped is not None:
                _no_damage(log)
                self.reopen(name, power_fails=False)
        self.note_starts(site)

    def sweep(self, name: str) -> None:
        """Delete what manifests have replaced."""
        site = self.sites[name]
        try:
            site.log.upkeep.sweep(site.log.upkeep.take_due())
        except Crashed:
            self.reopen(name, power_fails=self.random.random() < 0.5)
        except FairleadError:
            pass

    def pass_time(self, name: str, ms: int) -> None:
        """Time goes by at one site."""
        self.sites[name].clock.pass_ms(ms)

    # Links

    def send(self, link: tuple[str, str], slice: int, back: int, length: int | None, *, new_run: bool) -> None:
        """A task makes a frame; it is in flight from now on.

        It begins `back` commits before the recorded position, or, where that is negative, after the newest frame in
        flight, which a task with a window of frames does.
        """
        source, destination = (self.sites[name] for name in link)
        if new_run:
            self.runs[link] += 1
        position = destination.log.announced.state.position((LINKS[link], 0, slice))
        at = 0 if position is None else position.commit
        start = max(0, at - back)
        if back < 0:
            start = max([at, *(frame.to_commit for frame in self.frames[link] if frame.slice == slice)])
        end = source.log.announced.end if length is None else min(source.log.announced.end, start + length)
        if start > end:
            return
        self.frames[link].append(self._frame(link, slice, start, end, GrantRun(1, self.runs[link])))

    def _frame(self, link: tuple[str, str], slice: int, start: int, end: int, run: GrantRun) -> Frame:
        source = self.sites[link[0]]
        rows = [
            r for r in self._rows(source, start, end) if slice_of_number(r.topic) == slice and sendable(r, IDS[link[1]])
        ]
        names = Names(source.log).of(rows)
        frame = Frame(
            link=LINKS[link],
            run=run,
            source=IDS[link[0]],
            shard=0,
            slice=slice,
            from_commit=start,
            to_commit=end,
            epoch_id=epoch_before(source.log.announced.epochs, end).id,
            topics=names,
            rows=[row for row in rows if row.topic in names],
            link_created_at=0,
        )
        return decode_frame(encode_frame(frame))

    def _rows(self, site: Site, start: int, end: int) -> list[Row]:
        """Rows as a task on the same storage reads them; one that dies is started again."""
        while True:
            try:
                return rows_of(site.log, start, end)
            except Crashed:
                self.reopen(site.name, power_fails=False)
            except FairleadError:
                site.storage.restart()

    def deliver(self, link: tuple[str, str], which: int, *, keep: bool, damage: bool) -> None:
        """A frame in flight arrives; it may arrive again, and one of its rows may be damaged."""
        if not self.frames[link]:
            return
        which %= len(self.frames[link])
        frame = self.frames[link][which] if keep else self.frames[link].pop(which)
        if damage:
            frame = self._damaged(frame)
        self.run(self.sites[link[1]], lambda d: apply_frame(d, frame))

    def _damaged(self, frame: Frame) -> Frame:
        rows = list(frame.rows)
        batches = [place for place, row in enumerate(rows) if row.kind == Kind.BATCH]
        if batches:
            place = self.random.choice(batches)
            data = bytearray(rows[place].batch)
            data[-1] ^= 1
            data[CRC_AT] ^= 1
            rows[place] = rows[place]._replace(batch=bytes(data))
        return replace(frame, rows=rows)

    def repair(self, link: tuple[str, str], *, lose: bool) -> None:
        """Bring partitions that are behind; `lose` loses all frames but the last, which is then empty."""
        source, destination = (self.sites[name] for name in link)
        self.runs[link] += 1
        for note in destination.log.announced.state.behind(LINKS[link]):
            topic = source.log.announced.state.by_incarnation(note.incarnation)
            if topic is None or note.conflict or note.partition >= topic.partitions:
                continue
            frame = self._repair_frame(link, topic.number, note.partition, note.end)
            if lose:
                frame = replace(frame, rows=())
            self.run(destination, lambda d, f=frame: apply_frame(d, f))

    def _repair_frame(self, link: tuple[str, str], number: int, partition: int, end: int) -> Frame:
        while True:
            site = self.sites[link[0]]
            try:
                frame = repair_frame(
                    site.log,
                    IDS[link[1]],
                    number,
                    partition,
                    end,
                    link=LINKS[link],
                    run=GrantRun(1, self.runs[link]),
                )
                return replace(frame, link_created_at=0)
            except Crashed:
                self.reopen(site.name, power_fails=False)
            except FairleadError:
                site.storage.restart()

    # The model

    def scan(self, site: Site) -> None:
        """Take in what the site has announced since."""
        with site.storage.faults.held_off():
            for row in rows_of(site.log, site.scanned, site.log.announced.end):
                self._see(site, row)
        site.scanned = site.log.announced.end
        self.note_starts(site)

    def _see(self, site: Site, row: Row) -> None:
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
                start = site.log.announced.state.partition(topic.number, partition).start
                site.starts[place] = max(start, site.starts.get(place, 0))

    def check(self) -> None:
        """Everything that must hold at any moment."""
        for site in self.sites.values():
            site.storage.faults.clear()
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
                missing = set(range(state.start, state.end)) - set(found)
                assert missing <= gaps, f"{site.name}: offsets {sorted(missing - gaps)} are silently missing"
                if site.name == "a":
                    self._check_acked(place, state.start, found)
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

    def _check_positions(self, link: tuple[str, str]) -> None:
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

    def settle(self) -> None:
        """Faults end, links go on: every replica comes to where A stands."""
        for site in self.sites.values():
            site.storage.faults.clear()
        for _ in range(3):
            for link in (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")):
                self.runs[link] += 1
                for slice in {self.slice_of(name) for name in NAMES}:
                    self.frames[link].clear()
                    self.send(link, slice, 0, None, new_run=False)
                    self.deliver(link, 0, keep=False, damage=False)
                self.repair(link, lose=False)
        self.check()
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
            for link in LINKS:
                if link[1] == name:
                    assert not state.behind(LINKS[link]), f"{link}: {state.behind(LINKS[link])}"
            assert state.topic_count == a.topic_count

    @staticmethod
    def slice_of(name: str) -> int:
        """Slice of a topic's name."""
        from fairlead.model.names import slice_of

        return slice_of(name)


def _no_damage(log: ShardLog) -> None:
    assert not isinstance(log.health.stopped, Damaged), f"nothing was damaged, yet: {log.health.stopped}"


__all__ = ["IDS", "LINKS", "NAMES", "TTL_MS", "World"]
