"""The sink of one task: posts frames to the gateways of their replicas and tells the source server what became of them.

In: encoded frames by `offer`, in the order in which the reader made them, for any number of links. Out: one ordered
connection per run of a link's shard, each with its own bounded queue (`connection`); progress, refusals and drops on
/control/sink.
Always true: `offer` never waits, and no destination waits for another. If a destination is dead, slow or refuses, its
frames are dropped and the source server is told, which grants them anew from the recorded position. It never raises
because a remote end failed, and remembers nothing from one round to the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

import structlog

from fairlead.model.errors import InvalidValue, Unreachable
from fairlead.replication.carried.addresses import parse_address
from fairlead.replication.control_client import open_control
from fairlead.replication.sink.connection import ApplyConnection, SinkSettings
from fairlead.spark.control import RECONNECT_SECONDS, Control
from fairlead.spark.packets import Packet
from fairlead.streamlog.values import GrantRun
from fairlead.wire.control import Failed, Progress, SinkHello, SlicesRefused, WithdrawRun
from fairlead.wire.first_of import first_of
from fairlead.wire.messages import SINK_HEARS

CONTROL_PATH = "/control/sink"
_IDLE_SECONDS = 30.0
"""A connection with nothing to do is closed after this."""
_CLOSE_SECONDS = 0.3
"""Connections are given this long to close when a round ends."""

log = structlog.get_logger("fairlead.replication.sink")


_RunKey = tuple[bytes, int, GrantRun]
"""(link, shard of the source, run)."""


@dataclass(slots=True)
class _Open:
    """A connection, the task that runs it, and since when it has been idle."""

    connection: ApplyConnection
    task: asyncio.Task[None]
    idle_since: float | None = None


class SinkTask:
    """Make it, and call everything, on one loop; `run` it until cancelled, then `finish`."""

    def __init__(
        self, server_url: str, worker: str, settings: SinkSettings | None = None, *, secret_file: str = ""
    ) -> None:
        self._server_url = server_url
        self._secret_file = secret_file
        self._worker = worker
        self._settings = settings or SinkSettings()
        self._open: dict[_RunKey, _Open] = {}
        self._dropped: dict[tuple[bytes, int], GrantRun] = {}
        """By link and shard."""
        self._pending: dict[_RunKey, Progress] = {}
        self._events: deque[Failed | SlicesRefused] = deque()
        self._news = asyncio.Event()
        self._moved = asyncio.Event()
        self._connections = count()

    # ------------------------------------------------------------ frames

    def offer(self, *frames: Packet) -> None:
        """Take frames for their destination, or drop those whose run has failed or was withdrawn."""
        for frame in frames:
            self._offer(frame)

    def _offer(self, frame: Packet) -> None:
        address = parse_address(frame.address)
        dropped = self._dropped.get((address.link, address.shard))
        if dropped is not None and not dropped < address.run:
            return
        key = (address.link, address.shard, address.run)
        if key not in self._open:
            connection = ApplyConnection(address, self._settings, self, next(self._connections))
            self._open[key] = _Open(connection, asyncio.ensure_future(connection.run()))
        self._open[key].connection.offer(frame)

    # ------------------------------------------------------------ answers of connections

    def progress(self, progress: Progress) -> None:
        """Add to what the source server is told next."""
        key = (progress.link, progress.shard, progress.run)
        before = self._pending.get(key)
        self._pending[key] = progress if before is None else _added(before, progress)
        self._news.set()

    def refused(self, refused: SlicesRefused) -> None:
        """Tell the source server."""
        self._events.append(refused)
        self._news.set()

    def failed(self, failed: Failed) -> None:
        """Drop the run, and tell the source server."""
        self._events.append(failed)
        self._news.set()
        self._drop(failed.link, failed.shard, failed.run)
        log.warning("destination failed", link=failed.link.hex(), reason=failed.reason, message=failed.message)

    def _drop(self, link: bytes, shard: int, run: GrantRun) -> None:
        """Forget all runs of the link's shard up to this one."""
        before = self._dropped.get((link, shard))
        if before is None or before < run:
            self._dropped[link, shard] = run
        for key in [key for key in self._open if key[:2] == (link, shard) and not run < key[2]]:
            self._open.pop(key).task.cancel()
        self._moved.set()

    # ------------------------------------------------------------ control connection

    async def run(self) -> None:
        """Serve until cancelled. A lost control connection is opened again: untold messages wait for it, and runs whose
        messages may have been lost are given up."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reap())
            group.create_task(self._control())

    async def _control(self) -> None:
        lost = ""
        while True:
            try:
                async with open_control(self._server_url, CONTROL_PATH, SINK_HEARS, self._secret_file) as control:
                    lost = ""
                    await control.send(SinkHello(self._worker))
                    try:
                        await first_of(self._speak(control), self._hear(control))
                    finally:
                        self._lose_touch()
            except (Unreachable, InvalidValue) as error:
                if str(error) != lost:
                    log.info("control connection lost", server=self._server_url, error=str(error))
                lost = str(error)
                await asyncio.sleep(RECONNECT_SECONDS)

    def _lose_touch(self) -> None:
        """Progress that was on its way may be lost: the reader would wait for its credit, and the server for the
        position, until the round ends. So the source server is told to ask the destination, and to grant anew. Earlier
        messages about failed runs may be lost too and are sent again; the server knows which of these runs still stand.
        """
        # Of these runs a server that was started again knows nothing, and would end the next connection.
        self._pending.clear()
        lost = ("unreachable", "the sink has lost its control connection")
        for link, shard, run in list(self._open):
            self.failed(Failed(link, run, shard, *lost))
        told = {(event.link, event.shard, event.run) for event in self._events if isinstance(event, Failed)}
        dropped = [(link, shard, run) for (link, shard), run in self._dropped.items()]
        self._events.extend(Failed(key[0], key[2], key[1], *lost) for key in dropped if key not in told)
        self._news.set()

    async def _hear(self, control: Control) -> None:
        while True:
            message = await control.receive()
            if isinstance(message, WithdrawRun):
                self._drop(message.link, message.shard, message.run)

    async def _speak(self, control: Control) -> None:
        while True:
            await self._news.wait()
            await self._tell(control)
            await asyncio.sleep(self._settings.report_seconds)

    async def _tell(self, control: Control) -> None:
        self._news.clear()
        while self._pending:
            key = next(iter(self._pending))
            await control.send(self._pending.pop(key))
        while self._events:
            await control.send(self._events[0])
            self._events.popleft()
        self._moved.set()

    # ------------------------------------------------------------ ends

    async def _reap(self) -> None:
        """Close connections that have long been idle: those of repairs, and of runs whose withdrawal we never heard."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_IDLE_SECONDS / 10)
            for key, entry in list(self._open.items()):
                if not entry.connection.idle:
                    entry.idle_since = None
                elif entry.idle_since is None:
                    entry.idle_since = clock()
                elif clock() - entry.idle_since > _IDLE_SECONDS:
                    self._open.pop(key).task.cancel()

    async def finish(self, grace_seconds: float) -> None:
        """Wait this long for answers to what is in flight, then drop the rest and close every connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self.until_settled()
        tasks = [entry.task for entry in self._open.values()]
        self._open.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)

    async def until_settled(self) -> None:
        """Wait until every frame that was offered is answered or dropped, and the source server was told."""
        while not self.settled:
            self._moved.clear()
            await self._moved.wait()

    @property
    def settled(self) -> bool:
        """Whether every frame was answered or dropped, and the source server was told."""
        told = not self._pending and not self._events
        return told and all(entry.connection.idle for entry in self._open.values())


def _added(before: Progress, more: Progress) -> Progress:
    return replace(
        more,
        slices={**before.slices, **more.slices},
        frames=before.frames + more.frames,
        records=before.records + more.records,
        size_bytes=before.size_bytes + more.size_bytes,
        behind=before.behind + more.behind,
        duplicates=before.duplicates + more.duplicates,
    )
