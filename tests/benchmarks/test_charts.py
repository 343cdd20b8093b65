"""The pictures of the bench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.report import Measured
from benchmarks.results import Run

from tests.benchmarks.fakes import run_of

pytest.importorskip("matplotlib", reason="make test, demos with a chart and the bench install it")

from benchmarks.charts import draw, latency, throughput


def title(figure: Any) -> str:
    """What stands above it."""
    return str(figure.get_suptitle())


def some_of_everything() -> list[Run]:
    runs = []
    for turn in (1, 2, 3):
        for size, ours, theirs in (("100B", 30, 25), ("1KB", 210, 160), ("10KB", 420, 410)):
            for case, rest in (("produce", "1topic-1producer"), ("consume", "1topic-1consumer-memory")):
                for system, value in (("fairlead", ours + turn), ("kafka", theirs - turn)):
                    runs.append(run_of(system, turn, {"MB/s": value}, case, point=f"{size}-{rest}"))
        for system, factor in (("fairlead", 1.0), ("kafka-flush", 3.0), ("kafka", 0.7)):
            counts = [[factor * edge, 10_000 // edge**3] for edge in range(1, 20)]
            runs.append(run_of(system, turn, {"p99 ms": 1}, "latency", point="1000", aside={"histogram": counts}))
        for system, topics, memory in (
            ("fairlead", 10, 120),
            ("fairlead", 10_000, 130),
            ("fairlead", 1_000_000, 2100),
            ("kafka", 10, 400),
            ("kafka", 10_000, 1900),
        ):
            figures = {"memory MB": memory + turn, "restart s": memory / 100}
            settings = {"topics": topics}
            runs.append(run_of(system, turn, figures, "topics", point=f"{topics}-topics", settings=settings))
        for case, point in (("backlog", "lz4"), ("backlog", "uncompressed"), ("backlog_topics", "10000-topics")):
            for system, value in (("fairlead", 150), ("mirrormaker", 20), ("mirrormaker-tuned", 35)):
                runs.append(run_of(system, turn, {"MB/s": value + turn}, case, point=point))
    return runs


def test_every_chart_is_drawn_and_small(tmp_path: Path) -> None:
    """Below 100 KB each, so that the repository stays small."""
    paths = draw(Measured(some_of_everything()), tmp_path)
    assert [path.name for path in paths] == ["throughput.png", "latency.png", "topics.png", "replication.png"]
    assert all(2_000 < path.stat().st_size < 100_000 for path in paths)


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    """A picture of an earlier bench stays."""
    assert draw(Measured([]), tmp_path) == []


def test_the_title_says_the_finding() -> None:
    """In numbers of the runs."""
    measured = Measured(some_of_everything())
    assert title(throughput(measured)) == "One topic, one client: Fairlead moves 1.03 to 1.39 × what Kafka does"
    assert "Fairlead 6.00 ms" in title(latency(measured))


def test_fairlead_alone_claims_nothing() -> None:
    """Without a peer beside it."""
    runs = [run for run in some_of_everything() if run.system == "fairlead"]
    assert title(throughput(Measured(runs))) == "Fairlead alone: no peer was measured"
