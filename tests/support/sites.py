"""Whole clusters as processes, `fairlead up`, for tests that kill them; every process is known by its own pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_ports
from tests.support.waiting import WAIT_SECONDS, wait_until

GONE = (FileNotFoundError, ProcessLookupError)
"""What a look into /proc raises once the process, or the thread, has ended."""
_WORKER = "fairlead.replication.spark.worker_daemon pyspark.worker"


class Site:
    """One cluster: its processes, its addresses, its admin interface."""

    def __init__(self, name: str, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.name = name
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self._ready = folder / f"{name}.ready"
        self._environment = {
            **os.environ,
            "FAIRLEAD_CLUSTERS": str(folder / "clusters.toml"),
            **{f"FAIRLEAD_{key.upper()}": value for key, value in (settings or {}).items()},
        }
        self._kafka, self._http = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.advertised: str | None = None
        """Where Kafka's clients are sent, if not to `kafka`; of the next start."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def kafka(self) -> str:
        """Bootstrap address, the same after each start."""
        return self._kafka

    @property
    def url(self) -> str:
        return f"http://{self._http}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def forget_ports(self) -> None:
        """The next start is at any free ports."""
        self._kafka = self._http = "127.0.0.1:0"

    def start(self, command: str = "up") -> None:
        """Start the cluster, at the addresses that it had before; return when it answers."""
        self._ready.unlink(missing_ok=True)
        arguments = [
            *(sys.executable, "-m", "fairlead.cli.main", command),
            *("--name", self.name, "--data", str(self.data), "--kafka", self._kafka, "--http", self._http),
            *("--ready-file", str(self._ready)),
            *([] if self.advertised is None else ["--advertise", self.advertised]),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        wait_until(self._is_ready, f"{self.name} is up; see {self.log}")
        ready = json.loads(self._ready.read_text())
        self._http = ready["http"].removeprefix("http://")
        if self.advertised is None:
            self._kafka = ready["kafka"]

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.log.read_text()[-2000:]}")
        return self._ready.exists() and self._ready.read_text().endswith("}")

    def kill(self) -> None:
        """`kill -9` of the server, in the middle of whatever it does; its replicator ends with it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """End the cluster cleanly, if it runs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._process = None

    def ended(self) -> int:
        """Wait until the server has ended by itself; its exit code."""
        assert self._process is not None
        return self._process.wait(WAIT_SECONDS)

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one command of `fairlead` in this site's address book."""
        done = subprocess.run(
            [sys.executable, "-m", "fairlead.cli.main", *arguments],
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"fairlead {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done

    def replica_status(self, path: str) -> list[dict[str, Any]]:
        """What `stream replica list` says of a source stream here."""
        answer = httpx.get(f"{self.url}/rest/stream/replica/list", params={"path": path}, timeout=WAIT_SECONDS)
        data: list[dict[str, Any]] = answer.json()["data"]
        return data

    def in_sync(self, path: str) -> bool:
        """All that was acknowledged before this call is at every replica of the stream."""
        rows = self.replica_status(path)
        return bool(rows) and all(row["isUptodate"] and row["putsPending"] == 0 for row in rows)

    def replicator_pid(self) -> int | None:
        """The replicator of this cluster, while it runs."""
        return next((pid for pid in children(self.pid) if "-m fairlead.replication " in command_of(pid)), None)

    def kill_replicator(self) -> None:
        """`kill -9`, if it runs; `fairlead up` starts another."""
        pid = self.replicator_pid()
        if pid is not None:
            kill_pid(pid)

    def spark_worker_pids(self) -> list[int]:
        """The Python processes that run tasks of this cluster's replicator: forks of Spark's daemon."""
        replicator = self.replicator_pid()
        if replicator is None:
            return []
        found = []
        for daemon in descendants(replicator):
            if command_of(daemon).endswith(_WORKER):
                found += [pid for pid in children(daemon) if command_of(pid).endswith(_WORKER)]
        return found


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found: list[int] = []
    with suppress(*GONE):
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            with suppress(*GONE):
                found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int) -> Iterator[int]:
    """Children, their children, and so on."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def command_of(pid: int) -> str:
    """Command line of a process, empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except GONE:
        return ""


def java_of(pid: int) -> int | None:
    """The JVM that a process has started; what that starts in its turn is called as it is for a moment."""
    return next((child for child in children(pid) if "java" in command_of(child).split(" ")[0]), None)


def kill_pid(pid: int) -> None:
    """`kill -9` of one process; nothing if it has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def sites(
    folder: Path, *names: str, settings: dict[str, str] | None = None, command: str = "up"
) -> Iterator[list[Site]]:
    """Clusters that know of each other, started; all stopped at the end."""
    started = [Site(name, folder, settings) for name in names]
    try:
        for site in started:
            site.start(command)
        yield started
    finally:
        for site in started:
            site.stop()
