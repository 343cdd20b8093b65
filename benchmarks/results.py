"""Runs of the bench in a file of JSON lines: what is stored is not measured again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OUT = Path(".make/bench")
RUNS = "runs.jsonl"
QUICK_RUNS = "quick.jsonl"

Key = tuple[str, str, str, int]
"""Case, point, system, round."""


@dataclass(frozen=True)
class Run:
    """One system measured once at one point."""

    case: str
    point: str
    system: str
    round: int
    settings: Mapping[str, Any]
    figures: Mapping[str, float]
    began: str
    """UTC, ISO 8601."""
    seconds: float
    """All of it, with start, check and end of the system."""
    commit: str
    machine: str
    aside: Mapping[str, list[Any]] = field(default_factory=dict)
    """What a figure of its own cannot hold, such as a histogram."""
    failed: str = ""
    """Why it does not count."""

    @property
    def key(self) -> Key:
        """Where it belongs; a later one replaces an earlier one."""
        return self.case, self.point, self.system, self.round


class Store:
    """The file. A run is on disk as soon as it is added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.runs = load(path)
        self._rewrite()

    def add(self, run: Run) -> None:
        """Keep it."""
        self.runs.append(run)
        with self._path.open("a") as file:
            file.write(_line(run))
            file.flush()
            os.fsync(file.fileno())

    def forget(self, cases: Collection[str]) -> None:
        """Drop all runs of these cases."""
        self.runs = [run for run in self.runs if run.case not in cases]
        self._rewrite()

    def _rewrite(self) -> None:
        new = self._path.with_suffix(".new")
        new.write_text("".join(map(_line, self.runs)))
        new.replace(self._path)


def load(path: Path) -> list[Run]:
    """All stored runs, oldest first; a last line that was cut off is left out."""
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    return [Run(**json.loads(line)) for line in whole.splitlines()]


def _line(run: Run) -> str:
    return json.dumps(asdict(run)) + "\n"


def good(runs: Iterable[Run]) -> dict[Key, Run]:
    """The latest run that counts of each key, in the order in which the keys were first measured."""
    return {run.key: run for run in runs if not run.failed}


def failed(runs: Iterable[Run]) -> list[Run]:
    """Every run that failed, also when it was repeated and then went well."""
    return [run for run in runs if run.failed]


def commit() -> str:
    """What is measured; `+` when the work tree differs from it."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


def machine() -> str:
    """Processor, cores, memory and kernel, such as `AMD EPYC, 2 cores, 8 GB, Linux 6.8`."""
    models = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    kilobytes = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    kernel = ".".join(platform.release().split(".")[:2])
    memory = [f"{each * 1024 / 1e9:.0f} GB" for each in kilobytes]
    model = models[0] if models else platform.machine()
    return ", ".join([model, f"{os.cpu_count()} cores", *memory, f"{platform.system()} {kernel}"])


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
