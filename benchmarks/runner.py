"""Plans runs, leaves out those that are stored, makes the others one by one and stores each at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.case import HOME, Case, CheckFailed, Point
from benchmarks.results import Run, Store, commit, good, machine
from benchmarks.words import number

CLEAN_UP_SECONDS = 60
"""After a run's limit, for it to end what it started; then it is interrupted again."""
KEPT_LOG_BYTES = 10_000_000


class TooLong(BaseException):
    """A run has reached its limit; no `except Exception` of a retry may swallow it."""


@dataclass(frozen=True)
class Planned:
    """A run that is to be made."""

    case: Case
    point: Point
    round: int
    system: str

    @property
    def name(self) -> str:
        """For people and for folders."""
        return f"{self.case.name} {self.point.name} {self.system} round {self.round}"


def plan(cases: Iterable[Case], rounds: int | None = None) -> Iterator[Planned]:
    """Systems alternate within a round, and the next round begins with the one that the last ended with."""
    for case in cases:
        count = rounds if rounds and case.rounds > 1 else case.rounds
        for point in case.points:
            for turn in range(1, (1 if point.once else count) + 1):
                systems = case.systems_of(point)
                for system in systems if turn % 2 else reversed(systems):
                    yield Planned(case, point, turn, system)


def plan_quick(cases: Iterable[Case]) -> Iterator[Planned]:
    """Every small point once, Fairlead alone."""
    for case in cases:
        for point in case.quick:
            yield Planned(case, point, 1, HOME)


def missing(planned: Iterable[Planned], runs: Iterable[Run]) -> list[Planned]:
    """What is not stored yet, or failed, or was stored with other settings."""
    stored = good(runs)

    def is_stored(each: Planned) -> bool:
        run = stored.get((each.case.name, each.point.name, each.system, each.round))
        return run is not None and run.settings == _as_json(each.point.settings)

    return [each for each in planned if not is_stored(each)]


def _as_json(settings: Any) -> Any:
    return json.loads(json.dumps(dict(settings)))


def run_all(
    planned: Iterable[Planned],
    store: Store,
    out: Path,
    say: Callable[[str], None] = print,
) -> list[Run]:
    """Make what is missing; returns the runs that failed."""
    everything = list(planned)
    left = missing(everything, store.runs)
    if len(left) < len(everything):
        say(f"{len(everything) - len(left)} of {len(everything)} runs are stored already")
    bad = []
    for place, each in enumerate(left, 1):
        say(f"[{place}/{len(left)}] {each.name}{_left(left[place - 1 :], store.runs)}")
        os.sync()  # what the last run left to be written is not to slow this one
        run = make(each, out)
        store.add(run)
        if run.failed:
            bad.append(run)
        say(_told(run))
    return bad


def make(planned: Planned, out: Path) -> Run:
    """One run in a fresh folder below `out`, which is gone afterwards; logs of a failed one stay in `out/failed`."""
    out.mkdir(parents=True, exist_ok=True)
    began, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    figures, aside, reason = {}, {}, ""
    with tempfile.TemporaryDirectory(dir=out.resolve(), prefix="run-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            with _limit(planned.case.limit_seconds):
                found = planned.case.systems[planned.system](folder, planned.point)
            aside = {key: value for key, value in found.items() if isinstance(value, list)}
            figures = {key: float(value) for key, value in found.items() if key not in aside}
        except CheckFailed as wrong:
            reason = f"records: {wrong}"
        except (Exception, TooLong) as wrong:  # one system that does not work does not end a bench of hours
            reason = f"{type(wrong).__name__}: {wrong}"
        if reason:
            _keep_logs(folder, out / "failed" / planned.name.replace(" ", "-"))
    return Run(
        case=planned.case.name,
        point=planned.point.name,
        system=planned.system,
        round=planned.round,
        settings=_as_json(planned.point.settings),
        figures=figures,
        began=began,
        seconds=round(time.monotonic() - clock, 1),
        commit=commit(),
        machine=machine(),
        aside=aside,
        failed=reason,
    )


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Interrupts the run with TooLong, so that its context managers end what it started."""

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, CLEAN_UP_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _keep_logs(folder: Path, kept: Path) -> None:
    """Small logs of processes. A segment of a Kafka partition is called .log too, but by a number."""
    shutil.rmtree(kept, ignore_errors=True)
    for log in sorted(folder.rglob("*.log")):
        if not log.stem.isdigit() and log.stat().st_size <= KEPT_LOG_BYTES:
            target = kept / log.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)


def estimate(left: Sequence[Planned], runs: Sequence[Run]) -> float | None:
    """Seconds for what is left, by the median of the nearest kind of run there is; None without any."""
    total = 0.0
    for each in left:
        alike = _seconds_of_alike(each, runs)
        if not alike:
            return None
        total += statistics.median(alike)
    return total


def _seconds_of_alike(each: Planned, runs: Sequence[Run]) -> list[float]:
    case, point, system = each.case.name, each.point.name, each.system
    for wanted in ((case, point, system), (case, None, system), (case, None, None)):
        found = [
            run.seconds
            for run in runs
            if all(part in (None, has) for part, has in zip(wanted, run.key[:3], strict=True))
        ]
        if found:
            return found
    return [run.seconds for run in runs]


def _left(left: Sequence[Planned], runs: Sequence[Run]) -> str:
    seconds = estimate(left, runs)
    return "" if seconds is None else f" (about {seconds / 60:.0f} min left)"


def _told(run: Run) -> str:
    if run.failed:
        return f"    FAILED after {run.seconds:.0f} s: {run.failed}"
    return f"    {run.seconds:.0f} s: " + ", ".join(f"{name} {number(value)}" for name, value in run.figures.items())
