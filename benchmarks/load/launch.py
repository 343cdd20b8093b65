"""Starts the client programs and opens their gate at the same moment."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[2]
_ARGUMENT_BYTES_MAX = 100_000
"""Linux takes 128 KiB in one argument."""


class ClientFailed(Exception):
    """A client program ended with an error; its line says which."""


@dataclass
class Client:
    """A client program that was started; it runs once the gate opens."""

    name: str
    process: subprocess.Popen[str]
    errors: IO[str]
    is_ready: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self) -> None:
        """Return once the program is connected and prepared.

        Raises:
            ClientFailed: it ended instead.
        """
        assert self.process.stdout is not None
        if self.is_ready:
            return
        if self.process.stdout.readline() != "ready\n":
            raise self._failure()
        self.is_ready = True

    def open_gate(self) -> None:
        """Let it run."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def figures(self, deadline_seconds: float | None = None) -> dict[str, Any]:
        """Wait for its end.

        Raises:
            ClientFailed: it ended with an error.
            subprocess.TimeoutExpired: it did not end in time.
        """
        out, _ = self.process.communicate(timeout=deadline_seconds)
        if self.process.returncode != 0:
            raise self._failure()
        found: dict[str, Any] = json.loads(out)
        return found

    def close(self) -> None:
        """End it, if it runs; to be called in any case."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None and not stream.closed:
                stream.close()

    def _failure(self) -> ClientFailed:
        self.process.wait(10)
        self.errors.seek(0)
        return ClientFailed(f"{self.name} ended with {self.process.returncode}: {self.errors.read().strip()[-2000:]}")


def start(name: str, arguments: dict[str, Any]) -> Client:
    """Start `benchmarks.load.<name>`; returns before it is ready, so that several prepare side by side.

    Raises:
        ValueError: the arguments are too long for a command line.
    """
    text = json.dumps(arguments)
    if len(text) > _ARGUMENT_BYTES_MAX:
        raise ValueError('arguments are too long; write many topics as {"format": "t{:06d}", "count": N}')
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the client
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.load.{name}", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        cwd=_ROOT,
    )
    return Client(name, process, errors)


def go(clients: Sequence[Client], deadline_seconds: float | None = None) -> list[dict[str, Any]]:
    """Wait until all are ready, let them run together; their figures in the same order. All have ended after it.

    Raises:
        ClientFailed: one of them failed; the others are ended.
    """
    try:
        for client in clients:
            client.wait_ready()
        for client in clients:
            client.open_gate()
        return [client.figures(deadline_seconds) for client in clients]
    finally:
        for client in clients:
            client.close()


def run(name: str, arguments: dict[str, Any], deadline_seconds: float | None = None) -> dict[str, Any]:
    """Start one program, let it run at once; its figures."""
    return go([start(name, arguments)], deadline_seconds)[0]
