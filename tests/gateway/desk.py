"""The admin interface of clusters in memory, called without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx

from fairlead.cluster.cluster import Cluster
from fairlead.gateway.app import build_app
from fairlead.gateway.apply.socket import ApplyGateway
from fairlead.gateway.claims import CLAIM, Claims
from fairlead.gateway.from_kafka.leaving import heard_ago_ms
from fairlead.gateway.from_kafka.orders import KafkaOrders
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.gateway.jobs import JobRunner, Work
from fairlead.gateway.links.manager import LinkManager
from fairlead.gateway.links.orders.commands import LinkCommands
from fairlead.gateway.links.orders.transfer import TRANSFER
from fairlead.gateway.pulling.recover import RECOVER, Recoveries
from fairlead.gateway.pulling.taking import Pulls
from fairlead.gateway.rest.context import RestContext
from fairlead.gateway.takeovers.work import TAKEOVER, Takeovers
from fairlead.listening.guard import Guard
from fairlead.model.clock import Clock, SystemClock, SystemRandomness
from fairlead.model.envelope import to_error
from fairlead.model.errors import AlreadyExists, NotFound
from fairlead.model.settings import Settings
from fairlead.protocol.batch import build_batch
from fairlead.storage.memory import MemoryStorage
from tests.support.batches import produced_to

WRITTEN_MS = 1_700_000_000_000
"""Time stamp of every record that a desk writes."""


class FakeListeners:
    """Kafka listeners that only remember."""

    main_address = "127.0.0.1:9092"
    connections = 3

    def __init__(self) -> None:
        self.exposed: dict[str, str] = {}

    def counters(self) -> Mapping[str, float]:
        return {}

    def memory(self) -> Mapping[str, int]:
        return {"requests": 1234, "groups": 56}

    def addresses(self) -> Mapping[str, str]:
        return self.exposed

    async def expose(self, path: str, port: int) -> str:
        if path in self.exposed:
            raise AlreadyExists(f"{path} is exposed already")
        self.exposed[path] = f"127.0.0.1:{port}"
        return self.exposed[path]

    async def conceal(self, path: str) -> None:
        if self.exposed.pop(path, None) is None:
            raise NotFound(f"{path} is not exposed")


class Desk:
    """One cluster's admin interface; `http` answers for every cluster of the same test, by host name."""

    def __init__(
        self, cluster: Cluster, http: httpx.AsyncClient, links: LinkCommands, upstreams: RunningUpstreams
    ) -> None:
        self.cluster = cluster
        self.links = links
        self.upstreams = upstreams
        self.http = http
        self.url = f"http://{cluster.name}"

    async def get(self, path: str, /, **params: Any) -> list[dict[str, Any]]:
        """Rows of a GET; raises the error of the envelope."""
        return _rows(await self.http.get(f"{self.url}/rest/{path}", params=params))

    async def post(self, path: str, /, **params: Any) -> list[dict[str, Any]]:
        """Rows of a POST with a JSON body."""
        return _rows(await self.http.post(f"{self.url}/rest/{path}", json=params))

    async def write(self, path: str, topic: str, *values: bytes) -> None:
        """Append one batch to partition 0 of a topic that exists."""
        shard, found = self.cluster.stream(path).topic(topic)
        await produced_to(
            shard, found.number, 0, build_batch([(None, value) for value in values], timestamp_ms=WRITTEN_MS)
        )


def _rows(response: httpx.Response) -> list[dict[str, Any]]:
    body = response.json()
    if body["status"] != "OK":
        raise to_error(body)
    assert response.status_code == 200
    assert body["total"] == len(body["data"])
    data: list[dict[str, Any]] = body["data"]
    return data


@asynccontextmanager
async def desks(*names: str, clock: Clock | None = None) -> AsyncIterator[list[Desk]]:
    """Clusters in memory that reach each other as http://<name>."""
    async with AsyncExitStack() as started:
        mounts: dict[str, httpx.AsyncBaseTransport] = {}
        http = await started.enter_async_context(httpx.AsyncClient(transport=_Hosts(mounts)))
        found = [await _open(name, http, mounts, started, clock or SystemClock()) for name in names]
        yield found


async def _open(
    name: str,
    http: httpx.AsyncClient,
    mounts: dict[str, httpx.AsyncBaseTransport],
    started: AsyncExitStack,
    clock: Clock,
) -> Desk:
    executor = started.enter_context(ThreadPoolExecutor(2))
    randomness = SystemRandomness()
    settings = Settings(reserve_bytes=0, reserve_ratio=0.0)
    cluster = await Cluster.open(
        MemoryStorage(), name=name, settings=settings, clock=clock, randomness=randomness, executor=executor
    )
    started.push_async_callback(cluster.close)
    cluster.urls = (f"http://{name}",)
    links = LinkManager(cluster, http, clock, randomness)
    links.start()
    started.push_async_callback(links.close)
    upstreams = RunningUpstreams(cluster, links)
    upstreams.start()
    started.push_async_callback(upstreams.close)
    claims = Claims(cluster)
    recoveries = Recoveries(cluster, links.new_gateways, links.commands, links.running)
    takeovers = Takeovers(cluster, links.running, links.new_gateways, Pulls(cluster, links.new_gateways))
    takeovers.heard_of_kafka = partial(heard_ago_ms, upstreams)
    work: dict[str, Work] = {
        TRANSFER: links.transfers,
        TAKEOVER: takeovers,
        CLAIM: claims,
        RECOVER: recoveries,
    }
    jobs = JobRunner(cluster, work)
    started.push_async_callback(jobs.close)
    context = RestContext(
        cluster,
        links.commands,
        KafkaOrders(cluster, upstreams, links.replicator),
        links.copies,
        links.transfers,
        takeovers,
        claims,
        jobs,
        recoveries,
        FakeListeners(),
        "tester",
        clock.monotonic_ms(),
    )
    app = build_app(context, links, ApplyGateway(cluster), Guard(clock, [name]))
    mounts[name] = httpx.ASGITransport(app, raise_app_exceptions=False)
    return Desk(cluster, http, links.commands, upstreams)


class _Hosts(httpx.AsyncBaseTransport):
    """Hands a request to the application of its host; an unknown host refuses the connection."""

    def __init__(self, mounts: Mapping[str, httpx.AsyncBaseTransport]) -> None:
        self._mounts = mounts

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host not in self._mounts:
            raise httpx.ConnectError("refused", request=request)
        return await self._mounts[request.url.host].handle_async_request(request)
