"""What people can do with links: `stream replica …`, `stream upstream …`. `copystream.py` has the copies.

Every command changes a record; `runner.py` is told of the change and acts on it at once. Owns nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from fairlead.cluster import side_copies
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.topic_filter import TopicFilter
from fairlead.cluster.values import LinkRecord, UpstreamRecord
from fairlead.gateway.links.contacting.widening import Widenings
from fairlead.gateway.links.cursor_news import CursorNews
from fairlead.gateway.links.errors import StreamChanged
from fairlead.gateway.links.grants.grant_table import GrantTable
from fairlead.gateway.links.health.ailments import Ailments
from fairlead.gateway.links.health.status import ReplicaStatus, errors_of, status
from fairlead.gateway.links.orders.autosetup import ONE_WAY, Autosetup, SetUp, agreement
from fairlead.gateway.links.orders.naming import Naming
from fairlead.gateway.links.replicator_life import Ailment, ReplicatorLife
from fairlead.gateway.links.runner import LinkRunner
from fairlead.gateway.links.running.backlog import backlog
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import RunningLink, urls_of
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.errors import AlreadyExists, FairleadError, NotAllowed, NotFound
from fairlead.model.names import StreamPath

REFRESH_TIMEOUT_S = 1.5
FILTERS = ("topics", "exclude_topics")
"""Options of a link that say what it leaves out."""


class LinkCommands:
    """A path that is text is local; a replica or source that names no cluster is one of this cluster."""

    def __init__(
        self,
        cluster: Cluster,
        new_gateways: Callable[[], Gateways],
        naming: Naming,
        links: RunningLinks,
        table: GrantTable,
        runner: LinkRunner,
        replicator: ReplicatorLife,
        ailments: Ailments,
        widenings: Widenings,
        cursor_news: CursorNews,
    ) -> None:
        self.replicator = replicator
        """Whether it lives."""
        self.cursor_news = cursor_news
        """What links are told of cursors."""
        self._cluster = cluster
        self._new_gateways = new_gateways
        self._naming = naming
        self._links = links
        self._table = table
        self._runner = runner
        self._ailments = ailments
        self._widenings = widenings

    # ------------------------------------------------------------ replicas

    async def add_replica(
        self,
        path: str,
        replica: StreamPath,
        paused: bool = False,
        urls: Sequence[str] = (),
        **options: Any,
    ) -> LinkRecord:
        """Name a replica of a stream; `urls` are the HTTP addresses of its cluster, if that is another, and `options`
        fields of the link's record.

        Raises:
            UnknownStream, AlreadyExists, InvalidName, UnknownCluster (no address given).
            InvalidValue: there are 64 replicas, or an option cannot be.
            NotAllowed: a replica of itself.
        """
        stream, target = self._cluster.stream(path), self._naming.global_path(replica)
        if self._naming.is_here(target):
            self._check_other(stream, target)
        record = self._naming.new_link(stream, target, urls, paused=paused, **options)
        return await self._cluster.links.add(record)

    async def autosetup(
        self,
        path: str,
        replica: StreamPath,
        urls: Sequence[str] = (),
        how: SetUp = ONE_WAY,
        **options: Any,
    ) -> dict[str, Any]:
        """Make the replica with the source's settings, name it here and the source there, and start; answers what it
        did and what happens now. In another cluster, the caller has made the replica and its upstream before, and the
        link back where it is multi-master.

        What exists is copied by the link itself. When a step fails, what was made is taken back, and the error says so.

        Raises:
            AlreadyExists: there is a stream at the replica's path in this cluster, or the link is there.
            UnknownStream, NotAgreed: the other cluster's part is not done.
            FairleadError: as the steps.
        """
        stream, target = self._cluster.stream(path), self._naming.global_path(replica)
        self._check_new(stream, target)
        if how.multimaster:
            options.setdefault("accept_writes", True)
        steps = Autosetup(self._cluster, self._naming, how, options)
        if self._naming.is_here(target):
            record = await steps.here(stream, target)
        else:
            record = await steps.elsewhere(self._new_gateways(), stream, target, urls)
        source = str(self._cluster.global_path(path))
        return {
            "source": source,
            "replicaPath": str(target),
            "done": steps.done,
            "next": self._what_follows(stream, record),
        }

    def _what_follows(self, stream: Stream, record: LinkRecord) -> str:
        """What happens now, for the person who has just set a link up."""
        if record.paused:
            names = f"-path {self._cluster.global_path(stream.path)} -replica {record.replica_path}"
            return f"nothing is sent yet: run fairlead stream replica resume {names}"
        link, ailing = self._links.get(record.id), self.replicator.ailment()
        if ailing is not None:
            return f"nothing is copied yet: {ailing.error}"
        if record.begin:
            return f"what is there is left out, and what comes later follows{self._start_of_spark()}"
        records = 0 if link is None else backlog(link, stream).records
        copied = f"what is there ({records:,} records) is copied" if records else "there is nothing to copy yet"
        return f"{copied}, and what comes later follows{self._start_of_spark()}"

    def _start_of_spark(self) -> str:
        carrying = self.replicator.now().state == "carrying"
        return "" if carrying else "; the replicator starts Spark first, which takes some seconds"

    def _check_other(self, stream: Stream, target: StreamPath) -> None:
        if self._cluster.stream(target.path) is stream:
            raise NotAllowed(f"{target} cannot be a replica of itself")

    def _check_new(self, stream: Stream, target: StreamPath) -> None:
        with suppress(NotFound):
            self._cluster.links.find(stream.id, target)
            raise AlreadyExists(f"{target} is a replica of {stream.path} already")
        if self._naming.is_here(target) and target.path == stream.path:
            raise NotAllowed(f"{target} cannot be a replica of itself")

    def list(self, path: str) -> Sequence[ReplicaStatus]:
        """A row per replica, oldest first.

        Raises:
            UnknownStream.
        """
        stream = self._cluster.stream(path)
        return [
            status(
                link,
                stream,
                index,
                side=self._links.side_copy_of(link),
                granted=bool(self._table.of(link.record.id)),
                source=self._cluster.global_path(path),
                ailment=self._ailments.of(link),
                replicator=self.replicator.now(),
                cursors_ms=self.cursor_news.lacking_ms(link, stream),
                now_ms=self._cluster.clock.wall_ms(),
            )
            for index, link in enumerate(self.standing(stream), 1)
        ]

    def rows(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """Every link of every stream: the stream's path, and the link's row."""
        paths = [stream.path for stream in self._cluster.streams() if self._links.of_source(stream.id)]
        return [(path, each.row()) for path in paths for each in self.list(path)]

    def failing(self) -> Sequence[dict[str, Any]]:
        """Every link of this cluster with an error, copies included: which, what, and since when."""
        now_ms = self._cluster.clock.wall_ms()
        return [self._failing(link, ailment, now_ms) for link, ailment in self._ailments.all()]

    def _failing(self, link: RunningLink, ailment: Ailment, now_ms: int) -> dict[str, Any]:
        shown = errors_of(link, ailment, self._cluster.global_path(link.record.source_path), now_ms)
        return {
            "path": link.record.source_path,
            "replica": str(link.record.replica_path),
            "code": shown["Code"],
            "error": shown["Msg"],
            "command": shown["Command"],
            "since": shown["Since"],
            "seconds": shown["Seconds"],
        }

    async def refresh(self, path: str) -> None:
        """Ask the destinations for their present gaps and conflicts, for `list`. One that is silent is left out.

        Raises:
            UnknownStream.
        """
        await asyncio.gather(*map(self._refresh, self.standing(self._cluster.stream(path))))

    def standing(self, stream: Stream) -> Sequence[RunningLink]:
        """The links of a stream that run, copies apart."""
        running = [self._links.get(record.id) for record in self._cluster.links.standing(stream.id)]
        return [link for link in running if link is not None]

    async def _refresh(self, link: RunningLink) -> None:
        """Take the destination's present notes; its silence is the business of the link's loop, not of a table."""
        if not link.state.ready:
            return
        with suppress(FairleadError, TimeoutError):
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                answer = await link.gateways.ask(urls_of(self._cluster, link.record), link.request(self._cluster))
            if link.state.ready and answer.stream == link.record.replica_stream:
                link.answer = answer

    async def edit_replica(self, path: str, replica: StreamPath, **options: Any) -> None:
        """Change `options` of a link, fields of its record; a running link feels each at once.

        What its source received and the link passed over so far comes by a rescan, once it is to be sent on. Topics
        that come in are brought by a side copy; until it is done, what the link leaves out is as it was.

        Raises:
            UnknownStream, NotFound, InvalidValue.
        """
        record = self.check_options(path, replica, **options)
        to = _filter_after(record, options)
        others = {name: value for name, value in options.items() if name not in FILTERS}
        if (record.forward, others.get("forward")) == ("own", "all"):
            others["rescan"] = record.rescan + 1
        if others:
            record = await self._cluster.links.edit(record.id, **others)
        if to is None:
            return
        if to.narrows(record.filter):
            await self._cluster.links.change(partial(side_copies.let_out, link=record.id, to=to))
        else:
            await self._widenings.begin(record, to)

    def check_options(self, path: str, replica: StreamPath, **options: Any) -> LinkRecord:
        """The link, if `options`, fields of its record, can be what is given.

        Raises:
            UnknownStream, NotFound, InvalidValue.
        """
        record = self._naming.find(path, replica)
        replace(record, **options)  # refuses what cannot be
        return record

    async def move_replica(self, path: str, replica: StreamPath, to: StreamPath, urls: Sequence[str] = ()) -> None:
        """The replica is found at another path or at other addresses now; the link goes on with it where it stands.

        Raises:
            UnknownStream, NotFound, UnknownCluster, NotAgreed, Unreachable.
            AlreadyExists: another link of the stream goes there.
            StreamChanged: another stream than the link's is found there.
        """
        stream, record, target = (
            self._cluster.stream(path),
            self._naming.find(path, replica),
            self._naming.global_path(to),
        )
        if target != record.replica_path:
            self._check_new(stream, target)
        moved = replace(record, replica_path=target, replica_urls=tuple(urls))
        answer = await agreement(self._cluster, self._new_gateways(), stream, moved)
        if record.replica_stream not in {None, answer.stream}:
            raise StreamChanged(
                f"{target} is another stream than the one that this link feeds; -newreplica is for one that moved"
            )
        await self._cluster.links.edit(record.id, replica_path=target, replica_urls=moved.replica_urls)

    async def pause(self, path: str, replica: StreamPath) -> None:
        """Send nothing more to a replica, within a second; nothing is lost.

        Raises:
            UnknownStream, NotFound.
        """
        await self._cluster.links.edit(self._naming.find(path, replica).id, paused=True)

    async def resume(self, path: str, replica: StreamPath, rescan: bool = False) -> None:
        """Go on, from where the replica stands; with `rescan` the whole log is read again, and what is equal dropped.

        Raises:
            UnknownStream, NotFound.
        """
        record = self._naming.find(path, replica)
        changes = {"rescan": record.rescan + 1} if rescan else {}
        await self._cluster.links.edit(record.id, paused=False, **changes)
        link = self._links.get(record.id)
        if link is not None and not link.state.ready:
            self._runner.restart(link)

    async def remove(self, path: str, replica: StreamPath) -> None:
        """End replication to a replica; it keeps what it has.

        Raises:
            UnknownStream, NotFound.
        """
        await self._cluster.links.remove(self._naming.find(path, replica).id)

    # ------------------------------------------------------------ upstreams

    async def add_upstream(
        self,
        path: str,
        upstream: StreamPath,
        peer: str = "own",
        **options: Any,
    ) -> UpstreamRecord:
        """Let a replica accept a source, which may bring topics of any owner (`own`), or only its own and those of the
        streams `origins` (`partner`). `options` are fields of the upstream's record.

        Raises:
            UnknownStream, InvalidName, AlreadyExists, InvalidValue (64 upstreams), NotAllowed: itself.
        """
        stream, source = self._cluster.stream(path), self._naming.global_path(upstream)
        if self._naming.is_here(source) and source.path == path:
            raise NotAllowed(f"{source} cannot be an upstream of itself")
        return await self._cluster.links.add_upstream(UpstreamRecord(stream.id, source, peer=peer, **options))

    async def edit_upstream(self, path: str, upstream: StreamPath, **changes: Any) -> None:
        """Change `options` of a source, fields of its record; holds for the frames that come from then on.

        Raises:
            UnknownStream, NotFound, InvalidValue.
        """
        stream = self._cluster.stream(path)
        await self._cluster.links.edit_upstream(stream.id, self._naming.global_path(upstream), **changes)

    def list_upstreams(self, path: str) -> Sequence[UpstreamRecord]:
        """The sources that a replica accepts, by path, and copies that are under way.

        Raises:
            UnknownStream.
        """
        return self._cluster.links.upstreams(self._cluster.stream(path).id)

    async def remove_upstream(self, path: str, upstream: StreamPath) -> None:
        """Let a replica accept a source no more, nor what it copies into it.

        Raises:
            UnknownStream, NotFound.
        """
        stream = self._cluster.stream(path)
        await self._cluster.links.remove_upstream(stream.id, self._naming.global_path(upstream))


def _filter_after(record: LinkRecord, options: Mapping[str, Any]) -> TopicFilter | None:
    """What a link is to leave out after these options; None if that is what was last said already. An option that is
    not given stays as it was last said."""
    said = record.filter_next or record
    to = TopicFilter(*(options.get(name, getattr(said, name)) for name in FILTERS))
    return None if to == TopicFilter(said.topics, said.exclude_topics) else to
