"""HTTP of the gateway for a neighbour that lacks records: what follows of some partitions. Changes nothing.

    POST /gateway/pull    PullRequest → length of PullAnswer (uint32, little endian), PullAnswer, frames

The frames are repairs: of each partition that had its turn those rows that fit, its last frame so marked. Where the
topic is newer here than the asker knows it, its row comes alone: the asker may have to cut its log first. An error is
the envelope of the admin interface.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.pulling.neighbours import may_have
from fairlead.gateway.pulling.serving import READ_MS, WANTED_MAX, serve, while_merged
from fairlead.model.clock import Clock
from fairlead.model.errors import InvalidValue
from fairlead.streamlog.applying.pulled import NO_LINK, NO_RUN
from fairlead.streamlog.frames.codec import encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.reading.rest import rest_of, topic_row
from fairlead.streamlog.rows import Row
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.messages import to_json
from fairlead.wire.neighbours import PullAnswer, PullRequest, WantedPartition

router = APIRouter()

BYTES_MAX: Final = 4_000_000
"""Of the batches in one answer, unless a single one is larger; an asker behind a thin line asks for less."""
BYTES: Final = "bytes_max"
"""Key in a question's `ext` of what it asks for; an older program does not know it, and answers with `BYTES_MAX`."""
HEAD: Final = struct.Struct("<I")


@router.post("/gateway/pull", include_in_schema=False)
async def pull(request: Request) -> Response:
    """What follows of some partitions that a neighbour has in part?"""
    return await serve(request, PullRequest, answer_pull, "application/octet-stream")


async def answer_pull(cluster: Cluster, request: PullRequest) -> bytes:
    """The body of an answer.

    Raises:
        InvalidValue, UnknownStream. NotAgreed: the asker is no neighbour.
        StorageUnavailable, Damaged: the records cannot be read.
    """
    if len(request.wanted) > WANTED_MAX:
        raise InvalidValue(f"{len(request.wanted)} partitions in one question: {WANTED_MAX} are allowed")
    stream = cluster.stream(request.path)
    share = may_have(cluster, stream, request.asker)
    found, lacking = list[_Found](), dict[bytes, None]()
    for wanted in request.wanted:
        held = _find(stream, wanted)
        if held is None or not share.has(held.topic):
            lacking[wanted.incarnation] = None
        else:
            found.append(held)
    found = [_as_at(held, request.asker.stream) for held in found]
    loop = asyncio.get_running_loop()
    frames = await loop.run_in_executor(cluster.lookups, _frames, stream, found, _bytes_max(request), cluster.clock)
    head = PullAnswer(cluster.name, stream.id, tuple(map(len, frames)), tuple(lacking))
    text = to_json(head).encode()
    return b"".join([HEAD.pack(len(text)), text, *frames])


class _Found(NamedTuple):
    wanted: WantedPartition
    shard: Shard
    number: int
    """Of the shard."""
    topic: Topic


def _as_at(found: _Found, asker: bytes) -> _Found:
    """A topic of the asker's comes back by the name that it had there."""
    topic = found.topic
    return found._replace(topic=topic._replace(name=topic.home or topic.name)) if topic.owner == asker else found


def _find(stream: Stream, wanted: WantedPartition) -> _Found | None:
    for number, shard in enumerate(stream.shards):
        topic = shard.state.by_incarnation(wanted.incarnation)
        if topic is not None and wanted.partition < topic.partitions:
            return _Found(wanted, shard, number, topic)
    return None


def _bytes_max(request: PullRequest) -> int:
    """How large the answer may be."""
    asked = request.ext.get(BYTES)
    return max(1, min(asked, BYTES_MAX)) if isinstance(asked, int) else BYTES_MAX


def _frames(stream: Stream, found: Sequence[_Found], bytes_max: int, clock: Clock) -> list[bytes]:
    """Frames of the first of these partitions, as many as an answer takes. Blocking."""
    frames, left, until_ms = list[bytes](), bytes_max, clock.monotonic_ms() + READ_MS
    for each in found:
        if frames and (left <= 0 or clock.monotonic_ms() > until_ms):
            break
        frame = _frame(stream, each, left)
        frames.append(frame)
        left -= len(frame)
    return frames


def _frame(stream: Stream, found: _Found, bytes_max: int) -> bytes:
    wanted, shard, number, topic = found
    log = shard.announced
    end = log.state.partition(topic.number, wanted.partition).end
    read_to = log.end
    news = [topic_row(log, topic)] if (topic.epoch, topic.version) > (wanted.epoch, wanted.version) else []
    if topic.epoch > wanted.epoch:
        rows: Sequence[Row] = news
        last = False
    else:
        rest = while_merged(
            topic.name,
            lambda: rest_of(shard.announced, shard.reader, topic, wanted.partition, wanted.end, bytes_max),
        )
        rows, last = [*news, *rest.rows], rest.ended
    frame = Frame(
        link=NO_LINK,
        run=NO_RUN,
        source=stream.id,
        shard=number,
        slices=1 << slice_of_number(topic.number),
        from_commit=read_to,
        to_commit=read_to,
        epoch_id=log.epochs[-1].id,
        topics={topic.number: FrameTopic(topic.incarnation, topic.name)},
        rows=rows,
        repair=Repair(topic.number, wanted.partition, max(read_to, log.end), last, end),
        end=log.end,
    )
    return encode_frame(frame)
