"""The original's names of commands: `maprcli stream …` and `mapr copystream`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.desk import CommandLine
from tests.support.scripts import install_scripts


def run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line as it is pasted."""
    words = line.split()
    command = [str(install_scripts(folder / "bin") / words[0]), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_lines_of_the_original_run_as_they_are(fairlead: CommandLine, tmp_path: Path) -> None:
    """The same commands, with the same answers."""
    made = run(tmp_path, "maprcli stream create -path /pasted -defaultPartitions 3 -autocreate true")
    assert (made.returncode, made.stderr) == (0, "")
    assert run(tmp_path, "maprcli stream topic create -path /pasted -topic a").returncode == 0
    listed = "stream topic list -path mapr/sanfrancisco/pasted"
    assert run(tmp_path, f"maprcli {listed}").stdout == fairlead.ok(listed).out
    refused = run(tmp_path, "mapr copystream -src /pasted -dst /pasted")
    assert (refused.returncode, refused.stderr) == (
        1,
        "fairlead: /mapr/sanfrancisco/pasted cannot be copied into itself\n",
    )


@pytest.mark.parametrize("line", ["maprcli volume info -path /a", "maprcli up", "mapr stream", "mapr diffstreams"])
def test_another_command_of_the_original_is_refused_by_name(tmp_path: Path, line: str) -> None:
    """With what there is."""
    done = run(tmp_path, line)
    assert done.returncode == 1
    assert done.stderr.startswith(f"fairlead: {' '.join(line.split()[:2])}: of the original's commands Fairlead has")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["maprcli", "mapr"])
def test_alone_they_say_what_they_are(tmp_path: Path, name: str) -> None:
    """And where the other commands are."""
    done = run(tmp_path, name)
    assert (done.returncode, done.stderr) == (0, "")
    assert "`fairlead --help` lists all" in done.stdout
    assert "Usage: " + name in run(tmp_path, f"{name} --help").stdout
    assert run(tmp_path, f"{name} --version").stdout.startswith("fairlead 0.")
