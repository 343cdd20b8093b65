"""MirrorMaker 2's heartbeats: records by which its tools see which clusters are mirrored to which, and how far behind.

One that is written at a source is mirrored as all else; so the topic `A.heartbeats` of a cluster says that A is
mirrored to it, and the newest record there when that worked last.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Final

from fairlead.mirror.aliases import HEARTBEATS
from fairlead.mirror.books.plain import outgoing_of
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import Cluster
from fairlead.model.clock import Clock

_VERSION: Final = 0
_LENGTH: Final = struct.Struct(">h")
_VALUE: Final = struct.Struct(">hq")
_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}


def heartbeat(source: str, target: str, at_ms: int) -> tuple[bytes, bytes]:
    """Key and value: that a flow was alive. Each text stands behind its length."""
    texts = [text.encode() for text in (source, target)]
    key = b"".join(_LENGTH.pack(len(text)) + text for text in texts)
    return key, _VALUE.pack(_VERSION, at_ms)


async def beat(cluster: Cluster, source: str, target: str, clock: Clock, seconds: float, replication: int) -> None:
    """Write a heartbeat of the flow again and again at a cluster, until it is cancelled.

    Raises:
        BadRequest: the topic cannot be made or written.
    """
    if HEARTBEATS not in await insisting(lambda: cluster.topics([HEARTBEATS])):
        await insisting(lambda: cluster.create(HEARTBEATS, 1, _CONFIGS, replication))
    sender = await insisting(lambda: cluster.sender(None))
    try:
        while True:
            now = clock.wall_ms()
            await sender.send(HEARTBEATS, 0, outgoing_of([heartbeat(source, target, now)], now))
            await asyncio.sleep(seconds)
    finally:
        await sender.close()
