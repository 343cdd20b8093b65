"""`stream create`, `edit`, `info`, `list`, `delete`, `expose`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from fairlead.client.command import Given
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import PERMISSIONS, StreamSettings
from fairlead.gateway.rest.context import Handler, RestContext, Rows, need
from fairlead.model.errors import InvalidValue, NotImplementedYet
from fairlead.model.limits import PORT_MAX
from fairlead.model.names import SLICES, StreamPath

FIELDS = {
    "ttl": "ttl_seconds",
    "autocreate": "autocreate",
    "defaultpartitions": "default_partitions",
    "compression": "compression",
    "defaulttimestamptype": "timestamp_type",
    "pidexpirysecs": "pid_expiry_seconds",
    "forwardwrites": "forward_writes",
    "pending": "pending",
    "conflicts": "conflicts",
}
"""The original's name of a setting, and ours; `-copymetafrom` takes all of them."""


async def create(context: RestContext, given: Given) -> Rows:
    path = context.local(given["path"])
    source = given["copymetafrom"]
    base = StreamSettings() if source is None else _settings_of(context, source)
    changes = _changes(context, given) | given.named(shards="shards")
    stream = await context.cluster.create_stream(path, replace(base, **changes).owned_by(context.user))
    return [{"path": stream.path, "id": stream.id.hex()}]


async def edit(context: RestContext, given: Given) -> Rows:
    stream = context.stream(given)
    await context.cluster.edit_stream(stream.path, **_changes(context, given))
    return []


async def info(context: RestContext, given: Given) -> Rows:
    return [_info(context, context.stream(given))]


async def list_streams(context: RestContext, given: Given) -> Rows:
    below = "" if given["path"] is None else context.local(given["path"])
    rows = []
    for stream in context.cluster.streams():
        if _is_below(stream.path, below):
            rows.append(_info(context, stream))
            await asyncio.sleep(0)  # its sizes are counted from its log: others have their turn between two of them
    return rows


def page_rows(context: RestContext, most: int) -> list[dict[str, Any]]:
    """The first `most` of these for the page, which shows no sizes."""
    exposed = context.listeners.addresses()
    streams = context.cluster.streams()[:most]
    return [{**_counts(context, stream), "kafka": exposed.get(stream.path, "")} for stream in streams]


def _counts(context: RestContext, stream: Stream) -> dict[str, Any]:
    links = context.cluster.links
    return {
        "path": stream.path,
        "ttl": stream.settings.ttl_seconds,
        "numtopics": stream.topic_count,
        "numowned": stream.owned_count,
        "numreplicas": len(links.of(stream.id)),
        "numupstreams": len(links.upstreams(stream.id)),
    }


async def delete(context: RestContext, given: Given) -> Rows:
    stream = context.stream(given)
    if stream.path == context.cluster.default_stream:
        raise InvalidValue(
            f"{stream.path} is the default stream, where bare topic names live; delete its topics instead"
        )
    if stream.path in context.listeners.addresses():
        await context.listeners.conceal(stream.path)
    await context.cluster.delete_stream(stream.path)
    return []


async def expose(context: RestContext, given: Given) -> Rows:
    stream = context.stream(given)
    if given["remove"]:
        await context.listeners.conceal(stream.path)
        return []
    address = await context.listeners.expose(stream.path, _port(need(given, "port")))
    return [{"path": stream.path, "kafka": address}]


async def recover(context: RestContext, given: Given) -> Rows:
    path, force = context.local(given["path"]), bool(given["force"])
    if given["dryrun"]:
        return await context.recoveries.plan(path, force=force)
    job, names = await context.recoveries.prepare(path, force=force)
    return [await context.jobs.add(job, names)]


def _port(port: int) -> int:
    if not 0 <= port <= PORT_MAX:
        raise InvalidValue(f"-port {port}: give a number from 0 to {PORT_MAX}")
    return port


def _changes(context: RestContext, given: Given) -> dict[str, Any]:
    default = f"u:{context.user}"
    for name in PERMISSIONS:
        if given[name] not in {None, default}:
            raise NotImplementedYet(f"-{name} {given[name]} (other than {default})")
    return given.named(**FIELDS)


def _settings_of(context: RestContext, source: StreamPath) -> StreamSettings:
    """The settings that `-copymetafrom` names; the command line asks another cluster for them."""
    return replace(context.cluster.stream(context.local(source)).settings, shards=1)


def _is_below(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(prefix + "/")


def _info(context: RestContext, stream: Stream) -> dict[str, Any]:
    settings = stream.settings
    links = context.cluster.links
    return {
        "path": stream.path,
        "id": stream.id.hex(),
        "numtopics": stream.topic_count,
        "numowned": stream.owned_count,
        **{original: getattr(settings, ours) for original, ours in FIELDS.items()},
        **{name: getattr(settings, name) or f"u:{context.user}" for name in PERMISSIONS},
        **_sizes(stream),
        "compact": False,
        "mincompactionlag": 0,
        "deleteretention": 86_400_000,
        "ischangelog": False,
        "shards": settings.shards,
        "createdat": settings.created_at,
        "numreplicas": len(links.of(stream.id)),
        "numupstreams": len(links.upstreams(stream.id)),
        "kafka": context.listeners.addresses().get(stream.path, ""),
        "rolledback": stream.rolled_back,
        "stopped": "; ".join(str(shard.stopped) for shard in stream.shards if shard.stopped is not None),
    }


def _sizes(stream: Stream) -> dict[str, int]:
    """What the logs hold, replaced and expired rows that no merge has dropped yet included."""
    whole = dict.fromkeys(range(SLICES), 0)
    parts = [part for shard in stream.shards for part in shard.announced.pending(whole).values()]
    return {
        "numrecords": sum(part.records for part in parts),
        "logicalsize": sum(part.bytes for part in parts),
        "physicalsize": sum(shard.announced.size_bytes() for shard in stream.shards),
    }


HANDLERS: dict[str, Handler] = {
    "/rest/stream/create": create,
    "/rest/stream/edit": edit,
    "/rest/stream/info": info,
    "/rest/stream/list": list_streams,
    "/rest/stream/delete": delete,
    "/rest/stream/expose": expose,
    "/rest/stream/recover": recover,
}
