"""What a command costs before it does anything: `python -m benchmarks.start`.

Processor time of `fairlead --version` and of `fairlead status` with a cluster that does not run, against that of
importing the two libraries that a command line like ours cannot do without. They run in turn; the least of each counts,
since whatever else the machine does can only add to it. Ends with 1 when a command costs more than `TIMES` as much.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TIMES = 1.5
ROUNDS = 9
_PROGRAM = (sys.executable, "-m", "fairlead.cli.main")
_PLAIN = "importing Typer and httpx"
COMMANDS = {
    _PLAIN: (sys.executable, "-c", "import typer, httpx"),
    "fairlead --version": (*_PROGRAM, "--version"),
    "fairlead status": (*_PROGRAM, "status"),
}


def main() -> int:
    """Measure and print; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "clusters.toml"
        book.write_text('[clusters.sanfrancisco]\nhttp = ["http://127.0.0.1:1"]\n')
        environment = {**os.environ, "FAIRLEAD_CLUSTERS": str(book)}
        rounds = [{name: _seconds(command, environment) for name, command in COMMANDS.items()} for _ in range(ROUNDS)]
    least = {name: min(each[name] for each in rounds) for name in COMMANDS}
    for name, seconds in least.items():
        print(f"{name:<26} {seconds * 1000:4.0f} ms of processor time, {seconds / least[_PLAIN]:.2f} times")
    return int(max(least.values()) > TIMES * least[_PLAIN])


def _seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """Processor time of one process."""
    before = _children_seconds()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    return _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
