"""Offset syncs of a source, written while it is mirrored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.books.offset_syncs import Syncs, sync_record
from fairlead.mirror.books.plain import batches_of
from fairlead.mirror.options import OffsetSyncs
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import Cluster
from fairlead.mirror.source import Source
from fairlead.model.clock import Clock

_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
_RECORDS_MAX: Final = 2_000
"""Of one batch."""


async def write_syncs(
    source: Source, destination: Cluster, aliases: Aliases, asked: OffsetSyncs, clock: Clock, seconds: float
) -> None:
    """Write what is due again and again, until it is cancelled.

    Raises:
        BadRequest: the topic cannot be made or written.
    """
    cluster = source.cluster if asked.at_source else destination
    topic = aliases.offset_syncs_at_source if asked.at_source else aliases.offset_syncs_at_target
    if topic not in await insisting(partial(cluster.topics, [topic])):
        await insisting(partial(cluster.create, topic, 1, _CONFIGS, asked.replication))
    sender = await insisting(partial(cluster.sender, None))
    syncs, now = Syncs(asked.lag_max), asyncio.get_running_loop().time
    try:
        while True:
            positions = [(part, standing.position) for part, standing in source.copies.items()]
            due = syncs.due(positions, now())
            for first in range(0, len(due), _RECORDS_MAX):
                some = due[first : first + _RECORDS_MAX]
                records = [sync_record(part.topic, part.partition, sync) for part, sync in some]
                for batch in batches_of(records, clock.wall_ms()):
                    await sender.send(topic, 0, batch)
                syncs.written(some, now())
            await asyncio.sleep(seconds)
    finally:
        await sender.close()
