"""DescribeLogDirs (KIP-113): how many bytes each partition has, and how much room is left.

A stream is shown as a directory of its own, by its path: that is where its topics lie together. Whoever asks for all
topics gets those that a request for all topics lists. Sizes are what `stream topic info` shows as `physicalsize`;
counting them reads columns of merged segments, each once, on the threads of look-ups, for one request of a listener at
a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.errors import code_of
from fairlead.broker.pacing import Pace
from fairlead.broker.pieces import Pieces
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.model.errors import FairleadError, UnknownStream
from fairlead.model.limits import ANSWER_BYTES_MAX
from fairlead.protocol import describe_log_dirs as packed
from fairlead.streamlog.reading.sizes import Size
from fairlead.streamlog.writing.shard import Shard

API_KEY = 35
VERSIONS = range(1, 5)

_EMPTY = Size()


class _Asked(NamedTuple):
    """A topic, and which of its partitions."""

    shard: Shard
    number: int
    partitions: Sequence[int]


@dataclass(slots=True)
class _Wanted:
    """What is asked for of one stream."""

    topics: dict[str, _Asked] = field(default_factory=dict)
    shards: set[Shard] = field(default_factory=set)


_Streams = dict[Stream, _Wanted]
_Sizes = Mapping[Shard, Mapping[tuple[int, int], Size]]


class _Measured(NamedTuple):
    sizes: dict[Stream, _Sizes | FairleadError]
    total_bytes: int
    free_bytes: int


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """A directory for each stream that has a topic which is asked for, and for the listener's own."""
    pace = Pace()
    streams = await (_all(ctx, pace) if request.topics is None else _named(ctx, request.topics, pace))
    shards = {stream: wanted.shards for stream, wanted in streams.items()}
    async with ctx.listener.measuring:
        loop = asyncio.get_running_loop()
        measured = await loop.run_in_executor(ctx.cluster.lookups, _measured, ctx.cluster, shards)
    left_bytes = ANSWER_BYTES_MAX
    directories: list[list[bytes]] = []
    for stream, wanted in streams.items():
        directories.append(await _directory(ctx, stream, wanted.topics, measured, left_bytes, pace))
        left_bytes -= sum(map(len, directories[-1]))
    return Packed(packed.answer(ctx.version, directories))


def _home(ctx: RequestContext) -> _Streams:
    """Kafka names its directory also if it holds nothing that was asked for; no answer at all means "not allowed"."""
    try:
        return {ctx.listener.home: _Wanted()}
    except UnknownStream:
        return {}


async def _all(ctx: RequestContext, pace: Pace) -> _Streams:
    streams: _Streams = {}
    for stream in ctx.listener.listed():
        wanted = streams[stream] = _Wanted(shards=set(stream.shards))
        prefix = ctx.listener.prefix_of(stream)
        for shard in stream.shards:
            for topic in shard.state.topics():
                wanted.topics[prefix + topic.name] = _Asked(shard, topic.number, range(topic.partitions))
                await pace.turn()
    return streams


async def _named(ctx: RequestContext, asked_for: Sequence[Any], pace: Pace) -> _Streams:
    """As in Kafka, what does not exist is not in the answer."""
    streams = _home(ctx)
    for asked in asked_for:
        await pace.turn()
        try:
            found = ctx.listener.find(asked.topic)
        except FairleadError:
            continue
        wanted = streams.setdefault(found.stream, _Wanted())
        wanted.shards.add(found.shard)
        before = wanted.topics[asked.topic].partitions if asked.topic in wanted.topics else ()
        there = [index for index in asked.partitions if 0 <= index < found.topic.partitions]
        wanted.topics[asked.topic] = _Asked(found.shard, found.topic.number, list(dict.fromkeys([*before, *there])))
    return streams


def _measured(cluster: Cluster, shards: Mapping[Stream, set[Shard]]) -> _Measured:
    """Blocking."""
    sizes: dict[Stream, _Sizes | FairleadError] = {}
    for stream, chosen in shards.items():
        try:
            sizes[stream] = {shard: shard.sizes.all() for shard in chosen}
        except FairleadError as error:
            sizes[stream] = error
    return _Measured(sizes, cluster.storage.total_bytes(), cluster.storage.free_bytes())


async def _directory(
    ctx: RequestContext, stream: Stream, topics: Mapping[str, _Asked], measured: _Measured, room_bytes: int, pace: Pace
) -> list[bytes]:
    sizes = measured.sizes[stream]
    space = (measured.total_bytes, measured.free_bytes)
    if not isinstance(sizes, Mapping):
        return packed.directory(ctx.version, stream.path, 0, [], *space, code_of(sizes))
    pieces = Pieces()
    for name, asked in topics.items():
        of_shard = sizes[asked.shard]
        counted = [(index, of_shard.get((asked.number, index), _EMPTY).physical_bytes) for index in asked.partitions]
        pieces.add(packed.topic(ctx.version, name, counted))
        if pieces.size_bytes > room_bytes:
            return packed.directory(ctx.version, stream.path, 0, [], *space, ErrorCode.invalid_request)
        await pace.turn()
    return packed.directory(ctx.version, stream.path, pieces.count, pieces.all(), *space)
