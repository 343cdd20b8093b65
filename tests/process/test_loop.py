"""The server's loop and its threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from tests.support.waiting import WAIT_SECONDS

from fairlead.process.loop import ServerLoop


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        yield runner


def test_what_a_thread_returns_or_raises_comes_to_the_loop(runner: asyncio.Runner) -> None:
    """Also without an executor, as asyncio's own name look-ups ask for it."""

    async def asked() -> tuple[list[tuple[int, int]], int]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:
            made = [await loop.run_in_executor(executor, divmod, 7, 2) for executor in (threads, None)]
            with pytest.raises(ZeroDivisionError):
                await loop.run_in_executor(threads, divmod, 7, 0)
            return made, await loop.run_in_executor(threads, threading.get_ident)

    made, thread = runner.run(asked())
    assert made == [(3, 1), (3, 1)]
    assert thread != threading.get_ident()


def test_a_call_that_nobody_waits_for_any_more_is_dropped(runner: asyncio.Runner) -> None:
    """A client that goes away leaves no reads of its own behind in the queue of the threads; one that is under way
    goes on, and its end is nobody's."""
    called: list[str] = []
    free = threading.Event()

    async def asked() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:
            busy = loop.run_in_executor(threads, free.wait, WAIT_SECONDS)
            given_up = loop.run_in_executor(threads, called.append, "given up")
            kept = loop.run_in_executor(threads, called.append, "kept")
            given_up.cancel()
            busy.cancel()
            free.set()
            await kept

    runner.run(asked())
    assert called == ["kept"]


def test_a_call_that_failed_keeps_nothing_alive(runner: asyncio.Runner) -> None:
    """A refused request would stay in memory, by the frames of its own error, until a rare full collection."""

    class Request:
        def fail(self) -> None:
            raise ValueError

    async def asked() -> bool:
        with ThreadPoolExecutor(1) as threads:
            request = Request()
            kept = weakref.ref(request)
            with suppress(ValueError):
                await asyncio.get_running_loop().run_in_executor(threads, request.fail)
            del request
            await asyncio.get_running_loop().run_in_executor(threads, int)  # the thread is done with the call before
        return kept() is not None

    gc.disable()
    try:
        assert not runner.run(asked())
    finally:
        gc.enable()


def test_a_thread_that_ends_after_the_loop_is_no_error() -> None:
    """A server that is stopped does not wait for every read."""
    free = threading.Event()
    loop = ServerLoop()
    with ThreadPoolExecutor(1) as threads:
        left = loop.run_in_executor(threads, free.wait, WAIT_SECONDS)
        loop.close()
        free.set()
        threads.submit(lambda: None).result(WAIT_SECONDS)
    assert not left.done()
