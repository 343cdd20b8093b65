"""A worker's clusters: opened by the property files that the coordinator has read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from fairlead import kafka
from fairlead.kafka.configuration.clients import consumer_settings, producer_settings
from fairlead.mirror.clusters import KafkaCluster
from fairlead.mirror.patience import PAUSE_SECONDS
from fairlead.mirror.ports import Cluster
from fairlead.mirror.workers.messages import Opening
from fairlead.model.errors import FairleadError


class Opens(Protocol):
    """How a worker opens clusters; tests open others. Raises: TryAgain."""

    async def source(self, opening: Opening) -> Cluster: ...

    async def destination(self, opening: Opening, connections: int) -> Cluster: ...


class OpensKafka:
    """Over `fairlead.kafka`. What is worth a warning in the files was told by the coordinator."""

    async def source(self, opening: Opening) -> Cluster:
        file = None if opening.file is None else Path(opening.file)
        settings = consumer_settings(opening.properties, opening.label, file).settings
        return KafkaCluster(await kafka.Cluster.open(settings.client), fetching=settings.fetch)

    async def destination(self, opening: Opening, connections: int) -> Cluster:
        file = None if opening.file is None else Path(opening.file)
        settings = producer_settings(opening.properties, opening.label, file).settings
        cluster = await kafka.Cluster.open(settings.client)
        return KafkaCluster(cluster, producing=settings.produce, connections=connections)


async def opened(open_it: Callable[[], Awaitable[Cluster]], told: Callable[[str | None], None]) -> Cluster:
    """A cluster, once it lets itself be opened; `told` hears why it does not, and None once it has.

    The coordinator has opened it before, so also a refusal is waited for: it keeps the partitions of one source.
    """
    while True:
        try:
            cluster = await open_it()
        except FairleadError as error:
            told(str(error))
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            told(None)
            return cluster
