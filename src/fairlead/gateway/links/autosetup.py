"""`stream replica autosetup`, as far as one server does it.

Where the replica is in this cluster, that is all of it: the stream, the link and the upstream, or nothing and an error
that says what became of each step. Where it is in another one, the command line has made the stream and the upstream
there: no server sends a caller's call on to an address that the caller names. It copies nothing: that is the link's own
work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord, UpstreamRecord
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import place_of, urls_of, wire_id
from fairlead.model.envelope import code_of, to_error
from fairlead.model.errors import FairleadError, UnknownCluster
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


class Autosetup:
    """One run; its steps are taken back, last first, when one fails."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._done: list[tuple[str, Undo]] = []

    @property
    def done(self) -> list[str]:
        """What it did, a line for each step."""
        return [what for what, _ in self._done]

    async def here(self, stream: Stream, new_link: LinkRecord) -> LinkRecord:
        """Do all in this cluster; `new_link` is paused.

        Raises:
            FairleadError: that of the step which failed, with what became of the others.
        """
        try:
            return await self._here(stream, new_link)
        except FairleadError as error:
            raise await self._undone(error) from error

    async def _here(self, stream: Stream, new_link: LinkRecord) -> LinkRecord:
        cluster, links, target = self._cluster, self._cluster.links, new_link.replica_path
        source = cluster.global_path(stream.path)
        made = await cluster.create_stream(target.path, replace(stream.settings, created_at=0))
        self._did(f"created {target} with the settings of {source}", lambda: cluster.delete_stream(target.path))
        link = await links.add(new_link)
        self._did(f"named {target} a replica of {source}", lambda: links.remove(link.id))
        upstream = await links.add_upstream(UpstreamRecord(made.id, source))
        self._did(f"named {source} an upstream of {target}", lambda: links.remove_upstream(upstream))
        return await links.edit(link.id, paused=False)

    async def elsewhere(self, gateways: Gateways, stream: Stream, new_link: LinkRecord) -> LinkRecord:
        """Do this cluster's part, once the other has agreed.

        Raises:
            UnknownStream, NotAgreed: the other's part is not done.
            UnknownCluster: the addresses are those of a third cluster.
            FairleadError: the other does not answer, or the link cannot be made.
        """
        cluster, target = self._cluster, new_link.replica_path
        await agreement(cluster, gateways, stream, new_link)
        link = await cluster.links.add(new_link)
        source = cluster.global_path(stream.path)
        self._did(f"named {target} a replica of {source}", lambda: cluster.links.remove(link.id))
        return link

    def _did(self, what: str, undo: Undo) -> None:
        self._done.append((what, undo))

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
