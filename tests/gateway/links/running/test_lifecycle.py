"""The states of a link: every transition, and that no order of events leaves it stuck or takes a look from it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.gateway.links.running.lifecycle import Event, Life, State

COLUMNS = "PAUSE STAND_ASIDE GO LOOK BEGUN ANSWERED FAILED STOP REFUSED UNDELIVERED DELIVERED RESTED"
TABLE = """
PAUSED        PAUSED ASIDE DUE .         .            .             .       .       .             .       . .
ASIDE         PAUSED ASIDE DUE .         .            .             .       .       .             .       . .
STOPPED       PAUSED ASIDE DUE .         .            .             .       .       .             .       . .
DUE           PAUSED ASIDE DUE .         ASKING       READY_DUE     .       .       .             .       . .
ASKING        PAUSED ASIDE DUE DUE       .            READY         RESTING STOPPED RESTING       RESTING . .
RESTING       PAUSED ASIDE DUE .         .            READY_RESTING .       STOPPED .             .       . DUE
READY         PAUSED ASIDE DUE READY_DUE .            .             RESTING STOPPED READY_RESTING RESTING . .
READY_DUE     PAUSED ASIDE DUE .         READY_ASKING .             RESTING STOPPED READY_RESTING RESTING . .
READY_ASKING  PAUSED ASIDE DUE READY_DUE .            READY         RESTING STOPPED READY_RESTING RESTING . .
READY_RESTING PAUSED ASIDE DUE .         .            .             RESTING STOPPED .             RESTING . READY_DUE
"""
"""By state and event the next state; a dot: it stays."""

TRANSITIONS = [
    (State[row[0]], Event[event], State[row[0] if cell == "." else cell])
    for row in map(str.split, TABLE.strip().splitlines())
    for event, cell in zip(COLUMNS.split(), row[1:], strict=True)
]


@pytest.mark.parametrize(("state", "event", "expected"), TRANSITIONS)
def test_every_transition(state: State, event: Event, expected: State) -> None:
    """As drawn."""
    assert Life(state).after(event).state is expected


def test_the_table_knows_every_state_and_event() -> None:
    """Who adds one says here what follows it."""
    assert {(state, event) for state, event, _ in TRANSITIONS} == {(state, event) for state in State for event in Event}


def test_a_link_begins_by_asking() -> None:
    """Nothing is known of its destination."""
    assert Life().state is State.DUE


@pytest.mark.parametrize("event", [Event.REFUSED, Event.UNDELIVERED])
def test_an_answer_shortens_no_waits_until_something_is_delivered(event: Event) -> None:
    """A destination that answers and takes nothing would be asked five times a second for ever."""
    life = Life()
    assert life.shortens_waits(Event.ANSWERED)
    life = life.after(event)
    assert not life.shortens_waits(Event.ANSWERED)
    assert not life.after(Event.GO).shortens_waits(Event.ANSWERED)
    assert life.after(Event.DELIVERED).shortens_waits(Event.ANSWERED)


@pytest.mark.parametrize("event", Event)
def test_what_shortens_waits(event: Event) -> None:
    """A person's word, a delivery and an answer; no failure does."""
    assert Life().shortens_waits(event) == (event in {Event.GO, Event.DELIVERED, Event.ANSWERED})


def test_only_a_ready_link_that_is_not_to_be_looked_at_first_may_be_granted() -> None:
    """What was withdrawn is given again by what the destination then says."""
    assert {state for state in State if state.grantable} == {State.READY, State.READY_ASKING}
    assert all(state.ready for state in State if state.grantable)


# ---------------------------------------------------------------- any order of events


@dataclass(unsafe_hash=True)
class Loop:
    """The loop of a link, step by step, and what it owes: a contact that begins after the event that asks for one."""

    life: Life = field(default_factory=Life)
    in_flight: bool = False
    look_owed: bool = False
    person_waits: bool = False
    contacts: int = field(default=0, compare=False)

    def then(self, step: Event | tuple[Event]) -> Loop:
        """Another one that has gone so far and then this step."""
        loop = copy(self)
        if isinstance(step, Event):
            loop.happens(step)
        else:
            loop.go_on(*step)
        return loop

    def happens(self, event: Event) -> None:
        """From outside."""
        self.life = self.life.after(event)
        if event is Event.GO:
            self.look_owed = self.person_waits = True
        elif event in {Event.PAUSE, Event.STAND_ASIDE}:
            self.look_owed = self.person_waits = False
        elif event in {Event.LOOK, Event.REFUSED, Event.UNDELIVERED}:
            self.look_owed = self.look_owed or not self.life.state.still

    def answer(self, outcome: Event) -> None:
        """What is in flight ends so; an answer counts for no link that stands still."""
        self.in_flight = False
        if outcome is not Event.ANSWERED or not self.life.state.still:
            self.life = self.life.after(outcome)
        if self.life.state is State.STOPPED:
            self.look_owed = False

    def go_on(self, outcome: Event) -> bool:
        """What the loop does next; False if it waits."""
        if self.in_flight:
            self.answer(outcome)
        elif self.life.state.due:
            self.life = self.life.after(Event.BEGUN)
            self.in_flight = True
            self.contacts += 1
            self.look_owed = self.person_waits = False
        elif self.life.state.resting:
            self.life = self.life.after(Event.RESTED)
        else:
            return False
        return True


OUTSIDE = [Event.PAUSE, Event.STAND_ASIDE, Event.GO, Event.LOOK, Event.REFUSED, Event.UNDELIVERED, Event.DELIVERED]
OUTCOMES = [Event.ANSWERED, Event.FAILED, Event.STOP]
STEPS: list[Event | tuple[Event]] = [*OUTSIDE, *((outcome,) for outcome in OUTCOMES)]
"""An event from outside, or one step of the loop with what the contact in flight would end with."""


def check_comes_to_rest(loop: Loop, last: Event) -> None:
    """Nothing more happens; what is in flight ends with `last`, what begins then is answered."""
    owed, person_waits, contacts = loop.look_owed, loop.person_waits, loop.contacts
    if loop.in_flight:
        loop.answer(last)
    for _ in range(5):
        loop.go_on(Event.ANSWERED)
    assert not loop.go_on(Event.ANSWERED), "it goes on without end"
    assert loop.life.state.still or loop.life.state is State.READY
    if person_waits:
        assert loop.life.state is State.READY
    if person_waits or (owed and not loop.life.state.still):
        assert loop.contacts > contacts


@given(st.lists(st.sampled_from(STEPS), max_size=20))
def test_no_order_of_events_gets_stuck_or_takes_a_look_from_a_link(steps: list[Event | tuple[Event]]) -> None:
    """Whatever came, also while the destination was being asked: what asked for a look gets one that begins after it,
    and then the link waits for news, unless it waits for a person or a copy. So after each step."""
    loop = Loop()
    for step in steps:
        loop = loop.then(step)
        for last in OUTCOMES:
            check_comes_to_rest(copy(loop), last)


def test_nor_does_any_other_order() -> None:
    """Events of any number: from everything that can be reached, every step leads to what was looked at already."""
    found, left = {Loop()}, [Loop()]
    while left:
        loop = left.pop()
        for last in OUTCOMES:
            check_comes_to_rest(copy(loop), last)
        reached = {loop.then(step) for step in STEPS} - found
        found |= reached
        left += reached
    assert {loop.life.state for loop in found} == set(State)


@given(st.lists(st.sampled_from([*OUTSIDE, *OUTCOMES, Event.BEGUN, Event.RESTED]), max_size=20))
def test_a_person_can_always_go_on_and_always_pause(events: list[Event]) -> None:
    """Whatever state a link is in."""
    life = Life()
    for event in events:
        life = life.after(event)
    assert life.after(Event.GO).state is State.DUE
    assert life.after(Event.PAUSE).state is State.PAUSED
