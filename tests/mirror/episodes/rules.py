"""Rules of a mirror that are switched off one at a time, each with a seed whose episode notices it."""

from __future__ import annotations

from tests.properties.switching import Mutation

_PLAN = "mirror.planning.plan:"
_MIXED = "Call(list(_encoded(found, offset, until, like)), first, until, mixed="
RULES = [
    Mutation(
        "handler-sorts",
        "what a call of the user's function has sorted takes effect whole",
        "mirror.bytes.handled:_call",
        _MIXED + "kept is None)",
        _MIXED + "False)",
        11,
    ),
    Mutation(
        "came-while-down",
        "a partition that came while the mirror was down begins at its start",
        _PLAN + "plan_partitions",
        '(is_later and begin.what == "latest")',
        "False",
        4,
    ),
    Mutation(
        "made-anew-here",
        "what was mirrored went with the topic at the destination",
        _PLAN + "_planned",
        "(topic.is_new or position.to != topic.to)",
        "position.to != topic.to",
        170,
    ),
    Mutation(
        "in-order",
        "nothing lands behind what was refused of a partition that keeps its number",
        "mirror.carrying.copying:Copy._pump",
        "in_order = self._line is not None",
        "in_order = False",
        51,
    ),
    Mutation(
        "beginnings",
        "where partitions begin is written before workers get them",
        "mirror.destination:Destination.begin",
        "await self._beginnings.write(positions)",
        "pass",
        52,
    ),
]
