"""Bytes of a commit or segment: an Arrow IPC file with one record batch of rows, the column `batch` last; of a commit
of up to 64 KB, and of a seal, the short form (`short`).

Footer or head say version, kind of object, its name, rows, bytes of batches, commits [first, end), below which commit
all were known to be durable, the id of a commit's writer epoch, the crc32c of these and of every byte before the first
batch, and that of the payloads of control rows. All other bytes follow from these, so reading finds a change of any
byte outside a record batch, and another object under this one's name. A record batch has Kafka's own CRC-32C and is
checked where it is used.
`docs/formats/stream-log.md` has the table.

How the format changes: another schema, order or meaning is another `FORMAT_VERSION`; a program reads the versions that
it knows and refuses the others with a message that names both. Within a version nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import crc32c
import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fairlead.model.errors import Damaged, Missing
from fairlead.storage.interface import Storage
from fairlead.streamlog.objects import few_rows, layout, short
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.rows import FORMAT_VERSION, Kind, Row

ObjectKind = Literal["commit", "segment"]
_BATCH: Final = int(Kind.BATCH)
READ_WHOLE_BYTES: Final = 256 * 1024
"""An object up to this size is read in one piece, even if only its columns are wanted: a commit that lies in a pack is
read whole in any case, so that its checksum can be compared."""
_HEAD_CHECKSUM: Final = crc32c.crc32c(layout.FILE_HEAD)
_NO_ID: Final = bytes(16)
_META_NUMBERS: Final = ("rows", "batch_bytes", "first", "end", "known")
_KINDS: Final = frozenset({"commit", "segment"})


def encode(
    rows: Sequence[Row],
    *,
    name: str = "",
    epoch_id: bytes = b"",
    object_kind: ObjectKind = "commit",
    first: int | None = None,
    end: int | None = None,
    known: int | None = None,
) -> list[Buffer]:
    """The object of these rows, as buffers to be stored under `name` one after the other; batches are not copied.

    `first` and `end` are the commits it stands for; if not given, those of the rows. All commits below `known` are
    known to be durable; if not given, those before `first`.
    """
    region, places, nulls = columns_of_rows(rows)
    first = min([row.commit for row in rows]) if first is None else first
    end = max([row.commit for row in rows]) + 1 if end is None else end
    batches = [row.batch for row in rows]
    batch_bytes = sum([len(batch) for batch in batches])
    control = checksum_of([row.batch for row in rows if row.kind != _BATCH])
    known = first if known is None else known
    meta = layout.FileMeta(object_kind, len(rows), batch_bytes, first, end, 0, control, name, epoch_id, known)
    return short.encode(meta, region, batches) if _is_short(meta) else _file(region, places, nulls, batches, meta)


def encode_seal(*, name: str, epoch_id: bytes, number: int) -> list[Buffer]:
    """The seal of a writer epoch whose commits end before `number`, all of them being durable: it has the name of that
    commit, so the writer's own put of it fails."""
    region, _, _ = columns_of_rows([])
    meta = layout.FileMeta("seal", 0, 0, number, number, 0, 0, name, epoch_id, number)
    return short.encode(meta, region, [])


def _is_short(meta: layout.FileMeta) -> bool:
    is_commit = meta.kind == "commit"
    return is_commit and short.size_of(meta.name, meta.rows, meta.batch_bytes) <= short.BYTES_MAX


def encode_columns(
    columns: Columns,
    batches: Sequence[Buffer],
    *,
    name: str = "",
    object_kind: Literal["segment"] = "segment",
    first: int,
    end: int,
) -> list[Buffer]:
    """The same from columns, with the batches' bytes in any number of pieces.

    Either all rows are record batches or none is.
    """
    region, places, nulls = columns_region(columns)
    record_batches = np.count_nonzero(columns.kind == Kind.BATCH)
    if record_batches not in {0, len(columns)}:
        raise ValueError("record batches and control rows belong into objects of their own")
    control = 0 if record_batches else checksum_of(batches)
    batch_bytes = sum([memoryview(batch).nbytes for batch in batches])
    meta = layout.FileMeta(object_kind, len(columns), batch_bytes, first, end, 0, control, name, known=first)
    return _file(region, places, nulls, batches, meta)


def checksum_of(pieces: Iterable[Buffer]) -> int:
    """crc32c of buffers, one after the other; 0 for none."""
    checksum = 0
    for piece in pieces:
        checksum = crc32c.crc32c(piece, checksum)
    return checksum


def _file(
    region: Buffer, places: layout.Plan, nulls: Sequence[int], batches: Sequence[Buffer], meta: layout.FileMeta
) -> list[Buffer]:
    before, after = _around(region, places, nulls, meta)
    return [before, *batches, after]


def _around(region: Buffer, places: layout.Plan, nulls: Sequence[int], meta: layout.FileMeta) -> tuple[bytes, bytes]:
    body = b"".join((layout.MESSAGE.fill(places, nulls, meta.batch_bytes), region))
    meta = replace(meta, checksum=crc32c.crc32c(meta.described(), crc32c.crc32c(body, _HEAD_CHECKSUM)))
    padding = bytes(-meta.batch_bytes % 8)
    return layout.FILE_HEAD + body, padding + layout.END_MARK + layout.FOOTER.fill(meta)


def columns_of_rows(rows: Sequence[Row]) -> tuple[Buffer, layout.Plan, tuple[int, ...]]:
    """The columns' bytes of these rows, where each lies, and the null counts. Raises: OverflowError."""
    if 0 < len(rows) <= few_rows.FEW:
        region, nulls = few_rows.pack(rows)
        return region, layout.plan(len(rows)), nulls
    fields = zip(*rows, strict=True) if rows else [()] * len(Row._fields)
    values: dict[str, Any] = dict(zip(Row._fields, fields, strict=True))
    batches = values.pop("batch")
    values["size"] = [len(batch) for batch in batches]
    is_set = {}
    for name in layout.NULLABLE:
        ids = values[name]
        values[name] = np.frombuffer(b"".join([id or _NO_ID for id in ids]), layout.ID)
        is_set[name] = np.array([id is not None for id in ids], np.bool_)
    return _region(len(rows), values, is_set)


def columns_region(columns: Columns) -> tuple[bytearray, layout.Plan, tuple[int, ...]]:
    """The same as `columns_of_rows`, of columns."""
    values = {name: getattr(columns, name) for name in layout.DTYPES}
    return _region(len(columns), values, {"origin": columns.origin_set, "via": columns.via_set})


def _region(
    rows: int, values: dict[str, Any], is_set: dict[str, NDArray[np.bool_]]
) -> tuple[bytearray, layout.Plan, tuple[int, ...]]:
    places = layout.plan(rows)
    region = bytearray(places.batches)
    for part in places.parts:
        np.frombuffer(region, layout.DTYPES[part.name], rows, part.values)[:] = values[part.name]
        if part.name in is_set:
            bits = np.packbits(is_set[part.name], bitorder="little")
            region[part.validity : part.validity + len(bits)] = bits.tobytes()
    offsets = np.frombuffer(region, np.int64, rows + 1, places.offsets)
    np.cumsum(values["size"], out=offsets[1:])
    return region, places, tuple(rows - int(np.count_nonzero(is_set[name])) for name in layout.NULLABLE)


def read_whole(data: Buffer, name: str = "") -> Columns:
    """The rows of an object whose bytes are all there; nothing is copied.

    Raises:
        Damaged: the bytes are not those of a commit or segment, or have a version that this program does not know.
    """
    meta, columns = _read(memoryview(data).cast("B"), name, loaded=True)
    _check_no_seal(meta)
    return columns


def read_rows(data: Buffer, name: str) -> tuple[bytes, Sequence[Row]]:
    """Epoch id and rows of a commit; a short one of few rows is read without arrays. Raises as `read_whole`."""
    view = memoryview(data).cast("B")
    if short.is_short(view):
        meta, start, batches = short.opened(view, name)
        _check_no_seal(meta)
        if 0 < meta.rows <= few_rows.FEW:
            rows = list(few_rows.unpack(view[start:batches], meta.rows, view[batches:], name))
            commits = [row.commit for row in rows]
            _check_commits(meta, min(commits), max(commits))
            control = checksum_of([row.batch for row in rows if row.kind != _BATCH])
            _check_control_sum(meta.control, control, name)
            return meta.epoch_id, rows
    columns = read_whole(data, name)
    return columns.epoch_id, list(columns.rows())


def read_meta(data: Buffer, name: str) -> layout.FileMeta:
    """What footer or head say of an object, a seal too, once it was read in full. Raises: Damaged."""
    return _read(memoryview(data).cast("B"), name, loaded=True)[0]


def _read(view: memoryview, name: str, *, loaded: bool) -> tuple[layout.FileMeta, Columns]:
    """What is said of an object, and its rows; their batches and control rows only if `loaded`."""
    if short.is_short(view):
        meta, start, batches = short.opened(view, name)
        columns = _columns_of(view[start:batches], meta, batches, view[batches:] if loaded else None)
        return meta, check_control(columns) if loaded else columns
    meta = _meta(view[-(layout.FOOTER.length + layout.TAIL_LENGTH) :], view.nbytes, name)
    return meta, _columns(view, meta, name, loaded=loaded)


def _check_no_seal(meta: layout.FileMeta) -> None:
    if meta.kind == "seal":
        raise Damaged(meta.name, "is a seal: its writer epoch ends before it, and a commit was expected here")


def read_columns(storage: Storage, name: str) -> Columns:
    """The rows without their batches (which are loaded anyway if the object is small).

    Raises:
        Damaged: as `read_whole`.
        Missing: there is no such object.
    """
    size = storage.size(name)
    if size is None:
        raise Missing(name)
    if size <= READ_WHOLE_BYTES:
        return read_whole(storage.get(name), name)
    tail = layout.FOOTER.length + layout.TAIL_LENGTH
    meta = _meta(memoryview(storage.get_range(name, size - tail, tail)), size, name)
    length = layout.COLUMNS_START + layout.plan(meta.rows).batches
    return _columns(memoryview(storage.get_range(name, 0, length)), meta, name, loaded=False)


def read_damaged(data: Buffer, name: str) -> tuple[Columns, bool]:
    """The rows of an object of which the columns are whole, and whether the payloads of its control rows are.

    Raises:
        Damaged: the columns are not whole.
    """
    view = memoryview(data).cast("B")
    meta, columns = _read(view, name, loaded=False)
    _check_no_seal(meta)
    start = columns.data_position
    columns = replace(columns, data=view[start : start + meta.batch_bytes])
    try:
        return check_control(columns), True
    except Damaged:
        return columns, False


def commits_of(storage: Storage, name: str) -> tuple[int, int]:
    """The commits [first, end) that a segment's footer says it stands for; nothing else of it is read.

    Raises:
        Damaged: the footer cannot be read.
        Missing: there is no such object.
    """
    size = storage.size(name)
    if size is None:
        raise Missing(name)
    tail = min(size, layout.FOOTER.length + layout.TAIL_LENGTH)
    meta = _meta(memoryview(storage.get_range(name, size - tail, tail)), size, name)
    return meta.first, meta.end


def _meta(tail: memoryview, size: int, name: str) -> layout.FileMeta:
    """The footer's values; `tail` ends where the object ends and holds at least the footer."""
    end = bytes(tail)
    if size < layout.file_size(0, 0) or not end.endswith(layout.MAGIC):
        raise Damaged(name, f"cut short at {size:,} bytes, or not a file of rows")
    length = int.from_bytes(end[-layout.TAIL_LENGTH : -len(layout.MAGIC)], "little", signed=True)
    footer = end[-length - layout.TAIL_LENGTH :] if 0 < length <= len(end) - layout.TAIL_LENGTH else b""
    meta = _as_written(footer, name)
    if meta is None:
        try:
            meta = _parse(layout.footer_texts(footer), name)
        except (ValueError, KeyError) as error:
            raise Damaged(name, "the footer is not readable") from error
    if meta.name != name:
        raise Damaged(name, f"is another object than its name says: {meta.name}")
    if _is_short(meta) or meta.kind not in _KINDS:
        raise Damaged(name, f"a {meta.kind} of {size:,} bytes is not stored so")
    if footer != layout.FOOTER.fill(meta) or size != layout.file_size(meta.rows, meta.batch_bytes):
        raise Damaged(name, "the footer does not fit the object's length or layout")
    return meta


def _as_written(footer: bytes, name: str) -> layout.FileMeta | None:
    """The values of a footer with its texts where this version puts them; None if something else is there."""
    try:
        return _parse(layout.FOOTER.texts(footer), name)
    except (ValueError, Damaged):
        return None


def _parse(texts: dict[str, str], name: str) -> layout.FileMeta:
    version = int(texts["version"])
    if version != FORMAT_VERSION:
        raise Damaged(name, f"written in format version {version}; this program reads version {FORMAT_VERSION}")
    rows, batch_bytes, first, end, known = numbers = [int(texts[key]) for key in _META_NUMBERS]
    if min(numbers) < 0:
        raise ValueError(texts)
    checksum, control = int(texts["checksum"], 16), int(texts["control"], 16)
    epoch_id = bytes.fromhex(texts["epoch_id"])
    return layout.FileMeta(
        texts["kind"], rows, batch_bytes, first, end, checksum, control, texts["name"], epoch_id, known
    )


def _columns(view: memoryview, meta: layout.FileMeta, name: str, *, loaded: bool) -> Columns:
    places = layout.plan(meta.rows)
    start = layout.COLUMNS_START + places.batches
    head = view[:start]
    checksum = crc32c.crc32c(meta.described(), crc32c.crc32c(head))
    if checksum != meta.checksum or head[: len(layout.FILE_HEAD)] != layout.FILE_HEAD:
        raise Damaged(name, "the checksum of its columns does not fit")
    batches = view[start : start + meta.batch_bytes] if loaded else None
    columns = _columns_of(head[layout.COLUMNS_START :], meta, start, batches)
    message = layout.MESSAGE.fill(places, null_counts(columns), meta.batch_bytes)
    if head[len(layout.FILE_HEAD) : layout.COLUMNS_START] != message:
        raise Damaged(name, "its row message does not fit its columns")
    if not loaded:
        return columns
    end = start + meta.batch_bytes
    if view[end : end + (-end % 8) + 8] != bytes(-end % 8) + layout.END_MARK:
        raise Damaged(name, "its batches do not end where they should")
    return check_control(columns)


def _columns_of(region: memoryview, meta: layout.FileMeta, start: int, batches: memoryview | None) -> Columns:
    columns = columns_at(
        region,
        layout.plan(meta.rows),
        meta.batch_bytes,
        meta.name,
        start,
        data=batches,
        first=meta.first,
        end=meta.end,
        control=meta.control,
        epoch_id=meta.epoch_id,
    )
    if meta.rows:
        _check_commits(meta, int(columns.commit.min()), int(columns.commit.max()))
    return columns


def _check_commits(meta: layout.FileMeta, lowest: int, highest: int) -> None:
    if not meta.first <= lowest <= highest < meta.end:
        raise Damaged(meta.name, f"has rows outside the commits [{meta.first}, {meta.end})")


def check_control(columns: Columns) -> Columns:
    """The same columns, of a whole object with its batches, once the payloads of control rows have been checked.

    Raises:
        Damaged: the payloads are not what was written.
    """
    places = np.flatnonzero(columns.kind != Kind.BATCH).tolist()
    _check_control_sum(columns.control, checksum_of(columns.batch(place) for place in places), columns.name)
    return columns


def _check_control_sum(said: int, found: int, name: str) -> None:
    if found != said:
        raise Damaged(name, "the checksum of its control rows does not fit")


def columns_at(
    region: memoryview,
    places: layout.Plan,
    batch_bytes: int,
    name: str,
    start: int,
    *,
    data: memoryview | None = None,
    first: int = 0,
    end: int = 0,
    control: int = 0,
    epoch_id: bytes = b"",
) -> Columns:
    """Columns over a region of bytes, of an object whose batches begin at `start`; `data` are the batches, if loaded.
    Raises: Damaged."""
    arrays: dict[str, Any] = layout.arrays(region, places)
    offsets = arrays.pop("offsets")
    sizes = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != batch_bytes or not np.array_equal(sizes, arrays["size"]):
        raise Damaged(name, "the sizes of its batches do not fit")
    return Columns(
        name=name,
        position=offsets[:-1] + start,
        first=first,
        end=end,
        data=data,
        data_position=start,
        control=control,
        epoch_id=epoch_id,
        **arrays,
    )


def null_counts(columns: Columns) -> tuple[int, int]:
    """How many rows have no origin, and no via."""
    rows = len(columns)
    return rows - int(np.count_nonzero(columns.origin_set)), rows - int(np.count_nonzero(columns.via_set))
