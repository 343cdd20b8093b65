"""What people can do with links: `stream replica …`, `stream upstream …`, `copystream`; and their numbers.

Every command changes a record; `LinkRunner` is told of the change and acts on it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord, StreamSettings, UpstreamRecord
from fairlead.gateway.links.replica_cluster import Streams, StreamsHere, StreamsThere
from fairlead.gateway.links.runner import CopyNumbers
from fairlead.gateway.links.running_link import Phase, RunningLink, urls_of, wire_id
from fairlead.gateway.links.status import ReplicaStatus, backlog, percentage, status
from fairlead.gateway.links.task_reports import LinkTasks
from fairlead.model.envelope import code_of, to_error
from fairlead.model.errors import (
    AlreadyExists,
    FairleadError,
    InvalidValue,
    NotAllowed,
    NotFound,
    NotImplementedYet,
    UnknownCluster,
    UnknownStream,
)
from fairlead.model.names import StreamPath
from fairlead.wire.messages import LinkRequest, StreamPlace

FORWARDS = ("all", "own")
REFRESH_TIMEOUT_S = 1.5

Undo = Callable[[], Awaitable[None]]


class LinkManager(LinkTasks):
    """All links of a cluster, and the commands that change them. A path that is text is local; a replica or source that
    names no cluster is one of this cluster."""

    # ------------------------------------------------------------ replicas

    async def add_replica(
        self, path: str, replica: StreamPath, paused: bool = False, urls: Sequence[str] = (), *, forward: str = "all"
    ) -> LinkRecord:
        """Name a replica of a stream; `urls` are the HTTP addresses of its cluster, if that is another.

        Raises:
            UnknownStream, AlreadyExists, InvalidName, InvalidValue (64 replicas), UnknownCluster (no address given),
            NotAllowed: a replica of itself.
        """
        stream, target = self.cluster.stream(path), self._global(replica)
        if forward not in FORWARDS:
            raise InvalidValue(f"forward {forward!r}: use one of {', '.join(FORWARDS)}")
        if self._is_here(target):
            self._check_here(stream, target)
        return await self.cluster.links.add(self._record(stream, target, urls, paused=paused, forward=forward))

    async def autosetup(
        self, path: str, replica: StreamPath, urls: Sequence[str] = (), *, multimaster: bool = False
    ) -> LinkRecord:
        """Make the replica with the source's settings, name it here and the source there, and start.

        What exists is copied by the link itself. When a step fails, what was made is taken back, and the error says so.

        Raises:
            AlreadyExists: there is a stream at the replica's path, or the link is there.
            NotImplementedYet: multi-master.
            FairleadError: as the steps.
        """
        if multimaster:
            raise NotImplementedYet("-multimaster true")
        stream, target = self.cluster.stream(path), self._global(replica)
        self._check_new(stream, target)
        there = self._streams(target, urls)
        done: list[tuple[str, Undo]] = []
        try:
            return await self._set_up(stream, target, urls, there, done)
        except FairleadError as error:
            raise await _undone(error, done) from error

    async def _set_up(
        self, stream: Stream, target: StreamPath, urls: Sequence[str], there: Streams, done: list[tuple[str, Undo]]
    ) -> LinkRecord:
        source = self.cluster.global_path(stream.path)
        await there.create(target.path, copied_settings(stream.settings))
        done.append((f"created {target}", lambda: there.delete(target.path)))
        link = await self.add_replica(stream.path, target, True, urls)
        done.append((f"named {target} a replica of {source}", lambda: self.cluster.links.remove(link.id)))
        await there.add_upstream(target.path, source)
        done.append((f"named {source} an upstream of {target}", lambda: there.remove_upstream(target.path, source)))
        return await self.cluster.links.edit(link.id, paused=False)

    def _check_new(self, stream: Stream, target: StreamPath) -> None:
        with suppress(NotFound):
            self.cluster.links.find(stream.id, target)
            raise AlreadyExists(f"{target} is a replica of {stream.path} already")
        if self._is_here(target) and target.path == stream.path:
            raise NotAllowed(f"{target} cannot be a replica of itself")

    def list(self, path: str) -> Sequence[ReplicaStatus]:
        """A row per replica, oldest first.

        Raises:
            UnknownStream.
        """
        stream = self.cluster.stream(path)
        return [status(link, stream, self.granting, index) for index, link in enumerate(self._standing(stream), 1)]

    async def refresh(self, path: str) -> None:
        """Ask the destinations for their present gaps and conflicts, for `list`; who does not answer soon is left.

        Raises:
            UnknownStream.
        """
        await asyncio.gather(*map(self._refresh, self._standing(self.cluster.stream(path))))

    def _standing(self, stream: Stream) -> Sequence[RunningLink]:
        records = [record for record in self.cluster.links.of(stream.id) if record.once is None]
        return [self.states[record.id] for record in records if record.id in self.states]

    async def _refresh(self, link: RunningLink) -> None:
        """Take the destination's present notes; its silence is the business of `_drive`, not of a table."""
        if link.phase is not Phase.READY:
            return
        with suppress(FairleadError, TimeoutError):
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                answer = await link.gateways.ask(urls_of(self.cluster, link.record), self.request(link))
            if link.phase is Phase.READY and answer.stream == link.record.replica_stream:
                link.answer = answer

    async def pause(self, path: str, replica: StreamPath) -> None:
        """Send nothing more to a replica, within a second; nothing is lost.

        Raises:
            UnknownStream, NotFound.
        """
        await self.cluster.links.edit(self._find(path, replica).id, paused=True)

    async def resume(self, path: str, replica: StreamPath, rescan: bool = False) -> None:
        """Go on, from where the replica stands; with `rescan` the whole log is read again, and what is equal dropped.

        Raises:
            UnknownStream, NotFound.
        """
        record = self._find(path, replica)
        changes = {"rescan": record.rescan + 1} if rescan else {}
        await self.cluster.links.edit(record.id, paused=False, **changes)
        link = self.states.get(record.id)
        if link is not None and link.phase is not Phase.READY:
            self.restart(link)

    async def remove(self, path: str, replica: StreamPath) -> None:
        """End replication to a replica; it keeps what it has.

        Raises:
            UnknownStream, NotFound.
        """
        await self.cluster.links.remove(self._find(path, replica).id)

    # ------------------------------------------------------------ upstreams

    async def add_upstream(self, path: str, upstream: StreamPath) -> UpstreamRecord:
        """Let a replica accept a source.

        Raises:
            UnknownStream, InvalidName, AlreadyExists, InvalidValue (64 upstreams), NotAllowed: itself.
        """
        stream, source = self.cluster.stream(path), self._global(upstream)
        if self._is_here(source) and source.path == path:
            raise NotAllowed(f"{source} cannot be an upstream of itself")
        return await self.cluster.links.add_upstream(UpstreamRecord(stream.id, source))

    def list_upstreams(self, path: str) -> Sequence[UpstreamRecord]:
        """The sources that a replica accepts, by path.

        Raises:
            UnknownStream.
        """
        upstreams = self.cluster.links.upstreams(self.cluster.stream(path).id)
        return [upstream for upstream in upstreams if upstream.once_link is None]

    async def remove_upstream(self, path: str, upstream: StreamPath) -> None:
        """Let a replica accept a source no more.

        Raises:
            UnknownStream, NotFound.
        """
        await StreamsHere(self.cluster).remove_upstream(path, self._global(upstream))

    # ------------------------------------------------------------ copies

    async def copystream(self, src: str, dst: StreamPath, urls: Sequence[str] = ()) -> LinkRecord:
        """Begin to copy a stream as it now is; the destination is made with its settings if it is not there.

        Raises:
            UnknownStream, NotAllowed: into itself, AlreadyExists: the same copy is under way, Unreachable.
        """
        stream, target = self.cluster.stream(src), self._global(dst)
        if self._is_here(target) and target.path == src:
            raise NotAllowed(f"{target} cannot be copied into itself")
        ends = tuple(shard.log.end for shard in stream.shards)
        record = self._record(stream, target, urls, once=ends)
        pair = (stream.id, target)
        if pair in self._beginning or self._running_copy(stream, target) is not None:
            raise AlreadyExists(f"a copy of {src} to {target} is under way")
        self._beginning.add(pair)
        try:
            await self._allow_copy(record, stream, target, urls)
            self.ended_copies.pop((stream.path, target), None)
            return await self.cluster.links.add(record)
        finally:
            self._beginning.discard(pair)

    async def _allow_copy(self, record: LinkRecord, stream: Stream, target: StreamPath, urls: Sequence[str]) -> None:
        source = StreamPlace(self.cluster.name, stream.path, stream.id, tuple(self.cluster.urls))
        request = LinkRequest(self._id_there(record), source, target.path, once=True)
        gateways = self.new_gateways()
        addresses = urls_of(self.cluster, record)
        try:
            answer = await gateways.ask(addresses, request, "/gateway/copy")
        except UnknownStream:
            await self._streams(target, urls).create(target.path, copied_settings(stream.settings))
            answer = await gateways.ask(addresses, request, "/gateway/copy")
        if answer.cluster != target.cluster:
            await gateways.tell(addresses, request, "/gateway/copy/end")
            raise UnknownCluster(f"{target}: the server at {', '.join(addresses)} is of cluster {answer.cluster}")

    def _id_there(self, copy: LinkRecord) -> bytes:
        """A copy beside a standing link moves that link's positions."""
        with suppress(NotFound):
            return wire_id(self.cluster.links.find(copy.source, copy.replica_path))
        return wire_id(copy)

    def copy_status(self, src: str, dst: StreamPath) -> ReplicaStatus:
        """How far a copy is: `state` is `copying`, `done` or `failed`.

        Raises:
            UnknownStream, NotFound: no such copy was begun since the server started.
        """
        stream, target = self.cluster.stream(src), self._global(dst)
        link = self._running_copy(stream, target)
        if link is not None:
            left = backlog(link, stream)
            return _copy_row("copying", percentage(link, left), CopyNumbers(link.counts, link.error, link.conflicts))
        ended = self.ended_copies.get((stream.path, target))
        if ended is None:
            raise NotFound(f"no copy of {src} to {target} is under way")
        return _copy_row("done" if ended.error is None else "failed", 100, ended)

    def _running_copy(self, stream: Stream, target: StreamPath) -> RunningLink | None:
        copies = (link for link in self.states.values() if link.record.once is not None)
        pair = (stream.id, target)
        return next((link for link in copies if (link.record.source, link.record.replica_path) == pair), None)

    # ------------------------------------------------------------ names

    def _global(self, path: StreamPath) -> StreamPath:
        return self.cluster.global_path(path.path) if path.cluster is None else path

    def _is_here(self, path: StreamPath) -> bool:
        return path.cluster == self.cluster.name

    def _check_here(self, stream: Stream, target: StreamPath) -> None:
        if self.cluster.stream(target.path) is stream:
            raise NotAllowed(f"{target} cannot be a replica of itself")

    def _streams(self, target: StreamPath, urls: Sequence[str]) -> Streams:
        if target.cluster is None or self._is_here(target):
            return StreamsHere(self.cluster)
        return StreamsThere(self.http, urls, target.cluster)

    def _find(self, path: str, replica: StreamPath) -> LinkRecord:
        return self.cluster.links.find(self.cluster.stream(path).id, self._global(replica))

    def _record(
        self,
        stream: Stream,
        target: StreamPath,
        urls: Sequence[str],
        *,
        paused: bool = False,
        forward: str = "all",
        once: tuple[int, ...] | None = None,
    ) -> LinkRecord:
        if not urls and not self._is_here(target):
            raise UnknownCluster(f"{target}: the addresses of cluster {target.cluster} are not known")
        return LinkRecord(
            id=self.randomness.id16(),
            source=stream.id,
            source_path=stream.path,
            replica_path=target,
            replica_urls=tuple(urls),
            paused=paused,
            created_at=self.clock.wall_ms(),
            forward=forward,
            once=once,
        )


def copied_settings(settings: StreamSettings) -> StreamSettings:
    """A replica's settings: the source's, without the moment of its creation."""
    names = ("ttl_seconds", "autocreate", "default_partitions", "compression", "timestamp_type", "pid_expiry_seconds")
    perms = ("produceperm", "consumeperm", "topicperm", "copyperm", "adminperm", "shards")
    return StreamSettings(**{name: getattr(settings, name) for name in (*names, *perms)})


async def _undone(error: FairleadError, done: Sequence[tuple[str, Undo]]) -> FairleadError:
    """Take back what was done, last first; the same error with what became of each step."""
    if not done:
        return error
    told = []
    for what, undo in reversed(done):
        try:
            await undo()
            told.append(f"{what} (taken back)")
        except FairleadError as failure:
            told.append(f"{what} (still there: {failure})")
    desc = f"{error}; done before: {', '.join(reversed(told))}"
    return to_error({"errors": [{"code": code_of(error), "desc": desc}]})


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
