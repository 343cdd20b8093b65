"""All Kafka clusters whose topics streams of this cluster keep: each record has something that runs, and what tasks say
goes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka.granting import KafkaGranting
from fairlead.gateway.from_kafka.known import KafkaTiming
from fairlead.gateway.from_kafka.upstream import RunningUpstream
from fairlead.gateway.links.manager import LinkManager
from fairlead.gateway.links.task_reports import error_of
from fairlead.wire.control import Failed, KafkaReport, Progress, SlicesRefused


class RunningUpstreams:
    """`start` and `close` enclose their life. It is told by tasks of what is no link's."""

    def __init__(self, cluster: Cluster, links: LinkManager, timing: KafkaTiming | None = None) -> None:
        self._cluster = cluster
        self._links = links
        self._timing = timing or KafkaTiming()
        self._granting = KafkaGranting(cluster, links.table, links.granting)
        self._running: dict[bytes, RunningUpstream] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def __iter__(self) -> Iterator[RunningUpstream]:
        return iter(list(self._running.values()))

    def of(self, stream: bytes) -> list[RunningUpstream]:
        """Those of a stream, by name."""
        found = [each for each in self if each.record.stream == stream]
        return sorted(found, key=lambda each: each.record.name)

    def get(self, record: KafkaUpstream) -> RunningUpstream | None:
        """The one that runs of that record."""
        return self._running.get(record.link)

    def start(self) -> None:
        """Run those that there are, and follow changes of their records."""
        self._links.tasks.others = self
        self._links.runner.others_active = self._active
        self._cluster.kafka.listen(self._sync)
        self._sync()

    async def close(self) -> None:
        """End all."""
        self._closed = True
        await asyncio.gather(*(each.close() for each in self), *self._ending)

    def _active(self) -> int:
        return sum(not each.record.paused for each in self)

    def _sync(self) -> None:
        if self._closed:
            return
        records = {each.link: each for each in self._cluster.kafka.all()}
        for link in self._running.keys() - records.keys():
            ending = asyncio.ensure_future(self._running.pop(link).close())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        for link, record in records.items():
            running = self._running.get(link)
            if running is None:
                running = self._running[link] = RunningUpstream(self._cluster, record, self._granting, self._timing)
                running.start()
            elif running.record != record:
                running.change(record)
        self._links.runner.tell_watchers()

    # ------------------------------------------------------------ what tasks say

    def readers_changed(self) -> None:
        """One has come, or gone with what it held."""
        for each in self:
            each.wake()

    def progress(self, message: Progress) -> None:
        """The replica has recorded this."""
        running = self._running.get(message.link)
        if running is not None:
            running.progress(message)

    def failed(self, message: Failed) -> None:
        """A sink could not deliver."""
        running = self._running.get(message.link)
        if running is not None and running.stands(message.run):
            running.note_error(error_of(message))
            running.give_anew()

    def refused(self, message: SlicesRefused) -> None:
        """The replica has refused a frame."""
        running = self._running.get(message.link)
        if running is not None and running.stands(message.run):
            running.give_anew()

    def told(self, link: bytes, message: KafkaReport) -> None:
        """A reader tells how a grant is that stands."""
        running = self._running.get(link)
        if running is not None:
            running.told(message)
