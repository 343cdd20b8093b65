"""What the bench makes of its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.bars import BARS, Bar
from benchmarks.cases import ALL
from benchmarks.report import Measured, Spread, Verdict, judge, markdown, put_into, write_report
from benchmarks.words import number

from tests.benchmarks.fakes import run_of

FASTER = Bar("produce", "*", "MB/s", "at least", 1.0, peers=("kafka", "kafka-tuned"))


def speeds(system: str, *values: float) -> list[Any]:
    return [run_of(system, turn, {"MB/s": value}) for turn, value in enumerate(values, 1)]


def verdict(bar: Bar, runs: list[Any]) -> Verdict:
    (found,) = judge(Measured(runs), [bar])
    return found


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """Not the ratio of the medians: a slow round was slow for both."""
    found = verdict(FASTER, speeds("fairlead", 100, 30, 80) + speeds("kafka", 50, 10, 100))
    assert found.judged == Spread(2.0, 0.8, 3.0, 3)
    assert found.ours == Spread(80, 30, 100, 3)
    assert found.is_met
    assert found.is_close
    assert found.word == "yes, within the spread"


def test_a_round_that_only_one_has_makes_no_ratio() -> None:
    """It was not beside anything."""
    found = verdict(FASTER, speeds("fairlead", 100, 30) + speeds("kafka", 50))
    assert found.judged == Spread(2.0, 2.0, 2.0, 1)


def test_a_missed_bar_is_said_plainly() -> None:
    """In bold."""
    found = verdict(FASTER, speeds("fairlead", 9, 8) + speeds("kafka", 10, 10))
    assert found.is_met is False
    assert found.word == "**no**"


def test_a_bar_is_judged_against_every_peer_that_was_measured() -> None:
    """The tuned one too."""
    runs = speeds("fairlead", 10) + speeds("kafka", 5) + speeds("kafka-tuned", 20)
    assert [(each.peer, each.is_met) for each in judge(Measured(runs), [FASTER])] == [
        ("kafka", True),
        ("kafka-tuned", False),
    ]


def test_a_bar_without_its_peer_is_not_met() -> None:
    """Whether the peer failed or nobody was measured."""
    for runs in ([], speeds("fairlead", 10)):
        found = verdict(FASTER, runs)
        assert found.is_met is None
        assert (found.peer, found.word) == ("kafka or kafka-tuned", "not measured")


def test_an_absolute_bar_is_on_the_figure() -> None:
    """By the median, unless every round counts."""
    runs = speeds("fairlead", 1, 2, 9)
    at_most = Bar("produce", "*", "MB/s", "at most", 2.0)
    assert verdict(at_most, runs).is_met
    assert verdict(at_most, runs).is_close
    assert not verdict(Bar("produce", "*", "MB/s", "at most", 2.0, every_round=True), runs).is_met


def test_a_point_may_be_compared_with_another() -> None:
    """A million topics with ten."""
    bar = Bar("topics", "1000000-topics*", "produce records/s", "at least", 1.0, beside="10-topics")
    runs = [
        run_of("fairlead", 1, {"produce records/s": speed}, case="topics", point=point)
        for point, speed in (("10-topics", 100.0), ("1000000-topics", 90.0))
    ]
    found = verdict(bar, runs)
    assert (found.point, found.peer) == ("1000000-topics", "fairlead at 10-topics")
    assert found.judged == Spread(0.9, 0.9, 0.9, 1)
    assert not found.is_met


def test_a_reported_figure_has_no_verdict() -> None:
    """It is only shown."""
    found = verdict(Bar("produce", "*", "MB/s", "reported"), speeds("fairlead", 1))
    assert (found.bar.text, found.word) == ("reported", "")


def test_a_failed_run_does_not_count_and_is_shown() -> None:
    """Even when it was repeated."""
    runs = [*speeds("fairlead", 1), run_of("kafka", 1, {}, failed="records: 3 are missing"), *speeds("kafka", 2)]
    assert verdict(FASTER, runs).judged == Spread(0.5, 0.5, 0.5, 1)
    assert "produce 1KB kafka round 1: records: 3 are missing" in markdown(runs)


def test_results_are_written_for_programs_and_people(tmp_path: Path) -> None:
    """JSON, Markdown, and text for a terminal."""
    runs = speeds("fairlead", 300, 310) + speeds("kafka", 100, 155)
    text = write_report(runs, tmp_path)
    assert "2.50 (2.00–3.00)" in text
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["machines"] == ["2 cores"]
    assert stored["bars"][0]["met"] is True
    assert {"case": "produce", "point": "1KB", "system": "kafka", "figure": "MB/s"}.items() <= stored["figures"][
        1
    ].items()
    table = (tmp_path / "results.md").read_text()
    assert "| 1KB | MB/s | 305 (300–310) | 128 (100–155) |" in table


def test_the_table_goes_between_the_marks_of_a_page(tmp_path: Path) -> None:
    """What is around it stays, however often."""
    page = tmp_path / "performance.md"
    page.write_text("above\n<!-- table -->\nold\n<!-- table -->\nbelow\n")
    for _ in range(2):
        put_into(page, "| new |")
    assert page.read_text() == "above\n<!-- table -->\n\n| new |\n\n<!-- table -->\nbelow\n"
    page.write_text("nothing")
    with pytest.raises(SystemExit):
        put_into(page, "| new |")


def test_every_bar_of_a_case_covers_a_point_of_it() -> None:
    """A point that was renamed would leave its bar unmeasured."""
    points = {case.name: [point.name for point in case.points] for case in ALL}
    for bar in BARS:
        if names := points.get(bar.case):
            assert any(bar.covers(bar.case, name) for name in names), bar
            assert not bar.beside or bar.beside in names


def test_bars_read_as_in_the_table_of_the_docs() -> None:
    """With the unit of a ratio."""
    texts = {bar.text for bar in BARS}
    assert {"≥ 1 ×", "≤ 0.4 ×", "≤ 250", "≥ 10,000,000", "reported"} <= texts


@pytest.mark.parametrize(
    ("value", "text"), [(1234567, "1,234,567"), (84.26, "84.3"), (0.5, "0.50"), (0, "0"), (0.0123, "0.012")]
)
def test_numbers_have_three_digits_that_matter(value: float, text: str) -> None:
    """So that tables are narrow."""
    assert number(value) == text
