"""What reader and sink tasks say to the source server, and what follows from it.

In: messages of the control connections (`control_routes.py`), and the connections' beginning and end. Out: changes of a
link's numbers; grants given, ended and taken back. Always true: what a task says of a grant that no longer stands
changes nothing.
"""

from __future__ import annotations

from contextlib import suppress

from fairlead.gateway.links.connected_reader import ConnectedReader
from fairlead.gateway.links.grant_table import Held
from fairlead.gateway.links.runner import REPAIR_DELAY_MAX_S, LinkRunner
from fairlead.gateway.links.running_link import Phase, RunningLink
from fairlead.model.envelope import to_error
from fairlead.model.errors import Damaged, FairleadError, UnknownStream
from fairlead.streamlog.values import GrantRun
from fairlead.wire.messages import Done, Failed, Progress, ReadReport, SliceRefused


class LinkTasks(LinkRunner):
    """The tasks' side of `LinkRunner`."""

    # ------------------------------------------------------------ readers

    def reader_joined(self, port: ConnectedReader) -> None:
        """A reader task has connected: it gets what waits, and its part of big backlogs."""
        self.granting.join(port)
        for link in self.states.values():
            with suppress(UnknownStream, Damaged):  # its own contact says so
                if link.phase is Phase.READY and self.granting.should_spread(link, self.source(link)):
                    self._withdraw(link, "shared with another reader")
        self._serve_waiting()

    def reader_left(self, port: ConnectedReader) -> None:
        """A reader has gone: what it held is given again, from where the destination then stands."""
        for link_id in self.granting.leave(port):
            link = self.states.get(link_id)
            if link is not None:
                link.wake.set()

    def read(self, port: ConnectedReader, report: ReadReport) -> None:
        """A reader says how far it has scanned."""
        held, link = self._held(port, report.grant)
        if held is None or link is None or held.repair:
            return
        link.read(held.key[1], report)
        self._note_caught_up(link)

    def done(self, port: ConnectedReader, message: Done) -> None:
        """A reader has finished a repair, or a copy's part."""
        held, link = self._held(port, message.grant)
        if held is None or link is None:
            return
        if held.repair:
            self.granting.end(held)
            self._serve_waiting()
            self._later(link, min(self.timing.repair_s * 2.0**link.repairs, REPAIR_DELAY_MAX_S))
        self._note_caught_up(link)

    def _held(self, port: ConnectedReader, grant: int) -> tuple[Held | None, RunningLink | None]:
        held = self.granting.table.get(grant)
        if held is None or held.port is not port:
            return None, None
        return held, self.states.get(held.link)

    # ------------------------------------------------------------ sinks

    def progress(self, message: Progress) -> None:
        """A sink says what its destination has recorded."""
        self.granting.table.answered(message.run, message.frames, message.size_bytes)
        link = self._by_wire_id(message.link)
        if link is None:
            return
        link.delivered()
        link.advance(message.shard, message.slices)
        link.counts.frames += message.frames
        link.counts.records += message.records
        link.counts.size_bytes += message.size_bytes
        link.counts.duplicates += message.duplicates
        if message.behind and not link.repairs:
            self._later(link, self.timing.repair_s if link.conflicts else self.timing.backoff_first_s)
        self._note_caught_up(link)

    def sink_failed(self, message: Failed) -> None:
        """A sink could not deliver: take the link's grants back and ask the destination after a while."""
        link = self._by_wire_id(message.link)
        if link is None or not self._stands(link, message.run):
            return
        self._fail(link, _error_of(message))
        link.failed = link.undelivered = True

    def sink_refused(self, message: SliceRefused) -> None:
        """A frame did not follow the recorded position: give the link again, from there."""
        link = self._by_wire_id(message.link)
        if link is None:
            return
        if any(held.run == message.run for held in self.granting.table.of(link.record.id)):
            self._withdraw(link, "refused")
            link.failed = link.undelivered = True

    def _stands(self, link: RunningLink, run: GrantRun) -> bool:
        """Something that was granted under this run, or before, still counts."""
        return any(not run < held.run for held in self.granting.table.of(link.record.id))

    def _by_wire_id(self, known_as: bytes) -> RunningLink | None:
        found = [link for link in self.states.values() if link.wire_id == known_as]
        return next((link for link in found if link.shares is not None), found[0] if found else None)


def _error_of(message: Failed) -> FairleadError:
    return to_error({"errors": [{"code": message.reason, "desc": message.message}]})
