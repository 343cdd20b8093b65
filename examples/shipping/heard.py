"""What a receiver ashore heard: recorded AIS sentences → positions.

Receivers write a line `$PGHP` with the time before each sentence. A ship that does not know where it is says 91 degrees
north or 181 degrees east, and one that does not know its speed says 102.3 knots: those are no positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from examples.shipping.routes import Position
from examples.ships import ais

KINDS = (1, 2, 3)
"""Types of messages that have a large ship's position."""


def positions(lines: Iterable[bytes]) -> Iterator[Position]:
    """The positions in a recording, in its order; a ship is named by its number at sea."""
    time_ms = 0
    for line in lines:
        if line.startswith(b"$PGHP"):
            time_ms = _time_ms(line)
        for message in ais.decode([line]):  # a position is one sentence
            if message.kind in KINDS and (found := _position(json.loads(message.value(time_ms)))) is not None:
                yield found


def _time_ms(line: bytes) -> int:
    """Of `$PGHP,1,2010,6,11,11,46,12,386,…`, with milliseconds at the end."""
    *moment, thousandths = map(int, line.split(b",")[2:9])
    year, month, day, hour, minute, second = moment
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1000 + thousandths


def _position(said: dict[str, float]) -> Position | None:
    lat, lon, knots = said["lat"], said["lon"], said["speed"]
    if abs(lat) > 90 or abs(lon) > 180 or knots >= ais.SPEED_UNKNOWN_KNOTS:
        return None
    return Position(str(said["mmsi"]), "recorded", int(said["time"]), lat, lon, knots, "")
