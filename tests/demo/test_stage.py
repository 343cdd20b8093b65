"""What demos share, without clusters: waiting, claims, and what is left of programs that were started."""

from __future__ import annotations

import argparse
import io
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from examples.ships import sites as module
from examples.ships import stage
from examples.ships.sites import SiteFailed, Sites, alive
from examples.ships.stage import Stage, add_chart_options, chart_file, errors_into, run
from rich.console import Console
from tests.support.waiting import wait_until

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return Sites(tmp_path)


@pytest.fixture
def acts(sites: Sites) -> Stage:
    return Stage(sites, Console(file=io.StringIO()))


def test_a_demo_is_good_only_with_claims_that_all_hold(acts: Stage) -> None:
    """One that claims nothing has shown nothing."""
    assert not acts.good
    acts.claim("the sea is wet", True, "it was")
    assert acts.good
    acts.claim("the sea is dry", False, "it was not")
    acts.claim("the sea is salty", True, "it was")
    assert not acts.good


def test_the_exit_code_is_0_only_if_the_verdict_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the folder is gone in any case."""
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fails(sites: Sites, console: Console) -> str:
        (sites.folder / "data").mkdir()
        raise SiteFailed("cluster asia ended")

    assert run("demo-", lambda sites, console: "all is well", lambda said: said, keep=False) == 0
    assert "OK: all is well" in capsys.readouterr().out
    assert run("demo-", lambda sites, console: "all is well", lambda said: None, keep=False) == 1
    assert run("demo-", fails, lambda said: said, keep=False) == 1
    assert "FAILED: cluster asia ended" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_waiting_ends_with_what_is_waited_for_or_says_what_it_was(acts: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a claim decides, the wait itself does not fail."""
    asked = iter([False, False, True])
    acts.until("the third answer", lambda: next(asked))
    monkeypatch.setattr(stage, "PATIENCE_SECONDS", 0)
    with pytest.raises(TimeoutError, match="the tide turns"):
        acts.until("the tide turns", lambda: False)
    acts.until("the tide turns", lambda: False, fails=False)


def test_programs_that_end_by_themselves_are_not_left_over(sites: Sites, tmp_path: Path) -> None:
    """A child that reads from its parent ends when that is killed."""
    _kill_parent_of("sys.stdin.read()", sites, tmp_path)
    assert sites.stop() == []


def test_what_a_killed_program_leaves_behind_is_killed_and_named(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its process id."""
    monkeypatch.setattr(module, "END_SECONDS", 0.2)
    child = _kill_parent_of("time.sleep(600)", sites, tmp_path)
    assert alive(child)
    assert sites.stop() == [child]
    wait_until(lambda: not alive(child), "it has ended")


def test_what_is_killed_as_a_group_leaves_nothing_behind(sites: Sites, tmp_path: Path) -> None:
    """Its child is killed with it, however long that would have gone on."""
    process, child = _begin_parent_of("time.sleep(600)", sites, tmp_path)
    sites.kill_group(process)
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not alive(child), "the child has ended")
    assert sites.stop() == []


def _kill_parent_of(does: str, sites: Sites, folder: Path) -> int:
    """Begin a program that has a child, and kill it; the child."""
    process, child = _begin_parent_of(does, sites, folder)
    sites.kill_process(process)
    return child


def _begin_parent_of(does: str, sites: Sites, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    program = [sys.executable, "-c", PARENT, f"import sys, time; {does}"]
    process = sites.begin_program("parent", program, folder)
    return process, int(wait_until((folder / "parent.out").read_text, "the child runs"))


def test_errors_of_what_is_started_meanwhile_go_to_a_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And come back afterwards."""
    says = [sys.executable, "-c", "import sys; print('loud', file=sys.stderr)"]
    with errors_into(tmp_path / "log"):
        subprocess.run(says, check=True)
    assert (tmp_path / "log").read_text() == "loud\n"
    assert capfd.readouterr().err == ""
    subprocess.run(says, check=True)
    assert capfd.readouterr().err == "loud\n"


@pytest.mark.parametrize("typed", [[], ["--chart", "elsewhere.png"], ["--no-chart"]], ids=" ".join)
def test_a_demo_whose_picture_nothing_could_draw_does_not_begin(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Minutes later it would be too late."""
    parser = argparse.ArgumentParser("demo")
    add_chart_options(parser, Path("here.png"))
    options = parser.parse_args(typed)
    monkeypatch.setattr(stage, "find_spec", lambda _: None)
    if options.no_chart:
        assert chart_file(parser, options) is None
        return
    with pytest.raises(SystemExit) as ended:
        chart_file(parser, options)
    assert ended.value.code == 2
    assert "needs matplotlib" in capsys.readouterr().err
    monkeypatch.setattr(stage, "find_spec", lambda _: object())
    assert chart_file(parser, options) == Path(typed[-1] if typed else "here.png")
