"""Which batches a broker takes as they are, and which must be made anew.

Kafka 4.1 refuses a batch with holes (fewer records than offsets, as compaction leaves them), and one that is larger
than the topic's `max.message.bytes`. It takes a batch with LogAppendTime and shows consumers the producer's times
instead. It handles a batch of 16 KB in about the time of one of 100 KB, so small ones are merged where several wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How
from fairlead.mirror.bytes.source import SourceBatch


class Run(NamedTuple):
    """Neighbours that are treated together."""

    how: How
    batches: Sequence[SourceBatch]


def choose(batch: SourceBatch, limits: Limits) -> How:
    """What becomes of a batch by itself."""
    header = batch.header
    if header.size_bytes > limits.message_bytes_max:
        return How.SPLIT
    if header.record_count != header.last_offset_delta + 1 or header.log_append_time or batch.low > header.base_offset:
        return How.REBUILT
    return How.RAW


def runs(batches: Sequence[SourceBatch], limits: Limits) -> Iterator[Run]:
    """The batches in order, small neighbours of the same codec together."""
    first, size = 0, 0
    for index, batch in enumerate(batches):
        bytes_here = batch.header.size_bytes
        joins = (
            index > first
            and bytes_here < limits.small_bytes_max
            and size + bytes_here <= limits.merged
            and batches[first].header.size_bytes < limits.small_bytes_max
            and batch.header.codec == batches[first].header.codec
        )
        if not joins and index > first:
            yield _run(batches[first:index], limits)
            first, size = index, 0
        size += bytes_here
    if first < len(batches):
        yield _run(batches[first:], limits)


def _run(batches: Sequence[SourceBatch], limits: Limits) -> Run:
    return Run(choose(batches[0], limits) if len(batches) == 1 else How.MERGED, batches)
