"""OffsetCommit: cursors as rows of their topics' streams. A commit that changes nothing writes nothing.

Always true: what a member commits is handed over while its generation runs. A request may take several commits of
several logs; by the time of a later one the member may be out, and another one may have committed in its place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of
from fairlead.broker.group_logs.cursors import group_key
from fairlead.broker.groups.values import Identity
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.topics import Found
from fairlead.cluster.stream import CommittedOffset, Stream
from fairlead.model.errors import FairleadError, InvalidName, NotFound
from fairlead.model.limits import OFFSET_METADATA_BYTES_MAX
from fairlead.protocol.messages import Fields

API_KEY = 8

TOPIC_IDS_SINCE = 10
"""KIP-848."""

PlaceInRequest = tuple[int, int]
"""Topic and partition by their places in the request."""
Commit = Callable[[list[CommittedOffset]], Awaitable[list[Exception | None]]]


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Commit for a member of the group's generation, or for anybody while the group is empty."""
    identity = Identity(request.member_id, getattr(request, "group_instance_id", None))
    generation = request.generation_id_or_member_epoch
    key = group_key(ctx.listener, request.group_id)
    refused, known_cuts = ctx.groups.check_commit(key, identity, generation), ctx.groups.known_cuts(key)
    pace = Pace()
    if refused is not ErrorCode.none:
        return await _answer(request, {}, refused, pace)

    def check() -> None:
        code = ctx.groups.check_commit(key, identity, generation)
        if code is not ErrorCode.none:
            raise RefusedRequest(code, f"consumer group {key.group}: {code.name}")

    codes: dict[PlaceInRequest, ErrorCode] = {}
    for stream, offsets in (await _by_stream(ctx, request, codes, pace)).items():
        known = None if known_cuts is None else known_cuts.get(stream.id.hex(), ())
        await _commit(partial(stream.commit_cursors, request.group_id, known_cuts=known, check=check), offsets, codes)
    return await _answer(request, codes, ErrorCode.none, pace)


async def _by_stream(
    ctx: RequestContext, request: Any, codes: dict[PlaceInRequest, ErrorCode], pace: Pace
) -> dict[Stream, dict[PlaceInRequest, CommittedOffset]]:
    """What may be committed, by stream; what may not has its code in `codes`."""
    chosen: dict[Stream, dict[PlaceInRequest, CommittedOffset]] = {}
    for t, topic in enumerate(request.topics):
        found = _find(ctx, topic)
        for p, partition in enumerate(topic.partitions):
            await pace.turn()
            try:
                if isinstance(found, ErrorCode):
                    raise RefusedRequest(found, "no such topic")
                if not found.shard.state.cursor_table.may_have_group(request.group_id, ctx.settings.groups_max):
                    raise RefusedRequest(ErrorCode.group_max_size_reached, "too many groups")
                offset = _offset(found.topic.name, partition)
            except FairleadError as error:
                codes[t, p] = code_of(error)
            else:
                chosen.setdefault(found.stream, {})[t, p] = offset
    return chosen


def _find(ctx: RequestContext, topic: Any) -> Found | ErrorCode:
    by_id = ctx.version >= TOPIC_IDS_SINCE
    try:
        if by_id:
            return ctx.listener.find_id(topic.topic_id.bytes if topic.topic_id is not None else bytes(16))
        return ctx.listener.find(topic.name)
    except (NotFound, InvalidName):
        return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition


def _offset(topic: str, partition: Any) -> CommittedOffset:
    metadata = partition.committed_metadata or ""
    if len(metadata.encode()) > OFFSET_METADATA_BYTES_MAX:
        raise RefusedRequest(ErrorCode.offset_metadata_too_large, f"metadata above {OFFSET_METADATA_BYTES_MAX} bytes")
    if partition.committed_offset < 0:
        raise RefusedRequest(ErrorCode.offset_out_of_range, f"offset {partition.committed_offset}")
    epoch = getattr(partition, "committed_leader_epoch", -1)
    return CommittedOffset(topic, partition.partition_index, partition.committed_offset, epoch, metadata)


async def _commit(
    commit: Commit, offsets: dict[PlaceInRequest, CommittedOffset], codes: dict[PlaceInRequest, ErrorCode]
) -> None:
    try:
        outcomes = await commit(list(offsets.values()))
    except FairleadError as error:
        codes.update(dict.fromkeys(offsets, _coordinator_code(error)))
        return
    for place, outcome in zip(offsets, outcomes, strict=True):
        codes[place] = ErrorCode.none if outcome is None else code_of(outcome)


def _coordinator_code(error: FairleadError) -> ErrorCode:
    """A shard that cannot write now: clients look for the coordinator and try again."""
    code = code_of(error)
    stops = {ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error, ErrorCode.request_timed_out}
    return ErrorCode.coordinator_not_available if code in stops else code


async def _answer(
    request: Any, codes: dict[PlaceInRequest, ErrorCode], otherwise: ErrorCode, pace: Pace
) -> AnswerFields:
    topics: list[Fields] = []
    for t, topic in enumerate(request.topics):
        partitions: list[Fields] = []
        for p, partition in enumerate(topic.partitions):
            partitions.append(_partition(partition.partition_index, codes.get((t, p), otherwise)))
            await pace.turn()
        topic_id = getattr(topic, "topic_id", None)
        topics.append({"name": getattr(topic, "name", ""), "topic_id": topic_id, "partitions": partitions})
    return {"topics": topics}


def _partition(index: int, code: ErrorCode) -> Fields:
    return {"partition_index": index, "error_code": code}
