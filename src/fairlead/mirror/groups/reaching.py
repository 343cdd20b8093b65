"""Where groups of one source would stand at the destination."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairlead.mirror.books.origins import Origins
from fairlead.mirror.groups.counting import Counting, Stretch
from fairlead.mirror.groups.facing import Facing
from fairlead.mirror.groups.stepping import Stepping, Steps
from fairlead.mirror.groups.tracks import Track, Tracks, anchor_in
from fairlead.mirror.groups.translating import Anchor, bounded
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import EARLIEST, MOMENT_SECONDS, Cluster, Commit, Place
from fairlead.model.errors import FairleadError

GroupCommits = Mapping[str, Mapping[Place, Commit]]
"""Group → partition → commit."""


class Reached(NamedTuple):
    """A group's place in a partition of the destination."""

    upstream: int | None
    """What it has committed at the source; None: in several partitions."""
    commit: Commit
    """What that is at the destination."""


@dataclass(slots=True)
class Reach:
    """What was found."""

    places: dict[str, dict[Place, Reached]] = field(default_factory=dict)
    """Group → partition of the destination."""
    unknown: int = 0
    """Commits of mirrored partitions that cannot be translated."""
    late: int = 0
    """Of them, those that can be in a later round: what is read for them has not come yet."""

    def put(self, group: str, place: Place, reached: Reached) -> None:
        self.places.setdefault(group, {})[place] = reached


class _Found(NamedTuple):
    """What became of a commit the last time."""

    part: Part
    offset: int
    destination: int

    def serves(self, part: Part, begin: int, end: int) -> bool:
        """Whether it lies between these offsets."""
        return self.part == part and begin <= self.offset <= end


class _Loose(NamedTuple):
    """A commit behind which records must be counted."""

    group: str
    place: Place
    commit: Commit
    anchor: Anchor
    track: Track
    """Of the partition when it was found: while records are counted, its topic may go, or be made again."""


class Reaching:
    """Remembers what it has found, so that nothing is counted twice."""

    def __init__(
        self, cluster: Cluster, destination: Cluster, origins: Origins, tracks: Tracks, *, countable: bool
    ) -> None:
        """`countable`: no function of the user's leaves out records, so as many were sent as lie at the source."""
        self.facing = Facing(cluster, destination.id)
        self._cluster = cluster
        self._tracks = tracks
        self._counting = Counting(cluster, origins)
        self._stepping = Stepping(destination)
        self._countable = countable
        self._found: dict[tuple[str, Place], _Found] = {}

    async def of(self, commits: GroupCommits) -> Reach:
        """Where groups with these commits at the source stand at the destination.

        Raises:
            TryAgain; BadRequest: a book that lies at the source cannot be read.
        """
        await self.facing.refresh()
        reach, loose = Reach(), list[_Loose]()
        behind = await self._behind_turns(commits)
        for group, places in commits.items():
            for place, commit in places.items():
                track = self._tracks.kept.get(place)
                if track is not None and (group, place.topic) in behind:
                    reach.unknown += 1
                elif track is not None:
                    self._one(group, place, commit, track, reach, loose)
        await self._count(loose, reach)
        await self._dealt(commits, reach)
        return reach

    # ------------------------------------------------------------ partitions that keep their number

    def _one(self, group: str, place: Place, commit: Commit, track: Track, reach: Reach, loose: list[_Loose]) -> None:
        standing = track.standing
        anchor = anchor_in(track, commit.offset)
        if anchor is None:
            reach.unknown += 1
            return
        before = self._found.get((group, place))
        if anchor.left and before is not None and before.serves(standing.part, anchor.source, commit.offset):
            anchor = Anchor(before.offset, before.destination, before.offset < commit.offset, anchor.until)
        if anchor.left and self._countable:
            loose.append(_Loose(group, place, commit, anchor, track))
        else:
            self._settle(group, place, commit, track, anchor.destination, reach)

    async def _count(self, loose: Sequence[_Loose], reach: Reach) -> None:
        counts = await self._counting.counts(self._stretch(each) for each in loose)
        loose = [each for each in loose if self._is_kept(each)]
        counted = [each for each in loose if self._stretch(each) in counts]
        crossed = [each for each in counted if each.anchor.until is not None]
        steps = {each: self._steps(each, counts[self._stretch(each)]) for each in crossed}
        stepped = await self._stepping.ends(steps.values())
        known = [each for each in counted if each not in steps or steps[each] in stepped]
        reach.late = len(loose) - len(known)
        reach.unknown += reach.late
        for each in filter(self._is_kept, known):
            if each in steps:
                destination = stepped[steps[each]]
            else:
                destination = each.anchor.destination + counts[self._stretch(each)]
            self._settle(each.group, each.place, each.commit, each.track, destination, reach)

    def _is_kept(self, loose: _Loose) -> bool:
        return self._tracks.kept.get(loose.place) is loose.track

    def _steps(self, loose: _Loose, records: int) -> Steps:
        anchor = loose.anchor
        assert anchor.until is not None
        return Steps(loose.track.to, anchor.destination, records, anchor.until)

    def _stretch(self, loose: _Loose) -> Stretch:
        part = loose.track.standing.part
        return Stretch(loose.place, part.topic_id, loose.anchor.source, loose.commit.offset)

    def _settle(self, group: str, place: Place, commit: Commit, track: Track, destination: int, reach: Reach) -> None:
        position = track.standing.position
        if commit.offset <= position.offset:
            self._found[group, place] = _Found(track.standing.part, commit.offset, destination)
        if position.looped or self.facing.writes(place):
            known = self.facing.read_until(place, commit.offset)
            if known is None:
                reach.unknown += 1
                return
            destination = bounded(destination, known, position, track.history)
        reach.put(group, track.to, Reached(commit.offset, Commit(destination, commit.metadata)))

    # ------------------------------------------------------------ topics that are dealt by key

    async def _behind_turns(self, commits: GroupCommits) -> Container[tuple[str, str]]:
        """Groups, each with a topic of which it has not read all that the key has dealt, before partitions began to
        keep their numbers: that may lie anywhere."""
        behind: set[tuple[str, str]] = set()
        for name, since in list(self._tracks.since.items()):
            groups = _of_topic(commits, name)
            offsets = await self._offsets(name, range(len(since)), groups)
            behind |= {
                (group, name)
                for group in groups
                if offsets is None or any(at < begin for at, begin in zip(offsets[group], since, strict=True))
            }
        return behind

    async def _dealt(self, commits: GroupCommits, reach: Reach) -> None:
        for name, topic in list(self._tracks.dealt.items()):
            groups = _of_topic(commits, name)
            if not groups:
                continue
            looped = any(standing.position.looped for standing in topic.parts.values())
            both_ways = looped or name in self.facing.topics
            offsets = await self._offsets(name, range(max(topic.parts) + 1), groups)
            if self._tracks.dealt.get(name) is not topic:
                continue
            for group, places in groups.items():
                barrier = None if offsets is None or both_ways else topic.barriers.passed(offsets[group])
                if barrier is None:
                    reach.unknown += sum(place.topic == name for place in places)
                    continue
                for number, end in enumerate(barrier.destination):
                    reach.put(group, Place(topic.to, number), Reached(None, Commit(end)))

    async def _offsets(
        self, name: str, numbers: Sequence[int], groups: GroupCommits
    ) -> Mapping[str, Sequence[int]] | None:
        """Where each of these groups stands in these partitions: at the start of those of which it has committed
        nothing. None: one of them does not tell where it begins."""
        starts = await self._starts([Place(name, number) for number in numbers], groups.values())
        if starts is None:
            return None
        return {
            group: [
                starts[number] if (commit := places.get(Place(name, number))) is None else commit.offset
                for number in numbers
            ]
            for group, places in groups.items()
        }

    async def _starts(
        self, places: Sequence[Place], groups: Iterable[Mapping[Place, Commit]]
    ) -> Mapping[int, int] | None:
        """Where those of these partitions begin of which one of these groups has committed nothing. None: one of them
        does not tell it."""
        missing = {place for commits in groups for place in places if place not in commits}
        found: dict[int, int] = {}
        for place, start in (await self._cluster.told_offsets(missing, EARLIEST, MOMENT_SECONDS)).items():
            if isinstance(start, FairleadError):
                return None
            found[place.partition] = start
        return found

    def forget_others(self, groups: Container[str]) -> None:
        """Nothing is remembered but of these."""
        forget_others(self._found, groups)


def _of_topic(commits: GroupCommits, topic: str) -> GroupCommits:
    """Those of groups that have committed anything of it."""
    return {group: places for group, places in commits.items() if any(place.topic == topic for place in places)}


def forget_others(remembered: dict[tuple[str, Place], Any], groups: Container[str]) -> None:
    """Take out what is not of one of these groups."""
    for key in [key for key in remembered if key[0] not in groups]:
        del remembered[key]
