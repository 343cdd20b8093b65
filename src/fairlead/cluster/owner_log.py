"""Lines of the server's log about who owns topics, and what a change of owner has cut off, copied and dropped.

In: events, one for each topic or partition. Out: one line for all of a kind that came within a second, with the first
few names and how many there were: a takeover may be of 50,000 topics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from fairlead.streamlog.writing.news import LogCut, News

GATHERED_SECONDS: Final = 1.0
"""Events of one kind that come within this time stand in one line."""
SUPERSEDED_SECONDS: Final = 60.0
"""Of dropped records no more than one line is written in this time: a source that has not heard goes on sending."""
_NAMED_MAX: Final = 5

log = structlog.get_logger()


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


class OwnerLog:
    """Of one stream."""

    def __init__(self, stream: bytes, path: str) -> None:
        self._stream = stream
        self._path = path
        self._lines: dict[tuple[str, str, str], _Line] = {}
        """By event, and the name and value of the field that all of the line have alike."""
        self._dropped = Counter[bytes]()
        self._timer: asyncio.TimerHandle | None = None
        self._dropped_timer: asyncio.TimerHandle | None = None
        self._dropped_told_at = float("-inf")

    def tell(self, news: Sequence[News]) -> None:
        """What a commit has changed."""
        for each in news:
            if isinstance(each, LogCut):
                where = f"{each.topic} partition {each.partition} at {each.offset} (by epoch {each.by_epoch})"
                self._note("logs are cut", "reason", each.reason, where)
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
        self._dropped[link] += records
        if self._dropped_timer is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time() + GATHERED_SECONDS, self._dropped_told_at + SUPERSEDED_SECONDS)
            self._dropped_timer = loop.call_at(at, self._tell_dropped)

    def flush(self) -> None:
        """Write what has come so far; the stream ends."""
        self._tell_lines()
        self._tell_dropped()

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

    def _tell_dropped(self) -> None:
        if self._dropped_timer is None:
            return
        self._dropped_timer.cancel()
        self._dropped_timer = None
        self._dropped_told_at = asyncio.get_running_loop().time()
        dropped, self._dropped = self._dropped, Counter()
        for link, records in dropped.items():
            log.info("records of an owner before are dropped", stream=self._path, link=link.hex(), records=records)
