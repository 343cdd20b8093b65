"""`stream replica add`, `autosetup`, `edit`, `list`, `pause`, `resume`, `remove`: the source's half of the
agreement."""

from __future__ import annotations

from typing import Any

from fairlead.client.command import Given
from fairlead.client.set_up import is_from_now
from fairlead.gateway.links.orders.autosetup import SetUp
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.model.errors import InvalidValue

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


KAFKA_FIELDS = {
    "topics": "topics",
    "excludetopics": "exclude_topics",
    "cursors": "cursors",
    "consumerconfig": "config_file",
    "deletes": "deletes",
}
"""An option of a Kafka cluster whose topics a replica keeps, and the field of its record."""
_NAMES = frozenset({"path", "replica"})


def kafka_options(given: Given, *others: str) -> dict[str, Any]:
    """What is given of a Kafka cluster's options.

    Raises:
        InvalidValue: an option of links between streams is given too.
    """
    options = given.named(**KAFKA_FIELDS)
    if "exclude_topics" in options:
        options["exclude_topics"] = options["exclude_topics"] or None
    for name, value in given.values.items():
        if name not in {*KAFKA_FIELDS, *_NAMES, *others} and value not in NOTHING_SAID.get(name, ()):
            raise InvalidValue(
                f"-{name}: not of a Kafka cluster; it takes {', '.join(f'-{each}' for each in KAFKA_FIELDS)}"
            )
    return options


NOTHING_SAID: dict[str, tuple[Any, ...]] = {
    "directcopy": (True,),
    "multimaster": (False,),
    "from": ("beginning",),
    "throttle": ("false",),
    "networkencryption": ("false",),
    "synchronous": ("false",),
    "networkcompression": ("off",),
    "refreshnow": (True, False),
    "rescan": (False,),
}
"""Values of options of links that say nothing of a Kafka cluster."""


def _no_kafka(given: Given, names: tuple[str, ...] = ("consumerconfig", "deletes")) -> None:
    for name in names:
        if given[name] is not None:
            raise InvalidValue(f"-{name}: only of a Kafka cluster, with -path kafka://NAME")


async def add(context: RestContext, given: Given) -> Rows:
    if given["path"].kafka is not None:
        raise InvalidValue(
            f"{given['path']}: set it up by `stream replica autosetup`, which needs nothing of Kafka's side"
        )
    path, replica = context.local(given["path"]), given["replica"]
    urls = context.urls(given, replica)
    options = {**_options(given), "from_now": is_from_now(given)}
    await context.links.add_replica(path, replica, bool(given["paused"]), urls, **options)
    return []


async def autosetup(context: RestContext, given: Given) -> Rows:
    name = given["path"].kafka
    if name is not None:
        options = kafka_options(given, "useexistingreplica", "paused")
        existing, paused = bool(given["useexistingreplica"]), bool(given["paused"])
        path = context.local(given["replica"])
        return [await context.kafka.set_up(name, path, existing=existing, paused=paused, options=options)]
    _no_kafka(given)
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
    name = given["path"].kafka
    if name is not None:
        await context.kafka.edit(name, context.local(given["replica"]), kafka_options(given))
        return []
    _no_kafka(given)
    path, replica, target = context.local(given["path"]), given["replica"], given["newreplica"]
    options = _options(given)
    if target is not None:
        context.links.check_options(path, replica, **options)  # before anything is done
        await context.links.move_replica(path, replica, target, context.urls(given, target))
    if options:
        await context.links.edit_replica(path, replica if target is None else target, **options)
    return []


async def list_replicas(context: RestContext, given: Given) -> Rows:
    if given["path"].kafka is not None:
        return context.kafka.rows(given["path"].kafka)
    path = context.local(given["path"])
    await context.links.refresh(path)
    return [status.row() for status in context.links.list(path)]


async def pause(context: RestContext, given: Given) -> Rows:
    name = given["path"].kafka
    if name is not None:
        await context.kafka.pause(name, context.local(given["replica"]), paused=True)
        return []
    await context.links.pause(context.local(given["path"]), given["replica"])
    return []


async def resume(context: RestContext, given: Given) -> Rows:
    name = given["path"].kafka
    if name is not None:
        kafka_options(given)
        await context.kafka.pause(name, context.local(given["replica"]), paused=False)
        return []
    path, replica = context.local(given["path"]), given["replica"]
    await context.links.resume(path, replica, rescan=bool(given["rescan"]))
    return []


async def remove(context: RestContext, given: Given) -> Rows:
    name = given["path"].kafka
    if name is not None:
        await context.kafka.remove(name, context.local(given["replica"]))
        return []
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
