"""The bell of a link's loop: it hears of everything, also of what comes just before it waits; rests and reminders."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.waiting import WAIT_SECONDS

from fairlead.gateway.links.running.attention import Attention
from fairlead.gateway.links.running.lifecycle import Event, State
from fairlead.gateway.links.running.timing import Backoff, Timing
from fairlead.model.clock import SystemRandomness

LONG = Timing(backoff_first_s=60, backoff_max_s=60)
SHORT = Timing(backoff_first_s=0.01, backoff_max_s=0.01)


def attention(*events: Event, timing: Timing = LONG) -> Attention:
    """Of a link to which this has happened."""
    found = Attention(Backoff(timing, SystemRandomness()))
    for event in events:
        found.on(event)
    return found


READY = (Event.BEGUN, Event.ANSWERED)
RESTING = (Event.BEGUN, Event.FAILED)


@pytest.mark.parametrize("turns", range(4))
async def test_what_happens_around_the_moment_in_which_the_loop_begins_to_wait_is_heard(turns: int) -> None:
    """However many turns of the event loop lie between the two."""
    link = attention(*READY)
    waiting = asyncio.ensure_future(link.move())
    for _ in range(turns):
        await asyncio.sleep(0)
    link.on(Event.LOOK)
    await asyncio.wait_for(waiting, WAIT_SECONDS)
    assert link.state is State.READY_DUE


async def test_what_happened_before_the_loop_waits_is_not_waited_for() -> None:
    """It came while the destination was being asked."""
    link = attention(Event.BEGUN, Event.LOOK, Event.ANSWERED)
    await asyncio.wait_for(link.move(), WAIT_SECONDS)
    assert link.state is State.READY_DUE


@pytest.mark.parametrize("before", [(Event.PAUSE,), (Event.STAND_ASIDE,), (Event.BEGUN, Event.STOP)])
async def test_a_link_that_stands_still_waits_for_a_person(before: tuple[Event, ...]) -> None:
    """Nothing else moves it."""
    link = attention(*before)
    waiting = asyncio.ensure_future(link.move())
    for event in (Event.LOOK, Event.REFUSED, Event.UNDELIVERED, Event.DELIVERED):
        link.on(event)
        await asyncio.sleep(0)
    assert not waiting.done()
    link.on(Event.GO)
    await asyncio.wait_for(waiting, WAIT_SECONDS)


async def test_a_rest_is_waited_out() -> None:
    """Then the destination is asked again."""
    link = attention(*RESTING, timing=SHORT)
    await asyncio.wait_for(link.rest(60), WAIT_SECONDS)
    assert link.state is State.DUE


async def test_a_rest_is_no_longer_than_is_said() -> None:
    """Of a missing upstream that somebody is just adding."""
    link = attention(*RESTING)
    await asyncio.wait_for(link.rest(0.01), WAIT_SECONDS)
    assert link.state is State.DUE


async def test_a_person_ends_a_rest_and_a_reader_that_leaves_does_not() -> None:
    """Else a dead site would be asked at every turn of a round."""
    link = attention(*RESTING)
    resting = asyncio.ensure_future(link.rest(60))
    for event in (Event.LOOK, Event.UNDELIVERED, Event.ANSWERED, Event.LOOK):
        await asyncio.sleep(0)
        link.on(event)
    await asyncio.sleep(0)
    before = link.state
    assert not resting.done()
    link.on(Event.GO)
    await asyncio.wait_for(resting, WAIT_SECONDS)
    assert (before, link.state) == (State.READY_RESTING, State.DUE)


async def test_a_reminder_is_a_look_later() -> None:
    """At a link that is ready."""
    link = attention(*READY)
    link.look_in(0.01)
    await asyncio.wait_for(link.move(), WAIT_SECONDS)
    assert link.state is State.READY_DUE


async def test_a_reminder_comes_at_the_soonest_time_that_was_said() -> None:
    """Saying it again with a longer time does not put it off."""
    link = attention(*READY)
    for delay_s in (60, 0.02, 30):
        link.look_in(delay_s)
    await asyncio.wait_for(link.move(), WAIT_SECONDS)


async def test_a_link_that_has_ended_is_not_reminded() -> None:
    """Its timer ends with it."""
    link = attention(*READY)
    link.look_in(0.01)
    link.close()
    await asyncio.sleep(0.05)
    assert link.state is State.READY


async def test_waits_grow_until_something_is_delivered() -> None:
    """An answer of a destination that takes nothing does not shorten them."""
    timing = replace(LONG, backoff_first_s=1.0)
    backoff = Backoff(timing, SystemRandomness())
    link = Attention(backoff)
    backoff.next_s()
    backoff.next_s()
    for event in (Event.BEGUN, Event.UNDELIVERED, Event.ANSWERED):
        link.on(event)
    assert backoff.next_s() > 1.0
    link.on(Event.DELIVERED)
    assert backoff.next_s() <= 1.0
