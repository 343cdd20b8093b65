"""Batches of a partition → batches for the same partition elsewhere: as they are, rebuilt, merged or split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.mirror.bytes.bodies import BadBatch, Longs, Opened, rebuilt, within
from fairlead.mirror.bytes.buffers import Buffers
from fairlead.mirror.bytes.choose import Run, runs
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How, Outgoing, Refused, Rewritten, as_it_is, of_body
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.protocol.batch import HEADER_BYTES
from fairlead.protocol.records import compress

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""No batch that is made here holds more, decompressed: who reads it must hold it."""
_TARGET = 0.9
"""Of the size at which batches would be split, if all parts of one compressed as well as the whole."""

Piece = Outgoing | Refused


class Rewriter:
    """For one destination topic. It keeps nothing between calls but memory; a thread of its own may call it."""

    def __init__(self, limits: Limits, buffers: Buffers | None = None) -> None:
        self._limits = limits
        self._buffers = buffers or Buffers()

    def take(self, batches: Sequence[SourceBatch]) -> Rewritten:
        """What is sent instead of these batches of one partition, which are in order of offsets.

        More of them at once are merged better.
        """
        made: list[Piece] = []
        for run in runs(batches, self._limits):
            if run.how is How.RAW:
                made.append(as_it_is(run.batches[0]))
            else:
                made += self._run(run)
        outgoing = [piece for piece in made if isinstance(piece, Outgoing)]
        return Rewritten(outgoing, [piece for piece in made if isinstance(piece, Refused)])

    def _run(self, run: Run) -> list[Piece]:
        """The run's pieces; a batch that does not hold together is refused, and those around it go on."""
        batches = run.batches
        made: list[Piece] = []
        while batches:
            try:
                return made + self._pieces(Run(run.how, batches))
            except BadBatch as bad:
                header = batches[bad.index].header
                if bad.index:
                    made += self._run(Run(run.how, batches[: bad.index]))
                made.append(Refused(header.base_offset, header.last_offset, f"offset {header.base_offset}: {bad.why}"))
                batches = batches[bad.index + 1 :]
        return made

    def _pieces(self, run: Run) -> list[Piece]:
        """Raises: BadBatch."""
        opened = Opened(run.batches, self._limits.inflated_bytes_max)
        out = self._buffers.take(opened.out_bytes_max)
        codec = run.batches[0].header.codec
        packed = sum(batch.header.size_bytes for batch in run.batches)
        made = list(self._made(opened, opened.plan, out, codec, run.how, self._body_bytes(opened.bytes, packed, run)))
        return list(_settled(made, run.batches[-1].header.last_offset))

    def _body_bytes(self, opened_bytes: int, packed_bytes: int, run: Run) -> int:
        """How large a body may be before it is compressed."""
        limit = self._limits.message_bytes_max
        room = max(limit - HEADER_BYTES, 1)
        if not run.batches[0].header.codec:
            return room
        if packed_bytes <= limit:
            return max(BODY_BYTES_MAX, room)
        return min(max(int(room * _TARGET * opened_bytes / packed_bytes), 1), BODY_BYTES_MAX)

    def _made(
        self, opened: Opened, plan: Longs, out: NDArray[np.uint8], codec: int, how: How, body_bytes_max: int
    ) -> Iterator[Piece]:
        memory = out.data
        for cut in rebuilt(opened, plan, out, body_bytes_max):
            start, end, count, base_time, max_time, first, last, _ = cut.tolist()
            body = compress(codec, memory[start:end]) if codec else memory[start:end].toreadonly()
            if HEADER_BYTES + len(body) <= self._limits.message_bytes_max:
                yield of_body(
                    body,
                    codec=codec,
                    records=count,
                    base_time=base_time,
                    max_time=max_time,
                    first_offset=first,
                    last_offset=last,
                    how=how,
                )
            elif count == 1:
                yield Refused(first, last, self._too_large(first, HEADER_BYTES + len(body)))
            else:
                part = within(plan, cut)
                smaller = self._buffers.take(opened.out_bytes_max)
                yield from self._made(opened, part, smaller, codec, How.SPLIT, (end - start) // 2)

    def _too_large(self, offset: int, size: int) -> str:
        return (
            f"offset {offset}: one record makes a batch of {size:,} bytes, the destination takes "
            f"{self._limits.message_bytes_max:,}; raise its max.message.bytes"
        )


def _settled(made: Sequence[Piece], last_offset: int) -> Iterator[Piece]:
    """The pieces, each up to where the next one begins: offsets of no record between them are settled too."""
    for piece, after in pairwise(made):
        yield piece._replace(last_offset=after.first_offset - 1)
    if made:
        yield made[-1]._replace(last_offset=last_offset)
