"""Workers without Spark: the reader and the sink of each, joined in this loop. What fails is started again, as Spark
would; rows are packed and read as they would be between processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from fairlead.mirror.carrying.engine import Run, Way
from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.ports import Cluster
from fairlead.mirror.workers.coordinator import Coordinator
from fairlead.mirror.workers.engine import WorkersEngine
from fairlead.mirror.workers.messages import Hello, Opening, Setup
from fairlead.mirror.workers.reader import Reader
from fairlead.mirror.workers.remote import RemoteCarrier
from fairlead.mirror.workers.rows import row_of
from fairlead.mirror.workers.sink import Sink
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet
from tests.mirror.fake import FakeCluster
from tests.support.waiting import WAIT_SECONDS


class Direct(Handover[Packet]):
    """Hands packets to a sink in the same loop."""

    def __init__(self, sink: Sink, kinds: Counter[str]) -> None:
        super().__init__(1)
        self._sink = sink
        self._kinds = kinds

    async def put(self, item: Packet, size_bytes: int) -> None:
        self._kinds[type(row_of(item)).__name__] += 1
        self._sink.offer(item)


class OpensFakes:
    """Clusters of a test, by label."""

    def __init__(self, sources: Mapping[str, FakeCluster], destination: FakeCluster) -> None:
        self._sources = sources
        self._destination = destination

    async def source(self, opening: Opening) -> Cluster:
        return await self._sources[opening.label].opened()

    async def destination(self, opening: Opening, connections: int) -> Cluster:
        return await self._destination.opened()


class Attempt:
    """One attempt at a worker's task."""

    def __init__(self, address: str, secret_file: str, hello: Hello, opens: OpensFakes, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self.kinds: Counter[str] = Counter()
        """Rows, by their kind."""
        self.sink = Sink(address, secret_file, hello, opens)
        self.reader = Reader(address, secret_file, hello, opens, Direct(self.sink, self.kinds))
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def kill(self, side: str) -> None:
        """End the reader or the sink, as if its process had died."""
        self._tasks[side].cancel()

    async def run(self) -> None:
        """Until the reader ends, or either fails."""
        sink = self._tasks["sink"] = asyncio.create_task(self.sink.run())
        reader = self._tasks["reader"] = asyncio.create_task(self.reader.run())
        try:
            await asyncio.wait((reader, sink), return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and not reader.cancelled() and not reader.exception():
                await self.sink.finish(self._grace_seconds)
        finally:
            reader.cancel()
            await self.sink.finish(0)
            await asyncio.gather(reader, sink, return_exceptions=True)


class JoinedEngine:
    """An engine of workers in this loop."""

    sends_here = False

    def __init__(
        self, name: str, options: MirrorOptions, sources: Sequence[FakeCluster], destination: FakeCluster, folder: Path
    ) -> None:
        self._name = name
        self._options = options
        self._opens = OpensFakes({each.id: each for each in sources}, destination)
        self._sources = tuple(Opening(each.id, each.id, {}) for each in sources)
        self._folder = folder
        self._engine: WorkersEngine | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._attempts = count()
        self.attempts: dict[int, Attempt] = {}
        """Those that run, by worker."""
        self.grace_seconds = WAIT_SECONDS
        """How long a worker that ends in order waits for acknowledgements."""

    async def open(self, run: Run) -> None:
        secret = b"5e" * 16
        file = self._folder / "secret"
        file.write_text(secret.hex())
        workers = min(self._options.streams, 16)
        coordinator = Coordinator(workers, secret.hex())
        address = await coordinator.open()
        self._engine = WorkersEngine(coordinator, self._setup, _for_ever)
        await self._engine.open(run)
        self._tasks = [asyncio.create_task(self._task(number, address, str(file))) for number in range(workers)]

    def _setup(self, destination_id: str) -> Setup:
        return Setup(
            sources=self._sources,
            destination=Opening("", "", {}),
            destination_id=destination_id,
            connections=1,
            queue_records=self._options.queue_records,
            handler=self._options.handler_name,
            handler_args=self._options.handler_args,
            transactions=self._name if self._options.exactly_once else None,
        )

    async def _task(self, worker: int, address: str, file: str) -> None:
        while True:
            hello = Hello(worker, next(self._attempts), 0)
            attempt = self.attempts[worker] = Attempt(address, file, hello, self._opens, self.grace_seconds)
            await attempt.run()
            await asyncio.sleep(0.01)

    def carrier(self, way: Way) -> RemoteCarrier:
        assert self._engine is not None
        return self._engine.carrier(way)

    def work(self) -> Sequence[Coroutine[Any, Any, None]]:
        assert self._engine is not None
        return list(self._engine.work())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()


async def _for_ever() -> None:
    await asyncio.Event().wait()
