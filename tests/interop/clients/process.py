"""Clients that are programs: run to their end, or run in the background while their output is read line by line."""

from __future__ import annotations

import signal
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Sequence

from tests.interop.clients.base import Member
from tests.support.waiting import WAIT_SECONDS


def run(command: Sequence[str], given: bytes = b"", deadline_seconds: float = WAIT_SECONDS) -> str:
    """What the program writes to its standard output.

    Raises:
        AssertionError: it failed; the message has its standard error.
        subprocess.TimeoutExpired: it did not end in time; it is killed.
    """
    done = subprocess.run(command, input=given, capture_output=True, timeout=deadline_seconds, check=False)
    assert done.returncode == 0, (
        f"{command[0]}: exit {done.returncode}: {(done.stderr or done.stdout).decode()[-2000:]}"
    )
    return done.stdout.decode()


class ProcessMember(Member):
    """A member that is a program; every line it writes is given to `_line`."""

    def __init__(self, command: Sequence[str], stop_signal: signal.Signals = signal.SIGTERM) -> None:
        super().__init__()
        self.output: list[str] = []
        self._stop_signal = stop_signal
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        return None if self._process.poll() is None else "\n".join(self.output[-20:])

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(WAIT_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._thread.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.output.append(line.decode().rstrip("\n"))
                self._line(self.output[-1])

    @abstractmethod
    def _line(self, line: str) -> None:
        """Note values and assignment."""
