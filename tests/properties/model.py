"""What all sites have shown: for every partition a tree of epochs, each with its owner and the records that it gave
offsets to, which of them were acknowledged, and every batch that any site announced.

It knows nothing of manifests, merges, segments or frames. `invariants` says what must hold of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple, Protocol

from tests.properties.lives import Held, nothing_is_gone_too_early
from tests.properties.log_shown import LogShown
from tests.properties.naming import NamesGiven
from tests.properties.partners import a_partner_brings_its_own
from tests.properties.shape import IDS, Link, Shape
from tests.streamlog.world import FakeClock

from fairlead.protocol.batch import records_of
from fairlead.storage.interface import Storage
from fairlead.storage.memory import Call, Fault, Faults
from fairlead.streamlog import payloads
from fairlead.streamlog.merging.job import MergeJob, MergeResult
from fairlead.streamlog.numbers import slice_of_number, slices_of_mask
from fairlead.streamlog.payloads import History, PositionPayload, TopicPayload
from fairlead.streamlog.requests.ownership import ROLLED_BACK
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import PartitionState, Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.writer import Sealed, ShardLog

Place = tuple[bytes, int]
"""(incarnation, partition)."""


class FaultyStorage(Storage, Protocol):
    """A storage whose calls fail and whose power does."""

    faults: Faults
    late: list[tuple[str, bytes]]

    def fail(self, fault: Fault, *, call: Call = "put", nth: int = 1) -> None: ...
    def crash(self, survives: Callable[[str], bool] = ...) -> None: ...
    def restart(self) -> None: ...
    def land(self, place: int = 0) -> str: ...
    def snapshot(self) -> dict[str, bytes]: ...
    def replace(self, objects: dict[str, bytes]) -> None: ...


class Seen(NamedTuple):
    """A batch that a site announced."""

    commit: int
    slice: int
    place: Place
    epoch: int
    last_offset: int
    origin: bytes | None
    via: bytes | None


class Gap(NamedTuple):
    """Offsets that a link declared missing."""

    first: int
    end: int
    via: bytes
    """The stream that said so."""
    commit: int
    """In that stream's log."""


@dataclass
class Shown:
    """What a site has announced; a site that is rolled back has shown less."""

    scanned: int = 0
    seen: list[Seen] = field(default_factory=list)
    log_starts: dict[Place, int] = field(default_factory=dict)
    """The log start for clients, which goes back only where a log is cut below it."""
    gone: dict[Place, int] = field(default_factory=dict)
    """The furthest that it ever was."""
    held: dict[Place, list[Held]] = field(default_factory=dict)
    """The batches that have not been cut off, nor were gone when that was looked at last."""
    limited: set[bytes] = field(default_factory=set)
    """Incarnations of the topics that ever had settings of their own there."""
    topics: dict[int, TopicPayload] = field(default_factory=dict)
    """What every topic number means, as the last row of it says."""
    made: dict[int, int] = field(default_factory=dict)
    """By topic number, the commit that made it: a topic that lives again has another number."""
    positions: dict[tuple[bytes, int], tuple[int, tuple[int, int]]] = field(default_factory=dict)
    """By (link, slice), the commit and the run of the last position."""
    gaps: dict[Place, list[Gap]] = field(default_factory=dict)
    """Gaps that links brought."""
    deleted_to: dict[Place, int] = field(default_factory=dict)
    """The offset below which the topic's owner has deleted all records, as far as rows say."""
    named: dict[bytes, list[tuple[int, str]]] = field(default_factory=dict)
    """By incarnation, the commits at which it got its names, and those."""
    log: LogShown = field(default_factory=LogShown)
    moved: dict[bytes, set[int]] = field(default_factory=dict)
    """Slices of a link whose position has moved, or of which a note has gone, since that was looked at."""

    def names_from(self, incarnation: bytes, commit: int) -> list[str]:
        """The name that a topic had at a commit, and those that it has had since."""
        named = self.named.get(incarnation, [])
        before = [name for at, name in named if at < commit]
        return [*before[-1:], *(name for at, name in named if at >= commit)]


@dataclass
class Site:
    """One site: its storage and clock live on, its log is opened again and again."""

    name: str
    storage: FaultyStorage
    clock: FakeClock
    log: ShardLog
    shard: Shard
    sleepers: list[tuple[ShardLog, Sealed]] = field(default_factory=list)
    shown: Shown = field(default_factory=Shown)
    snapshot: tuple[dict[str, bytes], Shown] | None = None
    """What a backup of it holds."""
    merging: tuple[ShardLog, MergeJob, MergeResult] | None = None
    """A job that is done and not installed yet, and the writer that planned it."""
    changed: bool = False
    """It was opened again, or merged: what was read before may read otherwise now."""
    checked: int = 0
    """Up to this commit all was looked at."""
    replayed: tuple[ShardState, int] | None = None
    """What its rows say up to a commit, one after the other."""
    step_ms: int = 0
    """Its wall clock minus the monotonic one, if it had been put forward only."""

    @property
    def stream_id(self) -> bytes:
        return IDS[self.name]

    @property
    def path(self) -> str:
        """Where its stream is."""
        return f"/mapr/{self.name}/s"


@dataclass
class Epoch:
    """A part of a partition's history in which one owner gives the offsets."""

    number: int
    owner: bytes
    first: int
    before: History
    """Epochs and their first offsets below `first`."""
    writer: bytes
    """Id of the writer epoch of the log in which it was begun."""
    records: dict[int, bytes] = field(default_factory=dict)
    branches: list[dict[int, bytes]] = field(default_factory=list)
    """The records that it had when its owner was rolled back, each time: others may hold them."""

    @property
    def path(self) -> History:
        """Of all history that ends in this epoch."""
        return (*self.before, (self.number, self.first))

    def has(self, found: Mapping[int, bytes | None]) -> bool:
        """Whether these records have stood at their offsets, all of them in one history."""
        return any(
            all(records.get(offset) == value for offset, value in found.items())
            for records in (self.records, *self.branches)
        )


def class_of(writer_epoch_id: bytes) -> int:
    """What the epochs that a writer begins leave, divided by 2,048, as the format says. Two writers of one class may
    begin one epoch, which people settle."""
    return int.from_bytes(sha256(writer_epoch_id).digest()[:2], "big") % 2048


class Model:
    """All that the sites have shown."""

    def __init__(self, sites: Mapping[str, Site], shape: Shape) -> None:
        self.sites = sites
        self._shape = shape
        self.trees: dict[Place, dict[int, Epoch]] = {}
        self.acked: dict[Place, dict[tuple[int, int], bytes]] = {}
        """By (epoch, offset), the records that a producer was told of."""
        self.deleted_to: dict[Place, tuple[int, int]] = {}
        """In which epoch, and up to where, records were deleted, as the owner has acknowledged."""
        self.deletions: dict[Place, set[tuple[int, int]]] = {}
        """The same of all that owners have asked for, whatever became of it."""
        self.deleted_at: set[tuple[bytes, str]] = set()
        """Incarnations, and the sites at which they were deleted, by whichever owner: all that was there went with
        them, a tail that was not copied yet too."""
        self.ended: set[bytes] = set()
        """Incarnations that some owner has deleted."""
        self.yielded_at: set[tuple[bytes, str]] = set()
        """Incarnations, and the sites at which they made room for another one of their name."""
        self.deleted: set[bytes] = set()
        """Incarnations whose deletion the owner has announced."""
        self.of_one_class: set[bytes] = set()
        """Incarnations that two writers of one class have taken over."""
        self.rolled_back: set[bytes] = set()
        """Incarnations whose owner was rolled back and had shown more of them: there may be two histories now."""
        self.given = NamesGiven(shape)
        self.slices: set[int] = set()
        """Of all topics of which there are rows."""
        self.answers = False
        """Sources hear of owners only in answers to what they have sent."""
        self.decides = False
        """People will: until then no topic is passed over because of its name."""
        self.decided = False
        """People have ended all conflicts of names."""
        self.names: dict[str, dict[bytes, bytes]] = {}
        """By name, the incarnations that ever had it, and their first owners."""
        self.tails: dict[bytes, bytes] = {}
        """Incarnations of diverged topics, and those of the topics whose logs were cut."""
        self.tail_of: dict[tuple[bytes, int, int, bool], bytes] = {}
        """By the topic that was cut, the last epoch of the tail and that of the owner for whom: the diverged topic."""
        self.torn: set[str] = set()
        """Sites that were rolled back and had shown more."""

        self.left_out: dict[Place, int] = {}
        """How far the past goes that some link was told not to bring."""

    def leave_out(self, source: Site) -> None:
        """A link from that site begins now."""
        state = source.log.announced.state
        for topic in state.topics():
            for partition in range(topic.partitions):
                place, end = (topic.incarnation, partition), state.partition(topic.number, partition).end
                self.left_out[place] = max(self.left_out.get(place, 0), end)

    # Taking rows in

    def see(self, site: Site, row: Row) -> None:
        """A row that a site announced."""
        shown = site.shown
        if row.kind in {Kind.TOPIC, Kind.TOPIC_DELETED}:
            self.slices.add(slice_of_number(row.topic))
        before = shown.topics.get(row.topic)
        if before is None or before.incarnation not in self.tails:
            a_partner_brings_its_own(self._shape, site.name, row, before, shown.log, self.tails)
        shown.log.see(site.name, row, before, self._gaps_before(site, row))
        if row.kind == Kind.TOPIC:
            self._topic(site, row)
        elif row.kind == Kind.TRUNCATE and row.topic in shown.topics:
            self._cut(shown, row)
        elif row.kind == Kind.TOPIC_DELETED:
            self._topic_deleted(site, row)
        elif row.kind == Kind.BATCH and row.topic in shown.topics:
            self._batch(site, row)
        elif row.kind == Kind.POSITION:
            self._position(shown, payloads.decode_position(row.batch))
        elif row.kind == Kind.START and row.topic in shown.topics:
            self._start(site, row)
        elif row.kind == Kind.BEHIND:
            note = payloads.decode_behind(row.batch)
            if note.reason is None:
                shown.moved.setdefault(note.link, set()).update(range(16))

    def _gaps_before(self, site: Site, row: Row) -> list[tuple[int, int]]:
        """Gaps of a row's partition that links have brought before, and that have not expired since."""
        topic = site.shown.topics.get(row.topic)
        place = (b"" if topic is None else topic.incarnation, row.partition)
        gone = site.shown.gone.get(place, 0)
        return [(gap.first, gap.end) for gap in site.shown.gaps.get(place, ()) if gap.end > gone]

    def _cut(self, shown: Shown, row: Row) -> None:
        """A log was cut: every holder of that tail keeps it in the same topic."""
        place = (shown.topics[row.topic].incarnation, row.partition)
        payload = payloads.decode_truncate(row.batch)
        if row.base_offset < 0:
            return
        if payload.keep is not None:
            self.tails[payload.keep] = place[0]
            written_again = payload.reason == ROLLED_BACK
            known = self.tail_of.setdefault((place[0], row.epoch, payload.by_epoch, written_again), payload.keep)
            assert known == payload.keep, f"two diverged topics for the tail of epoch {row.epoch} of {place}"
        shown.log_starts[place] = min(shown.log_starts.get(place, 0), row.base_offset)
        shown.deleted_to[place] = min(shown.deleted_to.get(place, 0), row.base_offset)
        shown.held[place] = [each for each in shown.held.get(place, ()) if each.base_offset < row.base_offset]
        gaps = shown.gaps.get(place, ())
        shown.gaps[place] = [gap._replace(end=min(gap.end, row.base_offset)) for gap in gaps]

    def _start(self, site: Site, row: Row) -> None:
        """Something is gone, or never came. What an owner of before has deleted does not count once its successor is
        known, but as far as that one says so."""
        shown, topic = site.shown, site.shown.topics[row.topic]
        place, start = (topic.incarnation, row.partition), payloads.decode_start(row.batch)
        if start.deleted_to > shown.deleted_to.get(place, 0):
            told = topic.deleted_to[row.partition] if row.partition < len(topic.deleted_to) else 0
            assert start.epoch >= topic.epoch or start.deleted_to <= told, (
                f"{site.name}: an owner of before has deleted {place} to {start.deleted_to}, the present one to {told}"
            )
            shown.deleted_to[place] = start.deleted_to
        if row.via is not None and start.gap_from is not None and place[0] not in self.tails:
            gap = Gap(start.gap_from, row.base_offset, row.via, row.via_commit)
            shown.gaps.setdefault(place, []).append(gap)

    def _position(self, shown: Shown, position: PositionPayload) -> None:
        slices = slices_of_mask(position.slices)
        for key in ((position.link, each) for each in slices):
            if position.commit is None:
                shown.positions.pop(key, None)
                continue
            run = (position.run_epoch, position.run_counter)
            last, last_run = shown.positions.get(key, (0, run))
            assert position.commit >= last, f"a position goes back from {last} to {position.commit}"
            assert run >= last_run, f"a position is moved by run {run} after {last_run}"
            shown.positions[key] = position.commit, run
        if position.commit is not None:
            shown.moved.setdefault(position.link, set()).update(slices)

    def _topic(self, site: Site, row: Row) -> None:
        topic = payloads.decode_topic(row.batch)
        before = site.shown.topics.get(row.topic)
        if topic.configs:
            site.shown.limited.add(topic.incarnation)
        site.shown.topics[row.topic] = topic
        site.shown.made.setdefault(row.topic, row.commit)
        named = site.shown.named.setdefault(topic.incarnation, [])
        if not named or named[-1][1] != topic.name:
            named.append((row.commit, topic.name))
        self.given.see(site, row, before, topic, self.tails.get(topic.incarnation))
        self.names.setdefault(topic.name, {}).setdefault(topic.incarnation, topic.owner)
        self._is_made_room_for(site, row, topic)
        if row.via is not None and before is not None and topic.epoch > before.epoch:
            via = next(name for name in self.sites if IDS[name] == row.via)
            assert row.via == before.owner or self._shape.trusts(site.name, via), (
                f"{site.name}: {via}, a partner, gives away {topic.name} of {before.owner!r}"
            )
        assert before is None or topic.owner == before.owner or topic.epoch > before.epoch, (
            f"{site.name}: {topic.name} has another owner in epoch {topic.epoch}"
        )
        if topic.incarnation in self.tails:
            self._diverged(topic)
        elif row.via is None:
            giver = topic.owner if before is None else before.owner
            assert site.stream_id in {topic.owner, giver}, f"{site.name} says that it wrote {topic.name} of another one"
            if topic.epoch >= self.epoch_of(topic.incarnation):
                self.deleted.discard(topic.incarnation)
            for partition in range(topic.partitions):
                self._announce_epoch((topic.incarnation, partition), topic, site.log.epoch.id)
                if before is not None and topic.owner != site.stream_id and topic.epoch > before.epoch:
                    self._all_is_handed_over((topic.incarnation, partition), before.epoch, topic.epoch)

    def _all_is_handed_over(self, place: Place, epoch: int, later: int) -> None:
        """Who gives a topic away, and has not got all of it itself, gives all of it."""
        if place[0] in self.rolled_back:
            return
        for number, offset in self.acked.get(place, {}):
            assert not self.is_on_path(place, epoch, number, offset) or self.is_on_path(place, later, number, offset), (
                f"acknowledged {offset} of {place}, epoch {number}, was not handed over with epoch {later}"
            )

    def _is_made_room_for(self, site: Site, row: Row, topic: TopicPayload) -> None:
        """8: of two topics of one name which never held a record, that of the smaller id has it everywhere."""
        room = site.shown.log.made_room
        if room is not None and (room.commit, room.name) == (row.commit, topic.name) and row.via is not None:
            assert self._ever_held(topic) or topic.owner < room.owner, f"{site.name}: {room} makes room for {topic}"
            site.shown.log.made_room = None  # the one for which it did may be deleted in the same commit

    def _ever_held(self, topic: TopicPayload) -> bool:
        trees = (self.trees.get((topic.incarnation, each), {}) for each in range(topic.partitions))
        return any(epoch.records or epoch.branches for tree in trees for epoch in tree.values())

    def _diverged(self, topic: TopicPayload) -> None:
        """A topic that has the history of another one, up to an epoch."""
        for partition in range(topic.partitions):
            tree = self.trees.get((self.tails[topic.incarnation], partition), {})
            last = tree.get(topic.epoch)
            path = () if last is None else last.path
            known = self.trees.setdefault((topic.incarnation, partition), {})
            known.update({number: tree[number] for number, _ in path if number in tree})

    def _announce_epoch(self, place: Place, topic: TopicPayload, writer: bytes) -> None:
        tree = self.trees.setdefault(place, {})
        first, before = topic.since[place[1]] if place[1] < len(topic.since) else (0, ())
        known = tree.get(topic.epoch)
        if known is None:
            tree[topic.epoch] = Epoch(topic.epoch, topic.owner, first, before, writer)
        elif (known.owner, known.first) != (topic.owner, first):
            differ = known.writer != writer and class_of(known.writer) == class_of(writer)
            differ |= place[0] in self.of_one_class
            assert differ, f"two changes of owner have epoch {topic.epoch} of {place}"
            self.rolled_back.add(place[0])  # once in 2,048 times

    def _topic_deleted(self, site: Site, row: Row) -> None:
        deletion = payloads.decode_topic_deleted(row.batch)
        # An owner of a higher epoch may bring it again.
        for known in (site.shown.log_starts, site.shown.gaps, site.shown.held):
            for place in [place for place in known if place[0] == deletion.incarnation]:
                known.pop(place)
        topic = site.shown.topics.get(row.topic)
        if deletion.yielded:
            self.yielded_at.add((deletion.incarnation, site.name))
            return
        self.deleted_at.add((deletion.incarnation, site.name))
        if row.via is None:
            is_the_owners = topic is not None and topic.owner == site.stream_id
            assert is_the_owners, f"{site.name} deletes {deletion.name}, which is not its own"
            self.ended.add(deletion.incarnation)
        assert deletion.incarnation in self.ended, f"{site.name}: nobody has deleted {deletion.name}"
        if row.via is not None or topic is None or topic.owner != site.stream_id:
            return
        if topic.epoch == self.epoch_of(topic.incarnation):
            self.deleted.add(deletion.incarnation)

    def _batch(self, site: Site, row: Row) -> None:
        topic = site.shown.topics[row.topic]
        place = (topic.incarnation, row.partition)
        slice_ = slice_of_number(row.topic)
        seen = Seen(row.commit, slice_, place, row.epoch, row.last_offset, row.origin, row.via)
        site.shown.seen.append(seen)
        site.shown.held.setdefault(place, []).append(Held(row.base_offset, row.last_offset, row.appended_at))
        records = [(record.offset, record.value) for record in records_of(row.batch)]
        epoch = self.trees[place].get(row.epoch)
        assert epoch is not None, f"{site.name}: a batch of epoch {row.epoch}, which nobody has begun"
        if row.via is None and topic.incarnation not in self.tails:
            self._written(site, topic, place, epoch, records)
        else:
            known = epoch.has(dict(records)) or place[0] in self.of_one_class
            assert known, f"{site.name}: other records came to {place}: {records}"

    def _written(
        self,
        site: Site,
        topic: TopicPayload,
        place: Place,
        epoch: Epoch,
        records: Sequence[tuple[int, bytes | None]],
    ) -> None:
        assert topic.owner == site.stream_id, f"{site.name} gave an offset of a topic that it does not own"
        assert epoch.number == topic.epoch, f"{site.name} writes epoch {epoch.number}, the topic has {topic.epoch}"
        if place[0] in self.of_one_class:  # two owners write one epoch, which people settle
            epoch.records.update({offset: value for offset, value in records if value is not None})
            epoch.branches.append({offset: value for offset, value in records if value is not None})
            return
        if not epoch.records and not epoch.branches:
            assert records[0][0] == epoch.first, f"{site.name}: epoch {epoch.number} begins at {records[0][0]}"
        for offset, value in records:
            assert value is not None
            assert not self._stands_before(place, epoch, value), f"{site.name}: {value!r} was appended twice"
            assert offset not in epoch.records, f"{site.name}: offset {offset} was given twice in an epoch"
            assert value not in epoch.records.values(), f"{site.name}: {value!r} was appended twice"
            assert offset >= epoch.first, f"{site.name}: offset {offset} lies before the epoch's first, {epoch.first}"
            epoch.records[offset] = value

    def _stands_before(self, place: Place, epoch: Epoch, value: bytes) -> bool:
        """Whether the history below an epoch has that record."""
        tree = self.trees[place]
        return any(
            first <= offset < epoch.first
            for number, first in epoch.before
            for offset, held in tree[number].records.items()
            if held == value and self.is_on_path(place, epoch.number, number, offset)
        )

    def note_starts(self, site: Site) -> None:
        """Remember how far each log start has come."""
        shown = site.shown
        for topic in site.log.announced.state.topics():
            for partition in range(topic.partitions):
                place = (topic.incarnation, partition)
                state = site.log.announced.state.partition(topic.number, partition)
                before = shown.log_starts.get(place, 0)
                assert state.log_start >= before, f"{site.name}: deleted records are back"
                if state.log_start > before:
                    self._note_gone(site, topic, place, before, state)
                shown.log_starts[place] = state.log_start
                shown.gone[place] = max(state.log_start, shown.gone.get(place, 0))

    def _note_gone(self, site: Site, topic: Topic, place: Place, before: int, state: PartitionState) -> None:
        """Records of a partition have gone."""
        held = site.shown.held.get(place, [])
        if topic.incarnation not in site.shown.limited:
            newest_ms = site.clock.monotonic + site.step_ms
            nothing_is_gone_too_early(f"{site.name}: {topic.name}", state, before, held, newest_ms=newest_ms)
        site.shown.held[place] = [each for each in held if each.last_offset >= state.log_start]

    def acknowledge(self, place: Place, base: int, values: Sequence[bytes]) -> None:
        """A producer was told so."""
        if place[0] in self.of_one_class:
            return
        epoch = next(each.number for each in self.trees[place].values() if each.records.get(base) == values[0])
        acked = self.acked.setdefault(place, {})
        acked.update({(epoch, base + at): value for at, value in enumerate(values)})

    # Rolling back

    def keep(self, site: Site) -> Shown:
        """What a backup of the site shows."""
        return deepcopy(site.shown)

    def roll_back(self, site: Site, to: Shown) -> None:
        """The site is what its backup was. What it alone had given is lost where no other site holds it."""
        before, site.shown = site.shown, deepcopy(to)
        if before.scanned <= to.scanned:
            return
        self.torn.add(site.name)
        kept = {(seen.place, seen.epoch): seen.last_offset + 1 for seen in to.seen if seen.via is None}
        for place, tree in self.trees.items():
            for epoch in tree.values():
                if epoch.owner == site.stream_id:
                    self._lose(place, epoch, kept.get((place, epoch.number), epoch.first))

    def _lose(self, place: Place, epoch: Epoch, end: int) -> None:
        """What its owner has no more from offset `end` on; acknowledged or not, it may be written again."""
        self.rolled_back.add(place[0])
        epoch.branches.append(dict(epoch.records))
        for offset in [offset for offset in epoch.records if offset >= end]:
            del epoch.records[offset]
            self.acked.get(place, {}).pop((epoch.number, offset), None)
        self.deleted_to.pop(place, None)

    # What there is

    def owner_of(self, incarnation: bytes) -> bytes | None:
        """Of the highest epoch that anybody has begun."""
        tree = self.trees.get((incarnation, 0))
        return None if tree is None else tree[max(tree)].owner

    def owners_of(self, incarnation: bytes) -> set[bytes]:
        """All that it ever had."""
        return {epoch.owner for epoch in self.trees.get((incarnation, 0), {}).values()}

    def epoch_of(self, incarnation: bytes) -> int:
        """The highest that anybody has begun; -1 if there is none."""
        return max(self.trees.get((incarnation, 0), ()), default=-1)

    def is_on_path(self, place: Place, last_epoch: int, epoch: int, offset: int) -> bool:
        """Whether the history that ends in `last_epoch` has the records of `epoch` at that offset."""
        last = self.trees[place].get(last_epoch)
        path = ((last_epoch, 0),) if last is None else last.path
        return (
            max((entry for entry in path if entry[1] <= offset), key=lambda entry: entry[0], default=(-1, 0))[0]
            == epoch
        )

    def deletable_to(self, place: Place, last_epoch: int) -> int:
        """The highest offset to which anybody has deleted records of the history that ends in `last_epoch`."""
        return max(
            (min(to, self._parts_at(place, by, last_epoch)) for by, to in self.deletions.get(place, ())), default=0
        )

    def _parts_at(self, place: Place, one: int, other: int) -> int:
        """Where the histories that end in these epochs part."""
        tree, ends = self.trees[place], list[dict[int, int]]()
        for path in (tree[each].path if each in tree else ((each, 0),) for each in (one, other)):
            nexts = [first for _, first in path[1:]] + [2**62]
            ends.append({number: end for (number, _), end in zip(path, nexts, strict=True)})
        common = max(ends[0].keys() & ends[1].keys(), default=None)
        return 0 if common is None else min(found[common] for found in ends)

    def is_history(self, place: Place, last_epoch: int, found: Mapping[int, bytes | None]) -> bool:
        """Whether these records stand at their offsets in the history that ends in `last_epoch`."""
        tree = self.trees[place]
        path = tree[last_epoch].path
        ends = [first for _, first in path[1:]] + [2**62]
        return all(
            tree[number].has({offset: value for offset, value in found.items() if first <= offset < end})
            for (number, first), end in zip(path, ends, strict=True)
        )

    def brings(self, incarnation: bytes) -> Callable[[Link], bool]:
        """Whether a link lets a topic by, by the name that it has at the source now."""
        return lambda link: self.given.brings_now(link, incarnation)

    def has_contested_name(self, incarnation: bytes) -> bool:
        """Any of the names that it ever had."""
        return any(incarnation in found and self.contested(name) for name, found in self.names.items())

    def contested(self, name: str) -> bool:
        """Two owners have used the name, or one that was rolled back, or the topic has another owner and the one before
        has given its name to the next: who holds it is for people to say, until they have."""
        if self.decided:
            return False
        incarnations = self.names.get(name, {})
        moved = len(incarnations) > 1 and any(
            each in self.tails or len(self.owners_of(each)) > 1 for each in incarnations
        )
        return moved or len(set(incarnations.values())) > 1 or not self.rolled_back.isdisjoint(incarnations)
