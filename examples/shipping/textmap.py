"""The map as text: clusters, ships, links that move or rest, and what waits for each link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from examples.shipping.fleet import AUTHORITY, MAKER, OFFICES
from examples.shipping.routes import PORTS, Place
from examples.shipping.watch import Line, Way

WIDTH, HEIGHT = 84, 18
WEST, EAST = -12.0, 252.0
NORTH, SOUTH = 60.0, -42.0
LABELS_LEFT = ("losangeles",)
PLACES: dict[str, Place] = {**{name: PORTS[name] for name in OFFICES}, MAKER: (48.0, 146.0), AUTHORITY: (-11.0, 98.0)}
"""The last two stand where there is room."""
BAR = 20


@dataclass(frozen=True, slots=True)
class Ship:
    """A ship on the map."""

    name: str
    place: Place
    does: str
    waits: int
    """Records on board that are nowhere else."""


def cell(place: Place) -> tuple[int, int]:
    """Column and row; the map begins in the Atlantic and ends in America."""
    lat, lon = place
    east = lon + 360 if lon < WEST else lon
    return (
        round((east - WEST) / (EAST - WEST) * (WIDTH - 1)),
        round((NORTH - lat) / (NORTH - SOUTH) * (HEIGHT - 1)),
    )


def draw(lines: Mapping[Way, Line], ships: Iterable[Ship]) -> str:
    """The map, and below it ships and links."""
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]
    ways = {(min(way), max(way)) for way in lines if way[0] in PLACES and way[1] in PLACES}
    for one, other in sorted(ways):
        busy = any(lines[way].waiting for way in ((one, other), (other, one)) if way in lines)
        _line(rows, cell(PLACES[one]), cell(PLACES[other]), "•" if busy else "·")
    for name, place in PLACES.items():
        _write(rows, cell(place), f"{name} ■" if name in LABELS_LEFT else f"■ {name}", left=name in LABELS_LEFT)
    listed = list(ships)
    for ship in listed:
        column, row = cell(ship.place)
        _write(rows, (column, row - 1 if (column, row) in map(cell, PLACES.values()) else row), f"▲ {ship.name}")
    drawn = ["".join(row).rstrip() for row in rows]
    below = [f"▲ {ship.name:<13} {ship.does}{_waits(ship.waits)}" for ship in listed]
    return "\n".join([*drawn, *below, *_links(lines)])


def _waits(count: int) -> str:
    return f"; {count:,} records wait on board" if count else ""


def _links(lines: Mapping[Way, Line]) -> list[str]:
    """Those for which something waits, the most first."""
    waiting = {way: line for way, line in lines.items() if line.waiting}
    most = max((line.waiting for line in waiting.values()), default=1)
    found = []
    for (source, replica), line in sorted(waiting.items(), key=lambda item: -item[1].waiting):
        bar = "█" * max(round(BAR * line.waiting / most), 1)
        rests = " (no link)" if line.paused else ""
        found.append(f"{source:>13} → {replica:<13} {bar:<{BAR}} {line.waiting:,} records{rests}")
    return found or ["  all links are in step"]


def _write(rows: list[list[str]], at: tuple[int, int], text: str, *, left: bool = False) -> None:
    """Into a row, which cuts it; with `left` the text ends there."""
    column, row = at
    first = column - len(text) + 1 if left else column
    for number, letter in enumerate(text):
        if 0 <= row < HEIGHT and 0 <= first + number < WIDTH:
            rows[row][first + number] = letter


def _line(rows: list[list[str]], one: tuple[int, int], other: tuple[int, int], mark: str) -> None:
    """From cell to cell."""
    steps = max(abs(other[0] - one[0]), abs(other[1] - one[1]), 1)
    for step in range(steps + 1):
        part = step / steps
        column, row = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
        rows[row][column] = mark
