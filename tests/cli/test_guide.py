"""The commands of the guide's first ten minutes, taken from its text and run word by word, on a slow machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead
from tests.support.waiting import WAIT_SECONDS, wait_until

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "first-ten-minutes.md"
SECTIONS = ("A cluster", "A stream", "A replica")
ELSEWHERE = ("0.0.0.0", "HOST")
"""Commands for another machine."""
JAVA_SECONDS = 5
"""Each Java takes so much longer to start; Spark starts three, one after the other."""


def blocks(section: str) -> Iterator[list[str]]:
    """The blocks of commands of one section."""
    text = GUIDE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    for block in re.findall(r"^```\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        lines = block.splitlines()
        if not any(word in block for word in ELSEWHERE):
            yield lines


def on_free_ports(line: str) -> str:
    """The same where other clusters run on this machine; the ports that the guide leaves to their defaults are set in
    the environment."""
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", re.sub(r"-port \d+", "-port 0", line))


class Reader:
    """Somebody who follows the guide, with terminals in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clusters: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(fairlead.__file__).parents[1]),
            "FAIRLEAD_CLUSTERS": str(folder / "clusters.toml"),
            "FAIRLEAD_KAFKA_ADDRESS": "127.0.0.1:0",
            "FAIRLEAD_HTTP_ADDRESS": "127.0.0.1:0",
            "FAIRLEAD_ROUND_SECONDS": "30",
            "JAVA_HOME": str(slow_java(folder)),
        }

    def types(self, line: str) -> str:
        """One line of a block; what it printed. A cluster goes on in a terminal of its own."""
        line = on_free_ports(line)
        if line.startswith("fairlead up "):
            self._up(line)
            return ""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _up(self, line: str) -> None:
        log = self._folder / f"terminal-{len(self._clusters)}"
        with log.open("wb") as out:
            program = subprocess.Popen(
                line.split(), cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self._clusters.append(program)
        wait_until(lambda: "Ctrl-C stops the cluster" in log.read_text(), f"{line}: {log}")

    def leaves(self) -> None:
        """Ctrl-C in each terminal."""
        for cluster in self._clusters:
            cluster.terminate()
        for cluster in self._clusters:
            cluster.wait(60)


def slow_java(folder: Path) -> Path:
    """A JAVA_HOME whose Java takes its time."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    command = folder / "java" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nsleep {JAVA_SECONDS}\nexec "{java}" "$@"\n')
    command.chmod(0o755)
    return folder / "java"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    found.leaves()


def test_the_guide_has_commands_to_take() -> None:
    """This test would be happy with an empty page."""
    lines = [line for section in SECTIONS for block in blocks(section) for line in block]
    assert sum(line.startswith("fairlead up ") for line in lines) == 2
    assert sum("autosetup" in line for line in lines) == 1
    assert len(lines) >= 12


@pytest.mark.spark
def test_the_first_ten_minutes_work_word_by_word_on_a_slow_machine(reader: Reader) -> None:
    """Each command goes well as soon as the one before has ended: none needs a person who waits."""
    said = {line: reader.types(line) for section in SECTIONS for block in blocks(section) for line in block}
    shown = {words: out for line, out in said.items() for words in [" ".join(line.split()[:4])]}
    assert said["fairlead consume first --from-beginning"] == "hello\n"
    assert " ok " in said["fairlead status"]
    assert "/mapr/newyork/ships is in step" in shown["fairlead stream replica autosetup"]
    assert re.search(r"replicaState +REPLICA_STATE_REPLICATING\n", shown["fairlead stream replica list"])
    assert re.search(r"isUptodate +true\n", shown["fairlead stream replica list"])
    assert re.search(r"errors\n", shown["fairlead stream replica list"])
    (record,) = (out for line, out in said.items() if "newyork/ships:ever-given" in line)
    assert re.fullmatch(r"0\t0\t\d+\t51\.9,4\.1\n", record)
