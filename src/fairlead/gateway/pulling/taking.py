"""Brings the rest of partitions from a direct neighbour: asks it for what follows, applies that, and asks again.

In: a neighbour, and partitions by incarnation. Out: what was brought, and which partitions it could not bring. Always
true: at most one answer is held in memory; a row is applied by the table that links' rows are applied by, as far as the
neighbour may speak here; how far a pull has come is where the log ends, so whoever begins again goes on there.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import place_of
from fairlead.gateway.pulling.answering import BYTES, BYTES_MAX, HEAD
from fairlead.gateway.pulling.neighbours import Neighbour, neighbours
from fairlead.gateway.pulling.serving import WANTED_MAX
from fairlead.model.errors import CorruptBatch, InvalidValue, NotAgreed, UnknownCluster, Unreachable
from fairlead.model.limits import FRAME_BYTES_MAX
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.claims import hear
from fairlead.streamlog.applying.pulled import apply_pulled
from fairlead.streamlog.frames.codec import decode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.payloads import decode_topic
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.messages import body_from_json
from fairlead.wire.neighbours import PullAnswer, PullRequest, WantedPartition
from fairlead.wire.waits import COMMAND_SECONDS

ANSWER_BYTES_MAX: Final = FRAME_BYTES_MAX + 8_000_000
"""A batch is never cut, and there are the heads of frames."""
BYTES_MIN: Final = 50_000
"""Of the batches that a neighbour is asked for at once, over however thin a line; one that is larger must pass."""
FAST_MS: Final = COMMAND_SECONDS * 1000 / 4
"""An answer that takes no longer is followed by one of twice its size."""
PIECE_ROWS: Final = 1000
"""Rows that are applied at once: the loop serves others between two commits."""
TOGETHER: Final = 50
"""Frames that are applied at once, and share a commit."""
TOGETHER_BYTES: Final = 4_000_000
"""Of their batches, unless a single frame has more."""
_KINDS: Final = frozenset({Kind.TOPIC, Kind.BATCH, Kind.START})

PartitionKey = tuple[bytes, int]
"""(incarnation, partition)."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull has brought so far."""

    records: int = 0
    size_bytes: int = 0
    done: int = 0
    """Partitions that need nothing more from that neighbour, or cannot have it."""
    total: int = 0
    failures: Mapping[PartitionKey, str] = field(default_factory=dict)
    """Partitions that it did not bring whole, and why."""
    lacking: frozenset[bytes] = frozenset()
    """Topics among them that it does not have, or not for us."""
    left: Sequence[PartitionKey] = ()
    """Partitions that may have more."""


class Pulls:
    """Of all streams of a cluster."""

    def __init__(self, cluster: Cluster, new_gateways: Callable[[], Gateways]) -> None:
        self._cluster = cluster
        self._gateways = new_gateways()
        self._bytes_max: dict[bytes, int] = {}
        """By neighbour, how much it is asked for at once, where its line was too thin for more."""

    async def pull(
        self,
        stream: Stream,
        neighbour: bytes,
        wanted: Mapping[bytes, Collection[int]],
        told: Callable[[Pulled], None] = lambda _: None,
    ) -> Pulled:
        """Bring what the neighbour, a stream's id, has beyond ours of these partitions, by incarnation. `told` hears of
        each answer. A topic that is not here is made, if the neighbour may bring it.

        Raises:
            NotAgreed: no link and no upstream binds the two. UnknownCluster: nobody knows where the neighbour is.
            Unreachable, Busy, StorageFull, StorageUnavailable: begin again later; it goes on from there.
            CorruptBatch: what it answers is not what was asked for. FairleadError: what it answers.
        """
        keys = [(incarnation, each) for incarnation, some in wanted.items() for each in some]
        pulled = Pulled(total=len(keys), left=keys)
        while keys:
            source = self._neighbour(stream, neighbour)
            some, later = keys[:WANTED_MAX], keys[WANTED_MAX:]
            step = _Step(stream, source, some)
            await step.take(await self._ask(stream, source, step.wanted))
            keys = [*step.again, *later]
            pulled = Pulled(
                pulled.records + step.records,
                pulled.size_bytes + step.size_bytes,
                pulled.total - len(keys),
                pulled.total,
                {**pulled.failures, **step.failures},
                pulled.lacking | step.lacking,
                keys,
            )
            told(pulled)
        return pulled

    async def news(self, stream: Stream, neighbour: bytes, incarnations: Sequence[bytes]) -> None:
        """Bring the newest rows of topics that are here, of the epochs that they have here: settings and partitions, no
        records. Raises as `pull`."""
        keys = [(each, 0) for each in incarnations]
        while keys:
            source = self._neighbour(stream, neighbour)
            some, later = keys[:WANTED_MAX], keys[WANTED_MAX:]
            step = _News(stream, source, some)
            await step.take(await self._ask(stream, source, step.wanted))
            keys = [*step.again, *later]

    async def owners(self, stream: Stream, neighbour: bytes, incarnations: Sequence[bytes]) -> None:
        """Take the later owners that the neighbour, which brings no topics, knows of topics that are here: as a source
        hears of them in its replica's answers. No records. Raises as `pull`."""
        source = self._neighbour(stream, neighbour)
        step = _Owners(stream, source, [(each, 0) for each in incarnations])
        await step.take(await self._ask(stream, source, step.wanted))

    def _neighbour(self, stream: Stream, id: bytes) -> Neighbour:
        """Looked for before each question: the agreement may have ended."""
        here = self._cluster.global_path(stream.path)
        found = next((each for each in neighbours(self._cluster, stream) if each.stream == id), None)
        if found is None:
            raise NotAgreed(f"the stream with id {id.hex()} is no neighbour of {here}; nothing is brought from there")
        if not found.urls:
            raise UnknownCluster(
                f"{found.path}: the addresses of its cluster are not known; run there: fairlead stream "
                f"replica resume -path {found.path} -replica {here}"
            )
        return found

    async def _ask(self, stream: Stream, source: Neighbour, wanted: Sequence[WantedPartition]) -> bytes:
        """An answer; a smaller one where a larger one does not come whole in time. Raises as `pull`."""
        clock, asker = self._cluster.clock, place_of(self._cluster, stream)
        while True:
            size = self._bytes_max.get(source.stream, BYTES_MAX)
            request = PullRequest(asker, source.path.path, tuple(wanted), ext={BYTES: size})
            began_ms = clock.monotonic_ms()
            try:
                answer = await self._gateways.pull(source.urls, request, ANSWER_BYTES_MAX)
            except Unreachable:
                if size <= BYTES_MIN:
                    raise
                self._bytes_max[source.stream] = max(size // 2, BYTES_MIN)
                continue
            if clock.monotonic_ms() - began_ms < FAST_MS:
                self._bytes_max[source.stream] = min(2 * size, BYTES_MAX)
            return answer


class _Step:
    """One question and its answer."""

    def __init__(self, stream: Stream, source: Neighbour, keys: Sequence[PartitionKey]) -> None:
        self._stream = stream
        self._source = source
        self._before = {key: _standing(stream, key) for key in keys}
        self.records = 0
        self.size_bytes = 0
        self.again: list[PartitionKey] = list(keys)
        """Partitions that may have more."""
        self.failures: dict[PartitionKey, str] = {}
        self.lacking: frozenset[bytes] = frozenset()

    @property
    def wanted(self) -> list[WantedPartition]:
        """What is asked for."""
        return [WantedPartition(*key, *standing) for key, standing in self._before.items()]

    async def take(self, answer: bytes) -> None:
        """Apply an answer. Raises: CorruptBatch, and what applying raises."""
        head, frames = self._parts(answer)
        turns = len(self.again)
        self.lacking = frozenset(head.lacking)
        for incarnation in head.lacking:
            for key in [key for key in self.again if key[0] == incarnation]:
                self._fail(key, f"{self._source.path} does not have it, or not for this stream")
        came = set[PartitionKey]()
        while some := await asyncio.to_thread(_some, frames):
            with self._stream.placing() as place_of:
                places = [self._checked(frame, came, place_of) for frame in some]
                # They share commits: 10,000 topics are not as many of them.
                applying = (self._frame(frame, *place) for frame, place in zip(some, places, strict=True))
                outcomes = await asyncio.gather(*applying, return_exceptions=True)
            for failed in filter(None, outcomes):
                raise failed
        if not came and len(self.again) == turns:
            raise self._broken("it says nothing of what was asked for")

    def _parts(self, answer: bytes) -> tuple[PullAnswer, Iterator[memoryview]]:
        view = memoryview(answer)
        try:
            (length,) = HEAD.unpack_from(view)
            head = body_from_json(bytes(view[HEAD.size : HEAD.size + length]), PullAnswer)
        except (struct.error, InvalidValue) as error:
            raise self._broken(str(error)) from error
        self._source.check_answers(head.cluster, head.stream)
        start = HEAD.size + length
        ends = list(accumulate(head.frames, initial=start))
        if min(head.frames, default=0) < 0 or ends[-1] != len(view) or len(head.frames) > len(self.again):
            raise self._broken("the lengths of its frames do not fit")
        return head, (view[low:high] for low, high in pairwise(ends))

    async def _frame(self, frame: Frame, key: PartitionKey, shard: Shard) -> None:
        refused: dict[PartitionKey, str] = {}
        size_bytes = sum(len(row.batch) for row in frame.rows)
        admission = replace(self._source.admission, falls_here=self._stream.falls_into(shard))
        for first in range(0, len(frame.rows), PIECE_ROWS):
            piece = replace(frame, rows=frame.rows[first : first + PIECE_ROWS])
            request = partial(apply_pulled, frame=piece, admission=admission)
            outcome = await shard.submit(request, size_bytes)
            self.records += outcome.appended
            refused.update(outcome.refused)
            if refused:
                break
        self.size_bytes += size_bytes
        self._judge(key, frame, refused.get(key, ""))

    def _judge(self, key: PartitionKey, frame: Frame, refused: str) -> None:
        """Whether the partition has all now, cannot have it, or is asked for again."""
        assert frame.repair is not None
        now = _standing(self._stream, key)
        if now != self._before[key] and (refused or not frame.repair.last):
            return
        if refused:
            self._fail(key, refused)
        elif frame.repair.last and now.end >= frame.repair.end:
            self.again.remove(key)
        elif any(shard.state.tombstone(key[0]) is not None for shard in self._stream.shards):
            self._fail(key, "the topic was deleted here")
        else:
            self._fail(key, f"{self._source.path} has it up to {frame.repair.end}, and brings it up to {now.end} only")

    def _fail(self, key: PartitionKey, why: str) -> None:
        self.failures[key] = why
        self.again.remove(key)

    def _checked(
        self, frame: Frame, came: set[PartitionKey], place_of: Callable[[bytes, str], int]
    ) -> tuple[PartitionKey, Shard]:
        """Which partition a frame is of, one that is not among those that `came`, and where that lives.

        Raises:
            CorruptBatch
        """
        repair = frame.repair
        named = None if repair is None else frame.topics.get(repair.number)
        if repair is None or named is None or frame.source != self._source.stream:
            raise self._broken("a frame is no repair of its own")
        key = (named.incarnation, repair.partition)
        if key in came or key not in self.again:
            raise self._broken(f"topic {named.name}, partition {repair.partition} was not asked for, or comes twice")
        came.add(key)
        if not all(_is_of(row, repair.number, repair.partition) for row in frame.rows):
            raise self._broken(f"topic {named.name}: rows of others, or of other kinds, come with it")
        return key, self._stream.shards[place_of(named.incarnation, named.name)]

    def _broken(self, why: str) -> CorruptBatch:
        return CorruptBatch(f"answer of {self._source.path} about missing records: {why}")


class _News(_Step):
    """The same of what has become of topics that are here, without their records."""

    @property
    def wanted(self) -> list[WantedPartition]:
        """The partitions, as if all records were here."""
        return [replace(each, end=OFFSET_MAX) for each in super().wanted]

    async def _frame(self, frame: Frame, key: PartitionKey, shard: Shard) -> None:
        news = [row for row in frame.rows if _is_news(row, self._before[key].epoch)]
        await super()._frame(replace(frame, rows=news), key, shard)

    def _judge(self, key: PartitionKey, frame: Frame, refused: str) -> None:
        self.again.remove(key)


class _Owners(_News):
    """The same of who owns them by now."""

    async def _frame(self, frame: Frame, key: PartitionKey, shard: Shard) -> None:
        told = [decode_topic(row.batch) for row in frame.rows if row.kind == Kind.TOPIC]
        admission = Admission(
            moves_owners=self._source.admission.moves_owners, falls_here=self._stream.falls_into(shard)
        )
        await shard.submit(partial(hear, source=self._source.stream, topics=told, admission=admission))
        self._judge(key, frame, "")


class _Standing(NamedTuple):
    """How far a partition is here."""

    end: int
    epoch: int
    """Of the topic; -1: it is not here."""
    version: int


def _standing(stream: Stream, key: PartitionKey) -> _Standing:
    incarnation, partition = key
    found = stream.by_incarnation(incarnation)
    if found is None:
        return _Standing(0, -1, -1)
    shard, topic = found
    end = shard.state.partition(topic.number, partition).end if partition < topic.partitions else 0
    return _Standing(end, topic.epoch, topic.version)


def _is_news(row: Row, epoch: int) -> bool:
    """A row of a topic, of that epoch. Raises: CorruptBatch."""
    return row.kind == Kind.TOPIC and decode_topic(row.batch).epoch == epoch


def _is_of(row: Row, number: int, partition: int) -> bool:
    return row.topic == number and row.kind in _KINDS and (row.kind == Kind.TOPIC or row.partition == partition)


def _some(answer: Iterator[memoryview]) -> list[Frame]:
    """The next frames of an answer, decoded; none at its end. A frame may be far smaller than what is in it."""
    found, size_bytes = list[Frame](), 0
    for data in answer:
        frame = decode_frame(data)
        found.append(frame)
        size_bytes += sum(len(row.batch) for row in frame.rows)
        if len(found) >= TOGETHER or size_bytes >= TOGETHER_BYTES:
            break
    return found
