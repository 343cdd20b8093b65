"""A link goes on with what a side copy has brought, once the replica has recorded all of both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.streamlog.world import applied, committed, frame, fresh, made, produced, replicated

from fairlead.model.errors import InvalidValue, NotAllowed
from fairlead.model.names import SLICES, slice_of
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.joining import join_links

A, B = b"a" * 16, b"b" * 16
LINK, SIDE, NEXT, LATER = (letter * 16 for letter in (b"l", b"m", b"n", b"o"))


def test_a_link_goes_on_from_where_both_have_come() -> None:
    """Under another id, with the notes of both; the same again changes nothing. What one of the two lacks is a reason
    to refuse, whatever the other has; so is one note more than a partner may leave."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    produced(a, topic.number, b"2")
    end, epoch_id = a.announced.end, a.announced.epochs[-1].id
    until = [(end, epoch_id)]
    for link in (LINK, SIDE):
        with pytest.raises(InvalidValue, match="has not brought all below commit"):
            committed(b, lambda d: join_links(d, (LINK, SIDE), NEXT, until))[0].result()
        replicated(a, b, link=link)
    produced(a, topic.number, b"3")
    behind_from = a.announced.end
    produced(a, topic.number, b"4")
    late = frame(a, B, slice_of("ships"), behind_from, link=SIDE)
    applied(b, replace(late, from_commit=end))  # a frame was lost: the partition is behind
    with pytest.raises(NotAllowed, match="partner_notes_max"):
        committed(b, lambda d: join_links(d, (LINK, SIDE), NEXT, until, Admission(notes_max=0)))[0].result()
    assert b.announced.state.positions(NEXT) == {}
    committed(b, lambda d: join_links(d, (LINK, SIDE), NEXT, until, Admission(notes_max=1)))[0].result()
    state = b.announced.state
    assert {key: at.commit for key, at in state.positions(NEXT).items()} == {(0, each): end for each in range(SLICES)}
    assert all(a.announced.knows(at.epoch_id, at.commit) for at in state.positions(NEXT).values())
    assert [(each.topic, each.end, each.reason) for each in state.behind(NEXT)] == [("ships", 2, "gap")]
    before = b.announced.end
    committed(b, lambda d: join_links(d, (LINK, SIDE), NEXT, until))[0].result()
    assert b.announced.end == before
    with pytest.raises(InvalidValue):
        committed(b, lambda d: join_links(d, (LINK, SIDE), LATER, [(a.announced.end, epoch_id)]))[0].result()
    replicated(a, b, link=NEXT)
