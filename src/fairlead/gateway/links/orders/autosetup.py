"""`stream replica autosetup`, as far as one server does it.

Where the replica is in this cluster, that is all of it: the stream, the link and the upstream, or nothing and an error
that says what became of each step. Where it is in another one, the command line has made the stream and the upstream
there: no server sends a caller's call on to an address that the caller names. It copies nothing: that is the link's own
work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord, UpstreamRecord
from fairlead.gateway.links.orders.naming import Naming
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import place_of, urls_of, wire_id
from fairlead.model.envelope import code_of, to_error
from fairlead.model.errors import FairleadError, UnknownCluster, UnknownStream
from fairlead.model.names import StreamPath
from fairlead.wire.neighbours import LinkAnswer, LinkRequest

Undo = Callable[[], Awaitable[object]]


async def agreement(cluster: Cluster, gateways: Gateways, stream: Stream, link: LinkRecord) -> LinkAnswer:
    """What the replica says to a link that is to be made, or to go on elsewhere.

    Raises:
        UnknownStream, NotAgreed: there is none, or its upstream is missing.
        UnknownCluster: the addresses are those of a third cluster.
        FairleadError: it does not answer.
    """
    target, addresses = link.replica_path, urls_of(cluster, link)
    answer = await gateways.ask(addresses, LinkRequest(wire_id(link), place_of(cluster, stream), target.path))
    if answer.cluster != target.cluster:
        raise UnknownCluster(f"{target}: the server at {', '.join(addresses)} is of cluster {answer.cluster}")
    return answer


@dataclass(frozen=True, slots=True)
class SetUp:
    """How a pair of streams is set up."""

    multimaster: bool = False
    """Also the other way."""
    existing: bool = False
    """The replica may be there already."""
    paused: bool = False
    """Nothing is sent before a person resumes it."""


ONE_WAY = SetUp()


class Autosetup:
    """One run; its steps are taken back, last first, when one fails."""

    def __init__(self, cluster: Cluster, naming: Naming, how: SetUp, options: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._naming = naming
        self._how = how
        self._options = options
        self._done: list[tuple[str, Undo]] = []

    @property
    def done(self) -> list[str]:
        """What it did, a line for each step."""
        return [what for what, _ in self._done]

    async def here(self, stream: Stream, target: StreamPath) -> LinkRecord:
        """Do all in this cluster: every link is made paused, and sends nothing before both sides have agreed.

        Raises:
            FairleadError: that of the step which failed, with what became of the others.
        """
        async with self._taking_back():
            made, source = await self._replica(stream, target), self._cluster.global_path(stream.path)
            links = [await self._link(stream, self._new_link(stream, target))]
            await self._upstream(made, source)
            if self._how.multimaster:
                links.append(await self._link(made, self._new_link(made, source)))
                await self._upstream(stream, target)
            if not self._how.paused:
                links = [await self._cluster.links.edit(link.id, paused=False) for link in links]
            return links[0]

    async def elsewhere(
        self, gateways: Gateways, stream: Stream, target: StreamPath, urls: Sequence[str]
    ) -> LinkRecord:
        """Do this cluster's part, once the other has agreed.

        Raises:
            UnknownStream, NotAgreed: the other's part is not done.
            UnknownCluster: the addresses are those of a third cluster.
            FairleadError: the other does not answer, or a step fails; with what became of those before.
        """
        link = self._new_link(stream, target, urls, paused=self._how.paused)
        await agreement(self._cluster, gateways, stream, link)
        async with self._taking_back():
            if self._how.multimaster:
                await self._upstream(stream, target)
            return await self._link(stream, link)

    def _new_link(
        self, stream: Stream, target: StreamPath, urls: Sequence[str] = (), *, paused: bool = True
    ) -> LinkRecord:
        return self._naming.new_link(stream, target, urls, paused=paused, **self._options)

    async def _replica(self, stream: Stream, target: StreamPath) -> Stream:
        cluster, source = self._cluster, self._cluster.global_path(stream.path)
        if self._how.existing:
            with suppress(UnknownStream):
                return cluster.stream(target.path)
        made = await cluster.create_stream(target.path, replace(stream.settings, created_at=0))
        self._did(f"created {target} with the settings of {source}", lambda: cluster.delete_stream(target.path))
        return made

    async def _link(self, stream: Stream, link: LinkRecord) -> LinkRecord:
        links = self._cluster.links
        made = await links.add(link)
        source = self._cluster.global_path(stream.path)
        self._did(f"named {link.replica_path} a replica of {source}", lambda: links.remove(made.id))
        return made

    async def _upstream(self, stream: Stream, source: StreamPath) -> None:
        """Name a source; one that a stream which was there names already is marked, if it is to be."""
        links, multimaster = self._cluster.links, self._how.multimaster
        replica = self._cluster.global_path(stream.path)
        known = next((each for each in links.standing_upstreams(stream.id) if each.path == source), None)
        if known is None or not self._how.existing:
            await links.add_upstream(UpstreamRecord(stream.id, source, multimaster=multimaster))
            self._did(f"named {source} an upstream of {replica}", lambda: links.remove_upstream(stream.id, source))
        elif multimaster and not known.multimaster:
            await links.edit_upstream(stream.id, source, multimaster=True)
            undo = partial(links.edit_upstream, stream.id, source, multimaster=False)
            self._did(f"marked {source}, an upstream of {replica}, as a master", undo)

    def _did(self, what: str, undo: Undo) -> None:
        self._done.append((what, undo))

    @asynccontextmanager
    async def _taking_back(self) -> AsyncIterator[None]:
        """Steps below this are all done, or taken back, last first; the error says what became of each."""
        try:
            yield
        except FairleadError as error:
            raise await self._undone(error) from error

    async def _undone(self, error: FairleadError) -> FairleadError:
        """Take back what was done, last first; the same error with what became of each step."""
        if not self._done:
            return error
        told = []
        for what, undo in reversed(self._done):
            try:
                await undo()
                told.append(f"{what} (taken back)")
            except FairleadError as failure:
                told.append(f"{what} (still there: {failure})")
        desc = f"{error}; done before: {', '.join(reversed(told))}"
        return to_error({"errors": [{"code": code_of(error), "desc": desc}]})
