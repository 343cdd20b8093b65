"""Copies what a stream's cuts keep into the diverged topics, which may be in other shards than what was cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from fairlead.cluster.stream import Stream
from fairlead.model.errors import InvalidName
from fairlead.model.names import KAFKA_SCHEME, parse_stream_path
from fairlead.streamlog.requests import diverged
from fairlead.streamlog.requests.cuts import end_keep
from fairlead.streamlog.requests.diverged import Tail
from fairlead.streamlog.rows import Row
from fairlead.streamlog.values import Topic, is_kafka
from fairlead.streamlog.writing.shard import Shard

UNKNOWN_OWNER_DIGITS = 8
"""Of the id of an owner whose place nobody knows, in place of its cluster's name."""


Places = Callable[[bytes], str]
"""The global path of a stream by its id; empty if that is not known."""


def _nowhere(_: bytes) -> str:
    return ""


async def copy_tails(stream: Stream, shard: Shard, places: Places = _nowhere) -> None:
    """Copy all that cuts of a shard keep, and end their marks. Whatever fails is begun again where it ended. `places`
    knows streams of which no topic is left here, as after a takeover of all.

    Raises:
        Damaged, Missing, StorageFull, StorageUnavailable
    """
    for tail in diverged.tails(shard.state):
        await _copy(stream, shard, tail, places)


async def _copy(stream: Stream, shard: Shard, tail: Tail, places: Places) -> None:
    end = max((_end(each, tail) for each in stream.shards), default=0)
    copied, into = 0, ""
    while rows := await asyncio.to_thread(diverged.read, shard.announced, tail, end):
        target, made = _target(stream, shard, tail, rows, places)
        size_bytes = sum(len(row.batch) for row in rows)
        end = await target.submit(partial(diverged.append, made=made, tail=tail, rows=rows), size_bytes)
        copied, into = copied + sum(row.records for row in rows), made.name
    number, partition = tail.topic.number, tail.partition
    others = [other for other in diverged.tails(shard.state) if other.incarnation == tail.incarnation]
    for each in stream.shards if {other.partition for other in others} == {partition} else ():
        if each.state.by_incarnation(tail.incarnation) is not None:
            await each.submit(partial(diverged.finish, tail=tail))
    await shard.submit(partial(end_keep, number=number, partition=partition, keep=tail.incarnation))
    if copied:
        stream.owner_log.tail_copied(tail.topic.name, partition, into, copied)


def _end(shard: Shard, tail: Tail) -> int:
    """Where the copy of a tail ends that is in the shard; 0 if none is."""
    topic = shard.state.by_incarnation(tail.incarnation)
    return 0 if topic is None else shard.state.partition(topic.number, tail.partition).end


def _target(stream: Stream, shard: Shard, tail: Tail, rows: list[Row], places: Places) -> tuple[Shard, Topic]:
    """The shard of the diverged topic, and the topic as this site would make it."""
    owner = diverged.owner_of(tail, rows)
    at = stream.global_path if owner == stream.id else next(_places(stream, owner), places(owner))
    for each in stream.shards:
        known = each.state.by_incarnation(tail.incarnation)
        if known is not None or each.state.tombstone(tail.incarnation) is not None:
            return each, diverged.topic_of(tail, shard.state, "" if known is None else known.name, owner, at)
    names = diverged.names(tail, _cluster(at) or owner.hex()[:UNKNOWN_OWNER_DIGITS])
    name = next(name for name in names if stream.find_topic(name) is None)
    return stream.shard_for(name), diverged.topic_of(tail, shard.state, name, owner, at)


def _places(stream: Stream, owner: bytes) -> Iterator[str]:
    """Global paths of a stream, as rows of its topics say."""
    tables = [shard.state.topic_table for shard in stream.shards]
    if any(owner in table.owned for table in tables):
        yield from (topic.owner_at for topic in stream.topics() if topic.owner == owner and topic.owner_at)


def _cluster(path: str) -> str | None:
    if is_kafka(path):
        return path.removeprefix(KAFKA_SCHEME)
    try:
        return parse_stream_path(path).cluster
    except InvalidName:
        return None
