"""Made-up rows, for tests of formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from fairlead.protocol.batch import build_batch, read_header
from fairlead.streamlog import payloads
from fairlead.streamlog.payloads import EntryPayload
from fairlead.streamlog.rows import NO_COMMIT, NO_EPOCH, NO_OFFSET, NO_TOPIC, Kind, Row

IDS = st.binary(min_size=16, max_size=16)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
U32 = st.integers(0, 2**32 - 1)
COMMITS = st.integers(0, 2**40)


def any_row() -> st.SearchStrategy[Row]:
    """Rows with any value that a column takes."""
    return st.builds(
        Row,
        st.sampled_from(list(Kind)).map(int),
        st.integers(0, 2**32 - 1),
        I32,
        I64,
        I64,
        I32,
        I64,
        I32,
        st.none() | IDS,
        st.none() | IDS,
        I64,
        I64,
        I64,
        I32,
        U32,
        U32,
        COMMITS,
        I32,
        st.binary(max_size=300),
    )


def said_of(batch: bytes) -> tuple[int, int, int]:
    """What a row says of its batch: `records`, `bits` and `crc`."""
    header = read_header(batch)
    return header.record_count, header.attributes, header.crc


def batch_row(
    topic: int = 0,
    offset: int = 0,
    *,
    commit: int = 0,
    row: int = 0,
    count: int = 1,
    value: bytes = b"v",
    **fields: Any,
) -> Row:
    """A BATCH row of `count` records from `offset` on."""
    batch = build_batch([(None, value)] * count, base_offset=offset)
    made = Row(
        int(Kind.BATCH),
        topic,
        0,
        offset,
        offset + count - 1,
        0,
        offset,
        0,
        None,
        None,
        NO_COMMIT,
        1000 + commit,
        -1,
        *said_of(batch),
        commit,
        row,
        batch,
    )
    return made._replace(**fields)


def entry_row(key: str, value: Any, *, commit: int = 0, row: int = 0) -> Row:
    """An ENTRY row."""
    batch = payloads.encode(EntryPayload(key, value))
    return control_row(Kind.ENTRY, batch, commit=commit, row=row)


def control_row(
    kind: Kind, batch: bytes, *, topic: int = NO_TOPIC, commit: int = 0, row: int = 0, **fields: Any
) -> Row:
    """A control row with this payload."""
    made = Row(
        int(kind),
        topic,
        0,
        NO_OFFSET,
        NO_OFFSET,
        NO_EPOCH,
        NO_OFFSET,
        NO_EPOCH,
        None,
        None,
        NO_COMMIT,
        1000 + commit,
        -1,
        0,
        0,
        0,
        commit,
        row,
        batch,
    )
    return made._replace(**fields)


def joined(buffers: Sequence[Any]) -> bytes:
    """The bytes of some buffers."""
    return b"".join(bytes(memoryview(buffer)) for buffer in buffers)
