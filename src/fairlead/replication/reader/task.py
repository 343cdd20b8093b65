"""The reader of one task: turns the source server's grants into frames.

In: grants, announcements and withdrawals on /control/reader. Out: encoded frames, into a bounded `Handover`; how far
each grant has been scanned, to the server. When the control connection is lost, every grant is dropped; the server, or
its successor, grants anew. It remembers nothing from one round to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from fairlead.model.errors import FairleadError, StorageUnavailable
from fairlead.replication.carried.objects import OpenObjects, open_directory
from fairlead.replication.control_client import open_control
from fairlead.replication.credit import CreditPool, CreditWindow
from fairlead.replication.from_kafka.reader import KafkaReader
from fairlead.replication.reader.grant_reader import FrameLimits, GrantReader
from fairlead.replication.reader.log_view import LogView
from fairlead.replication.reader.repair_reader import RepairReader
from fairlead.replication.reader.shared_reads import FrameWork, SharedReads
from fairlead.spark.control import RECONNECT_SECONDS, Control
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet
from fairlead.wire.control import (
    Announce,
    Credit,
    Grant,
    KafkaGrant,
    Located,
    Passing,
    ReaderHello,
    RepairGrant,
    Topics,
    Withdraw,
)
from fairlead.wire.first_of import first_of
from fairlead.wire.messages import READER_HEARS

CONTROL_PATH = "/control/reader"
UNANSWERED_BYTES_MAX = 64_000_000
"""Limit of one grant: twice the window of a connection, so that the next frame waits at the sink when an answer
comes."""
UNANSWERED_BYTES_OF_WORKER = 256_000_000
"""Limit of all grants of a worker together, see `credit`: what may wait in its sink when every destination is slow."""
UNANSWERED_FRAMES_OF_WORKER = 256
"""Of all grants of a worker together."""
UNANSWERED_FRAMES_MAX = 32
"""Limit of one grant. Where frames are small and many, a queue only adds latency; rows that
wait in the log instead go out in fewer, larger frames."""

_REPORT_SECONDS = 0.2
"""How often the server is told what was read."""

log = structlog.get_logger("fairlead.replication.reader")


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Bounds of a reader."""

    slots: int = 4096
    frame_bytes: int = 4_000_000
    position_bytes: int = 64_000_000
    once: bool = False
    """End when everything announced has been applied."""
    once_quiet_seconds: float = 1.5
    """With `once`, how long all must have been answered and no new grant come before the task ends."""
    once_first_seconds: float = 6.0
    """The same where it has no grant yet, or one was taken back unfinished and did not come again."""


@dataclass(frozen=True, slots=True)
class _RunningGrant:
    link: bytes
    reader: GrantReader | RepairReader | KafkaReader
    view: LogView | None
    """Of the log that is read; None where a Kafka cluster is."""
    task: asyncio.Task[None]


class ReaderTask:
    """Serves with `run` until cancelled, or with `once` until all is carried; then the handover is closed."""

    def __init__(
        self,
        server_url: str,
        worker: str,
        settings: ReaderSettings,
        handover: Handover[Packet],
        open_objects: OpenObjects = open_directory,
        *,
        secret_file: str = "",
    ) -> None:
        self._server_url = server_url
        self._secret_file = secret_file
        self._worker = worker
        self._settings = settings
        self._handover = handover
        self._open_objects = open_objects
        self._lost = ""

    async def run(self) -> None:
        """Serve grants. A lost control connection is opened again."""
        try:
            done = await self._connect()
            while not done:
                await asyncio.sleep(RECONNECT_SECONDS)
                done = await self._connect()
        finally:
            self._handover.close()

    async def _connect(self) -> bool:
        """Hold one conversation with the server. Returns True if all is done (`once`), False if it broke, whichever end
        failed: the task goes on, since it serves other grants too."""
        try:
            async with open_control(self._server_url, CONTROL_PATH, READER_HEARS, self._secret_file) as control:
                self._lost = ""
                await control.send(ReaderHello(self._worker, self._settings.slots))
                conversation = _Conversation(control, self._settings, self._hand_on, self._open_objects)
                await conversation.run()
                return True
        except FairleadError as error:
            if str(error) != self._lost:
                log.info("control connection lost", server=self._server_url, error=str(error))
            self._lost = str(error)
        return False

    async def _hand_on(self, frame: Packet) -> None:
        await self._handover.put(frame, frame.size_bytes)


class _Conversation:
    """Everything that belongs to one control connection."""

    def __init__(
        self,
        control: Control,
        settings: ReaderSettings,
        hand_on: Callable[[Packet], Awaitable[None]],
        open_objects: OpenObjects,
    ) -> None:
        self._control = control
        self._settings = settings
        self._hand_on = hand_on
        self._open_objects = open_objects
        self._views: dict[tuple[bytes, int], LogView] = {}
        self._reads: dict[tuple[bytes, int], SharedReads] = {}
        self._work = FrameWork(asyncio.get_running_loop().time)
        self._running: dict[int, _RunningGrant] = {}
        self._taken_back: set[bytes] = set()
        """Links whose grants were withdrawn unfinished, and not given again yet."""
        self._credit_of_all = CreditPool(
            UNANSWERED_BYTES_OF_WORKER, UNANSWERED_BYTES_MAX, UNANSWERED_FRAMES_OF_WORKER, UNANSWERED_FRAMES_MAX
        )
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Ends only with `once`; raises when the connection is lost or a reader fails."""
        parts = [self._hear(), self._report(), self._fail()]
        if self._settings.once:
            parts.append(self._until_caught_up())
        try:
            await first_of(*parts)
        finally:
            for running in self._running.values():
                running.task.cancel()
            await asyncio.gather(*(running.task for running in self._running.values()), return_exceptions=True)

    async def _hear(self) -> None:
        while True:
            message = await self._control.receive()
            if isinstance(message, Grant | RepairGrant):
                self._grant(message)
            elif isinstance(message, KafkaGrant):
                credit = CreditWindow(self._credit_of_all)
                reader = KafkaReader(message, credit, self._control.send, self._hand_on, self._settings.frame_bytes)
                self._start(message, reader, credit, None)
            elif isinstance(message, Withdraw):
                self._withdraw(message)
            elif isinstance(message, Credit):
                self._credit(message)
            else:
                self._tell_view(message)

    def _tell_view(self, message: Announce | Topics | Passing | Located) -> None:
        view = self._views.get((message.source, message.shard))
        if view is None:
            return
        if isinstance(message, Announce):
            view.announce(message)
        elif isinstance(message, Topics):
            view.topics(message)
        elif isinstance(message, Passing):
            view.passing(message)
        else:
            view.located(message)

    def _grant(self, grant: Grant | RepairGrant) -> None:
        view = self._view((grant.source.stream, grant.shard))
        storage = self._open_objects(grant.data_root)
        credit = CreditWindow(self._credit_of_all)
        limits = FrameLimits(self._settings.frame_bytes, self._settings.position_bytes)
        send = self._control.send
        reader: GrantReader | RepairReader
        if isinstance(grant, Grant):
            reads = self._reads.setdefault((grant.source.stream, grant.shard), SharedReads(self._work))
            reader = GrantReader(grant, view, storage, credit, send, self._hand_on, limits, reads)
        else:
            reader = RepairReader(grant, view, storage, credit, send, self._hand_on, limits)
        self._start(grant, reader, credit, view)

    def _start(
        self,
        grant: Grant | RepairGrant | KafkaGrant,
        reader: GrantReader | RepairReader | KafkaReader,
        credit: CreditWindow,
        view: LogView | None,
    ) -> None:
        task = asyncio.ensure_future(reader.run())
        task.add_done_callback(partial(self._ended, credit))
        self._running[grant.grant] = _RunningGrant(grant.link, reader, view, task)
        self._taken_back.discard(grant.link)

    def _view(self, key: tuple[bytes, int]) -> LogView:
        return self._views.setdefault(key, LogView(*key, self._control.send))

    def _ended(self, credit: CreditWindow, task: asyncio.Task[None]) -> None:
        credit.close()
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _fail(self) -> None:
        """Raises what a reader raised. A grant without its reader would stand still unnoticed, so all begin anew."""
        try:
            await self._failed
        except FairleadError:
            raise
        except Exception as error:
            log.exception("reader failed")
            raise StorageUnavailable(f"reader failed: {error!r}") from error

    def _withdraw(self, message: Withdraw) -> None:
        running = self._running.pop(message.grant, None)
        if running is not None:
            running.task.cancel()
            if not running.reader.caught_up:
                self._taken_back.add(running.link)

    def _credit(self, message: Credit) -> None:
        running = self._running.get(message.grant)
        if running is not None:
            running.reader.credit.answered(message.frames, message.size_bytes)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            for running in list(self._running.values()):
                report = running.reader.report()
                if report is not None:
                    await self._control.send(report)
            self._forget()

    def _forget(self) -> None:
        """Drop the objects that no grant will read again, so that a log of years is not kept as a list of names."""
        for view in self._views.values():
            scanned = [
                running.reader.scanned_to
                for running in self._running.values()
                if running.view is view and isinstance(running.reader, GrantReader)
            ]
            if scanned:
                view.forget(min(scanned))

    async def _until_caught_up(self) -> None:
        """Wait until every grant has been answered to its end, and no new one came for a moment."""
        clock = asyncio.get_running_loop().time
        quiet_since = clock()
        while clock() - quiet_since < self._patience:
            await asyncio.sleep(_REPORT_SECONDS)
            if not all(running.reader.caught_up for running in self._running.values()):
                quiet_since = clock()

    @property
    def _patience(self) -> float:
        """How long nothing may happen before all is done."""
        granted = self._running and not self._taken_back
        return self._settings.once_quiet_seconds if granted else self._settings.once_first_seconds
