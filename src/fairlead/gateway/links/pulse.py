"""Notices that a destination was started again, also an idle one: it may have been restored from a copy. And that what
was set aside there is to be brought, since somebody or another link has ended a conflict.

In: the start that each destination names, asked for every few seconds, and how much was resolved since. Out: links that
ask again where they stand (`contacts.py`). One timer serves all links, and one short call goes to each cluster however
many links lead there. A destination that does not answer is left alone: whoever has something to send finds out.
"""

from __future__ import annotations

import asyncio

from fairlead.cluster.cluster import Cluster
from fairlead.gateway.links.regularly import Regularly
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.lifecycle import Event, State
from fairlead.gateway.links.running.running_link import RunningLink, urls_of
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.links.running.timing import Timing
from fairlead.model.errors import FairleadError
from fairlead.wire.neighbours import ServerStart

Urls = tuple[str, ...] | None
"""None: of this very cluster."""


class Pulse:
    """Of all destinations; `start` and `close` enclose its life."""

    def __init__(self, cluster: Cluster, links: RunningLinks, gateways: Gateways, timing: Timing) -> None:
        self._cluster = cluster
        self._links = links
        self._gateways = gateways
        self._timing = timing
        self._starts: dict[Urls, ServerStart] = {}
        self._looks = Regularly(timing.pulse_s, self._beat)

    def start(self) -> None:
        """Begin to ask."""
        self._looks.start()

    async def close(self) -> None:
        """End, and wait for that."""
        await self._looks.close()

    async def _beat(self) -> None:
        """Ask every destination with a link that has nothing to ask for itself."""
        found: dict[Urls, list[RunningLink]] = {}
        for link in self._links:
            is_here = link.record.replica_path.cluster == self._cluster.name
            found.setdefault(None if is_here else urls_of(self._cluster, link.record), []).append(link)
        self._starts = {urls: start for urls, start in self._starts.items() if urls in found}
        waiting = [urls for urls, links in found.items() if any(link.state is State.READY for link in links)]
        await asyncio.gather(*(self._ask(urls, found[urls]) for urls in waiting))

    async def _ask(self, urls: Urls, links: list[RunningLink]) -> None:
        try:
            async with asyncio.timeout(self._timing.pulse_s):
                start = ServerStart(*self._cluster.start) if urls is None else await self._gateways.start_of(urls)
        except (FairleadError, TimeoutError):
            return
        if self._starts.get(urls) != start:
            # At the first answer too: it may have been started again between a link's contact and now.
            self._starts[urls] = start
            for link in links:
                link.on(Event.LOOK)
