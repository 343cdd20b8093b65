"""One task of the replicator without Spark: its reader and its sink, with the handover between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairlead.replication.carried.objects import OpenObjects, open_directory
from fairlead.replication.reader.task import ReaderSettings, ReaderTask
from fairlead.replication.sink.task import SinkTask
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet
from tests.gateway.rig import Site


@asynccontextmanager
async def task(
    site: Site,
    name: str = "t",
    keep: Callable[[Packet], bool] = lambda frame: True,
    sinks: list[SinkTask] | None = None,
    open_objects: OpenObjects = open_directory,
) -> AsyncIterator[None]:
    """A reader and a sink; frames that `keep` refuses are lost between them. The sink is added to `sinks`. The reader
    reads what `open_objects` opens."""
    handover: Handover[Packet] = Handover(64_000_000)
    reader = ReaderTask(site.url, name, ReaderSettings(), handover, open_objects, secret_file=site.secret_file)
    sink = SinkTask(site.url, name, secret_file=site.secret_file)
    if sinks is not None:
        sinks.append(sink)

    async def carry() -> None:
        while not handover.ended:
            frames = await asyncio.to_thread(handover.take_some, 0.05, 0)
            sink.offer(*filter(keep, frames))

    tasks = [asyncio.ensure_future(work) for work in (reader.run(), sink.run(), carry())]
    try:
        yield
    finally:
        for each in tasks[:2]:
            each.cancel()
        handover.close()  # a reader that had no time to begin does not
        await asyncio.gather(*tasks, return_exceptions=True)
        await sink.finish(0)
