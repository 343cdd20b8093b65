"""Payloads of control rows: small JSON objects with a version `v`, read strictly.

Ids are hex. Every payload is a frozen value here; `encode` gives the bytes of the column `batch`, the `decode`
functions give the value back. A version above ours, a missing field or a field of another kind is refused: the writer
of the row knew something that this program does not. So is a number outside its range (`ranges`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Le, MaxLen

from fairlead.model.errors import CorruptBatch
from fairlead.model.limits import OFFSET_METADATA_BYTES_MAX, PARTITIONS_PER_TOPIC_MAX
from fairlead.model.strict_json import WHOLE, Id, JsonForm, Natural, OtherVersion, Unreadable
from fairlead.streamlog.ranges import (
    CONFIGS_MAX,
    Commit,
    Counter,
    Epoch,
    GlobalPath,
    GroupId,
    Millis,
    Name,
    Offset,
    Partition,
    Partitions,
    ShardNumber,
    SliceMask,
    Version,
    check_history,
    check_since,
)
from fairlead.streamlog.rows import KEPT_KINDS, Kind, kind_name

PAYLOAD_VERSION = 3
FROM_NOW = "from-now"
"""Reason in `start` rows: the replica begins later, and does not get what was before."""
BEGINS_HERE = "link"
"""Reason of a START row: the partition's first record has that offset, and nothing below it is missing."""
DELETED_RECORDS = "deleted-records"
"""Reason of START rows that say nothing but that records were deleted."""
FORGOTTEN_MAX = 100
"""Producers that a TRUNCATE row names; of more it forgets all, or a row could be as large as the tail."""
READ_LAST = 4096
"""So many TOPIC rows that were read last are remembered: a row is read when it comes, when it is drafted and when it is
announced, and a commit has some two thousand."""
SHORT_BYTES = 1000
"""Longer ones are not: they may be of a megabyte each."""
T = TypeVar("T")

CursorOffset = Annotated[int, Ge(0), Le(2**63 - 1)]
"""What a client has committed: it may lie beyond the log."""
LeaderEpoch = Annotated[int, Ge(-1), Le(2**31 - 1)]
Metadata = Annotated[str, MaxLen(OFFSET_METADATA_BYTES_MAX)]
History = tuple[tuple[Epoch, Offset], ...]
"""(topic epoch, first offset of it), in order."""
Ext = Mapping[str, Any]
"""Fields that this program does not know. They are kept and passed on: a later one may have written the row, and what
lies behind us may know them."""
Since = tuple[tuple[Offset, History], ...]
"""For each partition where the topic's epoch begins, and the epoch history below that."""


@dataclass(frozen=True, slots=True)
class StartPayload:
    """Payload of a START row, which stands at `base_offset` = S. It tells two things: below S nothing is kept, and
    below `deleted_to` no client may read. The second may lie inside a batch, or beyond S, where batches wait to be
    dropped by a merge."""

    reason: Name
    """Why the records are gone: `ttl`, `deleted-records`, `link` (begins here), `from-now` (the replica does not
    get them), or the reason in the received row."""
    log_end: Offset
    """Where the partition's log ended when the row was made; at least S and `deleted_to`."""
    history: History
    """Epoch history of the whole partition up to `log_end`, including expired offsets."""
    gap_from: Offset | None = None
    """None: everything below S is gone here. A number: only [gap_from, S) never came; records below it may exist."""
    deleted_to: Offset = 0
    """The topic's owner has deleted all records below this offset; 0: it never did."""
    epoch: Epoch = 0
    """Topic epoch when the row was first written; of a row that merging makes, that of the last batch that is gone."""
    ext: Ext = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicPayload:
    """Payload of a TOPIC row: the topic as it is from here on; see `values.Topic`."""

    name: Name
    incarnation: Id
    partitions: Partitions
    owner: Id
    epoch: Epoch
    version: Version
    configs: Annotated[Mapping[Name, Name], MaxLen(CONFIGS_MAX)] = field(default_factory=dict)
    home: Name = ""
    """Its name at its owner: that of its creation, or the one that the owner gave it last. `name` is that at the
    sender."""
    owner_at: GlobalPath = ""
    """Where the owner is: /mapr/<cluster>/<path>, or kafka://<name>."""
    since: Annotated[Since, MaxLen(PARTITIONS_PER_TOPIC_MAX)] = ()
    """From where the owner gives offsets in this epoch; empty at epoch 0."""
    deleted_to: Annotated[tuple[Offset, ...], MaxLen(PARTITIONS_PER_TOPIC_MAX)] = ()
    """For each partition the offset below which the owners before this one had deleted all records; empty: of none."""
    ext: Ext = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicDeletedPayload:
    """Payload of a TOPIC_DELETED row."""

    name: Name
    incarnation: Id
    yielded: bool = False
    """Nobody deleted the topic: it was empty and made room here for another incarnation of its name. No tombstone is
    left, and a replica passes the row over and decides by itself."""
    epoch: Epoch = 0
    """Topic epoch when the row was first written."""
    ext: Ext = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TruncatePayload:
    """Payload of a TRUNCATE row; topic, partition and offset are in the row. What stood there from the offset on before
    the row is no part of the partition's history any more."""

    reason: Name
    by_epoch: Epoch
    """Topic epoch of the owner whose history goes on there."""
    keep: Id | None
    """Incarnation of the topic into which the dead batches are still to be copied; None: none are, or all were."""
    forgets: Annotated[tuple[Counter, ...], MaxLen(FORGOTTEN_MAX)] | None
    """Ids of the partition's idempotent producers whose newest batch is dead; None: all producers."""
    history: History | None = None
    """With `keep`, the epoch history of the log before: a later cut may let a merge drop the batches that told it.
    None: as the rows before tell it."""


@dataclass(frozen=True, slots=True)
class CursorPayload:
    """Payload of a COMMITTED or CURSOR row; topic and partition are in the row. `offset` None: the cursor is deleted.
    What the fields say: see `cursors.Cursor`."""

    group: GroupId
    offset: CursorOffset | None
    leader_epoch: LeaderEpoch
    metadata: Metadata
    committed_at: Millis
    version: Counter
    seen: Counter = 0
    first: Counter = 0
    apart: bool = False
    history: History = ()


@dataclass(frozen=True, slots=True)
class PositionPayload:
    """Payload of a POSITION row; `commit` None: the position is forgotten."""

    link: Id
    shard: ShardNumber
    slices: SliceMask
    """Bit s for slice s: all of these stand at `commit`."""
    commit: Commit | None
    epoch_id: Id
    run_epoch: Counter
    run_counter: Counter


@dataclass(frozen=True, slots=True)
class BehindPayload:
    """Payload of a BEHIND row. `reason` None: the partition is no longer behind."""

    link: Id
    topic: Name
    incarnation: Id
    partition: Partition
    end: Offset
    reason: str | None
    noted_at: int
    refused_in: tuple[int, int] | None = None
    """Run of the repair that met the reason again, if any: the last frame of that repair does not clear the note."""
    create: Annotated[TopicPayload, WHOLE] | None = None
    """The topic as its TOPIC row described it, if no topic of that incarnation could be made here."""


@dataclass(frozen=True, slots=True)
class EntryPayload:
    """Payload of an ENTRY row: a key of `meta/` and its JSON value; None deletes it."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class ExpiredPayload:
    """Payload of an EXPIRED row; topic, partition and offset are in the row."""

    reason: Name = "ttl"


@dataclass(frozen=True, slots=True)
class StatePayload:
    """Payload of a STATE row; its topic is in the row, and the value goes with it. None deletes it."""

    key: Name
    value: Any


@dataclass(frozen=True, slots=True)
class KeptPayload:
    """What all payloads of `KEPT_KINDS` say, beside what only programs that know the kind can read."""

    v: Natural
    """Version of the payload; whatever it is, the row is kept."""
    k: Name
    """Of two rows of a kind, topic and partition with the same key the later one counts."""
    n: Counter = 0
    """Where rows are sent, of two rows with the same key the one with the larger number is the later one."""
    gone: bool = False
    """The key holds nothing any more."""


Payload = (
    StartPayload
    | TopicPayload
    | TopicDeletedPayload
    | CursorPayload
    | PositionPayload
    | BehindPayload
    | EntryPayload
    | ExpiredPayload
    | TruncatePayload
    | StatePayload
    | KeptPayload
)


def _form(kind: type[T], rest: str = "") -> JsonForm[T]:
    return JsonForm(kind, head={"v": PAYLOAD_VERSION}, whole=True, rest=rest, ascii=False)


_START = _form(StartPayload, "ext")
_TOPIC = _form(TopicPayload, "ext")
_TOPIC_DELETED = _form(TopicDeletedPayload, "ext")
# Rows of before cursors were replicated, and of before cuts and cursors told the history, lack the fields that have a
# default.
_CURSOR = JsonForm(CursorPayload, head={"v": PAYLOAD_VERSION}, ascii=False, sparse=True)
_POSITION = _form(PositionPayload)
_BEHIND = _form(BehindPayload)
_ENTRY = _form(EntryPayload)
_EXPIRED = _form(ExpiredPayload)
_TRUNCATE = JsonForm(TruncatePayload, head={"v": PAYLOAD_VERSION}, ascii=False, sparse=True)
_STATE = _form(StatePayload)
_KEPT = JsonForm(KeptPayload, ascii=False)
_FORMS: Mapping[type[Any], JsonForm[Any]] = {
    form.kind: form
    for form in (
        _START,
        _TOPIC,
        _TOPIC_DELETED,
        _CURSOR,
        _POSITION,
        _BEHIND,
        _ENTRY,
        _EXPIRED,
        _TRUNCATE,
        _STATE,
        _KEPT,
    )
}


def encode(payload: Payload) -> bytes:
    """The JSON bytes of a payload."""
    return _FORMS[type(payload)].write(payload)


def decode_start(data: bytes | memoryview) -> StartPayload:
    """Payload of a START row.

    Raises:
        CorruptBatch: these bytes are no such payload, or have a version that this program does not know.
    """
    found = _decode(data, Kind.START, _START)
    check_history(found.history, found.log_end)
    if found.deleted_to > found.log_end:
        raise CorruptBatch(f"START row: deleted up to {found.deleted_to}, and the log ends at {found.log_end}")
    return found


def decode_topic(data: bytes | memoryview) -> TopicPayload:
    """Payload of a TOPIC row. Raises: CorruptBatch."""
    return _read_topic(data) if len(data) > SHORT_BYTES else _read_short_topic(bytes(data))


@lru_cache(READ_LAST)
def _read_short_topic(data: bytes) -> TopicPayload:
    return _read_topic(data)


def _read_topic(data: bytes | memoryview) -> TopicPayload:
    found = _decode(data, Kind.TOPIC, _TOPIC)
    check_since(found.since, found.partitions, found.deleted_to)
    return found


def decode_topic_deleted(data: bytes | memoryview) -> TopicDeletedPayload:
    """Payload of a TOPIC_DELETED row. Raises: CorruptBatch."""
    return _decode(data, Kind.TOPIC_DELETED, _TOPIC_DELETED)


def decode_cursor(data: bytes | memoryview) -> CursorPayload:
    """Payload of a CURSOR row, or of a COMMITTED one. Raises: CorruptBatch."""
    found = _decode(data, Kind.CURSOR, _CURSOR)
    check_history(found.history, found.offset or 0)
    return found


def decode_position(data: bytes | memoryview) -> PositionPayload:
    """Payload of a POSITION row. Raises: CorruptBatch."""
    return _decode(data, Kind.POSITION, _POSITION)


def decode_behind(data: bytes | memoryview) -> BehindPayload:
    """Payload of a BEHIND row. Raises: CorruptBatch."""
    return _decode(data, Kind.BEHIND, _BEHIND)


def decode_entry(data: bytes | memoryview) -> EntryPayload:
    """Payload of an ENTRY row. Raises: CorruptBatch."""
    return _decode(data, Kind.ENTRY, _ENTRY)


def decode_expired(data: bytes | memoryview) -> ExpiredPayload:
    """Payload of an EXPIRED row. Raises: CorruptBatch."""
    return _decode(data, Kind.EXPIRED, _EXPIRED)


def decode_truncate(data: bytes | memoryview) -> TruncatePayload:
    """Payload of a TRUNCATE row. Raises: CorruptBatch."""
    return _decode(data, Kind.TRUNCATE, _TRUNCATE)


def decode_state(data: bytes | memoryview) -> StatePayload:
    """Payload of a STATE row. Raises: CorruptBatch."""
    return _decode(data, Kind.STATE, _STATE)


def decode_kept(data: bytes | memoryview, kind: int) -> KeptPayload:
    """What this program reads of the payload of a row of `KEPT_KINDS`. Raises: CorruptBatch."""
    return _decode(data, kind, _KEPT)


def control_key(
    kind: int, topic: int, partition: int, data: bytes | memoryview, *, came: bool = False
) -> tuple[Any, ...]:
    """What a control row is about: of two rows with equal keys the newer one counts, the older is of no use.

    A POSITION row is of no use only once newer ones speak of every slice of its mask; the key does not say that. A
    cursor that `came` over a link is another one than what was committed here. The key of a START row is its partition
    only if everything below is gone; a gap has a key of its own. So has each TOPIC row: rows of a partition must not
    come before the row that made it.

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
    if kind in {Kind.CURSOR, Kind.COMMITTED}:
        return (kind, decode_cursor(data).group, topic, partition, came)
    if kind == Kind.POSITION:
        position = decode_position(data)
        return (Kind.POSITION, position.link, position.shard, position.slices)
    if kind == Kind.BEHIND:
        behind = decode_behind(data)
        return (Kind.BEHIND, behind.link, behind.incarnation, behind.partition)
    if kind == Kind.TRUNCATE:
        truncate = decode_truncate(data)
        return (Kind.TRUNCATE, topic, partition, truncate.reason, truncate.by_epoch, truncate.keep)
    if kind == Kind.EXPIRED:
        decode_expired(data)
        return (Kind.EXPIRED, topic, partition)
    if kind == Kind.STATE:
        return (Kind.STATE, topic, decode_state(data).key)
    if kind in KEPT_KINDS:
        return (kind, topic, partition, decode_kept(data, kind).k)
    if kind == Kind.ENTRY:
        return (Kind.ENTRY, decode_entry(data).key)
    raise CorruptBatch(f"row of {kind_name(kind)}, which this program does not know")


def _decode(data: bytes | memoryview, kind: int, form: JsonForm[T]) -> T:
    try:
        return form.read(bytes(data))
    except OtherVersion as error:
        why = f"of version {error.version}; this program knows version {PAYLOAD_VERSION}"
        raise CorruptBatch(f"{kind_name(kind)} row {why}") from error
    except Unreadable as error:
        raise CorruptBatch(f"{kind_name(kind)} row cannot be read: {error}") from error
