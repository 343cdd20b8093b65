"""`stream topic create`, `edit`, `info`, `list`, `delete`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain, compress
from operator import itemgetter
from typing import Any

from fairlead.client.command import Given
from fairlead.cluster.claims import Claiming, parent
from fairlead.cluster.owner_changes import diverged_of, put_aside_for
from fairlead.cluster.reaching import not_owner
from fairlead.cluster.stream import Stream
from fairlead.cluster.topic_filter import TopicFilter, check_expression
from fairlead.cluster.values import TIMESTAMP_TYPES
from fairlead.gateway.claims import ClaimOptions
from fairlead.gateway.links.orders.chosen import is_at
from fairlead.gateway.links.orders.transfer import TransferOptions
from fairlead.gateway.rest.conflicts import conflicts_of
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.gateway.rest.long_json import in_turns
from fairlead.gateway.rest.lookups import looked_up
from fairlead.gateway.takeovers.work import TakeoverOptions
from fairlead.model.errors import InvalidValue
from fairlead.model.names import named_place
from fairlead.streamlog.ownership.histories import beginning_of
from fairlead.streamlog.ownership.standing import is_active
from fairlead.streamlog.reading.sizes import Size
from fairlead.streamlog.requests.pending import put_aside_at
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard

TIMESTAMP_CONFIG = "message.timestamp.type"
_KAFKA_TYPE = {"createtime": "CreateTime", "logappendtime": "LogAppendTime"}
_NAMES_AT_ONCE = 1000
"""So many names are matched with regular expressions in one piece."""


async def create(context: RestContext, given: Given) -> Rows:
    stream = context.stream(given)
    await stream.create_topic(given["topic"], given["partitions"], _configs(given))
    return []


async def edit(context: RestContext, given: Given) -> Rows:
    stream = context.stream(given)
    name = given["topic"]
    _check_owner(context, stream, name)
    configs = _configs(given)
    if given["partitions"] is not None:
        await stream.set_partitions(name, given["partitions"])
    if configs:
        await stream.set_configs(name, configs)
    return []


async def info(context: RestContext, given: Given) -> Rows:
    stream = context.stream(given)
    shard, topic = stream.topic(given["topic"])
    committed = _lowest_committed(stream, topic)
    handed_over = await context.transfers.standing(stream, topic)
    diverged, put_aside = diverged_of(stream, topic), put_aside_for(stream, topic)
    links, lookups = context.links.standing(stream), context.cluster.lookups
    loop = asyncio.get_running_loop()
    conflicts = await loop.run_in_executor(lookups, conflicts_of, context.cluster, stream, links, topic)
    rows = [
        {
            **_partition(context, stream, shard, topic, number, committed.get(number, 0)),
            **_ownership(shard, topic, number, context.kafka.lag(stream, topic, number)),
            "handover": handed_over,
            "supersededfrom": _superseded_from(shard, topic, number),
            "diverged": diverged,
            "putaside": put_aside,
            **_claimed(stream, topic, number),
            "conflicts": conflicts[number],
        }
        for number in range(topic.partitions)
    ]
    sizes = await loop.run_in_executor(context.cluster.executor, shard.sizes.all)
    return await looked_up(context.cluster, rows, partial(_with_what_is_stored, shard, topic, sizes))


async def list_topics(context: RestContext, given: Given) -> Rows:
    stream, owner = context.stream(given), None if given["owner"] is None else named_place(given["owner"])
    topics = await _chosen(context, stream, given)
    lags = await _lags(stream)
    sizes = await asyncio.get_running_loop().run_in_executor(context.cluster.executor, _sizes, stream)
    rows = [
        _row(stream, topic, lags.get(topic.name, {}), sizes.get((stream.shard_for(topic.name), topic.number)))
        async for topic in in_turns(topics)
        if owner is None or is_at(stream.owner_path(topic), owner)
    ]
    return sorted(rows, key=itemgetter("topic"))


async def _chosen(context: RestContext, stream: Stream, given: Given) -> Iterable[Topic]:
    """The topics that the expressions of a call choose."""
    chosen = TopicFilter(given["topics"] or None, given["excludetopics"] or None)
    check_expression("-topics", chosen.topics)
    check_expression("-excludetopics", chosen.exclude)
    if not chosen:
        return stream.topics()
    topics = list(stream.topics())
    names = [topic.name for topic in topics]
    parts = [names[first : first + _NAMES_AT_ONCE] for first in range(0, len(names), _NAMES_AT_ONCE)]
    passing = await looked_up(context.cluster, parts, chosen.passing)
    return compress(topics, chain.from_iterable(passing))


def _sizes(stream: Stream) -> dict[tuple[Shard, int], Size]:
    """Of each topic, by its shard and number. Blocking."""
    found: dict[tuple[Shard, int], Size] = {}
    for shard in stream.shards:
        for (number, _), size in shard.sizes.all().items():
            found[shard, number] = found.get((shard, number), Size()) + size
    return found


def _row(stream: Stream, topic: Topic, lags: Mapping[str, int], size: Size | None) -> dict[str, Any]:
    size = size or Size()
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "consumers": len(lags),
        "physicalsize": size.physical_bytes,
        "logicalsize": size.logical_bytes,
        "maxlag": max(lags.values(), default=0),
        "owner": stream.owner_path(topic),
        "incarnation": topic.incarnation.hex(),
    }


async def delete(context: RestContext, given: Given) -> Rows:
    stream = context.stream(given)
    _check_owner(context, stream, given["topic"])
    await stream.delete_topic(given["topic"])
    return []


async def transfer(context: RestContext, given: Given) -> Rows:
    options = TransferOptions(bool(given["force"]), bool(given["oneway"]), bool(given["dryrun"]))
    path = context.local(given["path"])
    job, names = await context.transfers.prepare(path, given["topic"], given["to"], options)
    return [await context.jobs.add(job, names)]


async def takeover(context: RestContext, given: Given) -> Rows:
    options = TakeoverOptions(bool(given["force"]), bool(given["dryrun"]))
    topics, lost = given["topic"] or "", given["from"] or ""
    if not topics and not lost:
        raise InvalidValue("give -topic, or -from with the cluster that is lost, or both")
    job, names, outlook = await context.takeovers.prepare(context.local(given["path"]), topics, lost, options)
    return [{**await context.jobs.add(job, names), "neighbours": outlook.neighbours, "owners": outlook.owners}]


async def claim(context: RestContext, given: Given) -> Rows:
    options = ClaimOptions(given["into"] or "", bool(given["dryrun"]))
    job, names = await context.claims.prepare(context.local(given["path"]), given["topic"], options)
    return [await context.jobs.add(job, names)]


async def resolve(context: RestContext, given: Given) -> Rows:
    stream, topic = context.stream(given), given["topic"]
    if sum(given[way] is not None for way in ("rename", "as", "take")) != 1:
        raise InvalidValue("give one of -rename, -as and -take")
    if given["rename"] is not None:
        _check_owner(context, stream, topic)
        await stream.rename_topic(topic, given["rename"])
    elif given["as"] is not None:
        await stream.take_topic_as(topic, given["as"])
    else:
        await stream.take_topic_again(topic)
    return []


def _check_owner(context: RestContext, stream: Stream, name: str) -> None:
    """Refuse what only the owner of a topic may do, naming it by its path and how to reach it.

    Raises:
        UnknownTopic, NotOwner.
    """
    _, topic = stream.topic(name)
    if topic.owner != stream.id:
        raise not_owner(context.cluster, stream, topic)


def timestamp_type(stream: Stream, topic: Topic) -> str:
    """The original's name of a topic's kind of time stamp."""
    return topic.configs.get(TIMESTAMP_CONFIG, stream.settings.timestamp_type).lower()


def _configs(given: Given) -> dict[str, str]:
    kind = given["timestamptype"]
    if kind is None:
        return {}
    if kind not in TIMESTAMP_TYPES:
        raise InvalidValue(f"-timestamptype {kind!r}: use one of {', '.join(TIMESTAMP_TYPES)}")
    return {TIMESTAMP_CONFIG: _KAFKA_TYPE[kind]}


def _lowest_committed(stream: Stream, topic: Topic) -> dict[int, int]:
    """By partition: the lowest committed offset of all groups, where one has committed."""
    lowest: dict[int, int] = {}
    for _, of, partition, cursor in stream.cursors():
        if of.number == topic.number and of.name == topic.name:
            lowest[partition] = min(lowest.get(partition, cursor.offset), cursor.offset)
    return lowest


def _partition(
    context: RestContext, stream: Stream, shard: Shard, topic: Topic, number: int, lowest_committed: int
) -> dict[str, Any]:
    state = shard.state.partition(topic.number, number)
    return {
        "partitionid": number,
        "minoffset": state.log_start,
        "maxoffset": state.end - 1,
        "minoffsetacrossconsumers": lowest_committed,
        "topicepoch": shard.state.topic_table.leader_epoch(topic.number, number),
        "owner": stream.owner_path(topic),
        "timestamptype": timestamp_type(stream, topic),
        "incarnation": topic.incarnation.hex(),
        "master": context.listeners.main_address,
        "servers": context.listeners.main_address,
    }


def _ownership(shard: Shard, topic: Topic, number: int, lag: int) -> dict[str, Any]:
    """From where on the owner gives the offsets, and how many records of those before it are missing here. The owner
    does not write the partition until it has them. Of a Kafka cluster's topic, how far it is behind."""
    state, since = shard.state.partition(topic.number, number), beginning_of(topic.since, number)[0]
    missing = 0 if is_active(topic, number, state) else max(since - state.end, 0)
    return {"ownersince": since, "pendingrecords": missing or lag}


def _superseded_from(shard: Shard, topic: Topic, number: int) -> int:
    """The offset from which on this site held records that are not in the owner's history, when it last heard of
    another owner; -1 if it never did. The topics in `diverged` keep them."""
    cuts = shard.state.cuts_of(topic.number, number)
    return cuts[-1].offset if cuts else -1


def _claimed(stream: Stream, topic: Topic, number: int) -> dict[str, Any]:
    """Of a diverged or pending topic: from which topic it was cut off, or for which it was put aside, and how many of
    its records that does not have yet."""
    into, at = parent(stream, topic), put_aside_at(topic)
    if into is None:
        return {"divergedfrom": "", "putasidefor": "", "unclaimedrecords": 0}
    return {
        "divergedfrom": into.name if at is None else "",
        "putasidefor": "" if at is None else into.name,
        "unclaimedrecords": Claiming(stream, topic, into).unclaimed(number),
    }


def _with_what_is_stored(
    shard: Shard, topic: Topic, sizes: Mapping[tuple[int, int], Size], row: Mapping[str, Any]
) -> dict[str, Any]:
    """The row of a partition with what only the stored batches tell: times (ms) and sizes. Blocking."""
    return {**row, **_times(shard, topic, row), **_size(sizes.get((topic.number, row["partitionid"]), Size()))}


def _size(size: Size) -> dict[str, int]:
    return {"physicalsize": size.physical_bytes, "logicalsize": size.logical_bytes}


def _times(shard: Shard, topic: Topic, row: Mapping[str, Any]) -> dict[str, int]:
    """Time stamps (ms) of the first record, of the newest, and of the first that some consumer has not read; 0 if
    there is none. Blocking."""
    partition, unread = row["partitionid"], row["minoffsetacrossconsumers"]
    first = shard.reader.offset_for_time(topic.number, partition, 0)
    newest = shard.reader.offset_of_newest(topic.number, partition)
    return {
        "mintimestamp": first[1] if first else 0,
        "maxtimestamp": newest[1] if newest else 0,
        "mintimestampacrossconsumers": shard.reader.time_at(topic.number, partition, unread) or 0,
    }


async def _lags(stream: Stream) -> dict[str, dict[str, int]]:
    """By topic and consumer group: the most records that the group has not read of one partition."""
    lags: dict[str, dict[str, int]] = {}
    async for group, topic, partition, cursor in in_turns(stream.cursors()):
        end = stream.shard_for(topic.name).state.partition(topic.number, partition).end
        found = lags.setdefault(topic.name, {})
        found[group] = max(found.get(group, 0), end - cursor.offset)
    return lags


HANDLERS: dict[str, Handler] = {
    "/rest/stream/topic/create": create,
    "/rest/stream/topic/edit": edit,
    "/rest/stream/topic/info": info,
    "/rest/stream/topic/list": list_topics,
    "/rest/stream/topic/delete": delete,
    "/rest/stream/topic/resolve": resolve,
    "/rest/stream/topic/transfer": transfer,
    "/rest/stream/topic/takeover": takeover,
    "/rest/stream/topic/claim": claim,
}
