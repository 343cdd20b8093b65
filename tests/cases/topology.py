"""Clusters of one process in a topology: links are made, paused, removed and made again, sites restart, all write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from itertools import permutations
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from tests.cases.fleet import SHIPS, Held, held, path_at
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import until

Ends = tuple[str, str]
"""The source and the replica of a link, as "ab": from a to b."""


def ends_of(text: str) -> list[Ends]:
    """The links that a line of a table names: "ab ba"."""
    return [(each[0], each[1]) for each in text.split()]


TOPOLOGIES = {
    "master-slave": ends_of("ab"),
    "one-to-many": ends_of("ab ac ad"),
    "many-to-one": ends_of("ad bd cd"),
    "multi-master": ends_of("ab ba"),
    "chain": ends_of("ab bc cd"),
    "tree": ends_of("ab ac bd be"),
    "ring": ends_of("ab bc cd da"),
    "ring of both ways": ends_of("ab ba bc cb ca ac"),
    "full mesh": list(permutations("abcd", 2)),
    "star of masters": ends_of("ab ba ac ca ad da"),
    "chain of masters with a leaf and a short cut": ends_of("ab ba bc cb ca cd"),
}


EDITS: list[dict[str, Any]] = [
    *({"topics": each} for each in ("a-.*", "b-.*|c-.*", ".*-1", None)),
    *({"exclude_topics": each} for each in ("a-1", ".*-2", "a-.*", None)),
    {"topics": "a-.*|b-0", "exclude_topics": "a-2"},
    {"topics": None, "exclude_topics": None},
    *({"forward": each} for each in ("own", "all")),
]
"""What options of a link become while it runs."""


class Topology:
    """Sites, the links that there are to be, and what was written where. An asynchronous context manager."""

    def __init__(self, folder: Path, links: list[Ends], random: Random, forward: str = "all") -> None:
        self.links = links
        self._forward = forward
        self.written: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        """By topic and partition, the values in the order of their offsets."""
        self._folder = folder
        self._random = random
        self._sites: dict[str, Site] = {}
        self._running: dict[str, AsyncExitStack] = {}

    async def __aenter__(self) -> Topology:
        for name in sorted({name for ends in self.links for name in ends}):
            await self._start(Site(name, self._folder))
            await self._sites[name].stream(SHIPS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for running in self._running.values():
            await running.aclose()

    async def _start(self, site: Site) -> None:
        self._sites[site.name] = site
        running = self._running[site.name] = AsyncExitStack()
        await running.enter_async_context(site)
        await running.enter_async_context(task(site))

    async def write(self) -> None:
        """A record into a topic of a site's own."""
        site = self._sites[self._random.choice(list(self._sites))]
        topic, partition = f"{site.name}-{self._random.randrange(3)}", 0
        value = b"%d" % sum(map(len, self.written.values()))
        await site.write(SHIPS, topic, value)
        self.written[topic, partition].append(value)

    async def agree(self, ends: Ends) -> None:
        """The replica's half of a link."""
        source, replica = self._both(ends)
        if path_at(source) not in {each.path for each in replica.links.list_upstreams(SHIPS)}:
            await replica.links.add_upstream(SHIPS, path_at(source))

    async def name(self, ends: Ends) -> None:
        """The source's half of a link, which may come first."""
        source, replica = self._both(ends)
        if not self._has(ends):
            await source.links.add_replica(SHIPS, path_at(replica), urls=replica.urls, forward=self._forward)

    async def pause(self) -> None:
        """A link stands still."""
        for ends in self._some():
            source, replica = self._both(ends)
            await source.links.pause(SHIPS, path_at(replica))

    async def resume(self, ends: Ends) -> None:
        """A link goes on, if it stood still."""
        if self._has(ends):
            source, replica = self._both(ends)
            await source.links.resume(SHIPS, path_at(replica))

    async def cut(self) -> None:
        """A link is removed, and made again: it begins at the beginning, and what is equal is dropped."""
        for ends in self._some():
            source, replica = self._both(ends)
            await source.links.remove(SHIPS, path_at(replica))

    async def edit(self) -> None:
        """A link leaves out other topics than before, sends on what it did not, or no longer does."""
        for ends in self._some():
            source, replica = self._both(ends)
            await source.links.edit_replica(SHIPS, path_at(replica), **self._random.choice(EDITS))

    async def restart(self) -> None:
        """A site stops and starts at its address."""
        name = self._random.choice(list(self._sites))
        await self._running[name].aclose()
        await self._start(Site(name, self._folder, port=self._sites[name].port))

    async def settle(self) -> None:
        """A replica gets all that its source has, if that link stands and runs."""
        for ends in self._some():
            source, replica = self._both(ends)
            agreed = path_at(source) in {each.path for each in replica.links.list_upstreams(SHIPS)}
            if agreed and not self._status(ends)["paused"]:
                await until(partial(self._up_to_date, ends))

    async def play(self, edits: int = 0) -> None:
        """All that can happen, in any order; at the end all links stand and run, and leave nothing out."""
        steps: list[Callable[[], Coroutine[Any, Any, None]]] = [self.write] * 20 + [self.pause] * 4 + [self.settle] * 4
        steps += [self.cut] * 2 + [self.restart] * 2 + [self.edit] * edits
        steps += [partial(half, ends) for ends in self.links for half in (self.agree, self.name)]
        steps += [partial(self.resume, self._random.choice(self.links)) for _ in range(4)]
        self._random.shuffle(steps)
        for step in steps:
            await step()
        for ends in self._random.sample(self.links, len(self.links)):
            await self.agree(ends)
            await self.name(ends)
            source, replica = self._both(ends)
            whole = {"topics": None, "exclude_topics": None, "forward": self._forward}
            await source.links.edit_replica(SHIPS, path_at(replica), **whole)
            await self.resume(ends)
        await self.write()

    async def all_arrived(self) -> None:
        """Every record is everywhere where it belongs, once and at its own offset, and nothing else is."""
        await until(lambda: all(held(site) == self._belonging(name) for name, site in self._sites.items()))

    def _belonging(self, site: str) -> dict[tuple[str, int], Held]:
        """What a site is to hold: the topics of all sites from which a way leads there."""
        found = {site}
        while more := {source for source, replica in self.links if replica in found} - found:
            found |= more
        return {
            (topic, partition): Held(len(values), dict(enumerate(values)))
            for (topic, partition), values in self.written.items()
            if topic[0] in found
        }

    def _both(self, ends: Ends) -> tuple[Site, Site]:
        return self._sites[ends[0]], self._sites[ends[1]]

    def _status(self, ends: Ends) -> Mapping[str, Any]:
        """What `replica list` says of a link; empty if it is not there."""
        source, replica = self._both(ends)
        rows = [row.values for row in source.links.list(SHIPS)]
        return next((row for row in rows if row["replicaPath"] == str(path_at(replica))), {})

    def _has(self, ends: Ends) -> bool:
        return bool(self._status(ends))

    def _up_to_date(self, ends: Ends) -> bool:
        return bool(self._status(ends)["isUptodate"])

    def _some(self) -> list[Ends]:
        """A link that there is, if there is one."""
        there = [ends for ends in self.links if self._has(ends)]
        return [self._random.choice(there)] if there else []
