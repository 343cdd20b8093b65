"""Metadata: where topics are, and their making when they are asked for.

A request for all topics is answered with those of the stream whose topics have bare names here (the default stream, or
the one that is exposed); on the main listener with those of every stream, if `listed_streams` says so. Asking for a
topic by name makes it if the stream and the client allow it (KIP-361); the answer waits for that, so that the client
need not ask again.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.errors import code_of
from fairlead.broker.node import NODE_ID, kafka_cluster_id
from fairlead.broker.pacing import Pace, in_turns
from fairlead.broker.pieces import Pieces
from fairlead.broker.topics import authorized
from fairlead.broker.topics.partitions import find_topic
from fairlead.broker.topics.topic_changes import Change, change_all
from fairlead.cluster.stream import Stream
from fairlead.model.errors import AlreadyExists
from fairlead.model.limits import ANSWER_BYTES_MAX
from fairlead.protocol.metadata import NOT_ASKED, Asked, MetadataRequest, Options, begin, end, missing, topic

API_KEY = 3
RAW = True


async def handle(ctx: RequestContext, body: Any) -> AnswerFields:
    """All topics, or each one that is asked for with its own code."""
    request = MetadataRequest(body, ctx.version)
    count, pieces, options = await (_all(ctx, request) if request.all_topics else _named(ctx, request))
    operations = authorized.CLUSTER if options.cluster_operations else NOT_ASKED
    host, port = ctx.connection.advertised
    cluster_id = kafka_cluster_id(ctx.cluster.id)
    first = begin(ctx.version, node=NODE_ID, host=host, port=port, cluster_id=cluster_id, topic_count=count)
    return Packed([first, *pieces, end(ctx.version, operations)])


async def _all(ctx: RequestContext, request: MetadataRequest) -> tuple[int, list[bytes], Options]:
    options = request.options()
    if options.topic_operations:  # which no client asks for all topics; what is kept packed has none
        asked = await in_turns(lambda name: Asked(name, None), ctx.listener.listed_names())
        return len(asked), await _answered(ctx, asked, options, Pace()), options
    listed = {stream: ctx.listener.prefix_of(stream) for stream in ctx.listener.listed()}
    return *await ctx.listener.packed.all(listed, ctx.version), options


async def _named(ctx: RequestContext, request: MetadataRequest) -> tuple[int, list[bytes], Options]:
    pace = Pace()
    named: dict[Asked, None] = {}
    for item in request.topics():
        named[item] = None
        await pace.turn()
    asked = list(named)
    options = request.options()
    if options.allow_auto_creation:
        await _make_missing(ctx, asked, pace)
    return len(asked), await _answered(ctx, asked, options, pace), options


async def _answered(ctx: RequestContext, asked: list[Asked], options: Options, pace: Pace) -> list[bytes]:
    pieces = Pieces()
    for item in asked:
        fits = pieces.size_bytes < ANSWER_BYTES_MAX
        pieces.add(_answer(ctx, item, options) if fits else missing(ctx.version, item, ErrorCode.invalid_request))
        await pace.turn()
    return pieces.all()


def _answer(ctx: RequestContext, asked: Asked, options: Options) -> bytes:
    try:
        found = find_topic(ctx.listener, asked.name, asked.topic_id)
    except Exception as error:
        return missing(ctx.version, asked, code_of(error))
    name = asked.name or ctx.listener.name_of(found.stream, found.topic.name)
    topic_id = found.stream.topic_id(found.shard, found.topic)
    operations = authorized.of_topic(found) if options.topic_operations else NOT_ASKED
    epochs = found.shard.state.topic_table.leader_epochs(found.topic.number)
    return topic(ctx.version, NODE_ID, name, topic_id, found.topic.partitions, epochs, operations)


async def _make_missing(ctx: RequestContext, asked: list[Asked], pace: Pace) -> None:
    wanted: dict[tuple[Stream, str], Change] = {}
    for item in asked:
        if item.name is not None and (missed := _may_make(ctx, item.name)) is not None:
            stream, name = missed
            wanted[missed] = Change(stream, name, stream.creation(name))
        await pace.turn()
    for outcome in await change_all(list(wanted.values())):
        if isinstance(outcome, Exception) and not isinstance(outcome, AlreadyExists):
            code_of(outcome)  # what is not foreseen is logged; the answer says that there is no such topic


def _may_make(ctx: RequestContext, name: str) -> tuple[Stream, str] | None:
    """Stream and plain name of a topic that does not exist and may be made."""
    try:
        stream, plain = ctx.listener.resolve(name)
    except Exception:  # answered with its code by `_answer`
        return None
    return (stream, plain) if stream.may_autocreate and stream.find_topic(plain) is None else None
