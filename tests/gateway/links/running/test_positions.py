"""How far a link is: what counts as done, and where the frames of a grant begin."""

from __future__ import annotations

from fairlead.gateway.links.running.positions import Positions
from fairlead.wire.control import ReadReport


def test_a_recorded_position_is_done() -> None:
    """Positions never go back."""
    positions = Positions()
    positions.advance(0, {3: 10})
    positions.advance(0, {3: 7})
    assert positions.effective((0, 3)) == 10
    assert positions.effective((0, 4)) == 0


def test_an_empty_stretch_is_done_once_what_came_before_it_is_applied() -> None:
    """Rows that are not sent (local ones, those that came from the destination) are never pending for ever."""
    positions = Positions()
    positions.read(0, ReadReport(1, {3: 100}, {3: 50}))
    assert positions.effective((0, 3)) == 0
    positions.advance(0, {3: 50})
    assert positions.effective((0, 3)) == 100


def test_a_new_grant_forgets_what_the_reader_before_it_scanned() -> None:
    """Its frames may have been lost on the way."""
    positions = Positions()
    positions.advance(0, {3: 50})
    positions.read(0, ReadReport(1, {3: 100}, {3: 50}))
    positions.unread(0, {3: 50})
    assert positions.effective((0, 3)) == 50


def test_an_empty_stretch_stays_done_over_grants() -> None:
    """Until frames of the new grant are on the way."""
    positions = Positions()
    positions.advance(0, {3: 50})
    positions.unread(0, {3: 100})
    assert (positions.start_of(0)[3], positions.effective((0, 3))) == (50, 100)
    positions.read(0, ReadReport(1, {3: 120}, {3: 110}))
    assert positions.effective((0, 3)) == 50
