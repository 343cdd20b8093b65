"""Frames as a hostile source may send them: valid ones of which something is changed, with every checksum right."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import crc32c
from tests.streamlog.world import batch_of, committed, frame, fresh, made, produced
from tests.support.batches import changed, produce

from fairlead.model.errors import CorruptBatch
from fairlead.model.names import SLICES
from fairlead.protocol.batch import BatchHeader, read_header, set_offset
from fairlead.streamlog.frames.codec import encode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.topics import delete_topic, set_configs, set_partitions
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.writing.draft import Draft

BITS = {
    "topic": (0, 32),
    "partition": (31, 31),
    "base_offset": (63, 63),
    "last_offset": (63, 63),
    "epoch": (31, 31),
    "previous_end": (63, 63),
    "previous_epoch": (31, 31),
    "appended_at": (63, 63),
    "max_timestamp": (63, 63),
    "kind": (0, 8),
}
"""Number fields of a row: how far below and above 0 their columns go."""
EDGES = (0, 1, 7, 8, 16, 30, 31, 32, 40, 61, 62, 63, 64, 70)
_START = struct.Struct("<II")
_BATCH_BITS = {"last_offset_delta": 31, "base_timestamp": 63, "max_timestamp": 63, "producer_id": 63} | {
    "producer_epoch": 15,
    "base_sequence": 31,
    "record_count": 31,
    "attributes": 15,
}


def edge(random: Random, below: int = 70, above: int = 70) -> int:
    """A number at or near a power of two, from -2**below to below 2**above."""
    while True:
        found: int = random.choice((1, 1, 1, -1)) * 2 ** random.choice(EDGES) + random.choice((-2, -1, 0, 0, 1))
        if -(2**below if below else 0) <= found < 2**above:
            return found


def honest_frames(source_id: bytes, destination: bytes) -> list[Frame]:
    """Frames of a life with every kind of row that is sent."""
    source = fresh(source_id)
    ships, ports = made(source, "ships", 2), made(source, "ports")
    for number in range(3):
        produced(source, ships.number, b"a%d" % number, b"b")
        produced(source, ports.number, b"p")
    batch = batch_of(b"once", producer_id=7, epoch=0, sequence=0)
    committed(source, lambda draft: produce(draft, ships.number, 1, batch))
    committed(source, lambda draft: delete_records(draft, ships.number, 0, 3))
    committed(source, lambda draft: set_configs(draft, "ships", {"cleanup.policy": "compact"}))
    committed(source, lambda draft: set_partitions(draft, "ships", 3))
    old = made(source, "old")
    committed(source, lambda draft: _start(draft, old.number, StartPayload("ttl", 40, ((0, 0),))))
    committed(source, lambda draft: _start(draft, old.number, StartPayload("gone", 60, ((0, 0),), 40), 50))
    committed(source, lambda draft: delete_topic(draft, "ports"))
    frames = [frame(source, destination, slice, 0) for slice in range(SLICES)]
    return [each for each in frames if each.rows]


def _start(draft: Draft, number: int, payload: StartPayload, at: int = 40) -> None:
    draft.add_control(Kind.START, payload, number=number, partition=0, base_offset=at, origin=draft.stream_id)


class Hostile:
    """Changes frames; each change is one that a seed chose."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.said: list[str] = []
        """What was changed, for a failure's note."""

    def bytes_of(self, frames: Sequence[Frame]) -> bytes:
        """The bytes of one of the frames, changed in one to three places."""
        data = encode_frame(self.changed(self._random.choice(frames), frames))
        return self._head(data) if self._random.random() < 0.25 else self._cut(data)

    def changed(self, found: Frame, frames: Sequence[Frame] = ()) -> Frame:
        """The frame, changed in one to three places; rows of other `frames` may come into it."""
        for _ in range(self._random.choice((1, 1, 2, 3))):
            found = self._random.choice((self._row_number, self._payload, self._batch, self._coherent, self._rows))(
                found, frames or [found]
            )
        return found

    def _say(self, *what: object) -> None:
        self.said.append(" ".join(map(str, what)))

    def _one(self, found: Frame, kinds: Sequence[int], change: Callable[[Row], Row]) -> Frame:
        places = [place for place, row in enumerate(found.rows) if row.kind in kinds]
        if not places:
            return found
        place = self._random.choice(places)
        rows = list(found.rows)
        rows[place] = change(rows[place])
        return replace(found, rows=rows)

    def _row_number(self, found: Frame, frames: Sequence[Frame]) -> Frame:
        field = self._random.choice(list(BITS))
        value = edge(self._random, *BITS[field])
        self._say("row", field, value)
        changes: dict[str, Any] = {field: value}
        return self._one(found, range(256), lambda row: row._replace(**changes))

    def _rows(self, found: Frame, frames: Sequence[Frame]) -> Frame:
        """Rows in another order, missing, twice, or of another frame."""
        other = self._random.choice(frames)
        rows = [*found.rows, *self._random.sample(list(other.rows), self._random.randrange(len(other.rows)))]
        self._random.shuffle(rows)
        self._say("rows of", [row.kind for row in rows])
        return replace(found, rows=rows, topics={**other.topics, **found.topics})

    def _batch(self, found: Frame, frames: Sequence[Frame]) -> Frame:
        """Another header, with the CRC that fits it, or a byte that is turned."""

        def change(row: Row) -> Row:
            if len(row.batch) < 61:
                return row
            if self._random.random() < 0.2:
                broken = bytearray(row.batch)
                broken[self._random.randrange(len(broken))] ^= 1 << self._random.randrange(8)
                self._say("a bit of a batch")
                return row._replace(batch=bytes(broken[: self._random.choice((0, 20, 61, None, None))]))
            field = self._random.choice(list(_BATCH_BITS))
            value = edge(self._random, _BATCH_BITS[field], _BATCH_BITS[field])
            self._say("batch", field, value)
            return row._replace(batch=changed(bytes(row.batch), **{field: value}))

        return self._one(found, [Kind.BATCH], change)

    def _coherent(self, found: Frame, frames: Sequence[Frame]) -> Frame:
        """A batch at other offsets and of another epoch, in the row and in the batch."""

        def change(row: Row) -> Row:
            try:
                header: BatchHeader = read_header(row.batch)
            except CorruptBatch:
                return row
            base, epoch = edge(self._random, 63, 63), edge(self._random, 31, 31) if self._random.random() < 0.5 else 0
            last = base + header.last_offset_delta
            if not -(2**63) <= last < 2**63:
                base, last = 2**63 - 1 - header.last_offset_delta, 2**63 - 1
            self._say("batch at", base, "of epoch", epoch)
            return row._replace(
                base_offset=base,
                last_offset=last,
                epoch=epoch,
                max_timestamp=header.max_timestamp,
                batch=set_offset(bytes(row.batch), base, epoch),
            )

        return self._one(found, [Kind.BATCH], change)

    def _payload(self, found: Frame, frames: Sequence[Frame]) -> Frame:
        """A number, a text or the whole of a control row's payload is another."""
        kinds = [Kind.START, Kind.TOPIC, Kind.TOPIC_DELETED]
        return self._one(found, kinds, lambda row: row._replace(batch=self._other_json(bytes(row.batch))))

    def _other_json(self, data: bytes) -> bytes:
        if self._random.random() < 0.1:
            return data[: self._random.randrange(len(data))]
        try:
            plain = json.loads(data)
        except ValueError:
            return data  # changed before
        place = self._random.choice(list(_places(plain)))
        value = self._value(_at(plain, place))
        self._say("payload", place, repr(value)[:80])
        _put(plain, place, value)
        return json.dumps(plain).encode()

    def _value(self, now: Any) -> Any:
        if isinstance(now, bool) or now is None:
            return self._random.choice((True, False, None, edge(self._random)))
        if isinstance(now, int):
            return edge(self._random)
        if isinstance(now, str):
            other = "".join(self._random.choice("0123456789abcdef") for _ in now)
            return self._random.choice((other, "", "ships", "mine", "..", "x" * 5000, "flöte\x00\n/船", now[:-1]))
        return self._random.choice(([], {}, [[0, 0]], [[edge(self._random), edge(self._random)]], 1, None))

    def _head(self, data: bytes) -> bytes:
        """Another header, with a checksum that fits."""
        length, _ = _START.unpack_from(data)
        rest = data[_START.size + length :]
        plain = json.loads(data[_START.size : _START.size + length])
        place = self._random.choice([each for each in _places(plain) if each[0] not in {"v", "link", "source"}])
        value = self._value(_at(plain, place))
        if place == ("repair",) and self._random.random() < 0.5:
            value = [edge(self._random), edge(self._random), edge(self._random), True, edge(self._random)]
        self._say("head", place, repr(value)[:80])
        _put(plain, place, value)
        head = json.dumps(plain).encode()
        return _START.pack(len(head), crc32c.crc32c(head + rest)) + head + rest

    def _cut(self, data: bytes) -> bytes:
        if self._random.random() < 0.95:
            return data
        self._say("cut")
        rest = data[_START.size : self._random.randrange(_START.size, len(data) + 1)]
        length = self._random.choice((_START.unpack_from(data)[0], edge(self._random, 0, 32)))
        return _START.pack(length, crc32c.crc32c(rest)) + rest


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*at, key))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _put(value: Any, place: tuple[Any, ...], new: Any) -> None:
    _at(value, place[:-1])[place[-1]] = new
