"""Payloads of control rows: small JSON objects with a version `v`, read strictly.

Ids are hex. Every payload is a frozen value here; `encode` gives the bytes of the column `batch`, `decode` the value
back. A version above ours, a missing field or a field of another kind is refused: the writer of the row knew something
that this program does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fairlead.model.errors import CorruptBatch
from fairlead.streamlog.rows import Kind

PAYLOAD_VERSION = 1
_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
"""Made once: `json.dumps` makes one at every call, which costs more than the encoding."""

T = TypeVar("T")

History = tuple[tuple[int, int], ...]
"""(topic epoch, first offset of it), in order."""


@dataclass(frozen=True, slots=True)
class StartPayload:
    """Of a START row, which stands at `base_offset` = S."""

    reason: str
    """Why the records are gone: `ttl`, `deleted-records`, `link` (begins here) or that of a row it was received as."""
    log_end: int
    """Where the partition's log ended when the row was made; at least S."""
    history: History
    """Epoch history of the whole partition up to `log_end`, expired offsets included."""
    gap_from: int | None = None
    """None: everything below S is gone here. A number: only [gap_from, S) never came; what is below may exist."""


@dataclass(frozen=True, slots=True)
class TopicPayload:
    """Of a TOPIC row: the topic as it is from here on; see `values.Topic`."""

    name: str
    incarnation: bytes
    partitions: int
    owner: bytes
    epoch: int
    version: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicDeletedPayload:
    """Of a TOPIC_DELETED row."""

    name: str
    incarnation: bytes
    yielded: bool = False
    """Nobody deleted it: empty, it made room here for another incarnation of its name. No tombstone is left, and a
    replica passes the row over and decides by itself."""


@dataclass(frozen=True, slots=True)
class CursorPayload:
    """Of a CURSOR row; topic and partition are in the row. `offset` None: the cursor is deleted."""

    group: str
    offset: int | None
    leader_epoch: int
    metadata: str
    committed_at: int
    version: int


@dataclass(frozen=True, slots=True)
class PositionPayload:
    """Of a POSITION row; `commit` None: the position is forgotten."""

    link: bytes
    shard: int
    slice: int
    commit: int | None
    epoch_id: bytes
    run_epoch: int
    run_counter: int


@dataclass(frozen=True, slots=True)
class BehindPayload:
    """Of a BEHIND row. `reason` None: the partition is no longer behind."""

    link: bytes
    topic: str
    incarnation: bytes
    partition: int
    end: int
    reason: str | None
    noted_at: int
    refused_in: tuple[int, int] | None = None
    """Run of the repair that met the reason again, if one did: that repair's last frame does not clear the note."""
    create: TopicPayload | None = None
    """The topic as its TOPIC row said, where no topic of that incarnation could be made here."""


@dataclass(frozen=True, slots=True)
class EntryPayload:
    """Of an ENTRY row: a key of `meta/` and its JSON value; None deletes it."""

    key: str
    value: Any


Payload = (
    StartPayload | TopicPayload | TopicDeletedPayload | CursorPayload | PositionPayload | BehindPayload | EntryPayload
)


def encode(payload: Payload) -> bytes:
    """The JSON bytes of a payload."""
    fields = {name: _plain(getattr(payload, name)) for name in payload.__dataclass_fields__}
    return _JSON.encode({"v": PAYLOAD_VERSION, **fields}).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, TopicPayload):
        return {name: _plain(getattr(value, name)) for name in TopicPayload.__dataclass_fields__}
    return dict(value) if isinstance(value, Mapping) else value


def decode_start(data: bytes | memoryview) -> StartPayload:
    """Payload of a START row.

    Raises:
        CorruptBatch: not such a payload, or of a version that this program does not know.
    """
    return _decode(data, Kind.START, _start)


def decode_topic(data: bytes | memoryview) -> TopicPayload:
    """Payload of a TOPIC row. Raises: CorruptBatch."""
    return _decode(data, Kind.TOPIC, _topic)


def decode_topic_deleted(data: bytes | memoryview) -> TopicDeletedPayload:
    """Payload of a TOPIC_DELETED row. Raises: CorruptBatch."""
    return _decode(data, Kind.TOPIC_DELETED, _topic_deleted)


def decode_cursor(data: bytes | memoryview) -> CursorPayload:
    """Payload of a CURSOR row. Raises: CorruptBatch."""
    return _decode(data, Kind.CURSOR, _cursor)


def decode_position(data: bytes | memoryview) -> PositionPayload:
    """Payload of a POSITION row. Raises: CorruptBatch."""
    return _decode(data, Kind.POSITION, _position)


def decode_behind(data: bytes | memoryview) -> BehindPayload:
    """Payload of a BEHIND row. Raises: CorruptBatch."""
    return _decode(data, Kind.BEHIND, _behind)


def decode_entry(data: bytes | memoryview) -> EntryPayload:
    """Payload of an ENTRY row. Raises: CorruptBatch."""
    return _decode(data, Kind.ENTRY, lambda f: EntryPayload(_text(f["key"]), f["value"]))


def control_key(kind: int, topic: int, partition: int, data: bytes | memoryview) -> tuple[Any, ...]:
    """What a control row speaks of: of two rows with equal keys the newer one stands, the older is of no use.

    START rows have their partition as key only where everything below is gone; a gap stands for itself. So does each
    TOPIC row: rows of a partition must not come before the row that made it.

    Raises:
        CorruptBatch: the payload cannot be read.
    """
    if kind == Kind.START:
        gap_from = decode_start(data).gap_from
        return (Kind.START, topic, partition, gap_from)
    if kind == Kind.TOPIC:
        return (Kind.TOPIC, topic, decode_topic(data).version)
    if kind == Kind.TOPIC_DELETED:
        return (Kind.TOPIC_DELETED, topic)
    if kind == Kind.CURSOR:
        return (Kind.CURSOR, decode_cursor(data).group, topic, partition)
    if kind == Kind.POSITION:
        position = decode_position(data)
        return (Kind.POSITION, position.link, position.shard, position.slice)
    if kind == Kind.BEHIND:
        behind = decode_behind(data)
        return (Kind.BEHIND, behind.link, behind.incarnation, behind.partition)
    return (Kind.ENTRY, decode_entry(data).key)


def _decode(data: bytes | memoryview, kind: Kind, build: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        fields = json.loads(bytes(data).decode())
        version = fields["v"]
        if version != PAYLOAD_VERSION:
            raise CorruptBatch(f"{kind.name} row of version {version}; this program knows version {PAYLOAD_VERSION}")
        return build(fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptBatch(f"{kind.name} row cannot be read: {error!r}") from error


def _start(fields: Mapping[str, Any]) -> StartPayload:
    gap_from = None if fields["gap_from"] is None else _int(fields["gap_from"])
    return StartPayload(_text(fields["reason"]), _int(fields["log_end"]), _history(fields["history"]), gap_from)


def _history(value: Any) -> History:
    return tuple((_int(epoch), _int(first)) for epoch, first in value)


def _topic(fields: Mapping[str, Any]) -> TopicPayload:
    configs = {_text(name): _text(value) for name, value in fields["configs"].items()}
    return TopicPayload(
        _text(fields["name"]),
        _id(fields["incarnation"]),
        _int(fields["partitions"]),
        _id(fields["owner"]),
        _int(fields["epoch"]),
        _int(fields["version"]),
        configs,
    )


def _topic_deleted(fields: Mapping[str, Any]) -> TopicDeletedPayload:
    if type(fields["yielded"]) is not bool:
        raise TypeError("yielded is neither true nor false")
    return TopicDeletedPayload(_text(fields["name"]), _id(fields["incarnation"]), fields["yielded"])


def _cursor(fields: Mapping[str, Any]) -> CursorPayload:
    return CursorPayload(
        _text(fields["group"]),
        None if fields["offset"] is None else _int(fields["offset"]),
        _int(fields["leader_epoch"]),
        _text(fields["metadata"]),
        _int(fields["committed_at"]),
        _int(fields["version"]),
    )


def _position(fields: Mapping[str, Any]) -> PositionPayload:
    return PositionPayload(
        _id(fields["link"]),
        _int(fields["shard"]),
        _int(fields["slice"]),
        None if fields["commit"] is None else _int(fields["commit"]),
        _id(fields["epoch_id"]),
        _int(fields["run_epoch"]),
        _int(fields["run_counter"]),
    )


def _behind(fields: Mapping[str, Any]) -> BehindPayload:
    refused_in = fields["refused_in"]
    create = fields["create"]
    return BehindPayload(
        _id(fields["link"]),
        _text(fields["topic"]),
        _id(fields["incarnation"]),
        _int(fields["partition"]),
        _int(fields["end"]),
        None if fields["reason"] is None else _text(fields["reason"]),
        _int(fields["noted_at"]),
        None if refused_in is None else (_int(refused_in[0]), _int(refused_in[1])),
        None if create is None else _topic(create),
    )


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not a text")
    return value


def _id(value: Any) -> bytes:
    id = bytes.fromhex(_text(value))
    if len(id) != 16:
        raise ValueError(f"{value!r} is not an id of 16 bytes")
    return id
