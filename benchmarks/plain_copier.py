"""The replicator without Spark: reader and sink of one task joined directly, to know what Spark costs.

Not part of Fairlead. `python -m benchmarks.plain_copier --server URL --data DIR [--workers N]` runs until it is told to
end; the case `replicator` starts it where it would start the replicator.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path

from fairlead.process.control_secret import FILE
from fairlead.replication.reader.task import ReaderSettings, ReaderTask
from fairlead.replication.sink.task import SinkTask
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet


class _Direct(Handover[Packet]):
    """Hands frames to the sink in the same loop."""

    def __init__(self, sink: SinkTask) -> None:
        super().__init__(1)
        self._sink = sink

    async def put(self, item: Packet, size_bytes: int) -> None:
        self._sink.offer(item)


async def carry(server: str, secret_file: str, name: str) -> None:
    """Carry the links of a server, under that name, until it is cancelled."""
    sink = SinkTask(server, name, secret_file=secret_file)
    reader = ReaderTask(server, name, ReaderSettings(), _Direct(sink), secret_file=secret_file)
    await asyncio.gather(sink.run(), reader.run())


def _end(processes: Sequence[SpawnProcess]) -> None:
    for process in processes:
        process.terminate()


def _run(server: str, secret_file: str, name: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(carry(server, secret_file, name))


def main() -> None:
    """One process per worker, as with Spark's Python workers (which are two per task)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_run, args=(chosen.server, str(chosen.data / FILE), f"plain-{number}"), daemon=True)
        for number in range(chosen.workers)
    ]
    for process in processes:
        process.start()
    signal.signal(signal.SIGTERM, lambda *_: _end(processes))
    with suppress(KeyboardInterrupt):
        for process in processes:
            process.join()


if __name__ == "__main__":
    main()
