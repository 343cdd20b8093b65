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


HANDLERS: dict[str, Handler] = {"/rest/copystream/start": start, "/rest/copystream/status": status}
