"""`copystream`: a link that ends. The source's replicator carries it, so it goes on when the caller has left."""

from __future__ import annotations

from fairlead.client.command import Given
from fairlead.gateway.rest.context import Handler, RestContext, Rows


async def start(context: RestContext, given: Given) -> Rows:
    source, copy = context.local(given["src"]), given["dst"]
    await context.copies.begin(source, copy, context.urls(given, copy))
    return [context.copies.status(source, copy).row()]


async def status(context: RestContext, given: Given) -> Rows:
    return [context.copies.status(context.local(given["src"]), given["dst"]).row()]


async def allow(context: RestContext, given: Given) -> Rows:
    await context.copies.allow(context.local(given["path"]), given["from"], given["peer"] or "own")
    return []


async def list_allowed(context: RestContext, given: Given) -> Rows:
    found = context.copies.allowed(context.local(given["path"]))
    return [{"from": str(each.path), "peer": each.peer, "allowedat": each.allowed_at} for each in found]


async def remove(context: RestContext, given: Given) -> Rows:
    await context.copies.forbid(context.local(given["path"]), given["from"])
    return []


HANDLERS: dict[str, Handler] = {
    "/rest/copystream/start": start,
    "/rest/copystream/status": status,
    "/rest/copystream/allow": allow,
    "/rest/copystream/list": list_allowed,
    "/rest/copystream/remove": remove,
}
