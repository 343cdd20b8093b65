"""`cluster info`: what `fairlead status` shows."""

from __future__ import annotations

from typing import Any

from fairlead import __version__
from fairlead.client.command import Given
from fairlead.gateway.rest.context import Handler, RestContext, Rows


async def info(context: RestContext, given: Given) -> Rows:
    return [describe(context)]


def describe(context: RestContext) -> dict[str, Any]:
    """The cluster in one row."""
    cluster = context.cluster
    streams = cluster.streams()
    return {
        "name": cluster.name,
        "id": cluster.id.hex(),
        "version": __version__,
        "uptimemillis": cluster.clock.monotonic_ms() - context.started_ms,
        "http": list(cluster.urls),
        "kafka": [context.listeners.main_address],
        "listeners": dict(context.listeners.addresses()),
        "connections": context.listeners.connections,
        "streams": len(streams),
        "topics": sum(stream.topic_count for stream in streams),
        "links": len(cluster.links.all()),
        "freebytes": cluster.storage.free_bytes(),
        "stopped": stopped_shards(context),
    }


def stopped_shards(context: RestContext) -> list[str]:
    """Why shards have stopped, one line each; empty while all is well."""
    cluster = context.cluster
    named = [("meta", cluster.meta), *((stream.path, shard) for stream in cluster.streams() for shard in stream.shards)]
    running = [f"{name}: {shard.stopped}" for name, shard in named if shard.stopped is not None]
    return running + [f"{path}: {error}" for path, error in sorted(cluster.damaged.items())]


HANDLERS: dict[str, Handler] = {"/rest/cluster/info": info}
