"""The source's side alone: a cluster in memory, and a destination that answers what a test wants, when it wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
from tests.gateway.rig import STILL

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import StreamSettings
from fairlead.gateway.links.manager import LinkManager
from fairlead.gateway.links.orders.commands import LinkCommands
from fairlead.gateway.links.orders.copystream import CopyCommands
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.envelope import error_envelope
from fairlead.model.errors import FairleadError
from fairlead.model.names import StreamPath
from fairlead.model.settings import Settings
from fairlead.storage.memory import MemoryStorage
from fairlead.wire.messages import to_json
from fairlead.wire.neighbours import LinkAnswer

SHIPS = "/ships"
REPLICA = StreamPath(SHIPS, "ny")
URLS = ("http://ny",)
ANSWER = LinkAnswer("ny", SHIPS, b"r" * 16, (), (), 0, 0, (), 0)
ANOTHER = replace(ANSWER, stream=b"x" * 16)
"""Of a stream that was deleted and made again."""


@dataclass
class Destination:
    """The replica's gateway; `answers` says what each contact hears, the last one again and again."""

    answers: list[LinkAnswer | FairleadError] = field(default_factory=lambda: [ANSWER])
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared: what is asked waits for its answer."""
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open.set()

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one call; a copy may always begin and end."""
        self.asked.append(request.url.path)
        await self.open.wait()
        if request.url.path == "/gateway/copy":
            return httpx.Response(200, text=to_json(ANSWER))
        if request.url.path == "/gateway/copy/end":
            return httpx.Response(200, text="{}")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, FairleadError):
            return httpx.Response(400, text=json.dumps(error_envelope(answer, 0)))
        return httpx.Response(200, text=to_json(answer))

    @property
    def contacts(self) -> int:
        """How often it was asked where it stands."""
        return self.asked.count("/gateway/link")


@dataclass
class Source:
    """The source's cluster, with one stream, and its links."""

    cluster: Cluster
    links: LinkCommands
    copies: CopyCommands
    destination: Destination
    manager: LinkManager

    def error(self) -> str:
        """What the list shows of the only link."""
        (status,) = self.links.list(SHIPS)
        return str(status["errors"].get("Msg", ""))


@asynccontextmanager
async def source(destination: Destination) -> AsyncIterator[Source]:
    """A source whose links reach this destination and nothing else."""
    clock, randomness = SystemClock(), SystemRandomness()
    with ThreadPoolExecutor(2) as executor:
        cluster = await Cluster.open(
            MemoryStorage(),
            name="sf",
            settings=Settings(reserve_bytes=0, reserve_ratio=0.0),
            clock=clock,
            randomness=randomness,
            executor=executor,
        )
        await cluster.create_stream(SHIPS, StreamSettings())
        async with httpx.AsyncClient(transport=httpx.MockTransport(destination.handle)) as http:
            manager = LinkManager(cluster, http, clock, randomness, timing=STILL)
            manager.start()
            try:
                yield Source(cluster, manager.commands, manager.copies, destination, manager)
            finally:
                await manager.close()
                await cluster.close()
