"""What becomes of partitions of a source that cannot be fetched from where they stand.

One that lost something stands still with its reason, and the others go on; an option says for each loss whether it goes
on by itself instead (`GoesOn`).
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping
from functools import partial
from typing import Any

from fairlead.mirror.carrying.engine import Carrier
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.lanes import Part
from fairlead.mirror.options import GoesOn
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import EARLIEST, LATEST, Answer, Cluster, Place, Trouble
from fairlead.mirror.report import Tally
from fairlead.mirror.work import Work
from fairlead.model.errors import BadRequest


class Settling:
    """Of one source. For how long it will not say what became of a partition, nobody knows, so that is found out beside
    all else."""

    def __init__(
        self, source: Cluster, carrier: Carrier, copies: Mapping[Part, Standing], goes_on: GoesOn, tally: Tally
    ) -> None:
        """`copies` are those that are mirrored, at any time."""
        self._source = source
        self._carrier = carrier
        self._copies = copies
        self._goes_on = goes_on
        self._tally = tally
        self._work = Work()
        self._missed: set[Standing] = set()

    @property
    def missed(self) -> Collection[Standing]:
        """Whose topic the source did not know when they were fetched; the next look at the topics says what became of
        it."""
        return self._missed

    def take_missed(self) -> Collection[Standing]:
        """The same, for such a look."""
        missed, self._missed = self._missed, set()
        return missed

    def spawn(self, copy: Standing, offset: int, answer: Answer) -> None:
        """That partition cannot be fetched at `offset`."""
        self._work.spawn(self._found_out(copy, offset, answer, copy.went_back))

    def work(self) -> Coroutine[Any, Any, None]:
        """What runs for as long as it is mirrored from."""
        return self._work.until_over()

    async def cancel(self) -> None:
        """Find out nothing more."""
        await self._work.cancel()

    async def _found_out(self, copy: Standing, offset: int, answer: Answer, went_back: int) -> None:
        try:
            await insisting(partial(self._settle, copy, offset, answer, went_back))
        except BadRequest as error:
            if self._stands(copy, went_back):
                copy.stop(str(error))

    def _stands(self, copy: Standing, went_back: int) -> bool:
        """Whether it waits for what is found out: it was not lost meanwhile, and is not fetched again from before."""
        return self._copies.get(copy.part) is copy and copy.stopped is None and copy.went_back == went_back

    async def _settle(self, copy: Standing, offset: int, answer: Answer, went_back: int) -> None:
        if not self._stands(copy, went_back):
            return
        if answer.trouble is Trouble.UNKNOWN_TOPIC:
            self._miss(copy)
        elif answer.trouble is Trouble.REFUSED:
            copy.stop(f"the source refuses to have it read: {answer.detail}")
        elif answer.trouble is Trouble.TRUNCATED and 0 <= answer.diverged_at < offset:
            self._truncated(copy, offset, answer.diverged_at, "where the two part")
        else:
            truncated = answer.trouble is Trouble.TRUNCATED
            await self._find_place(copy, offset, went_back, truncated=truncated)

    def _miss(self, copy: Standing) -> None:
        self._carrier.remove(copy)
        self._missed.add(copy)

    async def _find_place(self, copy: Standing, offset: int, went_back: int, *, truncated: bool) -> None:
        """Compare where it stands with where the log begins and ends now."""
        part = copy.part
        place = Place(part.topic, part.partition)
        found = (await self._source.topics([part.topic])).get(part.topic)
        if found is None or found.topic_id != part.topic_id:
            if self._stands(copy, went_back):
                self._miss(copy)
            return
        start = (await self._source.offsets([place], EARLIEST))[place]
        end = (await self._source.offsets([place], LATEST))[place]
        if not self._stands(copy, went_back):
            return
        if offset < start:
            self._gap(copy, offset, start)
        elif offset > end or truncated:
            # Where the two part is not known: what came since may lie below the end, so nothing is stepped over. So it
            # is if a leader has none of the epoch of the last record, and an older one goes on beyond it there.
            self._truncated(copy, offset, start, "at the start of the log")
        else:
            self._carrier.again(copy, offset)

    def _gap(self, copy: Standing, offset: int, start: int) -> None:
        lost = start - offset
        self._tally.lost_offsets += lost
        why = f"offsets {offset} to {start - 1} were gone at the source before they were mirrored"
        if not self._goes_on.gap:
            copy.stop(f"{why}; --on.gap continue goes on at {start}")
            return
        self._tally.notes[str(copy.part)] = f"{why}; it went on at {start}"
        copy.skip(start, lost)
        self._carrier.again(copy, start)

    def _truncated(self, copy: Standing, offset: int, at: int, where: str) -> None:
        why = f"the source has lost records that were mirrored: its log went on otherwise below offset {offset}"
        if not self._goes_on.truncated:
            copy.stop(f"{why}; --on.truncated continue goes on {where} ({at}), and the destination keeps what it has")
            return
        self._tally.notes[str(copy.part)] = f"{why}; it went on {where} ({at})"
        self._tally.truncated += 1
        copy.skip(at, 0)
        self._carrier.again(copy, at)
