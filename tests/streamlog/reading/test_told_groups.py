"""A link tells the cursors of those groups that it is to tell."""

from __future__ import annotations

import pytest
from tests.streamlog.world import committed, fresh, made

from fairlead.streamlog.objects.dead import NOTHING_DEAD
from fairlead.streamlog.payloads import decode_cursor
from fairlead.streamlog.reading.slices import Route, read_partition, read_routes, read_slices
from fairlead.streamlog.requests.cursors import commit_cursor, publish_cursors
from fairlead.streamlog.rows import Kind


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("all", {"billing", "bill", "dashboard"}),
        ("none", set()),
        ("bill", {"bill"}),
        ("bill.*|dash", {"bill", "billing"}),
        ("(?i)DASHBOARD", {"dashboard"}),
    ],
)
def test_cursors_of_chosen_groups_are_sent(groups: str, expected: set[str]) -> None:
    """The whole name must match; all other rows go, in a repair too, and another link's choice changes nothing."""
    log = fresh()
    topic = made(log)
    for group in ("billing", "bill", "dashboard"):
        committed(log, lambda d, group=group: commit_cursor(d, group, topic.number, 0, 0))  # type: ignore[misc]
    committed(log, lambda d: publish_cursors(d, list(log.announced.state.cursor_table.unpublished)))
    log.announced.recent.close()
    storage, objects = log.announced.storage, log.announced.objects(0, log.announced.end)
    starts = dict.fromkeys(range(16), 0)
    route, other = Route(b"r" * 16, cursors=groups), Route(b"o" * 16, cursors="x")
    parts = [part.columns for part in read_slices(storage, objects, starts, route=route)]
    options = {"framed": starts, "frame_bytes": 1 << 20, "refer_bytes": 1 << 20, "dead": NOTHING_DEAD}
    _, shared = read_routes(storage, objects, starts, [other, route], **options)  # type: ignore[arg-type]
    repair = list(read_partition(storage, objects, topic.number, 0, 0, cursors=groups))
    for found in (parts, [part.columns for part in shared], repair):
        rows = [row for columns in found for row in columns.rows()]
        assert {decode_cursor(row.batch).group for row in rows if row.kind == Kind.CURSOR} == expected
        assert [row.kind for row in rows if row.kind != Kind.CURSOR] == [Kind.TOPIC]
