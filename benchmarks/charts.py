"""Draws what the stored runs say: `python -m benchmarks.charts [--out .make/bench] [--folder docs/performance]`.

Four pictures, each with its finding as the title: throughput by record size, the distribution of latency, memory and
restart by number of topics, replication by backlog. One for which nothing was measured is left as it is.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from benchmarks.case import HOME
from benchmarks.report import Measured, Spread
from benchmarks.results import OUT, RUNS, load
from benchmarks.words import number

FOLDER = Path("docs/performance")
NAMES = {
    HOME: "Fairlead",
    "kafka": "Kafka",
    "kafka-tuned": "tuned Kafka",
    "kafka-flush": "Kafka that flushes each record",
    "client": "the client alone",
    "mirrormaker": "MirrorMaker 2",
    "mirrormaker-tuned": "tuned MirrorMaker 2",
    "at-least-once": "the same without transactions",
}
COLOURS = {HOME: "#1768ac", "kafka": "#9aa0a6", "mirrormaker": "#9aa0a6", "client": "#e3d5a3"}
OTHER_COLOUR = "#5f6368"
SIZES = ("100B", "1KB", "10KB")
PERCENTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
INCHES = (9.0, 4.6)
DPI = 110
"""Small enough for files of some 30 KB."""

Chart = Callable[[Measured], Figure | None]


@dataclass(frozen=True)
class Group:
    """Bars that stand together: a point."""

    label: str
    spreads: Mapping[str, Spread]
    """Each system's figure."""
    ratios: Mapping[str, float]
    """How many times a peer's figure is Fairlead's, as in the table."""

    @classmethod
    def of(cls, measured: Measured, label: str, case: str, point: str, figure: str) -> Group:
        """Of one point."""
        systems = measured.systems(case, point)
        spreads = {system: measured.spread(case, point, system, figure) for system in systems}
        ratios = {system: measured.ratio(case, figure, (point, HOME), (point, system)) for system in systems[1:]}
        return cls(
            label,
            {system: spread for system, spread in spreads.items() if spread},
            {system: ratio.median for system, ratio in ratios.items() if ratio},
        )


def throughput(measured: Measured) -> Figure | None:
    """Grouped bars: one topic, one client, the sizes of record."""
    panels = {"produce": "{}-1topic-1*", "consume": "{}-1topic-1*memory"}
    groups = {case: _by_size(measured, case, pattern) for case, pattern in panels.items()}
    drawn = {case: found for case, found in groups.items() if found}
    if not drawn:
        return None
    figure, places = _panels(len(drawn))
    ratios = []
    for axes, (case, found) in zip(places, drawn.items(), strict=True):
        _bars(axes, found)
        axes.set_title(case, loc="left", fontsize=10)
        axes.set_ylabel("MB/s")
        ratios += [group.ratios["kafka"] for group in found if "kafka" in group.ratios]
    return _titled(figure, f"One topic, one client: Fairlead moves {_range(ratios)} what Kafka does", ratios)


def _by_size(measured: Measured, case: str, pattern: str) -> list[Group]:
    points = measured.points(case)
    found = []
    for size in SIZES:
        point = next((each for each in points if fnmatchcase(each, pattern.format(size))), None)
        if point:
            found.append(Group.of(measured, f"{size} records", case, point, "MB/s"))
    return found


def latency(measured: Measured) -> Figure | None:
    """Curves of the percentiles from produce to acknowledged; every round's histogram counts."""
    point = next(iter(measured.points("latency")), "")
    curves = {system: _merged(measured, point, system) for system in measured.systems("latency", point)}
    curves = {system: counts for system, counts in curves.items() if counts}
    if not curves:
        return None
    figure, (axes,) = _panels(1)
    for system, counts in curves.items():
        values = [_percentile(counts, part) for part in PERCENTILES]
        axes.plot(
            range(len(values)), values, marker="o", color=_colour(system), label=_name(system), linestyle=_line(system)
        )
        for place, value in enumerate(values):
            axes.annotate(number(value), (place, value), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _place: f"{value:,.10g}")
    axes.set_xticks(range(len(PERCENTILES)), [f"{100 * part:g} %" for part in PERCENTILES])
    axes.set_xlabel("of the records are acknowledged within")
    axes.set_ylabel("ms, logarithmic")
    axes.legend(frameon=False)
    p99 = {_name(system): _percentile(counts, 0.99) for system, counts in curves.items()}
    finding = ", ".join(f"{name} {number(value)} ms" for name, value in p99.items())
    return _titled(figure, f"99 % of produced records are acknowledged within: {finding}")


def _merged(measured: Measured, point: str, system: str) -> Counter[float]:
    counts: Counter[float] = Counter()
    for run in measured.runs("latency", point, system):
        for upper_ms, count in run.aside.get("histogram", []):
            counts[upper_ms] += count
    return counts


def _percentile(counts: Mapping[float, int], part: float) -> float:
    """The upper edge of the bucket in which it lies, ms."""
    left = part * sum(counts.values())
    for upper_ms in sorted(counts):
        left -= counts[upper_ms]
        if left <= 0:
            return upper_ms
    return max(counts)


def topics(measured: Measured) -> Figure | None:
    """Lines on logarithmic axes: the server's memory, and its restart, by number of topics."""
    panels = {figure: _by_topics(measured, figure) for figure in ("memory MB", "restart s")}
    drawn = {figure: lines for figure, lines in panels.items() if lines}
    if not drawn:
        return None
    picture, places = _panels(len(drawn))
    for axes, (figure, lines) in zip(places, drawn.items(), strict=True):
        for system, line in lines.items():
            axes.plot(
                *zip(*line, strict=True),
                marker="o",
                color=_colour(system),
                label=_name(system),
                linestyle=_line(system),
            )
            for count, value in line:
                shift = (0, -13) if system == HOME else (0, 7)
                axes.annotate(number(value), (count, value), shift, textcoords="offset points", ha="center", fontsize=8)
        axes.set(xscale="log", yscale="log", xlabel="topics", ylabel=figure)
        axes.margins(0.12)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.yaxis.set_major_formatter(lambda value, _place: f"{value:,.10g}")
        axes.legend(frameon=False)
    most = {
        system: max(count for lines in drawn.values() for count, _ in lines.get(system, [(0, 0.0)]))
        for system in _systems(drawn)
    }
    return _titled(picture, "; ".join(_at_most(drawn, system, count) for system, count in most.items()))


def _by_topics(measured: Measured, figure: str) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    for system in measured.systems("topics"):
        by_count: dict[int, list[float]] = {}
        for run in measured.runs("topics", system=system):
            if figure in run.figures and "topics" in run.settings:
                by_count.setdefault(int(run.settings["topics"]), []).append(run.figures[figure])
        if by_count:
            lines[system] = [(count, statistics.median(values)) for count, values in sorted(by_count.items())]
    return lines


def _systems(panels: Mapping[str, Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(system for lines in panels.values() for system in lines))


def _at_most(panels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]], system: str, count: int) -> str:
    """Such as `Fairlead with 1,000,000 topics: 2,310 MB, 12.4 s`."""
    values = [
        f"{number(value)} {'MB' if figure == 'memory MB' else 's to restart'}"
        for figure, lines in panels.items()
        for topics, value in lines.get(system, ())
        if topics == count
    ]
    return f"{_name(system)} with {count:,} topics: {', '.join(values)}"


def replication(measured: Measured) -> Figure | None:
    """Grouped bars: backlogs, with how many times as fast as each MirrorMaker Fairlead is."""
    groups = [
        Group.of(measured, f"{case}\n{point}".replace("_", " over "), case, point, "MB/s")
        for case in ("backlog", "backlog_topics")
        for point in measured.points(case)
    ]
    if not groups:
        return None
    figure, (axes,) = _panels(1)
    _bars(axes, groups, _times_as_fast)
    axes.set_ylabel("MB/s of records at the replica")
    ratios = [min(group.ratios.values()) for group in groups if group.ratios]
    return _titled(figure, f"A backlog is replicated {_range(ratios)} as fast as by the better MirrorMaker 2", ratios)


def _times_as_fast(group: Group, system: str) -> str:
    value = _value(group, system)
    return f"{value}\nFairlead\n{number(group.ratios[system])} ×" if system in group.ratios else value


def _value(group: Group, system: str) -> str:
    return number(group.spreads[system].median)


def _bars(axes: Axes, groups: Sequence[Group], label: Callable[[Group, str], str] = _value) -> None:
    """Medians, the least and the most as a thin line, each bar labelled."""
    systems = list(dict.fromkeys(system for group in groups for system in group.spreads))
    width = 0.8 / len(systems)
    size = 8 if len(systems) <= 3 else 7
    for number_of, system in enumerate(systems):
        at = [place for place, group in enumerate(groups) if system in group.spreads]
        shown = [groups[place].spreads[system] for place in at]
        x = [place + (number_of - (len(systems) - 1) / 2) * width for place in at]
        heights = [spread.median for spread in shown]
        reach = [[spread.median - spread.low for spread in shown], [spread.high - spread.median for spread in shown]]
        axes.bar(x, heights, width * 0.92, color=_colour(system), label=_name(system))
        axes.errorbar(x, heights, reach, fmt="none", ecolor="black", elinewidth=0.8)
        for left, place, spread in zip(x, at, shown, strict=True):
            text = label(groups[place], system)
            axes.annotate(text, (left, spread.high), (0, 3), textcoords="offset points", ha="center", fontsize=size)
    axes.set_xticks(range(len(groups)), [group.label for group in groups])
    axes.set_ylim(0, 1.3 * max(spread.high for group in groups for spread in group.spreads.values()))
    axes.legend(frameon=False, loc="upper left", ncols=2, fontsize=9)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure, places = pyplot.subplots(1, count, figsize=INCHES, squeeze=False, layout="constrained")
    for axes in places[0]:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(places[0])


def _titled(figure: Figure, finding: str, ratios: Sequence[float] | None = None) -> Figure:
    """Without a peer there is no finding, and the chart says so."""
    title = finding if ratios is None or ratios else "Fairlead alone: no peer was measured"
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left", wrap=True)
    return figure


def _range(ratios: Sequence[float]) -> str:
    """The least and the most, once where they are the same to one digit; with the sign for times."""
    if not ratios:
        return ""
    low, high = number(min(ratios)), number(max(ratios))
    return f"{low} ×" if low == high else f"{low} to {high} ×"


def _name(system: str) -> str:
    return NAMES.get(system, system)


def _colour(system: str) -> str:
    return COLOURS.get(system, OTHER_COLOUR)


def _line(system: str) -> str:
    """So that they are told apart without colour too."""
    return "-" if system == HOME else "--"


CHARTS: Mapping[str, Chart] = {
    "throughput": throughput,
    "latency": latency,
    "topics": topics,
    "replication": replication,
}


def draw(measured: Measured, folder: Path) -> list[Path]:
    """All for which there is something; the files."""
    matplotlib.use("agg")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, chart in CHARTS.items():
        if figure := chart(measured):
            path = folder / f"{name}.png"
            figure.savefig(path, dpi=DPI, metadata={"Software": None})
            pyplot.close(figure)
            drawn.append(path)
    return drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what is stored."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.charts")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    chosen = parser.parse_args(arguments)
    for path in draw(Measured(load(chosen.out / RUNS)), chosen.folder):
        print(path)


if __name__ == "__main__":
    main()
