"""Consumer groups that read at one site and another: each method is one action.

7: what a site tells a group to go on from lies not beyond its log, and whatever it holds below that the group has read
somewhere; its members are not moved by what others of the group do elsewhere; and when all is healed, all sites say the
same, but where the group went its own way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tests.properties.model import Place, Site
from tests.properties.owners import topics_of
from tests.properties.shape import DIVERGED
from tests.properties.sites import World
from tests.streamlog.world import values_at

from fairlead.streamlog.cursors import Cursor, CursorPair
from fairlead.streamlog.requests.cursors import (
    MOVED_VERSIONS,
    adopt_cursor,
    commit_cursor,
    delete_cursor,
    publish_cursors,
)
from fairlead.streamlog.values import Topic

GROUPS = ("g", "h")
ONE_PLACE = "h"
"""A group that is at work at one site only: where it goes on, its members elsewhere are gone."""
READ_MAX = 4


@dataclass
class Members:
    """Those of a group at one site; as one, they read all partitions."""

    since: int
    positions: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """Where they read on, and how often the partition had been cut when they were told."""
    told: dict[Place, int] = field(default_factory=dict)
    """The epoch that they were told with it."""
    committed: dict[Place, tuple[int, int, int]] = field(default_factory=dict)
    """What they have committed last, the topic's number, which is another one once it was deleted, and how often the
    partition had been cut."""
    late: dict[Place, Late] = field(default_factory=dict)
    """What they have read and not committed yet."""
    first: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """The topic's number, and the version of the first commit that they surely made."""


class Late(NamedTuple):
    """A commit that is still to come."""

    number: int
    offset: int
    epoch: int
    known_cuts: int
    """Of cuts from this commit of the log on they know nothing."""


class Known(NamedTuple):
    """The newest commit from elsewhere."""

    origin: bytes = b""
    version: int = 0


@dataclass
class HasRead:
    """What a group has read of a partition, at all sites together."""

    first: int
    """Where it began."""
    values: set[bytes | None] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    """Offsets of records that were gone, or had never come, where it read on behind them."""


class Groups:
    """All groups, at all sites."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.late = False
        """Members commit some of what they read a while later; and one of the groups is at work at one site only."""
        self._members: dict[tuple[str, str], Members] = {}
        self._read: dict[tuple[str, Place], HasRead] = {}
        self._made: dict[tuple[str, Place, bytes], dict[int, Known]] = {}
        """By group, partition and stream, the versions of what was committed there, each with what was known then."""

    # Actions

    def read(self, site: Site, choose: Random) -> None:
        """Members of a group at the site read some records, and commit, or die before that."""
        self.check(site)
        group = choose.choice(GROUPS)
        topics = [topic for topic in site.log.announced.state.topics() if DIVERGED not in topic.name]
        if not topics:
            return
        topic = choose.choice(sorted(topics, key=lambda topic: topic.number))
        partition = choose.randrange(topic.partitions)
        self._is_at_work(site, group)
        members = self._members.setdefault((site.name, group), Members(site.log.announced.end))
        offset, epoch = self._read_on(site, group, members, topic, partition, choose)
        if not self.late and choose.random() >= 0.8:
            return
        said, told = choose.random(), members.told[topic.incarnation, partition]
        epoch = epoch if said < 0.5 else told if said < 0.7 else -1
        commit = Late(topic.number, offset, epoch, site.log.announced.end)
        if self.late and choose.random() >= 0.7:
            members.late[topic.incarnation, partition] = commit
        else:
            self._commit(site, group, members, (topic.incarnation, partition), commit)

    def commit_late(self, site: Site, choose: Random) -> None:
        """Members commit what they have read a while ago; the partition may have been cut since."""
        found = [(group, members) for (at, group), members in self._members.items() if at == site.name and members.late]
        if found:
            group, members = choose.choice(found)
            place = choose.choice(list(members.late))
            self._commit(site, group, members, place, members.late.pop(place))

    def read_all(
        self, site: Site, group: str, topic: Topic, partition: int, choose: Random, *, late: bool = False
    ) -> None:
        """Members of a group at the site read a partition to its end, and commit that; or later."""
        self.check(site)
        self._is_at_work(site, group)
        members = self._members.setdefault((site.name, group), Members(site.log.announced.end))
        offset, epoch = self._read_on(site, group, members, topic, partition, choose, whole=True)
        said, place = choose.random(), (topic.incarnation, partition)
        epoch = epoch if said < 0.5 else members.told.get(place, -1) if said < 0.7 else -1
        commit = Late(topic.number, offset, epoch, site.log.announced.end)
        if late:
            members.late[place] = commit
        else:
            self._commit(site, group, members, place, commit)

    def commit_all_late(self, site: Site) -> None:
        """Members at the site commit what they have read a while ago."""
        for group, members in [(group, members) for (at, group), members in self._members.items() if at == site.name]:
            for place in list(members.late):
                self._commit(site, group, members, place, members.late.pop(place))

    def go(self, site: Site, group: str) -> None:
        """All members of a group at the site go."""
        self._members.pop((site.name, group), None)

    def _is_at_work(self, site: Site, group: str) -> None:
        """A group at work at one site only has no members elsewhere any more."""
        if self.late and group == ONE_PLACE:
            for key in [key for key in self._members if key[1] == group and key[0] != site.name]:
                del self._members[key]

    def leave(self, site: Site, choose: Random) -> None:
        """All members of a group at the site go, or die."""
        self._members.pop((site.name, choose.choice(GROUPS)), None)

    def publish(self, site: Site) -> None:
        """What was committed is told to links."""
        keys = list(site.log.announced.state.cursor_table.unpublished)
        if keys:
            self._world.run(site, lambda d: publish_cursors(d, keys))

    def change(self, site: Site, choose: Random) -> None:
        """Somebody deletes a cursor of a group without members, or takes over that of another site."""
        change = choose.choice([adopt_cursor, delete_cursor])
        found = list(site.log.announced.state.cursor_table.all())
        if found:
            group, (number, partition), _ = choose.choice(found)
            if (site.name, group) not in self._members:
                done = self._world.run(site, lambda d: change(d, group, number, partition))
                own = site.log.announced.state.cursors(group, number, partition).own
                assert done is not True or own is None or not own.apart, f"{site.name}: {group} still goes its own way"

    def end(self) -> None:
        """All members go, and all is told."""
        self._members.clear()
        for site in self._world.sites.values():
            self.publish(site)

    def _read_on(
        self,
        site: Site,
        group: str,
        members: Members,
        topic: Topic,
        partition: int,
        choose: Random,
        *,
        whole: bool = False,
    ) -> tuple[int, int]:
        """Where they read on afterwards, and the epoch of the record before."""
        place, state = (topic.incarnation, partition), site.log.announced.state.partition(topic.number, partition)
        cuts = len(site.log.announced.state.cuts_of(topic.number, partition))
        at, known_cuts = members.positions.get(place, (-1, -1))
        if known_cuts != cuts:
            cursor = self.served(site, group, topic, partition)
            at = 0 if cursor is None else cursor.offset
            members.told[place] = -1 if cursor is None else cursor.leader_epoch
        read = self._read.setdefault((group, place), HasRead(max(at, state.log_start)))
        read.gone.update(range(at, state.log_start))
        at = max(at, state.log_start)
        with site.storage.faults.held_off():
            found = values_at(site.log, topic.number, partition)
        last = state.end if whole else min(state.end, at + choose.randrange(READ_MAX))
        read.values.update(value for offset, value in found.items() if at <= offset < last)
        read.gone.update(offset for offset in range(at, last) if offset not in found)
        members.positions[place] = max(at, last), cuts
        return max(at, last), state.epoch_before(max(at, last))

    def _commit(self, site: Site, group: str, members: Members, place: Place, said: Late) -> None:
        (number, offset, epoch, known_cuts), since = said, members.since
        partition, state = place[1], site.log.announced.state
        is_late = any(cut.commit >= known_cuts for cut in state.cuts_of(number, partition))
        before = state.cursors(group, number, partition)
        answer = self._world.run(
            site,
            lambda d: commit_cursor(d, group, number, partition, offset, epoch, known_cuts=known_cuts, since=since),
        )
        if isinstance(answer, Cursor):
            at = answer.offset if is_late else offset
            members.committed[place] = at, number, len(site.log.announced.state.cuts_of(number, partition))
            self._note_commit(site, group, members, place, number, before, answer)
        else:
            members.committed.pop(place, None)  # it may have been written

    def _note_commit(
        self, site: Site, group: str, members: Members, place: Place, number: int, before: CursorPair, made: Cursor
    ) -> None:
        """What a commit says of those elsewhere: it is newer than all that its members knew, and than what who was
        told them had not heard of; and it says so if both knew of each other and went on."""
        is_old = before.own is not None and made.at == before.own.at
        if is_old or self._world.model.torn or any(place[0] == deleted for deleted, _ in self._world.model.deleted_at):
            return
        theirs = Known() if before.theirs is None else Known(before.theirs.origin, before.theirs.version)
        there = self._made.get((group, place, theirs.origin), {})
        first = members.first.get(place)
        if first is None or first[0] != number:
            first = members.first[place] = number, made.version
            told = before.live(members.since)
            unseen = [each for each in there if theirs.version < each < theirs.version + MOVED_VERSIONS]
            is_moved = told is not None and told.origin == theirs.origin
            assert not is_moved or made.version > max(unseen, default=0), (
                f"{site.name}: {group} goes on with {made}, {unseen} were made where it was before"
            )
        elif there.get(theirs.version, Known()).origin == site.stream_id:
            assert made.apart or there[theirs.version].version < first[1], (
                f"{site.name}: {group} is at work here and elsewhere, {made} after {before}"
            )
        assert made.version > before.highest, f"{site.name}: {group} commits {made} after {before}"
        self._made.setdefault((group, place, site.stream_id), {})[made.version] = theirs

    # What must hold

    def served(self, site: Site, group: str, topic: Topic, partition: int) -> Cursor | None:
        """What the site tells the group."""
        state, members = site.log.announced.state, self._members.get((site.name, group))
        found = state.cursors(group, topic.number, partition).live(None if members is None else members.since)
        if found is None:
            return None
        return found.served(state.partition(topic.number, partition), topic.epoch, site.stream_id)

    def check(self, site: Site) -> None:
        """7, of what the site tells."""
        for (group, place), read in self._read.items():
            topic = site.log.announced.state.by_incarnation(place[0])
            if topic is None or place[1] >= topic.partitions or place[0] in self._world.model.rolled_back:
                continue
            cursor = self.served(site, group, topic, place[1])
            self._members_are_not_moved(site, group, topic, place, cursor)
            self._goes_its_own_way_if_it_must(site, group, topic, place[1], cursor)
            if cursor is None:
                continue
            end = site.log.announced.state.partition(topic.number, place[1]).end
            assert cursor.offset <= end, f"{site.name}: {group} goes on at {cursor}, {topic.name} ends at {end}"
            with site.storage.faults.held_off():
                found = values_at(site.log, topic.number, place[1])
            skipped = {
                offset: value
                for offset, value in found.items()
                if read.first <= offset < cursor.offset and value not in read.values and offset not in read.gone
            }
            assert not skipped, f"{site.name}: {group} goes on at {cursor} of {topic.name}, and never read {skipped}"

    def _members_are_not_moved(self, site: Site, group: str, topic: Topic, place: Place, cursor: Cursor | None) -> None:
        members = self._members.get((site.name, group))
        if members is None or place not in members.committed or site.name in self._world.model.torn:
            return
        offset, number, cuts = members.committed[place]
        if number == topic.number and cuts == len(site.log.announced.state.cuts_of(topic.number, place[1])):
            at = None if cursor is None else cursor.offset
            assert at == offset, f"{site.name}: members of {group} committed {offset} of {topic.name}, and are at {at}"

    def _goes_its_own_way_if_it_must(
        self, site: Site, group: str, topic: Topic, partition: int, told: Cursor | None
    ) -> None:
        """A group that is never at work at two sites goes nowhere its own way; one that does is told what it committed
        there."""
        own = site.log.announced.state.cursors(group, topic.number, partition).own
        if self.late and group == ONE_PLACE and own is not None and not self._world.model.torn:
            assert not own.apart, f"{site.name}: {group} goes its own way in {topic.name}-{partition}: {own}"
        if own is not None and own.apart and not own.is_deleted:
            assert told is not None, f"{site.name}: {group} is told nothing of {own}"
            assert told.origin == site.stream_id, f"{site.name}: {group} is told {told}, and goes its own way: {own}"

    def agree(self) -> None:
        """7: all sites say what was committed last, of all that comes to them."""
        shape, sites, model = self._world.shape, self._world.sites, self._world.model
        if model.torn or any(link.forward == "own" or link.peer == "partner" for link in shape.links):
            return
        deleted = {incarnation for incarnation, _ in model.deleted_at}
        for site in sites.values():
            senders = [each for each in sites.values() if site.name in shape.reached_from(each.name)]
            for topic in [*topics_of(site, owned=True), *topics_of(site, owned=False)]:
                if topic.incarnation in model.rolled_back | deleted or model.contested(topic.name):
                    continue
                for group in GROUPS:
                    for partition in range(topic.partitions):
                        self._says_the_newest(site, group, topic, partition, senders)

    def _says_the_newest(self, site: Site, group: str, topic: Topic, partition: int, senders: list[Site]) -> None:
        said = site.log.announced.state.cursors(group, topic.number, partition)
        if said.own is not None and said.own.apart:
            return
        committed = []
        for sender in senders:
            copy = sender.log.announced.state.by_incarnation(topic.incarnation)
            if copy is not None and partition < copy.partitions:
                own = sender.log.announced.state.cursors(group, copy.number, partition).own
                committed += [] if own is None else [(own.version, own.origin, own.offset)]
        found = said.effective(None)
        got = None if found is None else (found.version, found.origin, found.offset)
        assert got == max(committed, default=None), f"{site.name}: {group} of {topic.name}-{partition} is at {got}"
