"""Options in the original's style."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.cli.argv import normalise
from fairlead.cli.program import run, tree

ROOT = tree()
ADD = "stream replica add"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("stream info -path /ships", "stream info --path /ships"),
        ("stream info --PATH /Ships", "stream info --path /Ships"),
        ("stream create -path /a -copyMetaFrom /B", "stream create --path /a --copymetafrom /B"),
        (f"{ADD} -path /a -replica /b -paused true", f"{ADD} --path /a --replica /b --paused=true"),
        (f"{ADD} -path /a -paused -replica /b", f"{ADD} --path /a --paused=true --replica /b"),
        (f"{ADD} -paused=FALSE -path /a", f"{ADD} --paused=FALSE --path /a"),
        (f"{ADD} -paused maybe -path /a", f"{ADD} --paused=maybe --path /a"),
        ("stream list -json", "stream list --json"),
        ("stream create --dry-run --copy-meta-from /a", "stream create --dry-run --copymetafrom /a"),
        ("stream list -json true", "stream list --json"),
        ("stream list -JSON false", "stream list"),
        ("stream cursor list -path /a -partition -1", "stream cursor list --path /a --partition -1"),
        ("stream delete -path -yes", "stream delete --path -yes"),
        ("produce t --key -k --key-separator -", "produce t --key -k --key-separator -"),
        ("produce -- -t", "produce -- -t"),
        ("--VERSION", "--version"),
        ("-h", "-h"),
    ],
)
def test_the_originals_style_becomes_ours(written: str, read: str) -> None:
    """One dash or two, any case, booleans with or without a value; values stay as they are."""
    assert normalise(written.split(), ROOT) == read.split()


def test_an_option_that_stands_on_the_line_counts_as_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Though it is what it would be without: a file of MirrorMaker 2 has other defaults."""
    line = ["mirror", "--mm2.config", str(tmp_path / "mm2.properties"), "--sync.group.offsets", "true"]
    assert run(line) == 1
    assert "--sync.group.offsets and --mm2.config: the file of MirrorMaker 2 says that" in capsys.readouterr().err
    assert run(line[:3]) == 1
    assert "mm2.properties" in capsys.readouterr().err
