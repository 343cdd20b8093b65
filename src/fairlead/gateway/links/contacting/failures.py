"""What goes wrong with a link: its grants are taken back, and the error is shown until the destination answers.

In: errors of contacts and of sinks. Owns how many there were. Always true: the log has each error once, not at every
attempt; a bug stops one link, visibly, and the others go on.
"""

from __future__ import annotations

import structlog

from fairlead.gateway.links.errors import STOPS
from fairlead.gateway.links.grants.granting import Granting
from fairlead.gateway.links.running.lifecycle import Event, State
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.model.clock import Clock
from fairlead.model.envelope import code_of
from fairlead.model.errors import FairleadError

log = structlog.get_logger()


class Failures:
    """Of all links."""

    def __init__(self, granting: Granting, clock: Clock) -> None:
        self.count = 0
        self._clock = clock
        self._granting = granting

    def note(self, link: RunningLink, error: FairleadError, event: Event) -> None:
        """A link has failed by this event, or stops if it is an error for a person."""
        self._note(link, error, Event.STOP if isinstance(error, STOPS) else event)

    def note_bug(self, link: RunningLink, error: Exception) -> None:
        """A link cannot go on."""
        log.error("a bug stopped a link", replica=str(link.record.replica_path), exc_info=error)
        what = f"a bug stopped the link ({type(error).__name__}: {error}); see the server's log"
        self._note(link, FairleadError(what), Event.STOP)

    def _note(self, link: RunningLink, error: FairleadError, event: Event) -> None:
        self.count += 1
        link.on(event)
        self._granting.withdraw(link, code_of(error))
        if link.state is State.PAUSED:
            return
        if link.error is None or str(link.error) != str(error):
            stopped = link.state is State.STOPPED
            log.warning("link failed", replica=str(link.record.replica_path), error=str(error), stopped=stopped)
        link.note_error(error, self._clock.wall_ms())
