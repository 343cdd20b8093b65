"""`stream replica add`, `autosetup`, `edit`, `list`, `pause`, `resume`, `remove`: the source's half of the
agreement."""

from __future__ import annotations

from typing import Any

from fairlead.client.command import Given
from fairlead.client.set_up import is_from_now
from fairlead.gateway.links.orders.autosetup import SetUp
from fairlead.gateway.rest.context import Handler, RestContext, Rows

FIELDS = {
    "forward": "forward",
    "peer": "peer",
    "ownership": "ownership",
    "acceptwrites": "accept_writes",
    "topics": "topics",
    "excludetopics": "exclude_topics",
    "cursors": "cursors",
    "prefix": "prefix",
}
"""An option of a link, for `add`, `autosetup` and `edit`, and the field of its record."""


async def add(context: RestContext, given: Given) -> Rows:
    path, replica = context.local(given["path"]), given["replica"]
    urls = context.urls(given, replica)
    options = {**_options(given), "from_now": is_from_now(given)}
    await context.links.add_replica(path, replica, bool(given["paused"]), urls, **options)
    return []


async def autosetup(context: RestContext, given: Given) -> Rows:
    path, replica = context.local(given["path"]), given["replica"]
    urls = context.urls(given, replica)
    options = {**_options(given), "from_now": is_from_now(given)}
    # Without a direct copy the links wait for the one that the caller makes.
    how = SetUp(
        multimaster=bool(given["multimaster"]),
        existing=bool(given["useexistingreplica"]),
        paused=bool(given["paused"]) or given["directcopy"] is False,
    )
    return [await context.links.autosetup(path, replica, urls, how, **options)]


async def edit(context: RestContext, given: Given) -> Rows:
    path, replica, target = context.local(given["path"]), given["replica"], given["newreplica"]
    options = _options(given)
    if target is not None:
        await context.links.move_replica(path, replica, target, context.urls(given, target))
    if options:
        await context.links.edit_replica(path, replica if target is None else target, **options)
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


def _options(given: Given) -> dict[str, Any]:
    options = given.named(**FIELDS)
    return options | {name: options[name] or None for name in ("topics", "exclude_topics") if name in options}


HANDLERS: dict[str, Handler] = {
    "/rest/stream/replica/add": add,
    "/rest/stream/replica/autosetup": autosetup,
    "/rest/stream/replica/edit": edit,
    "/rest/stream/replica/list": list_replicas,
    "/rest/stream/replica/pause": pause,
    "/rest/stream/replica/resume": resume,
    "/rest/stream/replica/remove": remove,
}
