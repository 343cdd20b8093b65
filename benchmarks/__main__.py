"""The bench: Fairlead beside Apache Kafka and MirrorMaker 2 on this machine.

    python -m benchmarks [--case NAME,NAME] [--point PATTERN,PATTERN] [--system NAME,NAME] [--rounds 3]
                         [--fresh] [--quick] [--out .make/bench]

What is stored in the out folder is not measured again, so it can be ended and started at any time; `--fresh` forgets
the runs of the chosen cases. `--quick` measures Fairlead alone at small points, each time anew, and compares nothing.
Ends with 1 when a run failed: records were missing or wrong, or a system did not work.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.case import Case
from benchmarks.cases import ALL
from benchmarks.report import figures_text, write_report
from benchmarks.results import OUT, QUICK_RUNS, RUNS, Run, Store
from benchmarks.runner import plan, plan_quick, run_all


def main(arguments: Sequence[str] | None = None, cases: Sequence[Case] | None = None) -> int:
    """Run, report; the exit code."""
    chosen = _options(arguments)
    selected = _select(ALL if cases is None else cases, chosen.case)
    bad = _quick(selected, chosen.out) if chosen.quick else _whole(selected, chosen)
    for run in bad:
        print(f"FAILED: {run.case} {run.point} {run.system} round {run.round}: {run.failed}", file=sys.stderr)
    return 1 if bad else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--case", default="", help="names, separated by commas; all without it")
    parser.add_argument("--point", default="*", help="patterns such as 1KB-*, separated by commas")
    parser.add_argument("--system", default="*", help="patterns such as mirrormaker*, separated by commas")
    parser.add_argument("--rounds", type=int, help="of every case that is repeated at all")
    parser.add_argument("--fresh", action="store_true", help="forget the stored runs of the chosen cases")
    parser.add_argument("--quick", action="store_true", help="Fairlead alone, small")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(arguments)


def _select(cases: Sequence[Case], names: str) -> list[Case]:
    wanted = [name for name in names.split(",") if name]
    if unknown := set(wanted) - {case.name for case in cases}:
        raise SystemExit(f"no case {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in cases)}")
    return [case for case in cases if not wanted or case.name in wanted]


def _quick(cases: Sequence[Case], out: Path) -> list[Run]:
    store = Store(out / QUICK_RUNS)
    store.forget({run.case for run in store.runs})
    bad = run_all(plan_quick(cases), store, out, _say)
    print("\n" + figures_text(store.runs))
    return bad


def _whole(cases: Sequence[Case], chosen: argparse.Namespace) -> list[Run]:
    store = Store(chosen.out / RUNS)
    if chosen.fresh:
        store.forget({case.name for case in cases})
    planned = [
        each
        for each in plan(cases, chosen.rounds)
        if _matches(each.point.name, chosen.point) and _matches(each.system, chosen.system)
    ]
    bad = run_all(planned, store, chosen.out, _say)
    print("\n" + write_report(store.runs, chosen.out))
    return bad


def _matches(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns.split(","))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a run ends the servers that it started
    sys.exit(main())
