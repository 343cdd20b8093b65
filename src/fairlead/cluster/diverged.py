"""Copies what a stream's cuts keep into the diverged topics, which may be in other shards than what was cut.

A takeover may cut tens of thousands of partitions, so all tails of a shard are copied in one pass over its log, those
of some topics at a time. What fails of one tail, since its diverged topic cannot be written, fails of that tail alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial

from fairlead.cluster.stream import CHANGED_TOGETHER, Stream
from fairlead.model.errors import FairleadError, InvalidName, TryAgain
from fairlead.model.names import KAFKA_SCHEME, names_like, parse_stream_path
from fairlead.streamlog.requests import diverged
from fairlead.streamlog.requests.cuts import end_keep
from fairlead.streamlog.requests.diverged import Tail
from fairlead.streamlog.rows import Row
from fairlead.streamlog.values import Topic, is_kafka
from fairlead.streamlog.writing.shard import Shard

TAILS_AT_ONCE = 1000
"""Looking for so many holds the loop for two milliseconds."""
UNKNOWN_OWNER_DIGITS = 8
"""Of the id of an owner whose place nobody knows, in place of its cluster's name."""


Places = Callable[[bytes], str]
"""The global path of a stream by its id; empty if that is not known."""
Step = tuple[Tail, Callable[[], Awaitable[None]]]
"""What is to be done for a tail."""


def _nowhere(_: bytes) -> str:
    return ""


async def copy_tails(stream: Stream, shard: Shard, places: Places = _nowhere) -> None:
    """Copy all that cuts of a shard keep, and end their marks. Whatever fails is begun again where it ended, by the
    next call. `places` knows streams of which no topic is left here, as after a takeover of all.

    Raises:
        TryAgain: some tails could not be copied, and all others were.
        Damaged, Missing, StorageUnavailable: what the shard keeps cannot be read.
    """
    copying = _Copying(stream, shard, places)
    tails = [tail async for tail in _in_turns(diverged.tails(shard.state))]
    parts = diverged.read(shard.announced, tails, copying.copied_to)
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        await copying.do((tail, partial(copying.append, tail, rows)) for tail, rows in part)
    await copying.do((tail, partial(copying.end, tail)) for tail in tails)
    copying.check()


class _Copying:
    """The copying of a shard's tails, once.

    Always true: of a tail of which a batch could not be added, none behind it is added; its mark stays.
    """

    def __init__(self, stream: Stream, shard: Shard, places: Places) -> None:
        self._stream = stream
        self._shard = shard
        self._places = places
        self._paths: dict[bytes, str] = {}
        """Global paths of owners of tails."""
        self._records: Counter[tuple[int, int, bytes]] = Counter()
        """Copied, by tail."""
        self._failed: dict[tuple[int, int, bytes], str] = {}
        """Tails that could not be copied, and why."""

    def copied_to(self, tail: Tail) -> int:
        """Where the copy of a tail ends; 0 if there is none. Any thread may ask."""
        return max((_end(each, tail) for each in self._stream.shards), default=0)

    async def do(self, steps: Iterable[Step]) -> None:
        """Do them for some topics at a time, those of one topic one after the other: the first may make a diverged
        topic and take its name, the last may find that no other is left."""
        by_topic: dict[int, list[Step]] = {}
        for step in steps:
            by_topic.setdefault(step[0].topic.number, []).append(step)
        topics = list(by_topic.values())
        for first in range(0, len(topics), CHANGED_TOGETHER):
            await asyncio.gather(*map(self._do_in_order, topics[first : first + CHANGED_TOGETHER]))

    async def _do_in_order(self, steps: Sequence[Step]) -> None:
        for tail, step in steps:
            if tail.key not in self._failed:
                try:
                    await step()
                except FairleadError as error:
                    self._failed[tail.key] = f"topic {tail.topic.name}, partition {tail.partition}: {error}"

    def check(self) -> None:
        """Raises: TryAgain: some tails could not be copied."""
        for why in self._failed.values():
            more = f" (and {len(self._failed) - 1} more)" if len(self._failed) > 1 else ""
            raise TryAgain(f"what was cut off {why}{more}")

    async def append(self, tail: Tail, rows: Sequence[Row]) -> None:
        """Add batches of a tail to its diverged topic."""
        owner = diverged.owner_of(tail, rows)
        if owner not in self._paths:
            self._paths[owner] = await self._path_of(owner)
        size_bytes = sum(len(row.batch) for row in rows)
        with self._stream.placing() as place_of:
            target, made = self._target(tail, owner, place_of)
            await target.submit(partial(diverged.append, made=made, tail=tail, rows=rows), size_bytes)
        self._records[tail.key] += sum(row.records for row in rows)

    async def end(self, tail: Tail) -> None:
        """All of a tail is copied: end its mark."""
        shard, partition = self._shard, tail.partition
        into = ""
        is_last = diverged.partitions_kept(shard.state, tail) == {partition}
        for each in self._stream.shards:
            topic = each.state.by_incarnation(tail.incarnation)
            if topic is not None:
                into = topic.name
                if is_last:
                    await each.submit(partial(diverged.finish, tail=tail))
        await shard.submit(partial(end_keep, number=tail.topic.number, partition=partition, keep=tail.incarnation))
        if self._records[tail.key]:
            self._stream.owner_log.tail_copied(tail.topic.name, partition, into, self._records[tail.key])

    def _target(self, tail: Tail, owner: bytes, place_of: Callable[[bytes, str], int]) -> tuple[Shard, Topic]:
        """The shard of the diverged topic, and the topic as this site would make it. A link may be bringing it, by the
        name that it has at another holder, or it waits for that name: then it is made there, by a name of that shard.
        """
        stream, at = self._stream, self._paths[owner]
        known = stream.by_incarnation(tail.incarnation)
        if known is not None:
            shard, topic = known
            return shard, diverged.topic_of(tail, self._shard.state, topic.name, owner, at)
        names = diverged.names(tail, _cluster(at) or owner.hex()[:UNKNOWN_OWNER_DIGITS])
        name = next(name for name in names if stream.find_topic(name) is None)
        shard = stream.shards[place_of(tail.incarnation, name)]
        free = (each for each in names_like(name) if stream.shard_for(each) is shard)
        here = next(each for each in free if stream.find_topic(each) is None)
        return shard, diverged.topic_of(tail, self._shard.state, name, owner, at)._replace(name=here)

    async def _path_of(self, owner: bytes) -> str:
        if owner == self._stream.id:
            return self._stream.global_path
        return await asyncio.to_thread(_said_path, self._stream, owner) or self._places(owner)


def _end(shard: Shard, tail: Tail) -> int:
    """Where the copy of a tail ends that is in the shard; 0 if none is."""
    topic = shard.state.by_incarnation(tail.incarnation)
    return 0 if topic is None else shard.state.partition(topic.number, tail.partition).end


def _said_path(stream: Stream, owner: bytes) -> str:
    """The global path of a stream, as rows of its topics say it; empty if none does. Any thread may ask."""
    for table in (shard.state.topic_table for shard in stream.shards):
        if owner in table.owned:
            for number in table.numbers():
                if table.owners[number] == owner and table.owner_places[number]:
                    return table.owner_places[number]
    return ""


async def _in_turns(tails: Iterable[Tail]) -> AsyncIterator[Tail]:
    for number, tail in enumerate(tails, 1):
        yield tail
        if number % TAILS_AT_ONCE == 0:
            await asyncio.sleep(0)


def _cluster(path: str) -> str | None:
    if is_kafka(path):
        return path.removeprefix(KAFKA_SCHEME)
    try:
        return parse_stream_path(path).cluster
    except InvalidName:
        return None
