"""ListOffsets: the earliest, the latest, or the first offset at or after a time.

Besides times there are numbers below zero (KIP-79, KIP-734, KIP-405, KIP-1005): -1 latest, -2 earliest, -3 of the
largest timestamp, -4 earliest on local disks (all is local here), -5 and -6 of tiered storage (there is none).
Look-ups by time open the one batch they end at, on threads of their own. Who reads committed records is told of none
that it cannot read yet, as by Kafka: it would stand behind its own end.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.errors import RefusedRequest, code_of
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.partitions import check_epoch
from fairlead.broker.topics.topics import Found
from fairlead.protocol import list_offsets as packed
from fairlead.protocol.fetch import READ_COMMITTED
from fairlead.streamlog.values import PartitionState

API_KEY = 2

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
_TIERED = frozenset({-5, -6})

_NOTHING = (-1, -1)


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """One offset for each partition, with its timestamp if a timestamp was asked for."""
    committed = getattr(request, "isolation_level", 0) == READ_COMMITTED
    pace = Pace()
    topics: list[bytes] = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            partitions.append(await _answered(ctx, topic.name, asked, committed))
            await pace.turn()
        topics.append(packed.topic(ctx.version, topic.name, partitions))
        await pace.turn()
    return Packed(packed.answer(ctx.version, topics))


async def _answered(ctx: RequestContext, name: str, asked: Any, committed: bool) -> bytes:
    partition: int = asked.partition_index
    try:
        found = ctx.listener.find(name)
        found.topic.check_partition(partition)
        check_epoch(found, partition, getattr(asked, "current_leader_epoch", -1))
        offset, timestamp = await _look_up(ctx, found, partition, asked.timestamp, committed)
    except Exception as error:
        return packed.partition(ctx.version, partition, code_of(error))
    state = found.shard.state.partition(found.topic.number, partition)
    epoch = _epoch_at(state, max(found.topic.epoch, state.epoch), offset)
    return packed.partition(ctx.version, partition, ErrorCode.none, timestamp, offset, epoch)


async def _look_up(
    ctx: RequestContext, found: Found, partition: int, timestamp: int, committed: bool
) -> tuple[int, int]:
    """(offset, timestamp); both -1 if there is no such record, the timestamp alone for the ends."""
    state = found.shard.state.partition(found.topic.number, partition)
    end = found.shard.state.stable_end(found.topic.number, partition, state.end) if committed else state.end
    if timestamp == LATEST:
        return end, -1
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return state.log_start, -1
    if timestamp in _TIERED:
        return _NOTHING
    if timestamp < MAX_TIMESTAMP:
        raise RefusedRequest(ErrorCode.unsupported_version, f"{timestamp} is no timestamp")
    reader = found.shard.reader
    search = reader.offset_of_newest if timestamp == MAX_TIMESTAMP else reader.offset_for_time
    arguments = () if timestamp == MAX_TIMESTAMP else (timestamp,)
    loop = asyncio.get_running_loop()
    hit: tuple[int, int] | None = await loop.run_in_executor(
        ctx.cluster.lookups, search, found.topic.number, partition, *arguments
    )
    return _NOTHING if hit is None or (committed and hit[0] >= end) else hit


def _epoch_at(state: PartitionState, current: int, offset: int) -> int:
    """Topic epoch of the record at an offset; the `current` one at the end, where the next record will be."""
    if offset < 0:
        return -1
    return current if offset >= state.end else state.epoch_before(offset + 1)
