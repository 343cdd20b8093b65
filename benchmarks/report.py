"""What the stored runs say: medians with their spread, ratios to peers, and which bars are met.

    python -m benchmarks.report [--out .make/bench] [--write docs/performance.md]

Prints it, writes `results.json` and `results.md` in the out folder, and with `--write` puts the Markdown between the
two `<!-- table -->` lines of a page. A ratio is the median of the ratios within each round, so that a machine that
was slow for a round was slow for both.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bars import BARS, Bar
from benchmarks.case import HOME
from benchmarks.results import OUT, RUNS, Run, failed, good, load
from benchmarks.words import markdown_table, number, text_table

MARK = "<!-- table -->"


@dataclass(frozen=True)
class Spread:
    """A figure over the rounds."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """At least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def __str__(self) -> str:
        if self.rounds == 1:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)}–{number(self.high)})"


class Measured:
    """Figures of the runs that count."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = good(runs)

    def cases(self) -> list[str]:
        """Names, as measured."""
        return list(dict.fromkeys(case for case, _, _, _ in self._runs))

    def points(self, case: str) -> list[str]:
        """Names, as measured."""
        return list(dict.fromkeys(point for each, point, _, _ in self._runs if each == case))

    def systems(self, case: str, point: str | None = None) -> list[str]:
        """Who was asked, Fairlead first and peers by name."""
        names = {key[2] for key in self._runs if key[0] == case and point in (None, key[1])}
        return sorted(names, key=lambda name: (name != HOME, name))

    def figure_names(self, case: str) -> list[str]:
        """Of any system, as measured."""
        return list(dict.fromkeys(name for run in self.runs(case) for name in run.figures))

    def runs(self, case: str, point: str | None = None, system: str | None = None) -> list[Run]:
        """Those that count, of one case."""
        return [
            run
            for run in self._runs.values()
            if run.case == case and point in (None, run.point) and system in (None, run.system)
        ]

    def by_round(self, case: str, point: str, system: str, figure: str) -> dict[int, float]:
        """One figure of every round that has it."""
        runs = self.runs(case, point, system)
        return {run.round: run.figures[figure] for run in runs if figure in run.figures}

    def spread(self, case: str, point: str, system: str, figure: str) -> Spread | None:
        """None when it was not measured."""
        values = list(self.by_round(case, point, system, figure).values())
        return Spread.of(values) if values else None

    def ratio(self, case: str, figure: str, ours: tuple[str, str], theirs: tuple[str, str]) -> Spread | None:
        """One (point, system) divided by another, round by round; None without a round that has both."""
        above, below = (self.by_round(case, *place, figure) for place in (ours, theirs))
        ratios = [above[turn] / below[turn] for turn in above if below.get(turn)]
        return Spread.of(ratios) if ratios else None


@dataclass(frozen=True)
class Verdict:
    """A bar at one point, against one peer."""

    bar: Bar
    point: str
    peer: str
    """A system, or `fairlead at POINT`, or nothing where the bar is on the figure itself."""
    ours: Spread | None
    theirs: Spread | None
    judged: Spread | None
    """The ratio, or the figure; None when it was not measured."""

    @property
    def is_met(self) -> bool | None:
        """By the median, or by every round where the bar asks that; None when it was not measured."""
        if self.judged is None:
            return None
        if self.bar.every_round:
            return self.bar.holds(self.judged.low) and self.bar.holds(self.judged.high)
        return self.bar.holds(self.judged.median)

    @property
    def is_close(self) -> bool:
        """Rounds lie on both sides of the bound: the bench cannot tell."""
        spread = self.judged
        return spread is not None and self.bar.holds(spread.low) != self.bar.holds(spread.high)

    @property
    def word(self) -> str:
        """For the table."""
        if self.bar.is_met == "reported" and self.judged is not None:
            return ""
        word = {True: "yes", False: "**no**", None: "not measured"}[self.is_met]
        return word + (", within the spread" if self.is_close else "")


def judge(measured: Measured, bars: Iterable[Bar] = BARS) -> Iterator[Verdict]:
    """Every bar at every point that it covers and against every peer; once, unmeasured, where there is none."""
    for bar in bars:
        points = [point for point in measured.points(bar.case) if bar.covers(bar.case, point)]
        found = [verdict for point in points for verdict in _judge_at(measured, bar, point)]
        yield from found or [Verdict(bar, bar.points, bar.others, None, None, None)]


def _judge_at(measured: Measured, bar: Bar, point: str) -> Iterator[Verdict]:
    ours = measured.spread(bar.case, point, HOME, bar.figure)
    if not bar.peers and not bar.beside:
        yield Verdict(bar, point, "", ours, None, ours)
        return
    beside = bar.beside or point
    theirs = {system: measured.spread(bar.case, beside, system, bar.figure) for system in bar.peers or (HOME,)}
    known = {system: spread for system, spread in theirs.items() if spread is not None}
    if not known:
        yield Verdict(bar, point, bar.others, ours, None, None)
    for system, spread in known.items():
        ratio = measured.ratio(bar.case, bar.figure, (point, HOME), (beside, system))
        yield Verdict(bar, point, f"{HOME} at {beside}" if bar.beside else system, ours, spread, ratio)


def bar_rows(verdicts: Iterable[Verdict]) -> list[list[str]]:
    """A line a verdict, under a heading."""
    rows = [["case", "point", "figure", "Fairlead", "peer", "peer's", "ratio", "bar", "met"]]
    for verdict in verdicts:
        bar = verdict.bar
        figure = bar.figure + (f" ({bar.about})" if bar.about else "")
        is_ratio = bool(bar.peers or bar.beside)
        ratio = _cell(verdict.judged) if is_ratio else ""
        ours, theirs = _cell(verdict.ours), _cell(verdict.theirs)
        point = "any" if verdict.point == "*" else verdict.point.rstrip("*")
        rows.append([bar.case, point, figure, ours, verdict.peer, theirs, ratio, bar.text, verdict.word])
    return rows


def _cell(spread: Spread | None) -> str:
    return "" if spread is None else str(spread)


def figure_rows(measured: Measured, case: str) -> list[list[str]]:
    """A line a point and figure, a column a system, under a heading."""
    systems = measured.systems(case)
    rows = [["point", "figure", *systems]]
    for point in measured.points(case):
        for figure in measured.figure_names(case):
            cells = [_cell(measured.spread(case, point, system, figure)) for system in systems]
            if any(cells):
                rows.append([point, figure, *cells])
    return rows


def figures_text(runs: Iterable[Run]) -> str:
    """All figures, a table a case."""
    measured = Measured(runs)
    tables = [f"{case}\n{text_table(figure_rows(measured, case))}" for case in measured.cases()]
    return "\n\n".join(tables) or "nothing was measured"


def markdown(runs: Sequence[Run]) -> str:
    """What was measured where, failed runs, the bars, then all figures."""
    measured = Measured(runs)
    bars = markdown_table(bar_rows(judge(measured)))
    cases = [f"### Figures of {case}\n\n{markdown_table(figure_rows(measured, case))}" for case in measured.cases()]
    return "\n\n".join([_measured_on(runs), *_failures(runs), bars, *cases])


def _measured_on(runs: Sequence[Run]) -> str:
    machines = "; ".join(dict.fromkeys(run.machine for run in runs))
    commits = ", ".join(dict.fromkeys(run.commit for run in runs))
    return f"Median of the rounds (least–most). Machine: {machines}. Commits: {commits}." if runs else "No runs."


def _failures(runs: Sequence[Run]) -> list[str]:
    """Also of those that were repeated: a check that failed once is a fault."""
    lines = [f"* {run.case} {run.point} {run.system} round {run.round}: {run.failed}" for run in failed(runs)]
    return ["Runs that failed:\n\n" + "\n".join(lines)] if lines else []


def as_json(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything, for programs."""
    measured = Measured(runs)
    return {
        "machines": list(dict.fromkeys(run.machine for run in runs)),
        "commits": list(dict.fromkeys(run.commit for run in runs)),
        "bars": [_verdict_json(verdict) for verdict in judge(measured)],
        "figures": list(_figures_json(measured)),
        "failed": [asdict(run) for run in failed(runs)],
    }


def _verdict_json(verdict: Verdict) -> Mapping[str, Any]:
    return {**asdict(verdict), "text": verdict.bar.text, "met": verdict.is_met, "within the spread": verdict.is_close}


def _figures_json(measured: Measured) -> Iterator[Mapping[str, Any]]:
    for case in measured.cases():
        for point in measured.points(case):
            for system in measured.systems(case, point):
                for figure in measured.figure_names(case):
                    if spread := measured.spread(case, point, system, figure):
                        place = {"case": case, "point": point, "system": system, "figure": figure}
                        yield {**place, **asdict(spread)}


def write_report(runs: Sequence[Run], out: Path) -> str:
    """Write both files; returns the text for a terminal."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(as_json(runs), indent=1) + "\n")
    (out / "results.md").write_text(markdown(runs) + "\n")
    bars = text_table(bar_rows(judge(Measured(runs))))
    return "\n\n".join([figures_text(runs), _measured_on(runs), *_failures(runs), bars])


def put_into(page: Path, table: str) -> None:
    """Replace what is between the two marks."""
    parts = page.read_text().split(MARK)
    if len(parts) != 3:
        raise SystemExit(f"{page} has to have two lines {MARK}")
    page.write_text(f"{parts[0]}{MARK}\n\n{table}\n\n{MARK}{parts[2]}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Report what is stored."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--write", type=Path, help="a page with two lines " + MARK)
    chosen = parser.parse_args(arguments)
    runs = load(chosen.out / RUNS)
    print(write_report(runs, chosen.out))
    if chosen.write:
        put_into(chosen.write, markdown(runs))


if __name__ == "__main__":
    main()
