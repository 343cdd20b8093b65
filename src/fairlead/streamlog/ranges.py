"""The ranges of the numbers in rows, frames and the state that they make.

What comes from another cluster is somebody else's word, and a row that was made durable is replayed at each start. So a
number is refused where it comes in, and once more where the state takes it: while a row is drafted, by the same code as
at each replay. A row that could not be replayed fails before it is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from annotated_types import Ge, Le, MaxLen

from fairlead.model.errors import CorruptBatch
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX, SHARDS_PER_STREAM_MAX
from fairlead.model.names import GROUP_ID_BYTES_MAX, NAME_SHOWN_MAX, SLICES

OFFSET_MAX: Final = 2**62 - 1
"""The log of no partition ends beyond it. Columns have 64 bits; the rest is room to compute with."""
COMMIT_MAX: Final = 2**62 - 1
EPOCH_MAX: Final = 2**30 - 1
"""Largest topic epoch. Columns have 31 bits; the rest is room for those who take such a topic over."""
VERSION_MAX: Final = 2**31 - 1
COUNTER_MAX: Final = 2**63 - 1
NUMBER_MAX: Final = 0xFFFFFFDF
"""Largest topic number; those after it mean no topic (`rows.NO_TOPIC_SENT`, `rows.NO_TOPIC`)."""
DELTA_MAX: Final = 2**31 - 1
"""A batch has at most one offset more than this: its header has 31 bits for it."""
NAME_LENGTH_MAX: Final = NAME_SHOWN_MAX
"""Characters of a name in a row or a frame, legal here or not."""
GLOBAL_PATH_LENGTH_MAX: Final = 1200
"""Characters of a stream's path with the name of its cluster."""
CONFIGS_MAX: Final = 100
"""Settings of one topic."""

Offset = Annotated[int, Ge(0), Le(OFFSET_MAX)]
Commit = Annotated[int, Ge(0), Le(COMMIT_MAX)]
Epoch = Annotated[int, Ge(0), Le(EPOCH_MAX)]
Version = Annotated[int, Ge(0), Le(VERSION_MAX)]
Number = Annotated[int, Ge(0), Le(NUMBER_MAX)]
Partition = Annotated[int, Ge(0), Le(PARTITIONS_PER_TOPIC_MAX - 1)]
Partitions = Annotated[int, Ge(1), Le(PARTITIONS_PER_TOPIC_MAX)]
ShardNumber = Annotated[int, Ge(0), Le(SHARDS_PER_STREAM_MAX - 1)]
SliceMask = Annotated[int, Ge(1), Le(2**SLICES - 1)]
"""A set of slices, not empty: bit s for slice s."""
Counter = Annotated[int, Ge(0), Le(COUNTER_MAX)]
"""Grows: a run's numbers, versions of a cursor."""
Millis = Annotated[int, Ge(0), Le(2**62 - 1)]
"""Milliseconds since 1970."""
Name = Annotated[str, MaxLen(NAME_LENGTH_MAX)]
GroupId = Annotated[str, MaxLen(GROUP_ID_BYTES_MAX)]
GlobalPath = Annotated[str, MaxLen(GLOBAL_PATH_LENGTH_MAX)]


def are_offsets(base: int, last: int) -> bool:
    """Whether a batch may have these offsets (inclusive)."""
    return 0 <= base <= last < OFFSET_MAX and last - base <= DELTA_MAX


def check_history(history: Sequence[tuple[int, int]], end: int) -> None:
    """
    Raises:
        CorruptBatch: this is no epoch history of a partition whose log ends at `end`: epochs grow, offsets never fall.
    """
    newest, highest = -1, 0
    for epoch, first in history:
        if not (newest < epoch <= EPOCH_MAX and highest <= first <= end):
            raise CorruptBatch(f"epoch {epoch} from offset {first} does not continue a history that ends at {end}")
        newest, highest = epoch, first


def check_since(
    since: Sequence[tuple[int, Sequence[tuple[int, int]]]], partitions: int, deleted_to: Sequence[int] = ()
) -> None:
    """
    Raises:
        CorruptBatch: a topic with so many partitions cannot have got its epoch so, or nobody can have deleted so much
            before.
    """
    if len(since) > partitions:
        raise CorruptBatch(f"{len(since)} partitions of a topic with {partitions} say where its epoch begins")
    for start, history in since:
        check_history(history, start)
    if len(deleted_to) > len(since) or any(to > start for to, (start, _) in zip(deleted_to, since, strict=False)):
        raise CorruptBatch(f"deleted up to {list(deleted_to)}, beyond where the topic's epoch begins")


def check_partition(start: int, end: int, history: Sequence[tuple[int, int]]) -> None:
    """
    Raises:
        CorruptBatch: no partition can stand so. Only the newest epoch is looked at; a START row's history is checked
            when it is read.
    """
    if not (0 <= start <= OFFSET_MAX and 0 <= end <= OFFSET_MAX):
        raise CorruptBatch(f"offsets [{start}, {end}) are outside [0, {OFFSET_MAX})")
    if history and not (0 <= history[-1][0] <= EPOCH_MAX and 0 <= history[-1][1] <= OFFSET_MAX):
        raise CorruptBatch(f"epoch {history[-1][0]} from offset {history[-1][1]}: one is outside its range")


def check_topic_number(number: int) -> None:
    """
    Raises:
        CorruptBatch: no topic has this number.
    """
    if not 0 <= number <= NUMBER_MAX:
        raise CorruptBatch(f"number {number} is no topic's")
