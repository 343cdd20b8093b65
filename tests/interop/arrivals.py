"""What a link brings to a replica, applied as its gateway does it: rows of the source's log in frames, and gaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from os import urandom

from fairlead.cluster.stream import Stream
from fairlead.protocol.batch import read_header, set_offset
from fairlead.storage.interface import Storage
from fairlead.streamlog.applying.frame import FrameOutcome, apply_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.format import read_whole
from fairlead.streamlog.payloads import StartPayload, encode
from fairlead.streamlog.rows import LOCAL_KINDS, Kind, Row
from fairlead.streamlog.values import GrantRun, epoch_before
from fairlead.streamlog.writing.draft import Draft
from tests.interop.site import Site
from tests.support.rows import said_of


@dataclass
class Link:
    """A link from one stream of a site to another, worked by hand."""

    source: Site
    replica: Site
    _id: bytes = field(default_factory=lambda: urandom(16))
    _sent: dict[int, int] = field(default_factory=dict)

    def bring(self, topic: str) -> None:
        """Bring all rows of a topic that are not there yet."""
        self._send(topic, self._rows(topic))

    def bring_topic_only(self, topic: str) -> None:
        """Bring the creation of a topic without its records."""
        self._send(topic, [row for row in self._rows(topic) if row.kind == Kind.TOPIC])

    def writes(self, topic: str, batch: bytes, more_bits: int = 0) -> None:
        """A later version at the source appends a batch that clients cannot send here."""
        self.source.broker.call(self._append(topic, batch, more_bits))

    async def _append(self, topic: str, batch: bytes, more_bits: int) -> None:
        shard, found = self.source.stream.topic(topic)
        base = shard.state.partition(found.number, 0).end
        last = base + read_header(batch).last_offset_delta
        data = bytes(set_offset(batch, base, 0))
        records, bits, crc = said_of(data)
        add = partial(Draft.add_batch, records=records, bits=bits | more_bits, crc=crc)
        time, owner = read_header(batch).max_timestamp, self.source.stream.id
        await shard.submit(lambda draft: add(draft, found.number, 0, base, last, 0, owner, None, time, data))

    def lose(self, topic: str, partition: int = 0) -> None:
        """What is new in the partition expired at the source before it was sent: a gap up to the source's end."""
        shard, found = self.source.stream.topic(topic)
        state = shard.state.partition(found.number, partition)
        payload = StartPayload("ttl", state.end, state.history)
        start = self._rows(topic)[-1]._replace(
            kind=Kind.START, partition=partition, base_offset=state.end, last_offset=-1, batch=encode(payload)
        )
        self._send(topic, [start])

    def _rows(self, topic: str) -> list[Row]:
        _, found = self.source.stream.topic(topic)
        return [
            row for row in _log(self.source.stream, self.source.broker.cluster.storage) if row.topic == found.number
        ]

    def _send(self, topic: str, rows: list[Row]) -> None:
        shard, found = self.source.stream.topic(topic)
        slice = slice_of_number(found.number)
        end = shard.announced.end
        frame = Frame(
            link=self._id,
            run=GrantRun(1, 1),
            source=self.source.stream.id,
            shard=0,
            slices=1 << slice,
            from_commit=self._sent.get(slice, 0),
            to_commit=end,
            epoch_id=epoch_before(shard.announced.epochs, end).id,
            topics={found.number: FrameTopic(found.incarnation, found.name)},
            rows=rows,
        )
        self._sent[slice] = end
        applied = self.replica.broker.call(self._apply(frame))
        assert (applied.behind, applied.conflicts, applied.refused_position) == (0, 0, None), applied

    async def _apply(self, frame: Frame) -> FrameOutcome:
        return await self.replica.stream.shards[0].submit(lambda draft: apply_frame(draft, frame))


def _log(stream: Stream, storage: Storage) -> list[Row]:
    log = stream.shards[0].announced
    objects = [read_whole(storage.get(part.name), part.name) for part in log.objects(0, log.end)]
    return [row for columns in objects for row in columns.rows() if row.kind not in LOCAL_KINDS]
