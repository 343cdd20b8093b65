"""DescribeTopicPartitions (KIP-966): Metadata in pages, by topic names in order.

A page has at most `PAGE_PARTITIONS_MAX` partitions, of which a topic that cannot be described counts as one. Where it
ends, `next_cursor` says at which topic and partition the next one begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of
from fairlead.broker.node import NODE_ID
from fairlead.broker.pacing import Pace
from fairlead.broker.topics import authorized
from fairlead.broker.topics.topics import Found
from fairlead.protocol.messages import Fields

API_KEY = 75
PAGE_PARTITIONS_MAX = 2000
"""Kafka's `max.request.partition.size.limit`, and what Java's client asks for."""
_NAMES_AT_ONCE = 500


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """The topics that are named, or all topics; from the cursor on."""
    pace = Pace()
    cursor = request.cursor
    names = [topic.name for topic in request.topics]
    if cursor is not None and (cursor.partition_index < 0 or (names and cursor.topic_name not in names)):
        return {"topics": [_error(name, ErrorCode.invalid_request) for name in dict.fromkeys(names)]}
    room = min(max(request.response_partition_limit, 1), PAGE_PARTITIONS_MAX)
    after = "" if cursor is None else cursor.topic_name
    page = await _first_names(names or ctx.listener.listed_names(), after, room + 1, pace)
    topics: list[Fields] = []
    for name in page:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if room <= 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": first}}
        topic, past = await _described(ctx, name, first, room, pace)
        topics.append(topic)
        if past is not None:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": past}}
        room -= max(1, len(topic["partitions"]))
    return {"topics": topics}


async def _first_names(names: Iterable[str], after: str, count: int, pace: Pace) -> list[str]:
    """The first `count` names in order, from `after` on. However many there are, few are looked at in one turn."""
    left = iter(names)
    found: list[str] = []
    while some := list(islice(left, _NAMES_AT_ONCE)):
        last = found[-1] if len(found) == count else None
        fitting = {name for name in some if name >= after and (last is None or name < last)}
        if fitting:
            found = nsmallest(count, fitting.union(found))
        await pace.turn()
    return found


async def _described(ctx: RequestContext, name: str, first: int, room: int, pace: Pace) -> tuple[Fields, int | None]:
    """A topic with its partitions from `first` on, and the first one that the page has no room for."""
    try:
        found = ctx.listener.find(name)
    except Exception as error:
        return _error(name, code_of(error)), None
    end = min(found.topic.partitions, first + room)
    table = found.shard.state.topic_table
    partitions: list[Fields] = []
    for index in range(first, end):
        partitions.append(_partition(index, table.leader_epoch(found.topic.number, index)))
        await pace.turn()
    return _topic(name, found, partitions), end if end < found.topic.partitions else None


def _topic(name: str, found: Found, partitions: list[Fields]) -> Fields:
    return {
        "error_code": ErrorCode.none,
        "name": name,
        "topic_id": UUID(bytes=found.stream.topic_id(found.shard, found.topic)),
        "partitions": partitions,
        "topic_authorized_operations": authorized.of_topic(found),
    }


def _error(name: str, error: ErrorCode) -> Fields:
    return {"error_code": error, "name": name, "partitions": []}


def _partition(index: int, epoch: int) -> Fields:
    return {
        "error_code": ErrorCode.none,
        "partition_index": index,
        "leader_id": NODE_ID,
        "leader_epoch": epoch,
        "replica_nodes": [NODE_ID],
        "isr_nodes": [NODE_ID],
        "eligible_leader_replicas": [],
        "last_known_elr": [],
    }
