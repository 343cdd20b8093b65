"""What a takeover brings first, of what neighbours say."""

from __future__ import annotations

from fairlead.gateway.takeovers.plan import Furthest, Witness, plan
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.state.effects import topic_of
from fairlead.wire.neighbours import PartitionAt, StandingTopic

HERE, LOST, OTHER = b"h" * 16, b"l" * 16, b"o" * 16
PLACE = "/mapr/other/ships"


def said(payload: TopicPayload, end: int) -> Witness:
    """A neighbour whose word counts, with the topic's only partition up to there."""
    return Witness(PLACE, OTHER, True, StandingTopic(payload, (PartitionAt(end, ((0, 0),)),)))


def test_a_later_owners_row_is_brought_though_no_record_is_missing() -> None:
    """The owner had handed the topic over to this site before it was lost, and only a neighbour has heard of it."""
    payload = TopicPayload("ships", b"t" * 16, 1, LOST, 0, 0, {}, "ships", "/mapr/lost/ships")
    later = TopicPayload("ships", b"t" * 16, 1, HERE, 9, 1, {}, "ships", "/mapr/here/ships", since=((2, ((0, 0),)),))
    here = [PartitionAt(2, ((0, 0),))]
    found = plan(topic_of(1, payload), here, [said(later, 2)], stream=HERE, force=False)
    assert (found.why_not, found.above) == ("", 9)
    assert found.to_bring == {0: Furthest(2, OTHER, PLACE, 0)}
    assert found.records == 0
    nothing = plan(topic_of(1, payload), here, [said(payload, 2)], stream=HERE, force=False)
    assert nothing.to_bring == {}
