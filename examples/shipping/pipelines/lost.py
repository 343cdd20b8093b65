"""Lost containers: an alert for each that went overboard, or is not heard while its neighbours are.

In: readings of a ship's containers, and what ports have moved. Out: at most one `overboard` for each container and
place, and one `silent` for each time that it falls silent.

A container that lies on its side, was hit and is wet has gone overboard: that is said at its first such reading. One
that falls silent while others in its bay go on has gone too, or its sensor is dead: somebody must look. A bay that is
silent as a whole says that the ship's radio is down, which is no alert of containers. A container that a port has
unloaded is not missed until one loads it again, also if what its radio had kept on board is heard ashore. Silence is
counted in readings of the neighbours and not in time, so that a wrong clock or a replay of the past raises nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

TILT_MIN = 60.0
HIT_MIN_G = 3.0
NEIGHBOURS_MIN = 2
SILENT_AFTER = 8
"""So many readings of each of those neighbours: more than a bad radio keeps to itself."""
OUT = (
    "container STRING, place STRING, kind STRING, lat DOUBLE, lon DOUBLE, seq BIGINT, heard BIGINT, timestamp TIMESTAMP"
)
"""`heard` is the receiver's time, that of the voyage, and `timestamp` that of the record, as in readings."""


def lost_containers(readings: DataFrame, moves: DataFrame) -> DataFrame:
    """The alerts of a streaming query over readings and movements of containers."""
    chosen = readings.select(
        *("place", "bay", "container", "seq", "lat", "lon", "g", "tilt", "wet"), "heard", "timestamp"
    )
    moved = moves.where("event IN ('loaded', 'unloaded')").select(
        f.col("ship").alias("place"), "bay", "container", "event", "number", "timestamp"
    )
    rows = chosen.unionByName(moved, allowMissingColumns=True)
    return rows.groupBy("place", "bay").transformWithState(LostContainers(), OUT, "Append", "None")


def alerts(records: DataFrame) -> DataFrame:
    """The alerts in records."""
    parsed = records.select(f.from_json(f.col("value").cast("string"), OUT).alias("alert"))
    return parsed.select("alert.*").where("container IS NOT NULL AND kind IS NOT NULL")


@dataclass(slots=True)
class Seen:
    """What is remembered of one container in a bay."""

    missed: dict[str, int] = field(default_factory=dict)
    """By neighbour: its readings since this container's last one."""
    told: list[str] = field(default_factory=list)
    """Alerts that stand."""
    moves: int = -1
    """The number of its last movement that is known."""
    ashore: bool = False
    """By that movement."""


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
        if own.ashore:
            return []
        own.missed = {}
        own.told = [kind for kind in own.told if kind != "silent"]
        alerts = []
        if reading.wet and reading.tilt >= TILT_MIN and reading.g >= HIT_MIN_G and "overboard" not in own.told:
            own.told.append("overboard")
            alerts.append((str(reading.container), "overboard"))
        for name, other in self.seen.items():
            if name == reading.container or other.ashore:
                continue
            other.missed[reading.container] = other.missed.get(reading.container, 0) + 1
            if not other.told and self._silent(other):
                other.told.append("silent")
                alerts.append((name, "silent"))
        return alerts

    def moved(self, container: str, event: str, number: int) -> None:
        """Note that a port loaded or unloaded it; what comes after a later movement says nothing."""
        own = self.seen.setdefault(container, Seen())
        if number <= own.moves:
            return
        own.moves, own.ashore = number, event == "unloaded"
        if own.ashore:
            own.missed, own.told = {}, []

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
        found = []
        for row in sorted(rows, key=lambda row: (row.timestamp, row.seq or 0)):
            if row.event is not None:
                bay.moved(row.container, row.event, row.number)
            else:
                found += [_alert(name, kind, row) for name, kind in bay.took(row)]
        self._state.update((bay.dumps(),))
        yield from found

    def close(self) -> None:
        """Nothing to give back."""


def _alert(name: str, kind: str, row: Row) -> Row:
    seq = row.seq if row.container == name else None
    place = {"container": name, "place": row.place, "kind": kind, "lat": row.lat, "lon": row.lon}
    return Row(**place, seq=seq, heard=row.heard, timestamp=row.timestamp)
