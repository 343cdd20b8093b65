"""Cases that measure nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Point
from benchmarks.results import Run

SMALL = Point("1KB", {"record_bytes": 1000})


def fake_case(
    asked: list[str], answer: Callable[[str, int], dict[str, Any]] = lambda _system, _turn: {"MB/s": 1.0}, **more: Any
) -> Case:
    """Two systems, of which each notes that it was asked; `answer` knows the system and how often it was asked."""

    def measure(system: str) -> Callable[[Path, Point], dict[str, Any]]:
        def run(folder: Path, point: Point) -> dict[str, Any]:
            assert not list(folder.iterdir())
            (folder / "server.log").write_text("here")
            asked.append(system)
            return answer(system, asked.count(system))

        return run

    systems = {name: measure(name) for name in ("fairlead", "kafka")}
    return Case("produce", systems, points=[SMALL], quick=[Point("tiny", {})], **more)


def run_of(system: str, turn: int, figures: dict[str, float], case: str = "produce", **more: Any) -> Run:
    """A stored run."""
    given = {"point": "1KB", "settings": {}, "began": "", "seconds": 1.0, "commit": "abc", "machine": "2 cores"}
    return Run(case=case, system=system, round=turn, figures=figures, **{**given, **more})
