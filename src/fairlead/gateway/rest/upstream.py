"""`stream upstream add`, `list`, `remove`: the replica's half of the two-way agreement."""

from __future__ import annotations

from fairlead.client.command import Given
from fairlead.gateway.rest.context import Handler, RestContext, Rows


async def add(context: RestContext, given: Given) -> Rows:
    await context.links.add_upstream(context.local(given["path"]), given["upstream"])
    return []


async def list_upstreams(context: RestContext, given: Given) -> Rows:
    found = context.links.list_upstreams(context.local(given["path"]))
    return [
        {"upstream": str(record.path), "streamid": "" if record.source_stream is None else record.source_stream.hex()}
        for record in found
    ]


async def remove(context: RestContext, given: Given) -> Rows:
    await context.links.remove_upstream(context.local(given["path"]), given["upstream"])
    return []


HANDLERS: dict[str, Handler] = {
    "/rest/stream/upstream/add": add,
    "/rest/stream/upstream/list": list_upstreams,
    "/rest/stream/upstream/remove": remove,
}
