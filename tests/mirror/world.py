"""A mirror between clusters in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.running.mirror import Mirror, Upstream
from fairlead.mirror.running.paces import Paces
from fairlead.mirror.told.command_line import checked
from fairlead.mirror.told.words import Words
from fairlead.model.clock import SystemClock, SystemRandomness
from tests.mirror.fake import FakeCluster
from tests.mirror.joined import JoinedEngine
from tests.support.waiting import WAIT_SECONDS

QUICK = Paces(
    positions=0.01, commits=0.02, groups=0.02, topics=0.02, retry=0.02, progress=0.02, holder=0.02, drain=WAIT_SECONDS
)
CLOCK = SystemClock()


def options(**given: Any) -> MirrorOptions:
    """Options of a command line that mirrors everything, and these."""
    least: dict[str, Any] = {"consumer_configs": [Path("a")], "producer_config": Path("b"), "blacklist": None}
    whitelist = None if given.get("blacklist") else ".*"
    return checked(Words(**{**least, "whitelist": whitelist, **given}))


class World:
    """Source `a` and destination `b`, and what mirrors said."""

    def __init__(self, folder: Path | None = None) -> None:
        """With a `folder` workers carry."""
        self.a = FakeCluster("a")
        self.b = FakeCluster("b")
        self.said: list[str] = []
        self.engine: JoinedEngine | None = None
        """Of the mirror that was made last, where workers carry."""
        self.paces = QUICK
        self._folder = folder

    @property
    def has_workers(self) -> bool:
        """Whether others carry than the mirror itself."""
        return self._folder is not None

    def mirror(self, *sources: FakeCluster, to: FakeCluster | None = None, name: str = "m", **given: Any) -> Mirror:
        """A mirror that does not run yet."""
        group = given.pop("group", "g")
        chosen = options(**given)
        upstreams = [
            Upstream(each.id, each.opened, group, chosen.aliases(number))
            for number, each in enumerate(sources or (self.a,))
        ]
        destination = self.b if to is None else to
        engine = None
        if self._folder is not None and not chosen.dry_run:
            engine = self.engine = JoinedEngine(name, chosen, sources or (self.a,), destination, self._folder)
        clock, randomness, say = CLOCK, SystemRandomness(), self.said.append
        return Mirror(chosen, name, upstreams, destination, clock, randomness, say, self.paces, engine)

    async def once(self, *sources: FakeCluster, **given: Any) -> Mirror:
        """Mirror what is there."""
        mirror = self.mirror(*sources, once=True, **given)
        await mirror.run()
        return mirror

    @asynccontextmanager
    async def running(self, *sources: FakeCluster, **given: Any) -> AsyncIterator[Mirror]:
        """A mirror that runs until the block ends."""
        mirror = self.mirror(*sources, **given)
        task = asyncio.create_task(mirror.run())
        try:
            yield mirror
        finally:
            mirror.stop()
            await task

    @asynccontextmanager
    async def killed(self, *sources: FakeCluster, **given: Any) -> AsyncIterator[Mirror]:
        """A mirror that is killed at the end of the block: it writes nothing more."""
        mirror = self.mirror(*sources, **given)
        task = asyncio.create_task(mirror.run())
        try:
            yield mirror
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def check_closed(self) -> None:
        """No mirror has left a feed or a producer open."""
        assert (self.a.open, self.b.open) == (0, 0), (self.a.open, self.b.open)
