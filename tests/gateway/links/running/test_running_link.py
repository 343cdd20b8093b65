"""What is known of a link: what its destination calls it, which state is shown, how much of a copy is done."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.health.status import percentage, state_of
from fairlead.gateway.links.running.attention import Attention
from fairlead.gateway.links.running.backlog import Backlog
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.lifecycle import Event
from fairlead.gateway.links.running.running_link import RunningLink, wire_id
from fairlead.gateway.links.running.timing import Backoff, Timing
from fairlead.model.clock import SystemRandomness
from fairlead.model.names import StreamPath
from fairlead.wire.neighbours import LinkAnswer

RECORD = LinkRecord(b"l" * 16, b"s" * 16, "/s", StreamPath("/r", "b"), ("http://b",), paused=False, created_at=1)
ANSWER = LinkAnswer("b", "/r", b"r" * 16, (), (), 0, 0, (), 0)


def link() -> RunningLink:
    """A link that was just begun."""
    attention = Attention(Backoff(Timing(), SystemRandomness()))
    return RunningLink(RECORD, attention, cast(Gateways, None))


def shown(state: RunningLink, *, granted: bool = False) -> str:
    """What `replica list` says of it."""
    return state_of(state, granted=granted).removeprefix("REPLICA_STATE_")


def test_a_rescan_is_another_link_for_the_destination() -> None:
    """So it has no positions there, and frames from the beginning are taken."""
    state = link()
    before = state.wire_id
    state.record = replace(RECORD, rescan=1)
    assert before == RECORD.id
    assert state.wire_id != before
    assert len(state.wire_id) == 16
    assert state.wire_id != wire_id(replace(RECORD, rescan=2))


def test_the_states_are_the_originals() -> None:
    """From the first contact to the end of the copy, and what a stop is called."""
    state = link()
    assert shown(state) == "CREATE_SCHEDULE"
    state.answer, state.copy_bytes, state.copy_ends = ANSWER, 10, (5,)
    state.on(Event.BEGUN)
    state.on(Event.ANSWERED)
    assert shown(state) == "COPY_SCHEDULE"
    assert shown(state, granted=True) == "COPY_IN_PROGRESS"
    state.on(Event.UNDELIVERED)
    assert shown(state) == "COPY_IN_RECOVER"
    state.on(Event.RESTED)
    state.on(Event.BEGUN)
    state.on(Event.ANSWERED)
    state.positions.advance(0, dict.fromkeys(range(16), 5))
    state.note_caught_up()
    assert shown(state, granted=True) == "REPLICATING"
    state.on(Event.STOP)
    assert shown(state) == "UNEXPECTED"


def test_a_copy_shows_how_much_of_it_is_done() -> None:
    """100 only when nothing is left."""
    state = link()
    assert percentage(state, Backlog(5, 10, 0, 0, 1)) == 0
    state.answer, state.copy_bytes = ANSWER, 1000
    assert percentage(state, Backlog(5, 250, 0, 0, 1)) == 75
    assert percentage(state, Backlog(1, 1, 0, 0, 1)) == 99
    assert percentage(state, Backlog(0, 0, 0, 0, 0)) == 100


def test_a_copys_rate_leaves_out_what_came_before_its_first_report() -> None:
    """Spark started before it; how long that first frame took is not known."""
    rate = link().rate
    assert rate.bytes_per_second is None
    rate.note(1_000_000, 60_000)
    assert rate.bytes_per_second is None
    rate.note(3_000, 61_000)
    rate.note(3_000, 63_000)
    assert rate.bytes_per_second == 2_000
