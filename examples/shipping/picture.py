"""The picture at the end: where ships went and what was lost, and how links lagged while they were at sea."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from examples.shipping.fleet import HEADQUARTERS, OFFICES, SHIPS
from examples.shipping.routes import PORTS, Place
from examples.shipping.watch import Course, Way
from examples.ships.pictures import save
from matplotlib import pyplot
from matplotlib.axes import Axes

COLOURS = {SHIPS[0]: "#1768ac", SHIPS[1]: "#e07a1f"}
GREY = "#5f6368"
INCHES = (12.0, 4.4)
WEST = -12.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the picture tells, of a play whose claims hold."""

    tracks: Mapping[str, Sequence[Place]]
    lost: int
    """So many containers every office was told of."""
    lost_at: Place
    course: Course


def draw(seen: Seen, file: Path) -> None:
    """Write a PNG."""
    matplotlib.use("agg")
    figure, (world, lag) = pyplot.subplots(1, 2, figsize=INCHES, width_ratios=(3, 2), layout="constrained")
    _world(world, seen)
    _lag(lag, seen.course)
    save(figure, f"{seen.lost} containers of ducks went overboard in Sydney, and every office knew", file)


def _east(lon: float) -> float:
    """The map begins in the Atlantic and ends in America."""
    return lon + 360 if lon < WEST else lon


def _world(axes: Axes, seen: Seen) -> None:
    for one, other in _offices(seen.course.shown):
        ends = [PORTS[one], PORTS[other]]
        axes.plot([_east(lon) for _, lon in ends], [lat for lat, _ in ends], ":", color="#b8bcc2", linewidth=1)
    for ship, track in seen.tracks.items():
        axes.plot([_east(lon) for _, lon in track], [lat for lat, _ in track], color=COLOURS.get(ship), label=ship)
    for office in OFFICES:
        lat, lon = PORTS[office]
        axes.plot(_east(lon), lat, "s", color="black", markersize=5)
        left = office == HEADQUARTERS
        shift, side = ((-6, 4), "right") if left else ((6, 4), "left")
        axes.annotate(office, (_east(lon), lat), xytext=shift, textcoords="offset points", fontsize=8, ha=side)
    lat, lon = seen.lost_at
    axes.plot(_east(lon), lat, "x", color="#c1121f", markersize=11, markeredgewidth=2, label=f"{seen.lost} lost")
    axes.legend(frameon=False, loc="lower left", fontsize=8)
    axes.set_ylim(-45, 65)
    axes.set_xticks([])
    axes.set_yticks([])
    _plain(axes, "ways of the ships; dotted: streams between offices")


def _offices(lines: Mapping[Way, object]) -> list[Way]:
    """Pairs of offices with a link."""
    return sorted({(min(way), max(way)) for way in lines if way[0] in OFFICES and way[1] in OFFICES})


def _lag(axes: Axes, course: Course) -> None:
    """What waited on board, and between offices."""
    for ship in SHIPS:
        _steps(axes, [points for way, points in course.waiting.items() if way[0] == ship], COLOURS[ship], ship)
    between = [points for way, points in course.waiting.items() if way[0] in OFFICES and way[1] in OFFICES]
    _steps(axes, between, GREY, "between offices")
    axes.set_xlabel("seconds")
    axes.set_yscale("symlog", linthresh=10)
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _plain(axes, "records that wait for a link, at most")


def _steps(axes: Axes, lines: Sequence[Sequence[tuple[float, int]]], colour: str, label: str) -> None:
    """The most of several lines, by their common times."""
    most: dict[float, int] = {}
    for points in lines:
        for seconds, waiting in points:
            most[seconds] = max(most.get(seconds, 0), waiting)
    ordered = sorted(most.items())
    if ordered:
        axes.step([at for at, _ in ordered], [count for _, count in ordered], where="post", color=colour, label=label)


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
