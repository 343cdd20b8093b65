"""Movements: ships that have docked at a port, or left it, whosever they are.

In: positions, as a port's receiver hears them of all ships around it. Out: a row for each change of a ship's state.

A ship has docked when it lies within three miles of the port and does not move; it has left when it is farther away.
Between the two nothing is said, so a ship that is shifted from one berth to another has not left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


class Movements(StatefulProcessor):
    """Of one ship; its state is the port at which it lies, or none."""

    def __init__(self, ports: dict[str, Place]) -> None:
        self._ports = ports

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("port", "port STRING")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        kept = self._state.get()
        at = None if kept is None else kept[0]
        found = []
        for row in sorted(rows, key=lambda row: row.time_ms):
            before, at = at, state_after(at, (row.lat, row.lon), row.knots, self._ports)
            if at != before:
                port, event = (before, "left") if at is None else (at, "docked")
                found.append(Row(ship=row.ship, company=row.company, port=port, event=event, time_ms=row.time_ms))
        if at is None:
            self._state.clear()
        else:
            self._state.update((at,))
        yield from found

    def close(self) -> None:
        """Nothing to give back."""


def state_after(at: str | None, place: Place, knots: float, ports: dict[str, Place]) -> str | None:
    """The port at which a ship lies after a position, if it lay at `at` before."""
    if at is not None and distance_nm(place, ports[at]) <= NEAR_NM:
        return at
    near = [name for name, port in ports.items() if distance_nm(place, port) <= NEAR_NM]
    return near[0] if near and knots <= KNOTS_MAX else None
