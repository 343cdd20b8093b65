"""A cluster with its Kafka listeners in a thread of its own, for tests that use real clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fairlead.broker.server import KafkaServer
from fairlead.cluster.cluster import Cluster
from fairlead.model.clock import Clock, SystemClock, SystemRandomness
from fairlead.model.settings import Settings
from fairlead.process.loop import ServerLoop
from fairlead.storage.interface import Storage
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.shard import Shard
from tests.support.ports import free_ports
from tests.support.waiting import WAIT_SECONDS

T = TypeVar("T")


class RunningBroker:
    """A broker that runs. `call` runs a coroutine of its loop and waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: Cluster, server: KafkaServer) -> None:
        self.loop = loop
        self.cluster = cluster
        self.server = server

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the main listener."""
        return self.server.address

    @property
    def bootstrap(self) -> str:
        """What a client's `bootstrap.servers` takes."""
        return "{}:{}".format(*self.address)

    def call(self, coroutine: Coroutine[Any, Any, T], timeout_seconds: float = WAIT_SECONDS) -> T:
        """Run a coroutine on the broker's loop; its result or error."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout_seconds)

    def submit(self, shard: Shard, request: DraftRequest[T]) -> T:
        """Let a request add its rows to a shard's next commit; its answer or error."""

        async def submitted() -> T:
            return await shard.submit(request)

        return self.call(submitted())

    def do(self, function: Callable[[], T]) -> T:
        """Run a function on the broker's loop; its result or error."""

        async def run() -> T:
            return function()

        return self.call(run())

    def expose(self, path: str) -> str:
        """Bootstrap address of a listener for one stream."""
        (port,) = free_ports(1)
        return "{}:{}".format(*self.call(self.server.start("127.0.0.1", port, path)))


@contextmanager
def run_broker(
    data: Path | Storage,
    *,
    name: str = "testcluster",
    settings: Settings | None = None,
    clock: Clock | None = None,
    port: int | None = None,
) -> Iterator[RunningBroker]:
    """Run a broker on a directory or storage until the block ends; where no port is named it takes a free one."""
    started: Future[RunningBroker] = Future()
    ending = threading.Event()
    storage = LocalStorage(data) if isinstance(data, Path) else data
    (taken,) = free_ports(1) if port is None else (port,)
    body = _serve(storage, name, settings or Settings(), clock or SystemClock(), taken, started, ending)
    thread = threading.Thread(target=_run, args=(body, started), name="broker")
    thread.start()
    try:
        yield started.result(WAIT_SECONDS)
    finally:
        ending.set()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive(), "the broker did not stop"


@pytest.fixture
def running_broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker on a fresh directory, for one test; a `conftest.py` that imports it offers it."""
    with run_broker(tmp_path / "data") as broker:
        yield broker


def _run(body: Coroutine[Any, Any, None], started: Future[RunningBroker]) -> None:
    try:
        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            runner.run(body)
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)


async def _serve(
    storage: Storage,
    name: str,
    settings: Settings,
    clock: Clock,
    port: int,
    started: Future[RunningBroker],
    ending: threading.Event,
) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(4, "storage") as executor:
        cluster = await Cluster.open(
            storage, name=name, settings=settings, clock=clock, randomness=SystemRandomness(), executor=executor
        )
        server = KafkaServer(cluster)
        await server.start("127.0.0.1", port)
        started.set_result(RunningBroker(loop, cluster, server))
        await loop.run_in_executor(None, ending.wait)
        await server.close()
        await cluster.close()
