"""What sealing, announcing and counting give out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead.streamlog.rows import Row
from fairlead.streamlog.writing.draft import RowKey


class RequestAnswer(NamedTuple):
    """What a request gave: a value, or the error it raised."""

    value: Any
    error: Exception | None

    def result(self) -> Any:
        """The value; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(slots=True)
class Sealed:
    """A commit on its way. `answers` are for the first `len(answers)` requests; the others were not evaluated."""

    commit: int
    rows: list[Row]
    answers: list[RequestAnswer]
    missing: tuple[RowKey, ...] = ()
    """Rows on disk that the next request needs to know; load them before sealing again."""
    durable: bool = False


@dataclass(frozen=True, slots=True)
class Announcement:
    """Commits [first, end) may be read now."""

    first: int
    end: int
    partitions: Sequence[tuple[int, int]]
    """(topic number, partition) whose end or start moved."""
    non_local: bool
    """Something in them may be sent over a link."""


@dataclass(slots=True)
class Pending:
    """What a link has not sent yet."""

    records: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    """appended_at of the oldest commit with something to send, milliseconds since 1970."""
    newest_ms: int | None = None

    def add(self, records: int, size_bytes: int, oldest_ms: int, newest_ms: int) -> None:
        """Take in one more commit or segment."""
        self.records += records
        self.bytes += size_bytes
        self.oldest_ms = oldest_ms if self.oldest_ms is None else min(self.oldest_ms, oldest_ms)
        self.newest_ms = newest_ms if self.newest_ms is None else max(self.newest_ms, newest_ms)
