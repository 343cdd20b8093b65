"""What reader and sink tasks say to the source server, and what follows from it.

In: messages of the control connections (`control_routes.py`), and the connections' beginning and end. Out: events and
numbers of links; grants given, ended and taken back. Owns who speaks of which run. Always true: what a task says of a
grant that no longer stands changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from fairlead.cluster.cluster import Cluster
from fairlead.gateway.links.contacting.failures import Failures
from fairlead.gateway.links.contacting.widening import Widenings
from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.gateway.links.grants.grant_table import GrantTable, Held
from fairlead.gateway.links.grants.granting import Granting
from fairlead.gateway.links.grants.outbox import Outbox
from fairlead.gateway.links.grants.source_logs import SourceLogs
from fairlead.gateway.links.running.lifecycle import Event
from fairlead.gateway.links.running.running_link import RunningLink, source_of
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.links.running.timing import REPAIR_DELAY_MAX_S, Timing
from fairlead.model.envelope import to_error
from fairlead.model.errors import Damaged, FairleadError, InvalidValue, UnknownStream, Unreachable
from fairlead.model.names import SLICES
from fairlead.streamlog.values import GrantRun
from fairlead.wire.control import Done, Failed, KafkaReport, Progress, ReaderHello, ReadReport, SlicesRefused


class Others(Protocol):
    """What is granted to tasks beside links: partitions of Kafka clusters."""

    def readers_changed(self) -> None:
        """One has come, or gone with what it held."""
        ...

    def progress(self, message: Progress) -> None:
        """The replica has recorded this."""
        ...

    def failed(self, message: Failed) -> None:
        """A sink could not deliver."""
        ...

    def refused(self, message: SlicesRefused) -> None:
        """The replica has refused a frame."""
        ...

    def told(self, link: bytes, message: KafkaReport) -> None:
        """A reader tells how a grant is that stands."""
        ...


class TaskReports:
    """Heard by the links that they are about."""

    def __init__(
        self,
        cluster: Cluster,
        links: RunningLinks,
        table: GrantTable,
        granting: Granting,
        logs: SourceLogs,
        failures: Failures,
        widenings: Widenings,
        timing: Timing,
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._table = table
        self._granting = granting
        self._logs = logs
        self._failures = failures
        self._widenings = widenings
        self._timing = timing

        self.others: Others | None = None
        """Who hears of what is no link's."""

    # ------------------------------------------------------------ readers

    def new_reader(self, hello: ReaderHello) -> ConnectedReader:
        """A reader task says hello.

        Raises:
            InvalidValue: it asks for too much.
        """
        return ConnectedReader(self._cluster, hello, report_seconds=self._timing.report_s)

    def reader_joined(self, reader: ConnectedReader) -> None:
        """A reader task has connected: it gets what waits, and its part of big backlogs."""
        self._table.join(reader)
        for link in self._links:
            with suppress(UnknownStream, Damaged):  # its own contact says so
                if link.state.ready and self._granting.should_spread(link, source_of(self._cluster, link.record)):
                    link.on(Event.LOOK)
                    self._granting.take_back(link, "shared with another reader")
        self._granting.serve_waiting()
        if self.others is not None:
            self.others.readers_changed()

    def reader_left(self, reader: ConnectedReader) -> None:
        """A reader has gone: what it held is given again, from where the destination then stands."""
        for link_id in self._table.leave(reader):
            link = self._links.get(link_id)
            if link is not None:
                link.on(Event.LOOK)
        if self.others is not None:
            self.others.readers_changed()

    def kafka(self, reader: ConnectedReader, report: KafkaReport) -> None:
        """A reader tells how it is with partitions of a Kafka cluster."""
        reader.heard(report.grant)
        held = self._table.get(report.grant)
        if held is not None and held.reader is reader and self.others is not None:
            self.others.told(held.link, report)

    def read(self, reader: ConnectedReader, report: ReadReport) -> None:
        """A reader says how far it has scanned."""
        reader.heard(report.grant)
        held, link = self._held(reader, report.grant)
        if held is None or link is None or held.repair:
            return
        link.positions.read(held.key[1], report)
        self._note_moved(link)
        self._note_caught_up(link)

    def done(self, reader: ConnectedReader, message: Done) -> None:
        """A reader has finished a repair, or a copy's part."""
        reader.heard(message.grant)
        held, link = self._held(reader, message.grant)
        if held is None or link is None:
            return
        if held.repair:
            self._granting.end(held)
            self._granting.serve_waiting()
            link.attention.look_in(min(self._timing.repair_s * 2.0**link.repairs, REPAIR_DELAY_MAX_S))
        self._note_caught_up(link)

    def _held(self, reader: ConnectedReader, grant: int) -> tuple[Held | None, RunningLink | None]:
        held = self._table.get(grant)
        if held is None or held.reader is not reader:
            return None, None
        return held, self._links.get(held.link)

    # ------------------------------------------------------------ sinks

    def sink_joined(self, sink: Outbox) -> None:
        """A sink task has connected: it is told what to drop."""
        self._table.sinks.add(sink)

    def sink_left(self, sink: Outbox) -> None:
        """A sink has gone."""
        self._table.sink_left(sink)

    def progress(self, sink: Outbox, message: Progress) -> None:
        """A sink says what its destination has recorded.

        Raises:
            InvalidValue: the run is another sink's, or was never given.
        """
        key = message.link, message.shard, message.run
        if not self._granting.runs.given(*key) or not self._table.is_sink_of(sink, *key):
            raise InvalidValue("progress of a run that is not this sink's")
        self._table.answered(*key, message.frames, message.size_bytes)
        link = self._links.known_as(message.link)
        if link is None:
            if self.others is not None:
                self.others.progress(message)
            return
        beyond = self._beyond_the_log(link, message)
        if beyond:
            self._failures.note(link, Unreachable(beyond), Event.UNDELIVERED)
            return
        link.on(Event.DELIVERED)
        link.positions.advance(message.shard, message.slices)
        link.counts.frames += message.frames
        link.counts.records += message.records
        link.counts.size_bytes += message.size_bytes
        link.counts.duplicates += message.duplicates
        if link.copy_bytes is not None:
            link.rate.note(message.size_bytes, self._cluster.clock.monotonic_ms())
        if message.behind and not link.repairs:
            link.attention.look_in(self._timing.repair_s if link.conflicts else self._timing.backoff_first_s)
        self._note_moved(link, records=message.records)
        self._note_caught_up(link)

    def _beyond_the_log(self, link: RunningLink, message: Progress) -> str:
        """Why this cannot be: a destination says what it likes. Empty if it can."""
        stream = self._cluster.stream_by_id(link.record.source)
        shards = stream.shards if stream is not None else []
        end = shards[message.shard].announced.end if 0 <= message.shard < len(shards) else 0
        if all(0 <= each < SLICES and 0 <= commit <= end for each, commit in message.slices.items()):
            return ""
        return f"{link.record.replica_path} says that it has commits which are not in the log of its source"

    def sink_failed(self, message: Failed) -> None:
        """A sink could not deliver: take the link's grants back and ask the destination after a while."""
        link = self._links.known_as(message.link)
        if link is None and self.others is not None:
            self.others.failed(message)
        if link is not None and self._stands(link, message.shard, message.run):
            self._failures.note(link, error_of(message), Event.UNDELIVERED)

    def sink_refused(self, message: SlicesRefused) -> None:
        """A frame did not follow the recorded position: give the link again, from there."""
        link = self._links.known_as(message.link)
        if link is None:
            if self.others is not None:
                self.others.refused(message)
            return
        held = self._table.of(link.record.id)
        if any((each.key[1], each.run) == (message.shard, message.run) for each in held):
            link.on(Event.REFUSED)
            self._granting.withdraw(link, "refused")

    def _stands(self, link: RunningLink, shard: int, run: GrantRun) -> bool:
        """Something of the shard that was granted under this run, or before, still counts."""
        return any(held.key[1] == shard and not run < held.run for held in self._table.of(link.record.id))

    # ------------------------------------------------------------ both

    def _note_moved(self, link: RunningLink, records: int = 0) -> None:
        """It is alive if it has come further than ever before, or a repair has brought records."""
        if link.positions.came_further() or records:
            link.note_moved(self._cluster.clock.monotonic_ms())

    def _note_caught_up(self, link: RunningLink) -> None:
        link.note_caught_up()
        self._logs.note_passed(link)
        if link.copy_is_done:
            link.on(Event.LOOK)
        self._widenings.look(link)


def error_of(message: Failed) -> FairleadError:
    return to_error({"errors": [{"code": message.reason, "desc": message.message}]})
