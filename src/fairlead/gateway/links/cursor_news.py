"""Tells links what consumer groups have committed: a row for each cursor that has moved, at most once a second.

In: commits, which are rows of their own log only. Out: CURSOR rows in the same logs, which links bring elsewhere. A
thousand commits a second of one cursor are one row. While all links of the stream that run have work that lies before,
they are told less often, since a row is of use only once those before it have arrived. Where nothing moves, and where
no link is, there is no timer. A link that is new, or takes cursors of more groups than before, is told all there are
once: what it may have passed over stands in the log before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import CHANGED_TOGETHER, Stream
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.links.running.timing import Timing
from fairlead.gateway.links.running.told_cursors import ToldCursors
from fairlead.model.errors import FairleadError
from fairlead.streamlog.requests.cursors import publish_cursors, tell_cursors
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.entries import put_entry
from fairlead.streamlog.writing.sealed import Announcement
from fairlead.streamlog.writing.shard import Shard

log = structlog.get_logger(__name__)

ENTRY: Final = "cursors-told"
"""Key of the entry that says, in each shard, which links were told all cursors, by id, and of which groups."""
Key = tuple[str, int, int]
"""Group, topic number and partition."""
BEHIND_COMMITS: Final = 1_000
"""A link with more commits before it is behind."""


class CursorNews:
    """Of all streams of a cluster; `start` and `close` enclose its life."""

    def __init__(self, cluster: Cluster, links: RunningLinks, timing: Timing) -> None:
        self._cluster = cluster
        self._links = links
        self._timing = timing
        self._watched: dict[Shard, ToldCursors] = {}
        self._timers: dict[Shard, asyncio.TimerHandle] = {}
        self._tasks: dict[Shard, asyncio.Task[bool]] = {}
        self._closed = False

    def start(self) -> None:
        """Follow streams and links."""
        self._cluster.listen(self.look)
        self._cluster.links.listen(self.look)
        self.look()

    async def close(self) -> None:
        """End, and wait for that."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def look(self) -> None:
        """Streams or links came, went or changed."""
        if self._closed:
            return
        shards = {shard: stream for stream in self._cluster.streams() for shard in stream.shards}
        for shard in shards.keys() - self._watched:
            shard.add_listener(partial(self._announced, shards[shard], shard))
        self._watched = {shard: self._watched.get(shard) or ToldCursors() for shard in shards}
        for shard, stream in shards.items():
            self._set_timer(stream, shard)

    async def tell_now(self) -> bool:
        """Tell links all that groups have committed so far, without waiting for the time of that; whether that went."""
        await self._under_way()  # may have begun before the newest of it
        for stream in self._cluster.streams():
            for shard in stream.shards:
                if shard in self._timers:
                    self._timers[shard].cancel()
                    self._begin(stream, shard)
        return await self._under_way()

    async def _under_way(self) -> bool:
        told = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        return all(each is True for each in told)

    def told(self, stream: Stream) -> int:
        """Rows that tell links of cursors of the stream, since this server started."""
        return sum(self._watched[shard].rows for shard in stream.shards if shard in self._watched)

    def untold(self, stream: Stream) -> int:
        """Cursors that links are to be told of and were not yet."""
        if not self._of(stream):
            return 0
        return sum(len(shard.state.cursor_table.unpublished) for shard in stream.shards)

    def untold_ms(self, stream: Stream) -> int:
        """How long the oldest of them has waited, at most."""
        if not self._of(stream):
            return 0
        now_ms = self._cluster.clock.monotonic_ms()
        return max((self._waiting_ms(shard, now_ms) for shard in stream.shards), default=0)

    def lacking_ms(self, link: RunningLink, stream: Stream) -> int:
        """How long the oldest cursor has waited, at most, that has not come to a link's replica: to be told, or since
        then; of those that moved since this server started."""
        if link.record.told_groups == "none":
            return 0
        now_ms, passed = self._cluster.clock.monotonic_ms(), link.positions.passed(len(stream.shards))
        pairs = zip(stream.shards, passed, strict=True)
        return max((self._lacking_ms(shard, at, now_ms) for shard, at in pairs), default=0)

    def _lacking_ms(self, shard: Shard, passed: int, now_ms: int) -> int:
        told = self._watched.get(shard)
        return 0 if told is None else max(told.lacking_ms(passed, now_ms), self._waiting_ms(shard, now_ms))

    def _waiting_ms(self, shard: Shard, now_ms: int) -> int:
        told = self._watched.get(shard)
        return 0 if told is None or not shard.state.cursor_table.unpublished else told.waiting_ms(now_ms)

    def _announced(self, stream: Stream, shard: Shard, _: Announcement) -> None:
        if not shard.state.cursor_table.unpublished:
            return
        if shard in self._watched:
            self._watched[shard].waits(self._cluster.clock.monotonic_ms())
        if shard not in self._timers:
            self._set_timer(stream, shard)

    def _set_timer(self, stream: Stream, shard: Shard) -> None:
        if self._closed or shard in self._timers or shard in self._tasks or not self._has_news(stream, shard):
            return
        links = self._of(stream)
        running = [link for link in links if link.state.ready] or links
        is_behind = all(_is_behind(link, shard, stream) for link in running)
        delay_s = self._timing.cursors_behind_s if is_behind else self._timing.cursors_s
        self._timers[shard] = asyncio.get_running_loop().call_later(delay_s, self._begin, stream, shard)

    def _has_news(self, stream: Stream, shard: Shard) -> bool:
        if not self._of(stream):
            return False
        table = shard.state.cursor_table
        return bool(table.unpublished) or (bool(table) and self._untold(stream, shard) is not None)

    def _of(self, stream: Stream) -> list[RunningLink]:
        """Asked at each commit, while there may be thousands of links of other streams."""
        running = (self._links.get(each.id) for each in self._cluster.links.of(stream.id))
        return [link for link in running if link is not None and link.record.told_groups != "none"]

    def _untold(self, stream: Stream, shard: Shard) -> dict[str, str] | None:
        """The links of the stream and the groups of which they take cursors, if that is not what was told."""
        now = {link.wire_id.hex(): link.record.told_groups for link in self._of(stream) if link.record.once is None}
        told = shard.state.entry(ENTRY)
        known: Mapping[str, Any] = told["links"] if told is not None else {}
        return now if any(known.get(link) != groups for link, groups in now.items()) else None

    def _begin(self, stream: Stream, shard: Shard) -> None:
        del self._timers[shard]
        task = self._tasks[shard] = asyncio.get_running_loop().create_task(self._tell(stream, shard))
        task.add_done_callback(lambda _: self._ended(stream, shard))

    def _ended(self, stream: Stream, shard: Shard) -> None:
        del self._tasks[shard]
        if shard in self._watched:
            self._set_timer(stream, shard)

    async def _tell(self, stream: Stream, shard: Shard) -> bool:
        """Whether all is told that has waited till now."""
        now_ms = self._cluster.clock.monotonic_ms()
        told = self._watched.get(shard) or ToldCursors()
        told.forget(self._passed(stream, shard))
        try:
            links = self._untold(stream, shard)
            if links is not None:
                await self._tell_all(shard, links, told)
            await self._in_parts(shard, publish_cursors, list(shard.state.cursor_table.unpublished), told)
        except FairleadError as error:
            log.warning("what groups have committed could not be told to links", stream=stream.path, why=str(error))
            return False
        told.told(now_ms if shard.state.cursor_table.unpublished else None)
        return True

    async def _tell_all(self, shard: Shard, links: Mapping[str, str], told: ToldCursors) -> None:
        """All cursors are written once more; and last of all that they were, so a crash before begins again."""
        keys = [(group, *key) for group, key, _ in list(shard.state.cursor_table.all())]
        await self._in_parts(shard, tell_cursors, keys, told)
        await shard.submit(partial(_note_told, links=links))

    async def _in_parts(
        self, shard: Shard, request: Callable[[Draft, Sequence[Key]], int], keys: Sequence[Key], told: ToldCursors
    ) -> None:
        def of(part: Sequence[Key]) -> DraftRequest[tuple[int, int]]:
            return lambda draft: (request(draft, part), draft.commit)

        for first in range(0, len(keys), CHANGED_TOGETHER):
            rows, commit = await shard.submit(of(keys[first : first + CHANGED_TOGETHER]))
            told.note(rows, commit, self._cluster.clock.monotonic_ms())

    def _passed(self, stream: Stream, shard: Shard) -> int:
        """All links of the stream have what lies below this commit of the shard."""
        place = stream.shards.index(shard)
        passed = (link.positions.passed(len(stream.shards))[place] for link in self._of(stream))
        return min(passed, default=shard.announced.end)


def _note_told(draft: Draft, links: Mapping[str, str]) -> None:
    put_entry(draft, ENTRY, {"v": 1, "links": dict(links)})


def _is_behind(link: RunningLink, shard: Shard, stream: Stream) -> bool:
    passed = link.positions.passed(len(stream.shards))[stream.shards.index(shard)]
    return shard.announced.end - passed > BEHIND_COMMITS
