"""Topics that come into a link while it runs: a side copy brings their past, then the link goes on with them.

In: a link and what it is to leave out next; what is heard of how far links are. Out: the steps of
`cluster.side_copies`, each one commit. Owns which step is under way. Always true: `until` is chosen while nobody reads
for the link, from the ends of logs that lie behind all that was ever read for it; and the last step waits until the
replica has recorded that it has all below `until` of both. So after a crash at any point the next look goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from fairlead.cluster import side_copies
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.topic_filter import TopicFilter
from fairlead.cluster.values import FilterNext, LinkRecord
from fairlead.gateway.links.grants.granting import Granting
from fairlead.gateway.links.running.lifecycle import Event
from fairlead.gateway.links.running.running_link import RunningLink, source_of, urls_of, wire_id
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.clock import Randomness
from fairlead.model.errors import FairleadError
from fairlead.streamlog.values import epoch_before
from fairlead.wire.neighbours import SideCopyEnd

NEAR_COMMITS: Final = 1_000
"""A side copy that is no farther behind its link than this is waited for."""
AGAIN_SECONDS: Final = 1.0

log = structlog.get_logger()


class Widenings:
    """Of all links of a cluster."""

    def __init__(self, cluster: Cluster, links: RunningLinks, granting: Granting, randomness: Randomness) -> None:
        self._cluster = cluster
        self._links = links
        self._granting = granting
        self._randomness = randomness
        self._steps: set[asyncio.Task[None]] = set()

    async def begin(self, link: LinkRecord, to: TopicFilter) -> None:
        """Let topics come into a link: those that pass `to` and did not pass before.

        Raises:
            NotFound, UnknownStream.
        """
        stream = self._cluster.stream_of(link.source, link.source_path)
        step = partial(
            side_copies.begin,
            link=link.id,
            to=to,
            side=self._randomness.id16(),
            ends=stream.ends,
        )
        await self._cluster.links.change(step)

    def look(self, link: RunningLink) -> None:
        """A link, or its side copy, may have come further: take the next step, if it is time."""
        main = self._main_of(link)
        following = None if main is None else main.record.filter_next
        if main is None or following is None or main.held_back:
            return
        side, stream = self._links.side_copy_of(main), self._cluster.stream_by_id(main.record.source)
        if side is None or stream is None:
            return
        if not following.until:
            if _is_near(main, side, len(stream.shards)):
                self._close(main, side, stream.ends)
        elif any(until > end for until, end in zip(following.until, stream.ends, strict=True)):
            log.warning("the log ends before the commit from which topics were to come in; they are brought anew")
            to = TopicFilter(following.topics, following.exclude_topics)
            self._take(main, side, self.begin(main.record, to))
        elif _has_recorded(main, following.until) and _has_recorded(side, following.until):
            self._granting.take_back(side, "all topics that come in are there")
            self._take(main, side, self._end(main, side, following))

    def _main_of(self, link: RunningLink) -> RunningLink | None:
        copy = link.record.side_copy
        return link if copy is None else self._links.get(copy.of)

    def _close(self, main: RunningLink, side: RunningLink, until: tuple[int, ...]) -> None:
        """Nothing is read for the link from here on, until it is written down where it ends."""
        self._granting.take_back(main, "topics come in")
        step = partial(side_copies.close, link=main.record.id, side=side.record.id, until=until)
        self._take(main, side, self._cluster.links.change(step))

    async def _end(self, main: RunningLink, side: RunningLink, following: FilterNext) -> None:
        """The replica hears of it first: that all is there is its own word, under an id that it does not know
        otherwise. So one that is restored from a copy of before gets all again."""
        record = main.record
        into = wire_id(replace(record, widened=following.side))
        shards = source_of(self._cluster, record).shards
        ends = zip(shards, following.until, strict=True)
        epoch_ids = tuple(epoch_before(shard.announced.epochs, until).id for shard, until in ends)
        said = SideCopyEnd(side.request(self._cluster), main.wire_id, into, following.until, epoch_ids)
        urls = urls_of(self._cluster, side.record)
        await side.gateways.post(urls, "/gateway/side/end", said)
        step = partial(side_copies.end, link=record.id, side=following.side, until=following.until)
        await self._cluster.links.change(step)
        with suppress(FairleadError):  # what stays there is small
            await side.gateways.post(urls, "/gateway/side/end", replace(said, over=True))

    def _take(self, main: RunningLink, side: RunningLink, step: Awaitable[None]) -> None:
        main.held_back = side.held_back = True

        async def take() -> None:
            try:
                await step
            except FairleadError as error:
                log.warning(
                    "topics cannot come into a link yet", replica=str(main.record.replica_path), error=str(error)
                )
                main.attention.look_in(AGAIN_SECONDS)
            finally:
                main.held_back = side.held_back = False
            main.on(Event.LOOK)
            side.on(Event.LOOK)

        task = asyncio.ensure_future(take())
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)

    async def close(self) -> None:
        """End what is under way; the next start goes on with it."""
        for step in list(self._steps):
            step.cancel()
        await asyncio.gather(*self._steps, return_exceptions=True)


def _is_near(main: RunningLink, side: RunningLink, shards: int) -> bool:
    """The side copy has nearly come where the link is, as far as both know."""
    if not (main.state.ready and side.state.ready):
        return False
    both = zip(side.positions.passed(shards), main.positions.passed(shards), strict=True)
    return all(at + NEAR_COMMITS >= passed for at, passed in both)


def _has_recorded(link: RunningLink, until: tuple[int, ...]) -> bool:
    """The replica has said that all below these commits has come by the link."""
    return link.state.ready and link.positions.has_recorded(until)
