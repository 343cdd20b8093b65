"""Lost containers: an alert for each that went overboard, or is not heard while its neighbours are.

In: readings of a ship's containers. Out: at most one `overboard` and one `silent` for each container and place.

A container that lies on its side, was hit and is wet has gone overboard: that is said at its first such reading. One
that falls silent while others in its bay go on has gone too, or its sensor is dead: somebody must look. A bay that is
silent as a whole says that the ship's radio is down, which is no alert of containers. Silence is counted in readings of
the neighbours and not in time, so that a wrong clock or a replay of the past raises nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

TILT_MIN = 60.0
HIT_MIN_G = 3.0
NEIGHBOURS_MIN = 2
SILENT_AFTER = 8
"""So many readings of each of those neighbours: more than a bad radio keeps to itself."""
OUT = "container STRING, place STRING, kind STRING, lat DOUBLE, lon DOUBLE, seq BIGINT, noticed BIGINT, heard TIMESTAMP"
"""`noticed` is the receiver's time (voyage), `heard` the time of the record."""


def lost_containers(readings: DataFrame) -> DataFrame:
    """The alerts of a streaming query over readings."""
    chosen = readings.select(
        *("place", "bay", "container", "seq", "lat", "lon", "g", "tilt", "wet"), "heard", "timestamp"
    )
    return chosen.groupBy("place", "bay").transformWithState(LostContainers(), OUT, "Append", "None")


@dataclass(slots=True)
class Seen:
    """What is remembered of one container in a bay."""

    count: int = 0
    """Readings so far."""
    missed: dict[str, int] = field(default_factory=dict)
    """By neighbour: its readings since this container's last one."""
    told: list[str] = field(default_factory=list)
    """Alerts that were raised."""


class Bay:
    """What is remembered of a bay, and what a reading says."""

    def __init__(self, seen: dict[str, Seen]) -> None:
        self.seen = seen

    @classmethod
    def loads(cls, text: str | None) -> Bay:
        return cls({name: Seen(**fields) for name, fields in json.loads(text or "{}").items()})

    def dumps(self) -> str:
        return json.dumps({name: asdict(seen) for name, seen in self.seen.items()})

    def took(self, reading: Any) -> list[tuple[str, str]]:
        """Note a reading; containers with the alerts that it raises."""
        own = self.seen.setdefault(reading.container, Seen())
        own.count += 1
        own.missed = {}
        alerts = []
        if reading.wet and reading.tilt >= TILT_MIN and reading.g >= HIT_MIN_G and "overboard" not in own.told:
            own.told.append("overboard")
            alerts.append((str(reading.container), "overboard"))
        for name, other in self.seen.items():
            if name == reading.container:
                continue
            other.missed[reading.container] = other.missed.get(reading.container, 0) + 1
            if not other.told and self._silent(other):
                other.told.append("silent")
                alerts.append((name, "silent"))
        return alerts

    @staticmethod
    def _silent(other: Seen) -> bool:
        return sum(count >= SILENT_AFTER for count in other.missed.values()) >= NEIGHBOURS_MIN


class LostContainers(StatefulProcessor):
    """Of one bay of one ship."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("bay", "seen STRING")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        kept = self._state.get()
        bay = Bay.loads(None if kept is None else kept[0])
        alerts = []
        for row in sorted(rows, key=lambda row: (row.timestamp, row.seq)):
            for name, kind in bay.took(row):
                alerts.append(_alert(name, kind, row))
        self._state.update((bay.dumps(),))
        yield from alerts

    def close(self) -> None:
        """Nothing to give back."""


def _alert(name: str, kind: str, row: Row) -> Row:
    seq = row.seq if row.container == name else None
    place = {"container": name, "place": row.place, "kind": kind, "lat": row.lat, "lon": row.lon}
    return Row(**place, seq=seq, noticed=row.heard, heard=row.timestamp)
