"""`stream replica add`, `autosetup`, `edit`, `list`, `pause`, `resume`, `remove`: the source's half of the
agreement."""

from __future__ import annotations

from fairlead.client.command import Given
from fairlead.gateway.rest.context import Handler, RestContext, Rows


async def add(context: RestContext, given: Given) -> Rows:
    path, replica = context.local(given["path"]), given["replica"]
    urls = context.urls(given, replica)
    forward = given["forward"] or "all"
    peer = given["peer"] or "own"
    await context.links.add_replica(
        path,
        replica,
        bool(given["paused"]),
        urls,
        forward=forward,
        peer=peer,
        ownership=given["ownership"],
        accept_writes=bool(given["acceptwrites"]),
    )
    return []


async def autosetup(context: RestContext, given: Given) -> Rows:
    path, replica = context.local(given["path"]), given["replica"]
    urls = context.urls(given, replica)
    return [await context.links.autosetup(path, replica, urls, accept_writes=bool(given["acceptwrites"]))]


async def edit(context: RestContext, given: Given) -> Rows:
    changes = given.named(acceptwrites="accept_writes")
    await context.links.edit_replica(context.local(given["path"]), given["replica"], **changes)
    return []


async def list_replicas(context: RestContext, given: Given) -> Rows:
    path = context.local(given["path"])
    await context.links.refresh(path)
    return [status.row() for status in context.links.list(path)]


async def pause(context: RestContext, given: Given) -> Rows:
    await context.links.pause(context.local(given["path"]), given["replica"])
    return []


async def resume(context: RestContext, given: Given) -> Rows:
    path, replica = context.local(given["path"]), given["replica"]
    await context.links.resume(path, replica, rescan=bool(given["rescan"]))
    return []


async def remove(context: RestContext, given: Given) -> Rows:
    await context.links.remove(context.local(given["path"]), given["replica"])
    return []


HANDLERS: dict[str, Handler] = {
    "/rest/stream/replica/add": add,
    "/rest/stream/replica/autosetup": autosetup,
    "/rest/stream/replica/edit": edit,
    "/rest/stream/replica/list": list_replicas,
    "/rest/stream/replica/pause": pause,
    "/rest/stream/replica/resume": resume,
    "/rest/stream/replica/remove": remove,
}
