"""Movements: ships that have docked at a port, or left it, whosever they are.

In: positions, as a port's receiver hears them of all ships around it. Out: a row for each change of a ship's state.

A ship has docked when it lies within three miles of the port and does not move; it has left when it is farther away.
Between the two nothing is said, so a ship that is shifted from one berth to another has not left. A position that comes
after a later one of the same ship is left out: it would take the ship back to where it was. Ships have their time from
satellites, so it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from examples.shipping.routes import PORTS, Place, distance_nm
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

NEAR_NM = 3.0
KNOTS_MAX = 0.5
OUT = "ship STRING, company STRING, port STRING, event STRING, time_ms BIGINT"


def movements(positions: DataFrame, ports: dict[str, Place] | None = None) -> DataFrame:
    """The movements of a streaming query over positions."""
    chosen = positions.select("ship", "company", "time_ms", "lat", "lon", "knots")
    return chosen.groupBy("ship").transformWithState(Movements(ports or PORTS), OUT, "Append", "None")


@dataclass(slots=True)
class Course:
    """What is remembered of one ship."""

    port: str | None = None
    """Where it lies."""
    time_ms: int = 0
    """Of its last position."""

    def took(self, row: Any, ports: dict[str, Place]) -> tuple[str, str] | None:
        """Note a position; the port and the event, if it changes where the ship lies."""
        if row.time_ms < self.time_ms:
            return None
        before, self.time_ms = self.port, row.time_ms
        self.port = state_after(before, (row.lat, row.lon), row.knots, ports)
        if self.port == before:
            return None
        return (self.port, "docked") if self.port is not None else (str(before), "left")


class Movements(StatefulProcessor):
    """Of one ship."""

    def __init__(self, ports: dict[str, Place]) -> None:
        self._ports = ports

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("course", "port STRING, time_ms BIGINT")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        course = Course(*(self._state.get() or ()))
        found = []
        for row in sorted(rows, key=lambda row: row.time_ms):
            if (told := course.took(row, self._ports)) is not None:
                port, event = told
                found.append(Row(ship=row.ship, company=row.company, port=port, event=event, time_ms=row.time_ms))
        self._state.update((course.port, course.time_ms))
        yield from found

    def close(self) -> None:
        """Nothing to give back."""


def state_after(at: str | None, place: Place, knots: float, ports: dict[str, Place]) -> str | None:
    """The port at which a ship lies after a position, if it lay at `at` before."""
    if at is not None and distance_nm(place, ports[at]) <= NEAR_NM:
        return at
    near = [name for name, port in ports.items() if distance_nm(place, port) <= NEAR_NM]
    return near[0] if near and knots <= KNOTS_MAX else None
