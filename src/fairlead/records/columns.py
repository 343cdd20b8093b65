"""The columns that a Spark user sees: those of Spark's Kafka source, and `origin`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fairlead.model.errors import InvalidValue

_TYPES: dict[str, tuple[pa.DataType, str]] = {
    "key": (pa.binary(), "binary"),
    "value": (pa.binary(), "binary"),
    "topic": (pa.string(), "string"),
    "partition": (pa.int32(), "int"),
    "offset": (pa.int64(), "bigint"),
    "timestamp": (pa.timestamp("us", tz="UTC"), "timestamp"),
    "timestampType": (pa.int32(), "int"),
    "headers": (
        pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
        "array<struct<key: string, value: binary>>",
    ),
    "origin": (pa.string(), "string"),
}

ALL = tuple(_TYPES)
"""Every column, in order. `origin` is the id of the stream where the record was first written, 32 hex digits: this
stream's own id, unless the record came by replication."""


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The chosen columns, in the order in which they were named.

    Raises:
        InvalidValue: no column is named, one is named twice, or one does not exist.
    """
    by_lower = {name.lower(): name for name in ALL}
    unknown = [name for name in names if name.lower() not in by_lower]
    if unknown or not names:
        raise InvalidValue(f"columns {', '.join(unknown) or '(none)'}: use some of {', '.join(ALL)}")
    chosen = tuple(by_lower[name.lower()] for name in names)
    if len(set(chosen)) < len(chosen):
        raise InvalidValue(f"columns {', '.join(names)}: one is named twice")
    return chosen


def arrow_schema(columns: Sequence[str] = ALL) -> pa.Schema:
    """The Arrow schema of these columns, exactly as Spark expects it."""
    return pa.schema([pa.field(name, _TYPES[name][0]) for name in columns])


def spark_schema(columns: Sequence[str] = ALL) -> str:
    """The same schema, as the text that Spark's `DataSource.schema` returns."""
    return ", ".join(f"`{name}` {_TYPES[name][1]}" for name in columns)
