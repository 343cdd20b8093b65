"""The merging process and the server's end of its pipe.

`python -m fairlead.streamlog.merging.process DIR` reads jobs as JSON lines from stdin and answers each with a line on
stdout. It is spawned, not forked, so it inherits no lock and no socket; it ends when stdin closes, which also happens
when the server is killed (S14). It only writes objects that nobody reads until the writer's manifest names them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from fairlead.model.clock import SystemRandomness
from fairlead.model.errors import Closed, FairleadError, StorageUnavailable
from fairlead.process.logs import configure_logs_as_told
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.job import ANSWER, JOB, MergeFailure, MergeJob, MergeResult

LINE_BYTES_MAX: Final = 1 << 30
"""Longest answer line that the server reads from the pipe."""
NICENESS: Final = 5
"""The merging process has a lower priority than the server, which answers clients."""


class MergerProcess:
    """Runs merge jobs in a process of its own, one at a time; starts it when the first job comes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process's id; None while there is no process."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self, job: MergeJob) -> MergeResult:
        """Do a job.

        Raises:
            Damaged, StorageFull: as the job met them.
            StorageUnavailable: as the job met it, or the process died; the next job starts another.
            Closed: `close` was called.
        """
        question = await asyncio.to_thread(JOB.write, job)  # the histories in it are put in order there
        async with self._turn:
            answer = ANSWER.read(await self._ask(question))
        if isinstance(answer, MergeFailure):
            raise answer.error()
        return answer

    async def _ask(self, question: bytes) -> bytes:
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(question + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
        except asyncio.CancelledError:
            await self._kill()  # its answer would be taken for that of the next job
            raise
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            await self._kill()
            if self._closed:
                raise Closed("merging has been stopped")
            raise StorageUnavailable(f"the merging process ended without an answer (exit code {process.returncode})")
        return line

    async def _running(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise Closed("merging has been stopped")
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "fairlead.streamlog.merging.process",
                str(self._root),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                close_fds=True,
                start_new_session=True,  # Ctrl-C in the server's terminal is the server's; it then closes our stdin
                limit=LINE_BYTES_MAX,
            )
        return self._process

    async def _kill(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        self._process = None

    async def close(self) -> None:
        """End the process, even in the middle of a job: no manifest names what it wrote."""
        self._closed = True
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


@lru_cache(maxsize=1)
def _opened(root: str) -> LocalStorage:
    """The storage, one for all jobs: it remembers what lies in packs."""
    return LocalStorage(Path(root))


def _answer(root: str, line: bytes) -> MergeResult | MergeFailure:
    try:
        return run_job.run(_opened(root), SystemRandomness(), JOB.read(line))
    except FairleadError as error:
        return MergeFailure.of(error)
    except MemoryError:
        return MergeFailure.of(StorageUnavailable("merging: out of memory; it is tried again later"))


def main() -> None:
    """Answer jobs until stdin closes, or nobody is there for an answer."""
    os.nice(NICENESS)
    configure_logs_as_told(os.environ)
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints cannot break the pipe
    with suppress(BrokenPipeError), os.fdopen(output, "wb") as pipe:
        for line in sys.stdin.buffer:
            pipe.write(ANSWER.write(_answer(sys.argv[1], line)) + b"\n")
            pipe.flush()


if __name__ == "__main__":
    main()
