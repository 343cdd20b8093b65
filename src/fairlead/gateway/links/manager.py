"""All links of one cluster whose source is here: the parts put together, and nothing else.

`commands` and `copies` are for people, `tasks` for reader and sink tasks, `replicator` and `catch_up` for the
replicator. `start` and `close` enclose the life of all.
"""

from __future__ import annotations

import httpx

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.catch_up import CatchUp
from fairlead.gateway.links.contacting.contact_loop import ContactLoop
from fairlead.gateway.links.contacting.contacts import Contacts
from fairlead.gateway.links.contacting.copies import EndedCopies
from fairlead.gateway.links.contacting.failures import Failures
from fairlead.gateway.links.contacting.widening import Widenings
from fairlead.gateway.links.cursor_news import CursorNews
from fairlead.gateway.links.grants.grant_table import GrantTable
from fairlead.gateway.links.grants.granting import Granting
from fairlead.gateway.links.grants.source_logs import SourceLogs
from fairlead.gateway.links.health.ailments import Ailments
from fairlead.gateway.links.orders.commands import LinkCommands
from fairlead.gateway.links.orders.copystream import CopyCommands
from fairlead.gateway.links.orders.naming import Naming
from fairlead.gateway.links.orders.transfer import Transfers
from fairlead.gateway.links.owner_watch import OwnerWatch
from fairlead.gateway.links.pulse import Pulse
from fairlead.gateway.links.replicator_life import ReplicatorLife
from fairlead.gateway.links.runner import LinkRunner
from fairlead.gateway.links.running.attention import Attention
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.links.running.timing import Backoff, Timing
from fairlead.gateway.links.task_reports import TaskReports
from fairlead.model.clock import Clock, Randomness


class LinkManager:
    """All methods of all parts run on one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        http: httpx.AsyncClient,
        clock: Clock,
        randomness: Randomness,
        *,
        data_root: str = "",
        timing: Timing | None = None,
    ) -> None:
        timing = timing or Timing()
        self.running = RunningLinks()
        self.table = GrantTable()
        self.granting = granting = Granting(cluster, data_root, self.running, self.table)
        self.failures = Failures(granting, cluster.clock)
        self.replicator = ReplicatorLife(cluster.clock, lambda: cluster.urls[0], timing.replicator_s)
        ailments = Ailments(cluster, self.running, self.replicator, timing)
        logs = SourceLogs(cluster, self.running, self.table)
        ended = EndedCopies(cluster, granting)
        self.widenings = Widenings(cluster, self.running, granting, randomness)
        self.contacts = Contacts(cluster, self.table, granting, logs, ended, self.widenings)

        def new_gateways() -> Gateways:
            return Gateways(http, clock, timing)

        def new_loop(record: LinkRecord) -> ContactLoop:
            link = RunningLink(record, Attention(Backoff(timing, randomness)), new_gateways())
            return ContactLoop(link, self.contacts, self.failures, ended, timing)

        self.new_gateways = new_gateways
        """Makes what asks other clusters' gateways."""
        self.runner = LinkRunner(cluster, self.running, granting, logs, new_loop)
        self.tasks = TaskReports(
            cluster, self.running, self.table, granting, logs, self.failures, self.widenings, timing
        )
        self.cursor_news = CursorNews(cluster, self.running, timing)
        self.catch_up = CatchUp(cluster, self.running, self.cursor_news)
        self.pulse = Pulse(cluster, self.running, new_gateways(), timing)
        self.owner_watch = OwnerWatch(cluster, self.running, ailments, timing)
        naming = Naming(cluster, clock, randomness)
        self.commands = LinkCommands(
            cluster,
            new_gateways,
            naming,
            self.running,
            self.table,
            self.runner,
            self.replicator,
            ailments,
            self.widenings,
            self.cursor_news,
        )
        self.transfers = Transfers(cluster, new_gateways, self.running)
        self.copies = CopyCommands(cluster, naming, self.running, ended, ailments, new_gateways)

    def start(self) -> None:
        """Run the links there are, and follow changes of their records."""
        self.runner.start()
        self.pulse.start()
        self.owner_watch.start()
        self.cursor_news.start()

    async def close(self) -> None:
        """End all links."""
        await self.cursor_news.close()
        await self.owner_watch.close()
        await self.pulse.close()
        await self.widenings.close()
        await self.runner.close()
