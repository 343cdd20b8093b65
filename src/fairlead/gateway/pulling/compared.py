"""HTTP of the gateway for a neighbour that looks where its history and ours part. Changes nothing.

    POST /gateway/compare    CompareRequest → CompareAnswer   how partitions stand here, and digests of ranges
    POST /gateway/owned      OwnedRequest → OwnedAnswer       topics here that the asker owns

An error is the envelope of the admin interface.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.pulling.neighbours import Share, may_have
from fairlead.gateway.pulling.serving import READ_MS, WANTED_MAX, serve, while_merged
from fairlead.model.clock import Clock
from fairlead.model.errors import InvalidValue
from fairlead.streamlog.reading.digests import digests
from fairlead.wire.messages import to_json
from fairlead.wire.neighbours import (
    CompareAnswer,
    ComparedPartition,
    CompareRequest,
    HeldPartition,
    OwnedAnswer,
    OwnedRequest,
    OwnedTopic,
)

router = APIRouter()

OWNED_MAX: Final = 10_000
"""Topics in one answer."""
_NOT_HELD: Final = HeldPartition(held=False)


@router.post("/gateway/compare", include_in_schema=False)
async def compare(request: Request) -> Response:
    """How do these partitions stand here?"""
    return await serve(request, CompareRequest, answer_compare)


@router.post("/gateway/owned", include_in_schema=False)
async def owned(request: Request) -> Response:
    """Which topics does the asker own here?"""
    return await serve(request, OwnedRequest, answer_owned)


async def answer_compare(cluster: Cluster, request: CompareRequest) -> str:
    """The body of an answer.

    Raises:
        InvalidValue, UnknownStream. NotAgreed: the asker is no neighbour.
        StorageUnavailable, Damaged: the columns cannot be read.
    """
    if len(request.compared) > WANTED_MAX:
        raise InvalidValue(f"{len(request.compared)} partitions in one question: {WANTED_MAX} are allowed")
    stream = cluster.stream(request.path)
    share = may_have(cluster, stream, request.asker)
    work = (stream, request.compared, share, cluster.clock)
    found = await asyncio.get_running_loop().run_in_executor(cluster.lookups, _compared, *work)
    return to_json(CompareAnswer(cluster.name, stream.id, tuple(found)))


def _compared(stream: Stream, wanted: Sequence[ComparedPartition], share: Share, clock: Clock) -> list[HeldPartition]:
    """The first of these, as many as can be looked at in time. Blocking."""
    found, until_ms = list[HeldPartition](), clock.monotonic_ms() + READ_MS
    for each in wanted:
        if found and clock.monotonic_ms() > until_ms:
            break
        found.append(_held(stream, each, share))
    return found


def _held(stream: Stream, wanted: ComparedPartition, share: Share) -> HeldPartition:
    found = stream.by_incarnation(wanted.incarnation)
    if found is None:
        buried = (shard.state.tombstone(wanted.incarnation) for shard in stream.shards)
        told = (each for each in buried if each is not None and share.has_name(each.name))
        epoch = next((each.epoch for each in told), None)
        return _NOT_HELD if epoch is None else HeldPartition(held=False, epoch=epoch, deleted=True)
    if wanted.partition >= found[1].partitions:
        return _NOT_HELD
    shard, topic = found
    if not share.has(topic):
        return _NOT_HELD
    state = shard.state.partition(topic.number, wanted.partition)
    gaps = tuple((gap.start, gap.end) for gap in shard.state.gaps_of(topic.number, wanted.partition))
    sums = while_merged(
        topic.name, lambda: digests(shard.reader, topic.number, wanted.partition, wanted.ranges, wanted.without)
    )
    ends = (state.start, state.end, state.history, gaps, state.deleted_to)
    return HeldPartition(True, topic.epoch, *ends, tuple(sums))


async def answer_owned(cluster: Cluster, request: OwnedRequest) -> str:
    """The body of an answer. Raises: UnknownStream. NotAgreed: the asker is no neighbour."""
    stream = cluster.stream(request.path)
    may_have(cluster, stream, request.asker)
    work = (stream, request.asker.stream, request.shard, request.number)
    topics, next = await asyncio.get_running_loop().run_in_executor(cluster.lookups, _owned, *work)
    return to_json(OwnedAnswer(cluster.name, stream.id, topics, next))


def _owned(
    stream: Stream, owner: bytes, shard: int, number: int
) -> tuple[tuple[OwnedTopic, ...], tuple[int, int] | None]:
    """The next topics of that owner, and where those behind them begin. Blocking."""
    if shard >= len(stream.shards):
        return (), None
    mine = (each for each in stream.shards[shard].state.topics() if each.owner == owner and each.number >= number)
    some = heapq.nsmallest(OWNED_MAX, mine, key=lambda topic: topic.number)
    after = (shard, some[-1].number + 1) if len(some) == OWNED_MAX else (shard + 1, 0)
    topics = tuple(OwnedTopic(each.incarnation, each.home or each.name, each.partitions) for each in some)
    return topics, after if after[0] < len(stream.shards) else None
