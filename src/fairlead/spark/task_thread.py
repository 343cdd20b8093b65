"""An asyncio program in a thread of its own, beside the thread that Spark drives."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

_STOP_SECONDS = 3.0

log = structlog.get_logger("fairlead.spark")


def worker_name() -> str:
    """The name by which the source server knows this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


class TaskThread:
    """Runs `program()` until it ends or `stop` cancels it."""

    def __init__(self, name: str, program: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._program = program
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._started.wait()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call `function` on the program's loop, soon; nothing happens if the program has ended."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` on the program's loop and wait for its end."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Cancel the program and wait for its end, for a short time: a disk that hangs must not hold up a round."""
        if self._task is not None:
            self.call(self._task.cancel)
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:
            log.exception("task ended", task=self._thread.name)
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(self._program())
        self._started.set()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()
