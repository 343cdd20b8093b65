"""`cluster info`: what `fairlead status` shows."""

from __future__ import annotations

from typing import Any

from fairlead import __version__
from fairlead.client.command import Given
from fairlead.gateway.rest.clock import holds
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.gateway.rest.health import health_of


async def info(context: RestContext, given: Given) -> Rows:
    return [describe(context)]


def describe(context: RestContext) -> dict[str, Any]:
    """The cluster in one row."""
    cluster, health = context.cluster, health_of(context)
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
        "health": health.status,
        "stopped": health.stopped,
        "upkeep": health.upkeep,
        "failing": health.failing,
        "replicator": health.replicator,
        "expiryheld": holds(context),
    }


HANDLERS: dict[str, Handler] = {"/rest/cluster/info": info}
