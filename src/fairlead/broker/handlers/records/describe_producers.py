"""DescribeProducers (KIP-664): the idempotent producers that a partition remembers.

Transactions are not served, so none has an open one. Producers are remembered in one table for each shard, which is
walked once for all partitions of a request. Only the topic's owner answers, once it has all that was written before its
epoch: what a copy has heard of a producer may lie behind what was acknowledged to it.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.pacing import Pace
from fairlead.model.errors import OwnerPending
from fairlead.model.limits import REQUEST_ITEMS_MAX
from fairlead.protocol.messages import Fields
from fairlead.streamlog.ownership.histories import beginning_of
from fairlead.streamlog.ownership.standing import is_active
from fairlead.streamlog.writing.shard import Shard

API_KEY = 61
PRODUCERS_MAX = REQUEST_ITEMS_MAX
"""Of one answer; a partition that would exceed it is refused."""

_Place = tuple[Shard, int, int]
"""Where a partition's producers are remembered: shard, topic number, partition."""
_Producers = dict[Shard, dict[tuple[int, int], dict[int, None]]]
"""Ids of the producers of the partitions that are asked for, by shard, topic number and partition."""


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each partition that is named, once."""
    pace = Pace()
    asked: dict[str, dict[int, _Place | Exception]] = {}
    producers: _Producers = {}
    for topic in request.topics:
        partitions = asked.setdefault(topic.name, {})
        for index in topic.partition_indexes:
            partitions[index] = place = _place(ctx, topic.name, index)
            if not isinstance(place, Exception):
                producers.setdefault(place[0], {})[place[1:]] = {}
            await pace.turn()
        await pace.turn()
    await _find(producers, pace)
    left = PRODUCERS_MAX
    topics: list[Fields] = []
    for name, found in asked.items():
        described: list[Fields] = []
        for index, place in found.items():
            described.append(_described(index, place, producers, left))
            left -= len(described[-1]["active_producers"])
            await pace.turn()
        topics.append({"name": name, "partitions": described})
        await pace.turn()
    return {"topics": topics}


def _place(ctx: RequestContext, name: str, index: int) -> _Place | Exception:
    try:
        found = ctx.listener.find(name)
        topic = found.topic
        topic.check_partition(index)
        if topic.owner != found.stream.id:
            raise ctx.listener.not_owner(found.stream, topic)
        state = found.shard.state.partition(topic.number, index)
        if not is_active(topic, index, state):
            raise OwnerPending(topic.name, index, state.end, beginning_of(topic.since, index)[0])
    except Exception as error:
        return error
    return found.shard, found.topic.number, index


async def _find(producers: _Producers, pace: Pace) -> None:
    """Fill in the ids."""
    for shard, partitions in producers.items():
        for number, partition, producer in shard.state.producers.known():
            ids = partitions.get((number, partition))
            if ids is not None:
                ids[producer] = None
            await pace.turn()


def _described(index: int, place: _Place | Exception, producers: _Producers, room: int) -> Fields:
    ids = {} if isinstance(place, Exception) else producers[place[0]][place[1:]]
    if len(ids) > room:
        place = RefusedRequest(ErrorCode.invalid_request, "the answer is too long: ask for fewer partitions at once")
    if isinstance(place, Exception):
        return {
            "partition_index": index,
            "error_code": code_of(place),
            "error_message": message_of(place),
            "active_producers": [],
        }
    shard, number, partition = place
    states = {producer: shard.state.producer(number, partition, producer) for producer in ids}
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "active_producers": [
            {
                "producer_id": producer,
                "producer_epoch": state.epoch,
                "last_sequence": state.batches[-1].last_sequence if state.batches else -1,
                "last_timestamp": state.last_at_ms,
                "coordinator_epoch": -1,
            }
            for producer, state in states.items()
            if state is not None
        ],
    }
