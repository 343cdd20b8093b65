"""`clock show`, `accept`: what does not expire because the clock is not believed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairlead.client.command import Given
from fairlead.cluster.stream import Stream
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.model.shown import few
from fairlead.streamlog.writing.retention import Hold, HoldReason

MINUTE_MS = 60_000
DAY_MINUTES = 1440


async def show(context: RestContext, given: Given) -> Rows:
    return [_row(stream.path, hold_of(stream)) for stream in context.cluster.streams()]


async def accept(context: RestContext, given: Given) -> Rows:
    rows = []
    for stream in context.cluster.streams():
        ended = [await shard.accept_clock() for shard in stream.shards]
        if (hold := _longest(ended)) is not None:
            rows.append({"path": stream.path, "clockaheadmillis": hold.ahead_ms})
    return rows


def hold_of(stream: Stream) -> Hold | None:
    """Why nothing of a stream expires; None while its clock is believed."""
    return _longest(shard.hold for shard in stream.shards)


def holds(context: RestContext) -> list[str]:
    """Streams of which nothing expires, one line for those with the same reason; empty while the clock is believed."""
    found: dict[str, list[str]] = {}
    for stream in context.cluster.streams():
        if (hold := hold_of(stream)) is not None:
            found.setdefault(_sentence(hold), []).append(stream.path)
    return [f"{few(paths)}: {why}" for why, paths in found.items()]


def _longest(holds: Iterable[Hold | None]) -> Hold | None:
    return max((hold for hold in holds if hold is not None), key=lambda hold: hold.left_ms, default=None)


def _row(path: str, hold: Hold | None) -> dict[str, Any]:
    if hold is None:
        return {"path": path, "expiry": "runs", "why": "", "clockaheadmillis": 0, "heldmillis": 0, "leftmillis": 0}
    return {
        "path": path,
        "expiry": "held",
        "why": _sentence(hold),
        "clockaheadmillis": hold.ahead_ms,
        "heldmillis": hold.held_ms,
        "leftmillis": hold.left_ms,
    }


def _sentence(hold: Hold) -> str:
    side = "ahead of" if hold.ahead_ms > 0 else "behind"
    what = f"{side} the newest record" if hold.reason is HoldReason.START else f"{side} its course after a jump"
    return (
        f"nothing expires for {_duration(hold.left_ms)}, since the clock is {_duration(abs(hold.ahead_ms))} {what}; if "
        "it is right, `fairlead clock accept` ends this"
    )


def _duration(ms: int) -> str:
    minutes = -(-ms // MINUTE_MS)
    days, rest = divmod(minutes, DAY_MINUTES)
    if days:
        return f"{days} days {rest // 60} h"
    return f"{rest // 60} h {rest % 60} min"


HANDLERS: dict[str, Handler] = {"/rest/clock/show": show, "/rest/clock/accept": accept}
