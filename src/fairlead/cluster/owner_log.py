"""Lines of the server's log about who owns topics, what a change of owner has cut off, copied and dropped, and what was
put aside while an owner was away.

In: events, one for each topic or partition. Out: one line for all of a kind that came within a second, with the first
few names and how many there were: a takeover may be of 50,000 topics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import structlog

from fairlead.streamlog.writing.news import LogCut, News, Resolved

GATHERED_SECONDS: Final = 1.0
"""Events of one kind that come within this time stand in one line."""
SELDOM_SECONDS: Final = 60.0
"""Of dropped records, and of those that are put aside, no more than one line is written in this time: a source that has
not heard goes on sending, and so do producers while the owner is away."""
_NAMED_MAX: Final = 5

log = structlog.get_logger()

T = TypeVar("T")


@dataclass(slots=True)
class _Line:
    total: int = 0
    records: int = 0
    named: list[str] = field(default_factory=list)

    def add(self, name: str, records: int) -> None:
        self.total += 1
        self.records += records
        if len(self.named) < _NAMED_MAX:
            self.named.append(name)


class _Seldom(Generic[T]):
    """Counts of records by what they are of, written at most once in `SELDOM_SECONDS`."""

    def __init__(self, write: Callable[[Counter[T]], None]) -> None:
        self._write = write
        self._records = Counter[T]()
        self._timer: asyncio.TimerHandle | None = None
        self._told_at = float("-inf")

    def add(self, what: T, records: int) -> None:
        self._records[what] += records
        if self._timer is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time() + GATHERED_SECONDS, self._told_at + SELDOM_SECONDS)
            self._timer = loop.call_at(at, self.tell)

    def tell(self) -> None:
        """Write what has come so far."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._told_at = asyncio.get_running_loop().time()
        records, self._records = self._records, Counter()
        self._write(records)


class OwnerLog:
    """Of one stream."""

    def __init__(self, stream: bytes, path: str) -> None:
        self._stream = stream
        self._path = path
        self._lines: dict[tuple[str, str, str], _Line] = {}
        """By event, and the name and value of the field that all of the line have alike."""
        self._dropped = _Seldom[bytes](self._tell_dropped)
        self._aside = _Seldom[tuple[str, str]](self._tell_aside)
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, news: Sequence[News]) -> None:
        """What a commit has changed."""
        for each in news:
            if isinstance(each, LogCut):
                where = f"{each.topic} partition {each.partition} at {each.offset} (by epoch {each.by_epoch})"
                self._note("logs are cut", "reason", each.reason, where)
                continue
            if isinstance(each, Resolved):
                self._note("what was set aside is to be brought", "link", each.link.hex(), each.topic)
                continue
            name, owner = f"{each.topic} (epoch {each.epoch})", each.owner_at or each.owner.hex()
            if each.before == self._stream:
                self._note("topics have gone to another owner", "owner", owner, name)
            elif each.owner == self._stream:
                self._note("topics are owned here now", "owner", owner, name)
            else:
                self._note("topics have another owner", "owner", owner, name)

    def tail_copied(self, topic: str, partition: int, into: str, records: int) -> None:
        """What was cut off a partition is in a topic of its own."""
        self._note("diverged records are copied", "", "", f"{topic} partition {partition} into {into}", records)

    def superseded(self, link: bytes, records: int) -> None:
        """Records of owners before came by a link, and were dropped."""
        self._dropped.add(link, records)

    def put_aside(self, topic: str, into: str, records: int) -> None:
        """Records that were written to a topic whose owner is away are in a topic of their own."""
        self._aside.add((topic, into), records)

    def unconfirmed(self, owner: str, topics: Sequence[str], why: str) -> None:
        """These were handed over a while ago to an owner that has not heard of it; `why`: what ails the link there."""
        event = "topics are handed over and not confirmed"
        log.warning(event, stream=self._path, topics=topics[:_NAMED_MAX], total=len(topics), owner=owner, why=why)

    def confirmed(self, owner: str, topics: Sequence[str]) -> None:
        """Of these the owner has heard by now; it was told before that it had not."""
        event = "topics handed over are confirmed"
        log.info(event, stream=self._path, topics=topics[:_NAMED_MAX], total=len(topics), owner=owner)

    def unwritable(self, topics: Sequence[str], records: int) -> None:
        """These are owned here since a while ago, and lack so many records of the owner before."""
        event = "topics owned here cannot be written yet"
        log.warning(event, stream=self._path, topics=topics[:_NAMED_MAX], total=len(topics), records=records)

    def writable(self, topics: Sequence[str]) -> None:
        """These have all by now; it was told before that they had not."""
        event = "topics owned here can be written now"
        log.info(event, stream=self._path, topics=topics[:_NAMED_MAX], total=len(topics))

    def flush(self) -> None:
        """Write what has come so far; the stream ends."""
        self._tell_lines()
        self._dropped.tell()
        self._aside.tell()

    def _note(self, event: str, name: str, value: str, what: str, records: int = 0) -> None:
        self._lines.setdefault((event, name, value), _Line()).add(what, records)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHERED_SECONDS, self._tell_lines)

    def _tell_lines(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, {}
        for (event, name, value), line in lines.items():
            fields = {name: value} if name else {"records": line.records}
            log.info(event, stream=self._path, topics=line.named, total=line.total, **fields)

    def _tell_aside(self, aside: Counter[tuple[str, str]]) -> None:
        line = _Line()
        for (topic, into), records in aside.items():
            line.add(f"{topic} into {into}", records)
        log.info("records are put aside", stream=self._path, topics=line.named, total=line.total, records=line.records)

    def _tell_dropped(self, dropped: Counter[bytes]) -> None:
        for link, records in dropped.items():
            log.info("records of an owner before are dropped", stream=self._path, link=link.hex(), records=records)
