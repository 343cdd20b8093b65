"""The server: where storage, cluster, Kafka listeners, both sides of links and the HTTP listener are put together.

One event loop runs all of it. Starting is from the bottom up (lock, storage, cluster, listeners, links, HTTP), stopping
from the top down; whatever was started when a step fails is stopped again.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from fairlead.broker.pacing import SLICE_SECONDS
from fairlead.broker.server import KafkaServer
from fairlead.broker.taking import ForwardTaker
from fairlead.client.admin import new_http_client
from fairlead.cluster.cluster import Cluster
from fairlead.gateway.app import build_app
from fairlead.gateway.apply.http_protocol import HttpProtocol
from fairlead.gateway.apply.socket import ApplyGateway
from fairlead.gateway.claims import CLAIM, Claims
from fairlead.gateway.from_kafka.leaving import heard_ago_ms, obstacles
from fairlead.gateway.from_kafka.orders import KafkaOrders
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.gateway.jobs import JobRunner, Work
from fairlead.gateway.links.manager import LinkManager
from fairlead.gateway.links.orders.transfer import TRANSFER
from fairlead.gateway.links.replicator_life import ReplicatorLife
from fairlead.gateway.pulling.recover import RECOVER, Recoveries
from fairlead.gateway.pulling.taking import Pulls
from fairlead.gateway.rest.clock import holds
from fairlead.gateway.rest.context import RestContext
from fairlead.gateway.takeovers.work import TAKEOVER, Takeovers
from fairlead.listening.addresses import bind, check_exposure
from fairlead.listening.guard import Guard, names_of
from fairlead.listening.http import HttpListener, local_url, url_of
from fairlead.model.addresses import Address, parse_address
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.names import check_cluster_name
from fairlead.model.settings import Settings
from fairlead.process import control_secret
from fairlead.process.open_files import leave_room
from fairlead.process.user import user_name
from fairlead.server.listeners import KafkaListeners
from fairlead.server.memory import keep_small
from fairlead.storage import identity, names
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage
from fairlead.storage.lock import lock_directory
from fairlead.storage.packs import PackSettings

_log = structlog.get_logger(__name__)

STORAGE_THREADS = 16
"""Calls of the storage that may be under way at one time, of all streams together."""
GC_THRESHOLDS = (5_000, 1, 10_000)
"""Python's default walks all objects of a busy server three times a second, 100 ms each; what it would find are the
few rings that exceptions and cancelled tasks leave. Young objects are looked at in steps of a millisecond or two. Each
request that waits for its commit has some thirty of them, which go with it: steps of a thousand would look at those of
eighty requests three times a commit, and find nothing."""


_SWITCH_SECONDS = SLICE_SECONDS / 5
"""How long a thread waits for Python's lock before it demands it, of Python's default a fiftieth: a produce waits for
it several times, and clients choose what is computed. Far less than a slice of long work: between two slices the event
loop gives the lock away and takes it again at once, and whoever waits begins to count anew. With slices as long as the
wait nobody ever came to demand it: the thread that writes a commit stood for up to a second while clients asked for
much."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What one server is started with; addresses are in the settings."""

    name: str
    data: Path
    settings: Settings
    advertise: Address | None = None
    """What Kafka clients are told instead of the address they came in on."""
    insecure: bool = False

    @property
    def data_root(self) -> str:
        """The data directory's absolute path, for readers on the same host."""
        return os.path.abspath(self.data)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    cluster: Cluster
    listeners: KafkaListeners
    replicator: ReplicatorLife
    """Told by whoever starts the replicator."""
    local_http: str
    """URL of the HTTP listener for processes on this machine."""

    @property
    def kafka(self) -> str:
        """HOST:PORT of the main Kafka listener."""
        return self.listeners.main_address

    @property
    def http(self) -> str:
        """URL of the HTTP listener, as others are told."""
        return self.cluster.urls[0]


Companion = Callable[[Server], AbstractAsyncContextManager[None]]
"""What runs beside a server and ends with it: `fairlead up` prints its addresses and starts the replicator."""


async def serve(options: ServerOptions, companion: Companion) -> None:
    """Run a server until SIGINT or SIGTERM, then stop cleanly. While it starts, which takes long with many streams,
    they end it at once, as a crash may: it has promised nobody anything yet.

    Raises:
        BadRequest: name, address or port will not do, or the directory is another cluster's.
        Busy: another server holds the directory; the message has its pid.
        StorageUnavailable, Damaged: the directory cannot be used.
    """
    options = replace(options, settings=leave_room(options.settings))
    sys.setswitchinterval(_SWITCH_SECONDS)
    stop = asyncio.Event()
    _on_signals(_end_at_once)
    async with AsyncExitStack() as started:
        server = await start(options, started)
        _on_signals(lambda _: stop.set())
        async with companion(server):
            await stop.wait()


def _on_signals(do: Callable[[int], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, do, number)


def _end_at_once(number: int) -> None:
    _log.info("stopped while it started")
    os._exit(128 + number)


async def start(options: ServerOptions, started: AsyncExitStack) -> Server:
    """Start everything; `started` gets what stops it. Raises as `serve`."""
    kafka_address = parse_address(options.settings.kafka_address, "Kafka address")
    http_address = parse_address(options.settings.http_address, "HTTP address")
    check_cluster_name(options.name)
    for address in (kafka_address, http_address):
        check_exposure(address, options.insecure)
    # Before anything is opened or made, so that a taken port changes nothing.
    (http_socket,) = _bound(http_address, "HTTP", started)
    kafka_sockets = _bound(kafka_address, "Kafka", started)
    cluster = await _open_cluster(options, started)
    cluster.urls = (url_of(http_socket, http_address, options.advertise),)
    local_http = local_url(http_socket)
    kafka = KafkaServer(cluster, advertise=options.advertise)
    listeners = KafkaListeners(kafka, cluster, kafka_address, options.advertise)
    started.push_async_callback(listeners.close)
    await listeners.start(kafka_sockets)
    guard = _guard(options, cluster, http_address.host)
    links = await _start_http(cluster, options.data_root, listeners, ForwardTaker(kafka), http_socket, guard, started)
    started.callback(asyncio.create_task(keep_small(cluster.recent, options.settings.cache_seconds)).cancel)
    # What is here now stays: the garbage collector need not walk it again and again while clients wait for it (100 ms
    # with a hundred thousand topics, against 10 ms so).
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    return Server(cluster, listeners, links.replicator, local_http)


def _bound(address: Address, what: str, started: AsyncExitStack) -> list[socket.socket]:
    sockets = bind(address, what, every_family=what == "Kafka")
    for each in sockets:
        started.callback(each.close)
    return sockets


async def _open_cluster(options: ServerOptions, started: AsyncExitStack) -> Cluster:
    lock = lock_directory(options.data)
    started.callback(lock.close)
    loop = asyncio.get_running_loop()
    storage = await loop.run_in_executor(None, _open_storage, options.data)
    started.callback(storage.close)
    executor = ThreadPoolExecutor(STORAGE_THREADS, "storage")
    started.callback(executor.shutdown)
    cluster = await Cluster.open(
        storage,
        name=options.name,
        settings=options.settings,
        clock=SystemClock(),
        randomness=SystemRandomness(),
        executor=executor,
    )
    started.push_async_callback(cluster.close)
    return cluster


def _open_storage(data: Path) -> LocalStorage:
    """The directory, unless it is of another version: its packs may not be what we take them for."""
    there = ReadOnlyLocalStorage(data)
    if there.size(names.CLUSTER) is not None:
        identity.decode(there.get(names.CLUSTER))
    return LocalStorage(data, packs=PackSettings())


def _guard(options: ServerOptions, cluster: Cluster, host: str) -> Guard:
    """Of the HTTP listener; the secret of its replicator is new at each start."""
    hosts = [host, socket.gethostname(), *names_of(options.settings.http_hosts)]
    if options.advertise is not None:
        hosts.append(options.advertise.host)
    secret = control_secret.write(options.data, cluster.randomness.id16() + cluster.randomness.id16())
    return Guard(cluster.clock, hosts, secret=secret, connections_max=options.settings.max_http_connections)


async def _start_http(
    cluster: Cluster,
    data_root: str,
    listeners: KafkaListeners,
    forwards: ForwardTaker,
    http_socket: socket.socket,
    guard: Guard,
    started: AsyncExitStack,
) -> LinkManager:
    http = await started.enter_async_context(new_http_client())
    apply = ApplyGateway(cluster)
    apply.start()
    started.callback(apply.close)
    links = LinkManager(cluster, http, cluster.clock, cluster.randomness, data_root=data_root)
    started.push_async_callback(links.close)
    upstreams = RunningUpstreams(cluster, links)
    started.push_async_callback(upstreams.close)
    claims = Claims(cluster)
    recoveries = Recoveries(cluster, links.new_gateways, links.commands, links.running)
    takeovers = Takeovers(cluster, links.running, links.new_gateways, Pulls(cluster, links.new_gateways))
    takeovers.of_kafka = partial(obstacles, upstreams)
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
        cluster=cluster,
        links=links.commands,
        kafka=KafkaOrders(cluster, upstreams, links.replicator),
        copies=links.copies,
        transfers=links.transfers,
        takeovers=takeovers,
        claims=claims,
        jobs=jobs,
        recoveries=recoveries,
        listeners=listeners,
        user=user_name(),
        started_ms=cluster.clock.monotonic_ms(),
    )
    if found := holds(context):
        _log.warning("the clock is not believed", why=found)
    listener = HttpListener(build_app(context, links, apply, guard, forwards), HttpProtocol)
    started.push_async_callback(listener.stop)
    await listener.start(http_socket)
    links.start()
    upstreams.start()
    jobs.start()
    return links
