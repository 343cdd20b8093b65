"""The merging process: does jobs, reports failures, ends with its server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.rows import batch_row
from tests.support.waiting import until

from fairlead.model.errors import Closed, Missing, StorageUnavailable
from fairlead.storage import names
from fairlead.storage.local import LocalStorage
from fairlead.storage.lock import lock_directory
from fairlead.streamlog.merging.job import JOB, MergeJob
from fairlead.streamlog.merging.process import MergerProcess
from fairlead.streamlog.objects import format
from fairlead.streamlog.objects.manifest import CommitRange


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "data")


def job(storage: LocalStorage, number: int = 0) -> MergeJob:
    """A job for one commit of a few rows."""
    name = names.commit("meta", 1, number)
    storage.put_if_absent(name, format.encode([batch_row(n, commit=number, row=n) for n in range(5)], name=name))
    commits = (CommitRange(1, number, number + 1),)
    return MergeJob("meta", b"s" * 16, number, number + 1, (), planned_at=1, commits=commits, make_checkpoint=True)


async def test_a_job_is_done_in_another_process(storage: LocalStorage) -> None:
    """Which stays for the next one."""
    merger = MergerProcess(storage.root)
    try:
        results = await asyncio.gather(*(merger.run(job(storage, number)) for number in range(3)))
        pid = merger.pid
        assert pid not in {None, os.getpid()}
        for number, result in enumerate(results):
            assert (result.first, result.end, result.removed) == (number, number + 1, ())
            columns = format.read_whole(storage.get(result.added[0].name), result.added[0].name)
            assert sorted(columns.topic.tolist()) == list(range(5))
            assert result.checkpoint is not None
            assert storage.size(result.checkpoint.name)
    finally:
        await merger.close()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    """Also one that is no text."""
    storage = LocalStorage(tmp_path / "fl\u00f6te \udcff")
    merger = MergerProcess(storage.root)
    try:
        assert (await merger.run(job(storage))).added
    finally:
        await merger.close()


async def test_a_failure_is_told_as_it_was_met(storage: LocalStorage) -> None:
    """By name; and the process goes on."""
    merger = MergerProcess(storage.root)
    try:
        broken = job(storage)
        gone = names.commit("meta", 1, 0)
        storage.delete(gone)
        with pytest.raises(Missing, match=f"{gone}: the object is missing"):
            await merger.run(broken)
        assert (await merger.run(job(storage, 1))).added
    finally:
        await merger.close()


async def test_a_process_that_dies_is_replaced(storage: LocalStorage) -> None:
    """The job it had fails."""
    merger = MergerProcess(storage.root)
    try:
        await merger.run(job(storage))
        assert merger.pid is not None
        first = merger.pid
        os.kill(first, signal.SIGSTOP)
        waiting = asyncio.create_task(merger.run(job(storage, 1)))
        await until(merger._turn.locked)  # noqa: SLF001 - from then on it has the job
        os.kill(first, signal.SIGKILL)
        with pytest.raises(StorageUnavailable, match="ended without an answer"):
            await waiting
        assert (await merger.run(job(storage, 2))).added
        assert merger.pid != first
    finally:
        await merger.close()


async def test_a_cancelled_job_leaves_no_answer_for_the_next(storage: LocalStorage) -> None:
    """Its process is ended."""
    merger = MergerProcess(storage.root)
    try:
        await merger.run(job(storage))
        assert merger.pid is not None
        os.kill(merger.pid, signal.SIGSTOP)  # so that it does not answer before it is cancelled
        waiting = asyncio.create_task(merger.run(job(storage, 1)))
        await until(merger._turn.locked)  # noqa: SLF001 - from then on it has the job
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await merger.run(job(storage, 2))).first == 2
    finally:
        await merger.close()


async def test_a_closed_merger_does_nothing_more(storage: LocalStorage) -> None:
    """Also if it never did anything."""
    merger = MergerProcess(storage.root)
    await merger.close()
    await merger.close()
    with pytest.raises(Closed):
        await merger.run(job(storage))


SERVER = """
import asyncio, pathlib, sys
from fairlead.storage.lock import lock_directory
from fairlead.streamlog.merging.process import MergerProcess

async def main():
    held = lock_directory(pathlib.Path(sys.argv[1]))
    merger = MergerProcess(pathlib.Path(sys.argv[1]))
    await merger._running()
    print(merger.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_it_ends_when_its_server_is_killed_and_holds_no_lock(tmp_path: Path) -> None:
    """S14: a merger that outlived its server would keep the new one out."""
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE)
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    descriptor = os.pidfd_open(pid)
    server.kill()
    server.communicate()
    lock_directory(tmp_path).close()
    try:
        import select

        assert select.select([descriptor], [], [], 20)[0], "the merging process still runs"
    finally:
        os.close(descriptor)


def test_nobody_is_told_of_a_job_whose_server_was_killed_meanwhile(storage: LocalStorage) -> None:
    """The console of the next server showed two tracebacks of the pipe."""
    line = JOB.write(job(storage)) + b"\n"
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "fairlead.streamlog.merging.process", str(storage.root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    os.close(reader)
    _, errors = process.communicate(line)
    assert (process.returncode, errors) == (0, b"")
