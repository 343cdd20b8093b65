"""How the bench goes through its runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import main
from benchmarks.case import CheckFailed, Point
from benchmarks.cases import ALL
from benchmarks.results import Run, Store, load
from benchmarks.runner import estimate, plan, run_all

from tests.benchmarks.fakes import fake_case, run_of


@pytest.fixture(autouse=True)
def _disks_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else the machine is writing takes its time."""
    monkeypatch.setattr("os.sync", lambda: None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs.jsonl")


def silent(_line: str) -> None:
    """Say nothing."""


def go(case: Any, store: Store, out: Path, rounds: int | None = None) -> list[Run]:
    return run_all(plan([case], rounds), store, out, say=silent)


def test_systems_alternate_and_the_order_flips_each_round(store: Store, tmp_path: Path) -> None:
    """So that whatever drifts on the machine drifts for both."""
    asked: list[str] = []
    assert go(fake_case(asked), store, tmp_path) == []
    assert asked == ["fairlead", "kafka", "kafka", "fairlead", "fairlead", "kafka"]


def test_what_is_stored_is_not_measured_again(store: Store, tmp_path: Path) -> None:
    """Also by a later process; a further round measures only that."""
    asked: list[str] = []
    go(fake_case(asked), store, tmp_path, rounds=2)
    again = Store(tmp_path / "runs.jsonl")
    assert again.runs == store.runs
    asked.clear()
    go(fake_case(asked), again, tmp_path, rounds=3)
    assert asked == ["fairlead", "kafka"]


def test_a_run_with_other_settings_is_measured_again(store: Store, tmp_path: Path) -> None:
    """A point that was changed has not been measured."""
    asked: list[str] = []
    case = fake_case(asked, rounds=1)
    go(case, store, tmp_path)
    object.__setattr__(case, "points", [Point("1KB", {"record_bytes": 1024})])
    go(case, store, tmp_path)
    assert len(asked) == 4


def test_a_line_that_was_cut_off_is_measured_again(store: Store, tmp_path: Path) -> None:
    """The machine may go down in the middle of a write."""
    asked: list[str] = []
    go(fake_case(asked, rounds=1), store, tmp_path)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    asked.clear()
    again = Store(path)
    go(fake_case(asked, rounds=1), again, tmp_path)
    assert asked == ["kafka"]
    assert load(path) == again.runs


def test_a_case_of_one_round_stays_so(store: Store, tmp_path: Path) -> None:
    """However many rounds are asked for."""
    asked: list[str] = []
    go(fake_case(asked, rounds=1), store, tmp_path, rounds=5)
    assert asked == ["fairlead", "kafka"]


def test_a_point_may_be_for_some_systems_only(store: Store, tmp_path: Path) -> None:
    """Kafka is not asked for a million topics."""
    asked: list[str] = []
    case = fake_case(asked, rounds=1)
    object.__setattr__(case, "points", [Point("1000000-topics", {}, systems=("fairlead",))])
    go(case, store, tmp_path)
    assert asked == ["fairlead"]


def test_a_failed_check_makes_the_exit_code_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason, the logs and no figures; the next start repeats it."""
    asked: list[str] = []

    def loses_records(system: str, turn: int) -> dict[str, Any]:
        if system == "fairlead" and turn == 1:
            raise CheckFailed("7 of 10 records arrived")
        return {"MB/s": 1.0}

    cases = [fake_case(asked, loses_records, rounds=1)]
    arguments = ["--out", str(tmp_path)]
    assert main(arguments, cases) == 1
    captured = capsys.readouterr()
    assert "FAILED: produce 1KB fairlead round 1: records: 7 of 10 records arrived" in captured.err
    assert "produce 1KB fairlead round 1: records: 7 of 10" in (tmp_path / "results.md").read_text()
    assert (tmp_path / "failed" / "produce-1KB-fairlead-round-1" / "server.log").read_text() == "here"
    assert main(arguments, cases) == 0
    assert asked == ["fairlead", "kafka", "fairlead"]
    assert "7 of 10" in (tmp_path / "results.md").read_text()


def test_a_run_that_takes_too_long_has_failed(store: Store, tmp_path: Path) -> None:
    """And the next one is made."""

    def sleeps(system: str, _turn: int) -> dict[str, Any]:
        if system == "fairlead":
            time.sleep(10)
        return {"MB/s": 1.0}

    failed = go(fake_case([], sleeps, rounds=1, limit_seconds=1), store, tmp_path)
    assert [run.failed for run in failed] == ["TooLong: it took longer than 1 s"]
    assert [run.system for run in store.runs] == ["fairlead", "kafka"]


def test_fresh_forgets_the_chosen_cases_only(tmp_path: Path) -> None:
    """Hours of other cases stay."""
    Store(tmp_path / "runs.jsonl").add(run_of("fairlead", 1, {}, case="soak"))
    asked: list[str] = []
    cases = [fake_case(asked, rounds=1)]
    for _ in range(2):
        assert main(["--out", str(tmp_path), "--case", "produce", "--fresh"], cases) == 0
    assert asked == ["fairlead", "kafka"] * 2
    assert [run.case for run in load(tmp_path / "runs.jsonl")] == ["soak", "produce", "produce"]


def test_quick_asks_fairlead_alone_and_every_time(tmp_path: Path) -> None:
    """In a file of its own, which no report reads."""
    asked: list[str] = []
    for _ in range(2):
        assert main(["--out", str(tmp_path), "--quick"], [fake_case(asked)]) == 0
    assert asked == ["fairlead", "fairlead"]
    assert [run.point for run in load(tmp_path / "quick.jsonl")] == ["tiny"]
    assert not (tmp_path / "runs.jsonl").exists()


def test_a_list_is_kept_aside_of_the_figures(store: Store, tmp_path: Path) -> None:
    """A histogram is for charts."""
    go(fake_case([], lambda *_: {"p99 ms": 3, "histogram": [[1.0, 5]]}, rounds=1), store, tmp_path)
    assert store.runs[0].figures == {"p99 ms": 3.0}
    assert store.runs[0].aside == {"histogram": [[1.0, 5]]}


def test_what_is_left_is_estimated_by_the_nearest_runs() -> None:
    """The same point and system, else the same system, else anything."""
    left = list(plan([fake_case([], rounds=1)]))
    assert estimate(left, []) is None
    runs = [run_of("fairlead", 1, {}, seconds=4.0), run_of("x", 1, {}, seconds=8.0)]
    assert estimate(left, runs) == 4.0 + 6.0


def test_an_unknown_case_is_named(tmp_path: Path) -> None:
    """Before anything is measured."""
    with pytest.raises(SystemExit, match="no case nothing; there are produce"):
        main(["--out", str(tmp_path), "--case", "nothing"], [fake_case([])])


def test_every_case_measures_fairlead_at_distinct_points() -> None:
    """Of those that there are."""
    for case in ALL:
        assert "fairlead" in case.systems
        assert case.quick
        for points in (case.points, case.quick):
            assert len({point.name for point in points}) == len(points)
