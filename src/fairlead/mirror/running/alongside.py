"""What goes along with the records of sources: commits of the mirror's own groups there, consumer groups, settings and
access rules of topics.

Records are mirrored without it all the same. What of it fails is told when it is new, and stands in `Tally.failing` for
as long as it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fairlead.mirror.following.acls import Acls
from fairlead.mirror.following.settings import Settings
from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.patience import PAUSE_SECONDS
from fairlead.mirror.ports import Cluster
from fairlead.mirror.report import Say, Tally
from fairlead.mirror.running.paces import Paces
from fairlead.mirror.source import Source
from fairlead.model.errors import BadRequest, TryAgain

Follow = Callable[[Mapping[str, str]], Awaitable[None]]
"""Brings what has changed of topics: source → destination."""
_FOLLOWING: Final = 20
"""So many times as long as a look takes, is the pause behind it at least."""
_LAST_MOVE_SECONDS: Final = 5.0
"""An end that was told tries for so long to move groups once more."""
_LAST_TRIES: Final = 3
"""With `--once`."""


class Alongside:
    """Of all sources of one mirror."""

    def __init__(self, destination: Cluster, options: MirrorOptions, tally: Tally, paces: Paces, say: Say) -> None:
        self._destination = destination
        self._follows = options.follows
        self._tally = tally
        self._paces = paces
        self._say = say
        self._told: set[str] = set()

    def work(self, sources: Sequence[Source]) -> Iterable[Coroutine[Any, Any, None]]:
        """What goes on for as long as the mirror runs; `sources` grows meanwhile."""
        yield self._for_each(sources, self.commit, self._paces.commits)
        yield self._for_each(sources, self._move_groups, self._paces.groups)

    def following(self, source: Source) -> Iterable[Coroutine[Any, Any, None]]:
        """What goes on for as long as that one is mirrored from."""
        return [self._follow(source, follow, what) for what, follow in self._followers(source).items()]

    def settings(self, source: Source) -> Settings | None:
        """Those of its topics. None: they do not follow."""
        if not self._follows.settings:
            return None
        both_ways = source.groups.written_by_others
        return Settings(source.cluster, self._destination, self._follows.copied, self._tally, self._tell, both_ways)

    def acls(self, source: Source) -> Acls | None:
        """Those of its topics. None: they do not follow."""
        if not self._follows.acls:
            return None
        return Acls(source.cluster, self._destination, self._tally, lambda line: self._tell(f"{source.label}, {line}"))

    async def commit(self, source: Source) -> None:
        """Tell its group there how far the mirror is."""
        await self._brought(f"{source.label}, the offsets of group {source.group} there", source.commit)

    async def bring_last(self, source: Source) -> None:
        """With `--once`, once its records are there: what passes by itself has passed with one of some tries, or it is
        among what has failed."""
        for what, follow in self._followers(source).items():
            await self._insist(partial(self._followed, source, follow, what))
        await self._insist(partial(self._move_groups, source))

    async def move_groups_once_more(self, sources: Sequence[Source]) -> None:
        """For those whose records came last; a source that is away now does not hold up the end."""
        try:
            async with asyncio.timeout(_LAST_MOVE_SECONDS):
                for source in sources:
                    await self._move_groups(source)
        except TimeoutError:
            self._say(
                f"consumer groups: not all could be moved in {_LAST_MOVE_SECONDS:g} s; they are with the next start"
            )

    async def _for_each(
        self, sources: Sequence[Source], bring: Callable[[Source], Awaitable[object]], seconds: float
    ) -> None:
        while True:
            await asyncio.sleep(seconds)
            for source in sources:
                await bring(source)

    async def _move_groups(self, source: Source) -> bool:
        """Whether all of them are where they belong."""
        if not source.groups.wanted:
            return True
        return await self._brought(f"{source.label}, consumer groups", source.groups.round)

    def _followers(self, source: Source) -> Mapping[str, Follow]:
        found = {"settings of topics": self.settings(source), "ACLs of topics": self.acls(source)}
        return {what: each.round for what, each in found.items() if each is not None}

    async def _follow(self, source: Source, follow: Follow, what: str) -> None:
        """Bring again and again what has changed of topics, so seldom that it takes a twentieth of the time at most."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._followed(source, follow, what)
            await asyncio.sleep(max(self._paces.topics, _FOLLOWING * (loop.time() - began)))

    async def _followed(self, source: Source, follow: Follow, what: str) -> bool:
        return await self._brought(f"{source.label}, {what} do not follow", lambda: follow(source.carried))

    async def _insist(self, bring: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(_LAST_TRIES):
            if await bring():
                return
            await asyncio.sleep(min(PAUSE_SECONDS, self._paces.retry))

    async def _brought(self, what: str, bring: Callable[[], Awaitable[Sequence[str] | None]]) -> bool:
        """Whether nothing of it has failed; `bring` says of what has. All of that is said when it is new."""
        try:
            reasons = await bring() or ()
        except (BadRequest, TryAgain) as error:
            reasons = (str(error),)
        before = {*self._tally.failing.pop(what, ())}
        if reasons:
            self._tally.failing[what] = reasons
        for why in reasons:
            if why not in before:
                self._say(f"{what}: {why}")
        return not reasons

    def _tell(self, line: str) -> None:
        """Say what goes on as it is and would be said again and again, once."""
        if line not in self._told:
            self._told.add(line)
            self._say(line)
