"""One flow of the process: its clusters opened, its mirror run, its end told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial

from fairlead.kafka import Cluster, ConsumerSettings
from fairlead.mirror.carrying.engine import Engine
from fairlead.mirror.clusters import KafkaCluster
from fairlead.mirror.patience import insisting, told_if_slow
from fairlead.mirror.report import Say
from fairlead.mirror.running.mirror import Mirror, Upstream
from fairlead.mirror.told.files import Flow
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import FairleadError
from fairlead.model.shown import few


class Flowing:
    """A flow that runs, or waits for its destination."""

    def __init__(self, flow: Flow, say: Say, engine: Engine) -> None:
        self.flow = flow
        self.mirror: Mirror | None = None
        """None: its destination has not answered yet."""
        self.paused = False
        self.ended = False
        self.failed: str | None = None
        """Why it has ended, if it is not as it should."""
        self._say = say
        self._engine = engine
        self._told_to_stop = asyncio.Event()

    @property
    def label(self) -> str:
        """For people."""
        return self.flow.label

    @property
    def name(self) -> str:
        """Of the mirror."""
        return self.flow.name

    def stop(self) -> None:
        """End in order."""
        self._told_to_stop.set()
        if self.mirror is not None:
            self.mirror.stop()

    def pause(self, paused: bool) -> None:
        """Mirror nothing until it is told to go on."""
        self.paused = paused
        if self.mirror is not None:
            self.mirror.pause(paused)

    @property
    def was_cut_off(self) -> bool:
        """Whether it was to come to an end by itself, and did not."""
        ends = self.flow.options.once or self.flow.options.dry_run
        return ends and not (self.mirror is not None and self.mirror.finished)

    async def run(self) -> None:
        """Until it is told to stop, or has done what it was to do. Raises: as `Mirror.run`."""
        try:
            await self._run()
        except FairleadError as error:
            self.failed = str(error)
            raise
        finally:
            self.ended = True

    async def _run(self) -> None:
        destination = await self._unless_stopped(self._destination())
        if destination is None:
            return
        flow = self.flow
        upstreams = [
            Upstream(label, partial(_source, settings), settings.group_id, flow.options.aliases(number))
            for number, (label, settings) in enumerate(flow.sources)
        ]
        clock, randomness = SystemClock(), SystemRandomness()
        self.mirror = Mirror(
            *(flow.options, flow.name, upstreams, destination, clock, randomness),
            *(self._say, flow.paces, self._engine),
        )
        self.mirror.pause(self.paused)
        await self.mirror.run()

    async def _destination(self) -> KafkaCluster:
        """A mirror that runs for ever waits for what is away; one that ends does not."""
        flow = self.flow

        def open_it() -> Awaitable[Cluster]:
            return Cluster.open(flow.destination.client)

        if flow.options.once or flow.options.dry_run:
            opening = open_it()
        else:
            opening = insisting(open_it, lambda error: self._say(f"the destination is away: {error}"))
        brokers = few([str(address) for address in flow.destination.client.bootstrap])
        cluster = await told_if_slow(opening, lambda: self._say(f"waits for the destination, {brokers}"))
        return KafkaCluster(cluster, producing=flow.destination.produce, connections=flow.options.producers)

    async def _unless_stopped(self, opening: Awaitable[KafkaCluster]) -> KafkaCluster | None:
        task = asyncio.ensure_future(opening)
        told = asyncio.create_task(self._told_to_stop.wait())
        try:
            await asyncio.wait((task, told), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for each in (task, told):
                each.cancel()
            await asyncio.gather(task, told, return_exceptions=True)


async def _source(settings: ConsumerSettings) -> KafkaCluster:
    return KafkaCluster(await Cluster.open(settings.client), fetching=settings.fetch)
