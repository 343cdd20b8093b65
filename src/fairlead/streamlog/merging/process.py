"""The merging process and the server's end of its pipe.

`python -m fairlead.streamlog.merging.process` reads jobs as JSON lines from stdin and answers each with a line on
stdout. It is spawned, not forked, so it inherits no lock and no socket; it ends when stdin closes, which also happens
when the server is killed (S14). It only writes objects that nobody reads until the writer's manifest names them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fairlead.model.clock import SystemRandomness
from fairlead.model.errors import Closed, Damaged, FairleadError, Missing, StorageFull, StorageUnavailable
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.job import (
    MergeJob,
    MergeResult,
    job_from_json,
    job_to_json,
    result_from_json,
    result_to_json,
)

LINE_BYTES_MAX: Final = 1 << 30
NICENESS: Final = 5


class MergerProcess:
    """Runs merge jobs in a process of its own, one at a time; starts it when the first job comes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self, job: MergeJob) -> MergeResult:
        """Do a job.

        Raises:
            Damaged, StorageFull: as the job met them.
            StorageUnavailable: so too, or the process died; the next job starts another.
            Closed: `close` was called.
        """
        async with self._turn:
            answer = await self._ask({"root": str(self._root), "job": job_to_json(job)})
        if "error" in answer:
            raise _error_from(answer["error"])
        return result_from_json(answer["result"])

    async def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(question, separators=(",", ":")).encode() + b"\n")
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
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _running(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise Closed("merging has been stopped")
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "fairlead.streamlog.merging.process",
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
        """End the process, in the middle of a job too: what it wrote is not named by any manifest."""
        self._closed = True
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


@lru_cache(maxsize=1)
def _opened(root: str) -> LocalStorage:
    """The same for all jobs: it remembers what lies in packs."""
    return LocalStorage(Path(root))


def answer(line: bytes) -> dict[str, Any]:
    """The answer to one line."""
    try:
        question = json.loads(line)
        job = job_from_json(question["job"])
        storage = _opened(question["root"])
        return {"result": result_to_json(run_job.run(storage, SystemRandomness(), job))}
    except FairleadError as error:
        return {"error": _error_to(error)}
    except MemoryError:
        return {"error": _error_to(StorageUnavailable("merging: out of memory; it is tried again later"))}


def _error_to(error: FairleadError) -> dict[str, Any]:
    if isinstance(error, Missing):
        return {"kind": "missing", "name": error.name}
    if isinstance(error, Damaged):
        return {"kind": "damaged", "name": error.name, "why": error.why}
    if isinstance(error, StorageFull):
        return {"kind": "full", "free": error.free_bytes, "reserve": error.reserve_bytes}
    return {"kind": "unavailable", "message": str(error)}


def _error_from(fields: Mapping[str, Any]) -> FairleadError:
    if fields["kind"] == "missing":
        return Missing(fields["name"])
    if fields["kind"] == "damaged":
        return Damaged(fields["name"], fields["why"])
    if fields["kind"] == "full":
        return StorageFull("merging", fields["free"], fields["reserve"])
    return StorageUnavailable(fields["message"])


def main() -> None:
    """Answer lines until stdin closes."""
    os.nice(NICENESS)
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints cannot break the pipe
    with os.fdopen(output, "wb") as pipe:
        for line in sys.stdin.buffer:
            pipe.write(json.dumps(answer(line), separators=(",", ":")).encode() + b"\n")
            pipe.flush()


if __name__ == "__main__":
    main()
