"""Batches of a partition → batches for the same partition elsewhere: as they are, rebuilt, merged or split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from fairlead.mirror.bytes.bodies import BadBatch, Longs, Opened, body_of, rebuilt, within
from fairlead.mirror.bytes.buffers import Buffers
from fairlead.mirror.bytes.choose import Run, runs
from fairlead.mirror.bytes.kernels import Cut
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How, Outgoing, Refused, Rewritten, as_it_is, refused_batch, too_large
from fairlead.mirror.bytes.source import SourceBatch

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
        made: list[Piece] = []
        batches, until = run.batches, len(run.batches)
        while batches:
            try:
                opened = Opened(batches[:until], self._limits)
                made += self._pieces(opened, run.how)
                batches = batches[len(opened.batches) :]
            except BadBatch as bad:
                until = bad.index
                if until:
                    continue
                made.append(refused_batch(batches[0], bad.why))
                batches = batches[1:]
            until = len(batches)
        return made

    def _pieces(self, opened: Opened, how: How) -> list[Piece]:
        """Raises: BadBatch."""
        body_bytes_max = opened.body_bytes_max(self._limits)
        made = list(self._made(opened, opened.plan, how, body_bytes_max))
        return list(_settled(made, opened.batches[-1].header.last_offset))

    def _made(self, opened: Opened, plan: Longs, how: How, body_bytes_max: int) -> Iterator[Piece]:
        out = self._buffers.take(opened.out_bytes_max)
        for cut in rebuilt(opened, plan, out, body_bytes_max):
            one = body_of(cut, out.data, opened.codec, how)
            if one.size_bytes <= self._limits.message_bytes_max:
                yield one
            elif one.records == 1:
                at = one.first_offset
                yield Refused(at, at, too_large(at, one.size_bytes, self._limits))
            else:
                half = int(cut[Cut.END] - cut[Cut.START]) // 2
                yield from self._made(opened, within(plan, cut), How.SPLIT, half)


def _settled(made: Sequence[Piece], last_offset: int) -> Iterator[Piece]:
    """The pieces, each up to where the next one begins: offsets of no record between them are settled too."""
    for piece, after in pairwise(made):
        yield piece._replace(last_offset=after.first_offset - 1)
    if made:
        yield made[-1]._replace(last_offset=last_offset)
