"""What is missing of the history on which an owner's epoch stands is asked for until it is here."""

from __future__ import annotations

from tests.streamlog.ownership.sites import (
    A,
    B,
    C,
    answer_of,
    end_of,
    fresh,
    link_of,
    noted,
    repaired,
    sent,
    taken_over,
    topic_of,
    values_of,
    wrote,
)
from tests.streamlog.world import applied, made, repair_frame

from fairlead.streamlog.applying.admission import ANYBODY
from fairlead.streamlog.applying.claims import hear
from fairlead.streamlog.state.effects import payload_of


def test_a_note_stands_as_long_as_the_source_itself_lacks_what_is_missing() -> None:
    """C hears of the owner B from A, which does not have B's history either: C's own records, cut off at both. When A
    has them they do not come to C by the link, since they are C's; so the repair must be tried again."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(c)
    sent(c, a)
    wrote(c, b"0", b"1")
    sent(c, b)
    epoch = taken_over(a).epoch
    while taken_over(b).epoch < epoch:
        """The higher one wins."""
    sent(a, c)
    assert end_of(c) == 0
    answer_of(a, lambda draft: hear(draft, B, [payload_of(topic_of(b))], ANYBODY))
    sent(a, c)
    repaired(a, c)
    assert end_of(a) == end_of(c) == 0
    assert [note.reason for note in noted(a, c)] == ["ownership"]
    applied(a, repair_frame(b, A, topic_of(b).number, 0, 0, link=link_of(b, a)))
    sent(a, c)
    repaired(a, c)
    assert values_of(c) == values_of(b) == {0: b"0", 1: b"1"}
    assert noted(a, c) == []
    assert topic_of(c).owner == B
