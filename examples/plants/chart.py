"""The picture at the end: what lines made, how often they failed, and how Spark came after while it was away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from examples.plants.course import Course
from examples.plants.queries import Line
from examples.ships.pictures import save
from matplotlib import pyplot
from matplotlib.axes import Axes

COLOURS = {"asia": "#1768ac", "europe": "#e07a1f"}
INCHES = (12.0, 4.2)


def draw(lines: Sequence[Line], course: Course, file: Path) -> None:
    """Write a PNG."""
    matplotlib.use("agg")
    figure, (units, faults, time) = pyplot.subplots(1, 3, figsize=INCHES, layout="constrained")
    _bars(units, lines, "units", "units made")
    units.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(COLOURS), fontsize=8)
    _bars(faults, lines, "faults_per_1000_readings", "faults per 1,000 readings")
    _course(time, course)
    worst = max(lines, key=lambda line: line.faults_per_1000_readings)
    title = (
        f"{worst.plant.capitalize()}'s line {worst.line} fails most: "
        f"{worst.faults_per_1000_readings:g} faults per 1,000 readings"
    )
    save(figure, title, file)


def _bars(axes: Axes, lines: Sequence[Line], what: str, title: str) -> None:
    """A group for each number of a line, a bar for each plant that has it."""
    plants = sorted({line.plant for line in lines})
    width = 0.8 / len(plants)
    for place, plant in enumerate(plants):
        own = [line for line in lines if line.plant == plant]
        x = [line.line + (place - (len(plants) - 1) / 2) * width for line in own]
        bars = axes.bar(x, [getattr(line, what) for line in own], width * 0.92, color=COLOURS.get(plant), label=plant)
        axes.bar_label(bars, fmt="{:,.4g}" if what.startswith("faults") else "{:,.0f}", fontsize=7, padding=2)
    numbers = sorted({line.line for line in lines})
    axes.set_xticks(numbers, [f"line {number}" for number in numbers])
    axes.margins(y=0.15)
    _plain(axes, title)


def _course(axes: Axes, course: Course) -> None:
    axes.axvspan(*course.away, color="#e3d5a3", alpha=0.6, label="Spark is away")
    axes.plot(*zip(*course.replicated, strict=True), color="#5f6368", label="in North America")
    consolidated = zip(*course.consolidated, strict=True)
    axes.step(*consolidated, where="post", color="#1768ac", label="in Spark's table")
    axes.set_xlabel("seconds")
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    _plain(axes, "readings")


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter("{x:,.0f}")
