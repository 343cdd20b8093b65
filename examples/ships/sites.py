"""Clusters as child processes: started on free loopback ports, stopped by pid with everything they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

PATIENCE_SECONDS = 300
"""What is to happen happens by then: the replicator's Java starts with the first link, which takes minutes where a
machine is busy."""
END_SECONDS = 120
"""What a program that ended had started ends by itself within this time, or was left behind."""
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))


class SiteFailed(Exception):
    """A cluster or command did not do what the demo needs; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class Site:
    """A running cluster: `fairlead up`, that is its server and its replicator."""

    name: str
    kafka: str
    http: str
    process: subprocess.Popen[bytes]

    def ask(self, route: str, **params: str) -> list[dict[str, Any]]:
        """The rows of a GET of the admin interface."""
        answer = httpx.get(self.http + route, params=params, timeout=60, trust_env=False).json()
        if answer["status"] != "OK":
            raise SiteFailed(f"{route}: {answer['errors'][0]['desc']}")
        return list(answer["data"])


class Sites:
    """All processes of the demo, with an address book of their own in `folder`; ends them on leaving."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "FAIRLEAD_CLUSTERS": str(folder / "clusters.toml")}
        self._sites: list[Site] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self._seen: set[int] = set()

    def start(self, name: str, kafka: str = "127.0.0.1:0", http: str = "127.0.0.1:0") -> Site:
        """Start a cluster and wait until it answers.

        Raises:
            SiteFailed: it ended, or did not answer in time.
        """
        ready, log = self.folder / f"{name}.json", self.folder / f"{name}.log"
        ready.unlink(missing_ok=True)
        command = [FAIRLEAD, "up", "--name", name, "--data", str(self.folder / name)]
        command += ["--kafka", kafka, "--http", http, "--ready-file", str(ready)]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment, start_new_session=True
            )
        self._started.append(process)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SiteFailed(f"cluster {name} did not start:\n{tail(log)}")
            time.sleep(0.05)
        found = json.loads(ready.read_text())
        site = Site(name, found["kafka"], found["http"], process)
        self._sites.append(site)
        return site

    def kill(self, site: Site) -> None:
        """`kill -9` of the server, in the middle of whatever it does; what it started ends with it."""
        self._sites.remove(site)
        self.kill_process(site.process)

    def kill_process(self, process: subprocess.Popen[bytes]) -> None:
        """The same of a command or program that was begun."""
        self._seen |= descendants(process.pid)
        process.kill()
        process.wait()

    def kill_group(self, process: subprocess.Popen[bytes]) -> None:
        """`kill -9` of a command or program that was begun and of what it started, a JVM for instance, at once: none of
        them ends in order since the other has gone."""
        self._seen |= descendants(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def start_again(self, site: Site) -> Site:
        """Start a cluster that was killed, with its data, at the addresses that it had."""
        return self.start(site.name, site.kafka, site.http.removeprefix("http://"))

    def command(self, *arguments: str) -> str:
        """Run a `fairlead` command as a user would, in the folder, and give what it printed.

        Raises:
            SiteFailed: its exit code is not 0.
        """
        done = subprocess.run(
            [FAIRLEAD, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise SiteFailed(f"fairlead {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def begin(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a `fairlead` command that goes on, in the folder; its output goes to NAME.out, errors to NAME.log."""
        return self.begin_program(name, [FAIRLEAD, *arguments], self.folder)

    def begin_program(self, name: str, command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
        """Start any program that goes on, in a folder; its output goes where that of a command goes."""
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                cwd=folder,
                env=self._environment,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def check_running(self) -> None:
        """Raises `SiteFailed` if a cluster has ended by itself."""
        for site in self._sites:
            if site.process.poll() is not None:
                raise SiteFailed(f"cluster {site.name} ended:\n{tail(self.folder / f'{site.name}.log')}")

    def stop(self) -> list[int]:
        """Stop everything; pids of processes that had to be killed, or that were left behind by those that ended."""
        self._seen |= {pid for process in self._started for pid in descendants(process.pid)}
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + END_SECONDS
        for process in self._started:
            try:
                process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                self._seen.add(process.pid)
        return self._kill_left_over()

    def _kill_left_over(self) -> list[int]:
        """What a cluster started ends with it; only what did not is killed, by its pid."""
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline and any(map(alive, self._seen)):
            time.sleep(0.05)
        left = [pid for pid in sorted(self._seen) if alive(pid)]
        for pid in left:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.wait()
        return left


def descendants(pid: int) -> set[int]:
    """All processes that stem from this one (Linux; elsewhere none are found)."""
    children = _children()
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found.add(child)
            waiting.append(child)
    return found


def _children() -> dict[int, list[int]]:
    by_parent: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it ended while we looked
            continue
        by_parent.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    return by_parent


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def printed(arguments: Sequence[str]) -> str:
    """A command as a person would type it."""
    return " ".join(["fairlead", *arguments])
