"""Rows → the partitions that they go to, and rows of one partition side by side, in their order.

A row goes to the partition that it names, else to the one that Java's clients choose for its key. Rows without a key go
to one partition of their topic, another one for each `turn`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fairlead.model.errors import InvalidName, InvalidValue
from fairlead.model.names import check_topic_name, parse_stream_path
from fairlead.protocol.loops.columns import cast, plain
from fairlead.protocol.loops.murmur2 import hashes
from fairlead.records.writing.options import WriteOptions

WHO: Final = "the rows to be written have"
COLUMNS: Final = ("path", "topic", "partition", "key", "value", "headers", "timestamp")

PartitionsOf = Callable[[Sequence[str]], Mapping[str, int]]
"""How many partitions topics have, by the names that the main listener gives them; makes those that are not there.
Raises: UnknownTopic."""


class Group(NamedTuple):
    """Rows [first, until), which go to one partition."""

    topic: str
    """As the main listener names it: the stream's path, a colon, the name."""
    partition: int
    first: int
    until: int


class Routed(NamedTuple):
    """Rows in the order of their groups."""

    rows: pa.RecordBatch
    groups: Sequence[Group]


def check_columns(names: Sequence[str], options: WriteOptions) -> None:
    """Check that rows of these columns can be written.

    Raises:
        InvalidValue
    """
    unknown = sorted(set(names) - set(COLUMNS))
    if unknown:
        raise InvalidValue(f"column {', '.join(unknown)} is not written; format fairlead takes {', '.join(COLUMNS)}")
    if "value" not in names:
        raise InvalidValue("column value is missing: the bytes or the text of each record")
    if "topic" not in names and options.topic is None:
        raise InvalidValue("no topic: give a column topic, or the option topic for all records")


def check_places(rows: pa.RecordBatch, options: WriteOptions) -> None:
    """Check the types of the columns that say where rows go. Raises: InvalidValue, InvalidName."""
    _topics(rows, options)
    _named(rows)


def routed(rows: pa.RecordBatch, options: WriteOptions, partitions_of: PartitionsOf, turn: int) -> Routed:
    """Where rows go.

    Raises:
        InvalidValue: a row has no topic, or a partition that its topic has not.
        InvalidName, UnknownTopic
    """
    if not rows.num_rows:
        return Routed(rows, [])
    topics = _topics(rows, options).dictionary_encode()
    names: list[str] = topics.dictionary.to_pylist()
    known = partitions_of(names)
    counts = np.array([known[name] for name in names], np.int64)
    at = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    partition = _partitions(rows, at, counts, turn)
    _check(partition, counts[at], [names, at])
    place = at * (int(counts.max()) + 1) + partition
    if (np.diff(place) < 0).any():
        order = np.argsort(place, kind="stable")
        rows, place = rows.take(pa.array(order)), place[order]
        at, partition = at[order], partition[order]
    cuts = np.flatnonzero(np.diff(place)) + 1
    starts, ends = [0, *cuts.tolist()], [*cuts.tolist(), rows.num_rows]
    return Routed(
        rows,
        [
            Group(names[at[first]], int(partition[first]), first, until)
            for first, until in zip(starts, ends, strict=True)
        ],
    )


def _topics(rows: pa.RecordBatch, options: WriteOptions) -> Any:
    """The topic of each row, as the main listener names it. Raises: InvalidValue, InvalidName."""
    if options.topic is not None:
        topic: Any = pa.repeat(options.topic, rows.num_rows)
    else:
        topic = cast(rows, "topic", pa.string(), WHO)
        if topic.null_count:
            raise InvalidValue("a row has no topic; leave it out, or give the option topic for all records")
        for name in topic.unique().to_pylist():
            check_topic_name(name)
    path: Any = pa.repeat(options.path, rows.num_rows)
    if "path" in rows.schema.names:
        given = cast(rows, "path", pa.string(), WHO).dictionary_encode()
        streams = pa.array([_local(text) for text in given.dictionary.to_pylist()], pa.string())
        path = pc.fill_null(streams.take(given.indices), options.path)
    return pc.binary_join_element_wise(path, topic, ":")


def _local(text: str) -> str:
    """Raises: InvalidName."""
    found = parse_stream_path(text)
    if found.cluster is not None:
        raise InvalidName(f"column path = {text!r}: name the stream by its path in the cluster, {found.path}")
    return found.path


def _partitions(rows: pa.RecordBatch, at: NDArray[np.int64], counts: NDArray[np.int64], turn: int) -> NDArray[np.int64]:
    chosen = np.full(rows.num_rows, -1, np.int64)
    if "key" in rows.schema.names:
        key = cast(rows, "key", pa.binary(), WHO)
        hashed = np.empty(rows.num_rows, np.int32)
        hashes(*plain(key), hashed)
        chosen = np.where(hashed >= 0, hashed % counts[at], -1)
    keyless: NDArray[np.int64] = np.where(chosen < 0, turn % counts[at], chosen)
    given = _named(rows)
    there = given.is_valid().to_numpy(zero_copy_only=False)
    return np.where(there, given.fill_null(0).to_numpy(zero_copy_only=False), keyless)


def _named(rows: pa.RecordBatch) -> Any:
    """The partition that each row names. Raises: InvalidValue."""
    if "partition" not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.int32())
    return only(rows, "partition", pa.int32(), pa.types.is_integer)


def only(rows: pa.RecordBatch, name: str, kind: pa.DataType, fits: Callable[[pa.DataType], bool]) -> Any:
    """A column as that type, if its own fits: Arrow also casts texts, and numbers of whatever they count.

    Raises:
        InvalidValue
    """
    given = rows.schema.field(name).type
    if not (fits(given) or pa.types.is_null(given)):
        raise InvalidValue(f"{WHO} a column {name} of type {given}, not {kind}")
    return cast(rows, name, kind, WHO)


def _check(partition: NDArray[np.int64], counts: NDArray[np.int64], names: Sequence[Any]) -> None:
    """Raises: InvalidValue."""
    wrong = np.flatnonzero((partition < 0) | (partition >= counts))
    if len(wrong):
        first = wrong[0]
        topic = names[0][names[1][first]]
        raise InvalidValue(f"a row names partition {partition[first]} of topic {topic}, which has {counts[first]}")
