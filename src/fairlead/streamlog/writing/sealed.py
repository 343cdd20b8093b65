"""What sealing, announcing and counting give out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead.streamlog.reading.index import Live, live_of
from fairlead.streamlog.reading.recent import Compact, compact_of
from fairlead.streamlog.rows import Row
from fairlead.streamlog.values import RowKey
from fairlead.streamlog.writing.news import News


class RequestAnswer(NamedTuple):
    """What a request gave: a value, or the error it raised."""

    value: Any
    error: Exception | None

    def result(self) -> Any:
        """The value; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.value


class Readable(NamedTuple):
    """What readers will find of a commit. It is made of the rows alone, and nobody sees it before it is announced."""

    live: Live
    compact: Compact


def readable_of(rows: Sequence[Row]) -> Readable:
    """What readers will find of these rows."""
    live = live_of(rows)
    return Readable(live, compact_of(live.batches))


@dataclass(slots=True)
class Sealed:
    """A commit on its way. `answers` belong to the first `len(answers)` requests; the others were not evaluated."""

    commit: int
    rows: list[Row]
    answers: list[RequestAnswer]
    missing: tuple[RowKey, ...] = ()
    """Rows on disk that the next request needs to know; load them before sealing again."""
    durable: bool = False
    news: Sequence[News] = ()
    readable: Readable | None = None
    """If it was made already."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Commits [first, end) may be read now."""

    first: int
    end: int
    partitions: Sequence[tuple[int, int]]
    """(topic number, partition) whose end or start moved."""
    non_local: bool
    """Something in them may be sent over a link."""
