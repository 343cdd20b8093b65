"""Which batches a broker takes as they are, and which must be made anew.

Kafka 4.1 refuses a batch with holes (fewer records than offsets, as compaction leaves them), and one that is larger
than the topic's `max.message.bytes`. It takes a batch with LogAppendTime and shows consumers the producer's times
instead. It handles a batch of 16 KB in about the time of one of 100 KB, so small ones are merged where several wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.protocol.batch import LENGTH_END

SMALL: Final = (1, 1 / 16, 1 / 2, 1 / 2, 1 / 8)
"""By codec: what share of `small_bytes_max` a batch is smaller than, if it is to be merged.

A batch of its own costs both brokers and the client some 0.2 ms together, whatever its size. To open, merge and
compress records takes about 1 µs a KB of them (none), 30 (gzip), 4 (snappy), 5 (lz4) and 15 (zstd).
"""


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
    first, size, codec = 0, 0, -1
    for index, (header, _, _) in enumerate(batches):
        bytes_here = header.length + LENGTH_END
        small = bytes_here < limits.small_bytes_max * SMALL[header.codec]
        if small and header.codec == codec and size + bytes_here <= limits.merged:
            size += bytes_here
            continue
        if index:
            yield _run(batches[first:index], limits)
        first, size, codec = index, bytes_here, header.codec if small else -1
    if batches:
        yield _run(batches[first:], limits)


def _run(batches: Sequence[SourceBatch], limits: Limits) -> Run:
    return Run(choose(batches[0], limits) if len(batches) == 1 else How.MERGED, batches)
