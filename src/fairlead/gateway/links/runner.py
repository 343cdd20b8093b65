"""Which links run: every recorded one has a loop; a record that comes, changes or goes is felt at once.

In: link records (`cluster.links`). Out: links begun and ended, events for those whose record changed. Owns the loops,
and who is told that links came or went. Always true: a paused or removed link holds no grant; while a copy runs, other
links to the same replica stand aside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import Begin, LinkRecord
from fairlead.gateway.links.contacting.contact_loop import ContactLoop
from fairlead.gateway.links.grants.granting import Granting
from fairlead.gateway.links.grants.source_logs import SourceLogs
from fairlead.gateway.links.running.lifecycle import Event
from fairlead.gateway.links.running.running_link import RunningLink, wire_id
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.errors import FairleadError

_UNTOLD = {"replica_stream", "peer", "ownership", "accept_writes"}
_TOLD = (*(each.name for each in fields(LinkRecord) if each.name not in _UNTOLD), "told_groups")
"""What readers and sinks are told of a link, with each grant; of the others, who wants to know asks the record."""


log = structlog.get_logger()


class LinkRunner:
    """`start` and `close` enclose its life."""

    def __init__(
        self,
        cluster: Cluster,
        links: RunningLinks,
        granting: Granting,
        logs: SourceLogs,
        new_loop: Callable[[LinkRecord], ContactLoop],
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._granting = granting
        self._logs = logs
        self._new_loop = new_loop
        self._loops: dict[bytes, ContactLoop] = {}
        self._watchers: set[Callable[[], None]] = set()
        self._editing: set[asyncio.Task[None]] = set()
        self._closed = False
        self.others_active: Callable[[], int] = int
        """How many things that are no links want to move data too."""

    def start(self) -> None:
        """Run the links there are, and follow changes of their records."""
        self._cluster.links.listen(self._sync)
        self._sync()
        for record in self._cluster.links.all():
            self._check_begin(record)

    def _check_begin(self, record: LinkRecord) -> None:
        """A log that was restored from a copy of before the link was made ended, when this server started, below where
        the replica begins: what it writes since, under the same numbers of commits, is no past."""
        stream = self._cluster.stream_by_id(record.source)
        if stream is None or not record.begin:
            return
        opened = [shard.announced.epochs[-1].first for shard in stream.shards]
        begin = [replace(each, commit=min(each.commit, at)) for each, at in zip(record.begin, opened, strict=False)]
        if tuple(begin) != record.begin:
            log.warning("the log ends before a replica was to begin; it begins there", replica=str(record.replica_path))
            editing = asyncio.ensure_future(self._begin_at(record, tuple(begin)))
            self._editing.add(editing)
            editing.add_done_callback(self._editing.discard)

    async def _begin_at(self, record: LinkRecord, begin: tuple[Begin, ...]) -> None:
        try:
            await self._cluster.links.edit(record.id, begin=begin)
        except FairleadError as error:
            log.warning("where a replica begins cannot be noted", replica=str(record.replica_path), error=str(error))

    async def close(self) -> None:
        """End all links."""
        self._closed = True
        await asyncio.gather(*self._editing, *(loop.close() for loop in self._loops.values()))

    @property
    def active(self) -> int:
        """Links, and other things, that want to move data; with none, no Spark is needed."""
        return sum(not link.record.paused for link in self._links) + self.others_active()

    @property
    def waiting(self) -> int:
        """Links among these of which nothing can be carried as it stands."""
        return sum(not link.record.paused and link.state.held_up for link in self._links)

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` when links were added, removed, paused or resumed; answers what ends that."""
        self._watchers.add(watcher)
        return partial(self._watchers.discard, watcher)

    def restart(self, link: RunningLink) -> None:
        """Pause or resume by the record, also a link that had stopped; felt at once."""
        link.note_moved(self._cluster.clock.monotonic_ms())
        link.on(self._standing(link))
        if link.record.paused:
            self._granting.withdraw(link, "paused")

    def _standing(self, link: RunningLink) -> Event:
        if link.record.paused:
            return Event.PAUSE
        copied = any(other.record.once is not None for other in self._links.beside(link))
        return Event.STAND_ASIDE if copied else Event.GO

    def _sync(self) -> None:
        """Bring what runs in line with the records."""
        if self._closed:
            return
        records = {record.id: record for record in self._cluster.links.all()}
        for link in list(self._links):
            if link.record.id not in records:
                self._end(link)
        for record in records.values():
            running = self._links.get(record.id)
            if running is None:
                self._begin(record)
            else:
                self._change(running, record)
        self._logs.tell_all_upkeep()
        self.tell_watchers()

    def tell_watchers(self) -> None:
        """What wants to move data may have changed."""
        for watcher in list(self._watchers):
            watcher()

    def _begin(self, record: LinkRecord) -> None:
        loop = self._loops[record.id] = self._new_loop(record)
        link = loop.link
        self._links.add(link)
        for other in self._links.beside(link) if record.once is not None else []:
            link.shares = other.wire_id
            self.restart(other)
            self._granting.withdraw(other, "a copy is made")
        self.restart(link)
        loop.start()

    def _end(self, link: RunningLink) -> None:
        self._links.remove(link)
        self._granting.withdraw(link, "removed")
        self._loops.pop(link.record.id).end()
        for other in self._links.beside(link) if link.record.once is not None else []:
            self.restart(other)

    def _change(self, link: RunningLink, record: LinkRecord) -> None:
        before, link.record = link.record, record
        if _told(record) == _told(before):
            return
        if not record.paused:
            self._granting.take_back(link, "the link was changed")
        if wire_id(record) != wire_id(before):
            link.forget()
        self.restart(link)
        self._granting.serve_waiting()


def _told(record: LinkRecord) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in _TOLD)
