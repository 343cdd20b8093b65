"""What a partner brings: its own topics, whatever it sends (amendment 1 of the design)."""

from __future__ import annotations

from collections.abc import Collection

from tests.properties.log_shown import LogShown
from tests.properties.shape import IDS, Shape

from fairlead.streamlog import payloads
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.rows import Kind, Row


def a_partner_brings_its_own(
    shape: Shape, site: str, row: Row, before: TopicPayload | None, shown: LogShown, tails: Collection[bytes]
) -> None:
    """1: a row that a partner's link has brought is of a topic that the partner owns, and no cursor. `before` is what
    the row's topic was before it. What keeps `tails` is made here, of rows that came before."""
    if row.via_commit < 0 or not _is_of_a_partner(shape, site, row.via):
        return
    said = f"{site}: {row[:6]} came from a partner"
    assert row.kind != Kind.CURSOR, f"{said}: what its groups have read"
    if row.kind == Kind.TOPIC:
        topic = payloads.decode_topic(row.batch)
        assert topic.owner == row.via or topic.incarnation in tails, f"{said}: {topic}"
        room = shown.made_room
        took = room is not None and (room.commit, room.name) == (row.commit, topic.name)
        assert not took or room is None or room.owner == row.via, f"{said}: {topic} takes the name of another one"
    elif row.kind in {Kind.TOPIC_DELETED, Kind.BATCH, Kind.START}:
        assert before is not None, f"{said}: of what was never here"
        assert before.owner == row.via, f"{said}: of {before}"
    if row.kind == Kind.BATCH and before is not None and row.epoch >= before.epoch:
        assert row.origin == row.via, f"{said}: it began elsewhere"


def _is_of_a_partner(shape: Shape, site: str, via: bytes | None) -> bool:
    links = [link for link in shape.links if link.target == site and IDS[link.source] == via]
    return any(link.peer == "partner" for link in links)
