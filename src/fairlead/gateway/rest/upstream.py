"""`stream upstream add`, `edit`, `list`, `remove`: the replica's half of the two-way agreement."""

from __future__ import annotations

from typing import Any

from fairlead.client.command import Given
from fairlead.cluster.values import UpstreamRecord
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.model.errors import InvalidValue

FIELDS = {"ownership": "ownership", "multimaster": "multimaster"}
"""An option of an upstream, and the field of its record that it becomes as it is."""


async def add(context: RestContext, given: Given) -> Rows:
    _no_kafka(given)
    peer = given["peer"] or ("partner" if given["origins"] else "own")
    options = {"origins": _origins(given["origins"] or ""), **given.named(**FIELDS)}
    await context.links.add_upstream(context.local(given["path"]), given["upstream"], peer, **options)
    return []


async def edit(context: RestContext, given: Given) -> Rows:
    _no_kafka(given)
    changes = given.named(**FIELDS)
    if given["peer"] is not None:
        changes["peer"] = given["peer"]
        if given["peer"] == "own":
            changes["origins"] = ()
    if given["origins"] is not None:
        changes["origins"] = _origins(given["origins"])
    await context.links.edit_upstream(context.local(given["path"]), given["upstream"], **changes)
    return []


async def list_upstreams(context: RestContext, given: Given) -> Rows:
    path = context.local(given["path"])
    return [*map(_row, context.links.list_upstreams(path)), *context.kafka.upstream_rows(path)]


async def remove(context: RestContext, given: Given) -> Rows:
    name = given["upstream"].kafka
    if name is not None:
        await context.kafka.remove(name, context.local(given["path"]))
        return []
    await context.links.remove_upstream(context.local(given["path"]), given["upstream"])
    return []


def _row(record: UpstreamRecord) -> dict[str, Any]:
    return {
        "upstream": str(record.path),
        "streamid": "" if record.source_stream is None else record.source_stream.hex(),
        "peer": record.peer,
        "origins": [origin.hex() for origin in record.origins],
        "ownership": record.moves_owners,
        "multimaster": record.multimaster,
        "copy": record.once_link is not None,
    }


def _no_kafka(given: Given) -> None:
    if given["upstream"].kafka is not None:
        raise InvalidValue(
            f"{given['upstream']}: use `stream replica autosetup` or `edit` with -path {given['upstream']}"
        )


def _origins(text: str) -> tuple[bytes, ...]:
    """Ids of streams, with commas between; none in an empty text."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        found = tuple(bytes.fromhex(word) for word in words)
    except ValueError:
        found = (b"",)
    if any(len(each) != 16 for each in found):
        raise InvalidValue(f"-origins {text!r}: give ids of streams (`stream info` shows them), with commas between")
    return found


HANDLERS: dict[str, Handler] = {
    "/rest/stream/upstream/add": add,
    "/rest/stream/upstream/edit": edit,
    "/rest/stream/upstream/list": list_upstreams,
    "/rest/stream/upstream/remove": remove,
}
