"""Rows → encoded frames of one grant, handed on in order as far as the destination has room for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fairlead.model.errors import CorruptBatch, Damaged
from fairlead.replication.carried.addresses import FrameAddress
from fairlead.replication.carried.referred import refer
from fairlead.replication.credit import CreditWindow
from fairlead.replication.reader.in_thread import READ_AT_ONCE_BYTES
from fairlead.replication.reader.log_view import LogView
from fairlead.spark.packets import Packet
from fairlead.streamlog import payloads
from fairlead.streamlog.frames.codec import EncodedRows, encode_body, encode_frame, frame_of
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.reading.located import LocatedRows
from fairlead.streamlog.rows import NO_TOPIC_SENT, Kind
from fairlead.streamlog.values import epoch_before
from fairlead.wire.apply import ApplyHello
from fairlead.wire.control import Grant, RepairGrant
from fairlead.wire.link_protocol import PROTOCOL

HandOn = Callable[[Packet], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Body:
    """Rows of a frame and what they name."""

    topics: Mapping[int, FrameTopic]
    rows: Columns | LocatedRows
    encoded: EncodedRows | None = None
    """Of rows that are not referred to."""


class Framer:
    """Makes frames of one grant and hands them on. Consecutive small frames go together, so that they pass through
    Spark in one row and share a commit at the destination."""

    def __init__(self, grant: Grant | RepairGrant, view: LogView, credit: CreditWindow, hand_on: HandOn) -> None:
        self._grant = grant
        self._view = view
        self._credit = credit
        self._hand_on = hand_on
        self._ready: list[Packet] = []
        self._ready_bytes = 0
        self._made = 0
        hello = ApplyHello(
            *(PROTOCOL, grant.link, grant.run, grant.source, grant.destination.stream, grant.shard),
            topic_prefix=grant.topic_prefix,
        )
        self._address = FrameAddress(hello, grant.destination).to_json()

    async def body(self, rows: Columns | LocatedRows) -> Body:
        """What frames of these rows have in common, whatever link they are for."""
        named, topics = await self._named(rows)
        if isinstance(named, LocatedRows):
            return Body(topics, named)
        return Body(topics, named, encode_body(named))

    async def send(
        self, slices: int, from_commit: int, to_commit: int, body: Body | None, repair: Repair | None = None
    ) -> None:
        """Make a frame of a mask of slices once the destination has room; without a `body` it has no rows. It is handed
        on with the next `flush`, if not before."""
        topics = {} if repair is None else await self._view.names([repair.number])
        if body is not None:
            topics |= body.topics
        grant = self._grant
        frame = Frame(
            link=grant.link,
            run=grant.run,
            source=grant.source.stream,
            shard=grant.shard,
            slices=slices,
            from_commit=from_commit,
            to_commit=to_commit,
            epoch_id=epoch_before(grant.epochs, to_commit).id,
            topics=topics,
            rows=(),
            repair=repair,
            created=grant.created,
            end=max(self._view.end, to_commit),
        )
        if body is not None and isinstance(body.rows, LocatedRows):
            referred = refer(grant.data_root, frame, body.rows)
            await self._hand(referred.to_bytes(), referred.size_bytes, referred=True)
        else:
            data = encode_frame(frame) if body is None or body.encoded is None else frame_of(frame, body.encoded)
            await self._hand(data, len(data))

    async def _hand(self, data: bytes, size_bytes: int, *, referred: bool = False) -> None:
        if not self._credit.has_room(size_bytes):
            # The destination cannot answer frames that it has not got.
            await self.flush()
        await self._credit.take(size_bytes)
        self._ready.append(Packet(self._address, data, size_bytes, referred))
        self._ready_bytes += size_bytes
        self._made += 1
        if self._ready_bytes >= READ_AT_ONCE_BYTES:
            await self.flush()

    def made(self) -> int:
        """How many frames since the last call."""
        made, self._made = self._made, 0
        return made

    async def flush(self) -> None:
        """Hand on what is ready."""
        ready, self._ready, self._ready_bytes = self._ready, [], 0
        for frame in ready:
            await self._hand_on(frame)

    async def _named(self, rows: Columns | LocatedRows) -> tuple[Columns | LocatedRows, dict[int, FrameTopic]]:
        """The rows and their topics. Rows of topics that are gone are left out: the tombstone, which names the topic
        itself, comes later in the log."""
        columns = rows.columns if isinstance(rows, LocatedRows) else rows
        self._view.learn(topics_told(columns, f"shard {self._grant.shard} of {self._grant.source.path}"))
        of_topic = columns.topic < NO_TOPIC_SENT
        numbers = np.unique(columns.topic[of_topic])
        topics = await self._view.names(numbers.tolist())
        if len(topics) == len(numbers):
            return rows, topics
        known = np.flatnonzero(np.isin(columns.topic, np.array(list(topics), np.uint32)) | ~of_topic)
        return (rows if len(known) else columns).take(known), topics


def topics_told(columns: Columns, where: str) -> dict[int, FrameTopic]:
    """Topics that the rows themselves name: the topics of TOPIC and TOPIC_DELETED rows.

    Raises:
        Damaged: such a row cannot be read; `where` is the log that the message names.
    """
    told: dict[int, FrameTopic] = {}
    for place in np.flatnonzero(np.isin(columns.kind, (Kind.TOPIC, Kind.TOPIC_DELETED))).tolist():
        decode = payloads.decode_topic if columns.kind[place] == Kind.TOPIC else payloads.decode_topic_deleted
        try:
            topic = decode(columns.batch(place))
        except CorruptBatch as error:
            raise Damaged(f"commit {columns.commit[place]} in {where}", str(error)) from error
        told[int(columns.topic[place])] = FrameTopic(topic.incarnation, topic.name)
    return told
