"""`copystream`: begins a copy, which is a link that ends, and says how far it is.

Owns which copies are just being begun. How one ends is in `copies.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import CopyPermission, LinkRecord
from fairlead.gateway.links.contacting.copies import CopyNumbers, EndedCopies, numbers_of
from fairlead.gateway.links.health.ailments import Ailments
from fairlead.gateway.links.health.status import ReplicaStatus, percentage
from fairlead.gateway.links.orders.naming import Naming
from fairlead.gateway.links.running.backlog import backlog
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import place_of, urls_of, wire_id
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.errors import AlreadyExists, FairleadError, NotAllowed, NotFound, UnknownCluster
from fairlead.model.names import StreamPath
from fairlead.wire.neighbours import LinkRequest


class CopyCommands:
    """Of all streams of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        naming: Naming,
        links: RunningLinks,
        ended: EndedCopies,
        ailments: Ailments,
        new_gateways: Callable[[], Gateways],
    ) -> None:
        self._cluster = cluster
        self._naming = naming
        self._links = links
        self._ended = ended
        self._ailments = ailments
        self._new_gateways = new_gateways
        self._beginning: set[tuple[bytes, StreamPath]] = set()

    async def begin(self, src: str, dst: StreamPath, urls: Sequence[str] = ()) -> LinkRecord:
        """Begin to copy a stream as it now is, into a stream whose owner allowed that.

        Raises:
            UnknownStream, NotAllowed: into itself, NotAgreed: the copy was not allowed there,
            AlreadyExists: the same copy is under way, Unreachable.
        """
        stream, target = self._cluster.stream(src), self._naming.global_path(dst)
        if self._naming.is_here(target) and target.path == src:
            raise NotAllowed(f"{target} cannot be copied into itself")
        record = self._copy_of(self._naming.new_link(stream, target, urls, once=stream.ends))
        pair = (stream.id, target)
        if pair in self._beginning or self._links.copy_of(*pair) is not None:
            raise AlreadyExists(f"a copy of {src} to {target} is under way")
        self._beginning.add(pair)
        try:
            take_back = await self._use_permission(record, stream, target)
            self._ended.forget(stream.path, target)
            return await self._add(record, take_back)
        finally:
            self._beginning.discard(pair)

    async def _add(self, record: LinkRecord, take_back: Callable[[], Awaitable[None]]) -> LinkRecord:
        try:
            return await self._cluster.links.add(record)
        except FairleadError:
            with suppress(FairleadError):
                await take_back()
            raise

    async def _use_permission(
        self, record: LinkRecord, stream: Stream, target: StreamPath
    ) -> Callable[[], Awaitable[None]]:
        """Use up the permission at the destination; answers what ends the copy there."""
        source = place_of(self._cluster, stream)
        request = LinkRequest(self._id_there(record), source, target.path, once=True)
        gateways = self._new_gateways()
        addresses = urls_of(self._cluster, record)
        answer = await gateways.ask(addresses, request, "/gateway/copy")
        if answer.cluster != target.cluster:
            await gateways.tell(addresses, request, "/gateway/copy/end")
            raise UnknownCluster(f"{target}: the server at {', '.join(addresses)} is of cluster {answer.cluster}")
        # The positions of a standing link, which it would move, stay.
        back = replace(request, once=request.link == wire_id(record))
        return partial(gateways.tell, addresses, back, "/gateway/copy/end")

    async def allow(self, path: str, source: StreamPath, peer: str = "own") -> None:
        """Let a source copy into a stream of this cluster, once.

        Raises:
            UnknownStream, NotAllowed: into itself, InvalidValue: too many are allowed.
        """
        stream, wanted = self._cluster.stream(path), self._naming.global_path(source)
        if self._naming.is_here(wanted) and wanted.path == path:
            raise NotAllowed(f"{wanted} cannot be copied into itself")
        permission = CopyPermission(stream.id, wanted, self._cluster.clock.wall_ms(), peer)
        await self._cluster.links.allow_copy(permission)

    def allowed(self, path: str) -> Sequence[CopyPermission]:
        """Which sources may copy into a stream, and have not begun. Raises: UnknownStream."""
        return self._cluster.links.copy_permissions(self._cluster.stream(path).id)

    async def forbid(self, path: str, source: StreamPath) -> None:
        """Take a permission back that was not used. Raises: UnknownStream, NotFound."""
        await self._cluster.links.forbid_copy(self._cluster.stream(path).id, self._naming.global_path(source))

    def _copy_of(self, copy: LinkRecord) -> LinkRecord:
        """A copy beside a standing link brings what that link does, since it moves its positions."""
        with suppress(NotFound):
            standing = self._cluster.links.find(copy.source, copy.replica_path)
            own = {name: getattr(copy, name) for name in ("id", "replica_urls", "created_at", "once", "created")}
            if standing.filter_next is not None:
                raise AlreadyExists(
                    f"topics are just coming into the link to {standing.replica_path}; begin the copy when `fairlead "
                    "stream replica list` shows that they are there"
                )
            return replace(standing, paused=False, rescan=0, widened=None, **own)
        return copy

    def _id_there(self, copy: LinkRecord) -> bytes:
        """A copy beside a standing link moves that link's positions."""
        with suppress(NotFound):
            return wire_id(self._cluster.links.find(copy.source, copy.replica_path))
        return wire_id(copy)

    def status(self, src: str, dst: StreamPath) -> ReplicaStatus:
        """How far a copy is: `state` is `copying`, `done` or `failed`.

        Raises:
            UnknownStream, NotFound: no such copy was begun since the server started.
        """
        stream, target = self._cluster.stream(src), self._naming.global_path(dst)
        link = self._links.copy_of(stream.id, target)
        if link is not None:
            left, ailment = backlog(link, stream), self._ailments.of(link)
            numbers = numbers_of(link, stream, None if ailment is None else ailment.error)
            return _copy_row("copying", percentage(link, left), numbers)
        ended = self._ended.get(stream.path, target)
        if ended is None:
            raise NotFound(f"no copy of {src} to {target} is under way")
        return _copy_row("done" if ended.error is None else "failed", 100, ended)


def _copy_row(state: str, done: int, copy: CopyNumbers) -> ReplicaStatus:
    return ReplicaStatus(
        {
            "state": state,
            "copyTableCompletionPercentage": done,
            "recordsCopied": copy.counts.records,
            "bytesCopied": copy.counts.size_bytes,
            "duplicates": copy.counts.duplicates,
            "conflicts": copy.conflicts,
            "error": "" if copy.error is None else str(copy.error),
        }
    )
