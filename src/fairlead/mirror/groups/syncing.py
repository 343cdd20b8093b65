"""Consumer groups of one source go with their topics: again and again, what they have committed there is committed at
the destination too, at the offsets that the records have there.

Only for a group without members at the destination, and only forward, unless it is told to rewind. A group that reads
there has its own place from then on. Offsets of topics that are not mirrored are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import Final

from fairlead.mirror.books.origins import Origins
from fairlead.mirror.destination import Destination
from fairlead.mirror.groups.checkpoints import Checkpoint, checkpoint_record
from fairlead.mirror.groups.reaching import Reach, Reached, Reaching, forget_others
from fairlead.mirror.groups.tracks import Tracks
from fairlead.mirror.options import GroupOptions
from fairlead.mirror.ports import EARLIEST, MOMENT_SECONDS, Cluster, Commit, Group, Place
from fairlead.mirror.report import GroupTally
from fairlead.model.errors import BadRequest, FairleadError, NotAllowed, TryAgain

_WITHOUT_MEMBERS: Final = frozenset({"", "Empty", "Dead"})
_KINDS: Final = frozenset({"", "classic", "consumer", "streams"})
"""Kinds of groups that commit offsets; a share group does not."""
_PROTOCOLS: Final = frozenset({"", "consumer", "streams"})
_AT_ONCE: Final = 32
_AGAIN_SECONDS: Final = 900.0
"""What was committed at the destination is committed again after so long: a cluster forgets commits of a group without
members (`offsets.retention.minutes`, seven days), and people delete them."""


class GroupSync:
    """Of one source."""

    def __init__(
        self,
        cluster: Cluster,
        own_group: str | None,
        origins: Origins,
        tracks: Tracks,
        destination: Destination,
        options: GroupOptions,
        tally: GroupTally,
        look: Callable[[], Awaitable[bool]],
        *,
        countable: bool = True,
        checkpoints: str | None = None,
    ) -> None:
        """`look` finds out how far partitions are that others carry, and says whether it was, of all; `checkpoints` is
        the topic for them, if they are wanted."""
        self._cluster = cluster
        self._own_group = own_group
        self._tracks = tracks
        self._destination = destination
        self._options = options
        self._tally = tally
        self._look = look
        self._checkpoints = checkpoints
        self._reaching = Reaching(cluster, destination.cluster, origins, tracks, countable=countable)
        self._written: dict[tuple[str, Place], tuple[int, float]] = {}
        """What was committed there, and when."""
        self._pointed: dict[tuple[str, Place], Reached] = {}
        self._failed: dict[str, str] = {}
        """What of this round was not done."""

    @property
    def wanted(self) -> bool:
        """Whether there is anything to do."""
        return self._options.sync or self._checkpoints is not None

    def look(self, topics: Sequence[str]) -> None:
        """The source has these topics now."""
        self._reaching.facing.look(topics)

    async def written_by_others(self) -> Container[str]:
        """Topics of the source to which other mirrors carry the destination's of the same names. Raises: BadRequest,
        TryAgain."""
        await self._reaching.facing.refresh()
        return self._reaching.facing.topics

    async def matching(self) -> Mapping[str, Group]:
        """The groups that go with their topics. Raises: NotAllowed, TryAgain."""
        there = await self._cluster.groups()
        subscribers = (
            name
            for name, group in there.items()
            if name != self._own_group and group.kind in _KINDS and group.protocol in _PROTOCOLS
        )
        return {name: there[name] for name in self._options.chosen.among(subscribers)}

    async def round(self) -> Sequence[str]:
        """Bring all groups to where they stand now; what of that was not done, and why.

        Raises:
            TryAgain; BadRequest: groups cannot be listed, or a book at the source cannot be read.
        """
        self._failed = {}
        await self._remember()
        groups = await self.matching()
        commits: dict[str, Mapping[Place, Commit]] = {}
        for name, found in (await self._cluster.commits_of(groups)).items():
            if isinstance(found, FairleadError):
                self._failed[f"group {name}"] = str(found)
            else:
                commits[name] = found
        reach = await self._reaching.of(commits)
        self._tally.matched = len(groups)
        self._tally.unknown = reach.unknown
        if reach.late:
            late = "much must be read for some offsets of groups"
            self._failed[late] = "they come with a later round, or the next start"
        if self._checkpoints is not None:
            await self._point(self._checkpoints, reach)
        if self._options.sync:
            await self._move_all(reach)
        self._forget_others(groups)
        return [f"{what}: {why}" for what, why in sorted(self._failed.items())]

    def _forget_others(self, groups: Container[str]) -> None:
        """Nothing is remembered but of these."""
        self._reaching.forget_others(groups)
        forget_others(self._written, groups)
        forget_others(self._pointed, groups)

    async def _remember(self) -> None:
        """This moment: how far the destination is, and then how far the source is."""
        if await self._look():
            ends = self._tracks.ends_now()
            if not ends or await self._look():
                self._tracks.remember(ends)

    # ------------------------------------------------------------ checkpoints

    async def _point(self, topic: str, reach: Reach) -> None:
        new = {
            (group, place): reached
            for group, places in reach.places.items()
            for place, reached in places.items()
            if self._pointed.get((group, place)) != reached
        }
        if not new:
            return
        records = [checkpoint_record(Checkpoint(*key, *reached)) for key, reached in new.items()]
        try:
            await self._destination.open_topic(topic)
            await self._destination.write(topic, records)
        except BadRequest as error:
            self._failed["checkpoints are not written"] = str(error)
            return
        self._pointed |= new
        self._tally.checkpoints += len(new)

    # ------------------------------------------------------------ commits

    async def _move_all(self, reach: Reach) -> None:
        waiting = {
            group: {place: each.commit for place, each in places.items() if self._is_new(group, place, each)}
            for group, places in reach.places.items()
        }
        waiting = {group: places for group, places in waiting.items() if places}
        if not waiting:
            self._tally.busy = 0
            return
        there = await self._destination.cluster.groups()
        free = [group for group in waiting if group not in there or there[group].state in _WITHOUT_MEMBERS]
        self._tally.busy = len(waiting) - len(free)
        known = await self._destination.cluster.commits_of({group: there[group] for group in free if group in there})
        starts = await self._starts({place for group in free for place in waiting[group]})
        for first in range(0, len(free), _AT_ONCE):
            some = free[first : first + _AT_ONCE]
            await asyncio.gather(*(self._move(each, waiting[each], known.get(each), starts) for each in some))

    def _is_new(self, group: str, place: Place, reached: Reached) -> bool:
        offset, at = self._written.get((group, place), (-1, 0.0))
        return offset != reached.commit.offset or _now() - at >= _AGAIN_SECONDS

    async def _starts(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """Where the destination's partitions begin, of those that tell it."""
        found: dict[Place, int] = {}
        for place, start in (await self._destination.cluster.told_offsets(places, EARLIEST, MOMENT_SECONDS)).items():
            if isinstance(start, FairleadError):
                self._failed[f"groups stay where they are in {place.topic}, partition {place.partition}"] = str(start)
            else:
                found[place] = start
        return found

    async def _move(
        self,
        group: str,
        wanted: Mapping[Place, Commit],
        known: Mapping[Place, Commit] | FairleadError | None,
        starts: Mapping[Place, int],
    ) -> None:
        """Commit for one group what is not behind its place there, of partitions whose `starts` are known. `known` is
        None of a group that is not listed: while it goes from one broker to another neither lists it, and it has its
        offsets all the same."""
        if isinstance(known, FairleadError):
            self._failed[f"group {group}"] = str(known)
            return
        wanted = {place: commit for place, commit in wanted.items() if place in starts}
        try:
            if known is None:
                found = await self._destination.cluster.committed(group, wanted)
                known = {place: Commit(offset) for place, offset in found.items()}
            moved = {}
            for place, commit in wanted.items():
                at, before = max(commit.offset, starts[place]), known.get(place)
                if before is None or before.offset <= at or self._options.rewind:
                    moved[place] = Commit(at, commit.metadata)
            if moved:
                await self._destination.cluster.commit_for(group, moved)
        except NotAllowed as error:
            self._tally.busy += 1
            self._failed[f"group {group}"] = str(error)
        except (BadRequest, TryAgain) as error:
            self._failed[f"group {group}"] = str(error)
        else:
            self._tally.moved += sum(known.get(place, Commit(-1)).offset != at.offset for place, at in moved.items())
            self._written |= {(group, place): (commit.offset, _now()) for place, commit in wanted.items()}


def _now() -> float:
    return asyncio.get_running_loop().time()
