"""`docs/cases.md` stays true: what it names exists, and what the code cites it tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CASES = (ROOT / "docs" / "cases.md").read_text()
SOURCES = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]
TESTS = {name for path in SOURCES for name in re.findall(r"(?:def|class) ([Tt]est\w+)", path.read_text())}
FILES = {path.stem for path in SOURCES}
CITED = {case for path in SOURCES for case in re.findall(r"\bcases? ([FS]\d+)|\(([FS]\d+)\)", path.read_text())}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", CASES))))
def test_every_test_that_is_named_exists(name: str) -> None:
    """A test that is renamed is renamed there too."""
    assert name in TESTS | FILES


@pytest.mark.parametrize("case", sorted({first or second for first, second in CITED}))
def test_every_case_that_is_cited_is_told(case: str) -> None:
    """Under a heading of its own."""
    assert re.search(rf"^### {case}\b", CASES, re.MULTILINE)


COMPLAINTS = CASES.partition("## What users of other systems complain of")[2]
ROWS = [
    line for line in COMPLAINTS.splitlines() if line.startswith("| ") and not line.startswith(("| complaint", "| ---"))
]


def test_complaints_are_told() -> None:
    """Their table is found."""
    assert len(ROWS) > 15


@pytest.mark.parametrize("row", ROWS)
def test_every_complaint_names_a_test_or_says_that_it_is_not_answered_yet(row: str) -> None:
    """In its last column."""
    answer = row.split("|")[-2]
    assert "*Not yet*" in answer or re.search(r"`test_\w+`", answer)
