"""Where a link stands: what counts as done, what its destination calls it, which state is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.destination import Backoff, Gateways
from fairlead.gateway.links.errors import RolledBack
from fairlead.gateway.links.granting import Granting
from fairlead.gateway.links.running_link import Phase, RunningLink
from fairlead.gateway.links.status import Backlog, percentage, state_of
from fairlead.model.names import StreamPath
from fairlead.wire.messages import LinkAnswer, ReadReport

RECORD = LinkRecord(b"l" * 16, b"s" * 16, "/s", StreamPath("/r", "b"), ("http://b",), paused=False, created_at=1)
ANSWER = LinkAnswer("b", "/r", b"r" * 16, (), (), 0, 0, (), 0)


class NoGrants:
    """A grant table without grants, or with one."""

    def __init__(self, grants: int = 0) -> None:
        self.table = self
        self._grants = grants

    def of(self, link: bytes) -> list[int]:
        return [1] * self._grants


def link() -> RunningLink:
    """A link that was just begun."""
    return RunningLink(RECORD, cast(Backoff, None), cast(Gateways, None))


def shown(state: RunningLink, grants: int = 0) -> str:
    """What `replica list` says of it."""
    return state_of(state, cast(Granting, NoGrants(grants))).removeprefix("REPLICA_STATE_")


def test_a_recorded_position_is_done() -> None:
    """Positions never go back."""
    state = link()
    state.advance(0, {3: 10})
    state.advance(0, {3: 7})
    assert state.effective((0, 3)) == 10
    assert state.effective((0, 4)) == 0


def test_an_empty_stretch_is_done_once_what_came_before_it_is_applied() -> None:
    """Rows that are not sent (local ones, those that came from the destination) are never pending for ever."""
    state = link()
    state.read(0, ReadReport(1, {3: 100}, {3: 50}))
    assert state.effective((0, 3)) == 0
    state.advance(0, {3: 50})
    assert state.effective((0, 3)) == 100


def test_a_new_grant_forgets_what_the_reader_before_it_scanned() -> None:
    """Its frames may have been lost on the way."""
    state = link()
    state.advance(0, {3: 50})
    state.read(0, ReadReport(1, {3: 100}, {3: 50}))
    state.unread(0, {3: 50})
    assert state.effective((0, 3)) == 50


def test_an_empty_stretch_stays_done_over_grants() -> None:
    """Until frames of the new grant are on the way."""
    state = link()
    state.advance(0, {3: 50})
    state.unread(0, {3: 100})
    assert (state.start_of(0)[3], state.effective((0, 3))) == (50, 100)
    state.read(0, ReadReport(1, {3: 120}, {3: 110}))
    assert state.effective((0, 3)) == 50


def test_a_rescan_is_another_link_for_the_destination() -> None:
    """So it has no positions there, and frames from the beginning are taken."""
    state = link()
    before = state.wire_id
    state.record = replace(RECORD, rescan=1)
    assert before == RECORD.id
    assert state.wire_id != before
    assert len(state.wire_id) == 16
    assert state.wire_id != RunningLink(replace(RECORD, rescan=2), state.backoff, state.gateways).wire_id


def test_the_states_are_the_originals() -> None:
    """From the first contact to the end of the copy, and what a stop is called."""
    state = link()
    assert shown(state) == "CREATE_SCHEDULE"
    state.phase, state.answer, state.copy_bytes, state.copy_ends = Phase.READY, ANSWER, 10, (5,)
    assert shown(state) == "COPY_SCHEDULE"
    assert shown(state, grants=1) == "COPY_IN_PROGRESS"
    state.phase = Phase.FAILED
    assert shown(state) == "COPY_IN_RECOVER"
    state.phase = Phase.READY
    state.advance(0, dict.fromkeys(range(16), 5))
    state.note_caught_up()
    assert shown(state, grants=1) == "REPLICATING"
    state.phase, state.error = Phase.STOPPED, RolledBack("rolled back")
    assert shown(state) == "UNEXPECTED"


def test_a_copy_shows_how_much_of_it_is_done() -> None:
    """100 only when nothing is left."""
    state = link()
    assert percentage(state, Backlog(5, 10, 0, 0, 1)) == 0
    state.answer, state.copy_bytes = ANSWER, 1000
    assert percentage(state, Backlog(5, 250, 0, 0, 1)) == 75
    assert percentage(state, Backlog(1, 1, 0, 0, 1)) == 99
    assert percentage(state, Backlog(0, 0, 0, 0, 0)) == 100
