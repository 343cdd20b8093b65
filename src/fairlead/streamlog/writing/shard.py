"""A shard under asyncio: group commit, waiting for new records, announcements.

While one commit is written, requests gather for the next. A shard without work has no task. Reads and writes of the
disk, and the evaluation of large commits, run on threads; everything else runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import Closed, FairleadError, another
from fairlead.model.settings import Settings
from fairlead.storage.interface import Storage
from fairlead.streamlog.merging.runners import Merger, merger_of
from fairlead.streamlog.reading.recent import RecentBatches
from fairlead.streamlog.values import NOBODY, Opener
from fairlead.streamlog.writing.chores import Chore
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.gathering import Gathering
from fairlead.streamlog.writing.news import News
from fairlead.streamlog.writing.retention import Hold
from fairlead.streamlog.writing.topic_expiry import EXPIRED_AT_ONCE, expire
from fairlead.streamlog.writing.turns import UpkeepTurns
from fairlead.streamlog.writing.watches import Watch, Watches
from fairlead.streamlog.writing.writer import COMMIT_ROWS_MAX, Announcement, Sealed, ShardLog

T = TypeVar("T")
BUSY_COMMITS = 50_000
"""The writer lingers while at least this many commits wait for merging, so that fewer come."""
QUEUE_BYTES = 256_000_000
"""This much may queue before requests are dropped for which nobody waits any more."""
SEAL_ON_THREAD_BYTES = 1024 * 1024
"""With this much in the queue, requests are evaluated on a thread, so that the loop can serve others meanwhile."""
PREPARED_ROWS_MIN = 200
"""A commit of so many rows is prepared for its announcement while it is written; less is not worth a call."""
AnnouncementListener = Callable[[Announcement], None]


class _Waiting(NamedTuple):
    request: DraftRequest[Any]
    size_bytes: int
    answer: asyncio.Future[Any]


class Shard:
    """One shard; made by `open`, ended by `close`."""

    def __init__(
        self,
        log: ShardLog,
        executor: Executor,
        *,
        merger: Merger | None = None,
        on_stop: Callable[[FairleadError], None] | None = None,
    ) -> None:
        self._log = log
        self._health = log.health
        self.announced = log.announced
        """Where the log stands and lies; for reading only."""
        self.state = log.announced.state
        """What the announced rows have made."""
        self.reader = log.reader
        """Batches of its partitions."""
        self.sizes = log.sizes
        self.epoch = log.epoch
        """Of its writer."""
        self._executor = executor
        self._on_stop = on_stop
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._gathering = Gathering()
        self._drop_above_bytes = QUEUE_BYTES
        """When the queue has more than this, it is searched for requests that were given up."""
        self._writing: asyncio.Task[None] | None = None
        self._watches = Watches()
        self._listeners: list[AnnouncementListener] = []
        self._closed = False
        self._stop_told = False
        self._health.on_stop = self._stopped_elsewhere
        self._evaluating = asyncio.Lock()
        """Held while requests are evaluated on a thread: nothing else changes the state then."""
        self.copy_tails: Callable[[], Awaitable[None]] | None = None
        """Copies what cuts keep into other topics; whoever knows all shards of the stream sets it."""
        self.on_news: Callable[[Sequence[News]], None] | None = None
        """Told what a commit has changed that the server's log tells, once it is announced."""
        self._merger = merger
        self._turns = UpkeepTurns(log.upkeep, executor, self._evaluating, self._watches)
        self.merging = self._chore("merging", self._keep_up)
        """Merging and deleting."""
        self.copying = self._chore("copying what was cut off", self._copy_kept)
        if merger is not None:
            self.merging.begin()
            self.copying.begin()
        if self.stopped is not None:
            self._stop(self.stopped)

    def _chore(self, name: str, work: Callable[[], Awaitable[None]]) -> Chore:
        return Chore(name, work, self._log.settings.merge_interval_seconds, self._health, self._stop)

    @classmethod
    async def open(
        cls,
        storage: Storage,
        prefix: str,
        *,
        stream_id: bytes,
        clock: Clock,
        randomness: Randomness,
        executor: Executor,
        settings: Settings | None = None,
        recent: RecentBatches | None = None,
        opener: Opener = NOBODY,
        on_stop: Callable[[FairleadError], None] | None = None,
    ) -> Shard:
        """Open the log on a thread. Raises what `ShardLog.open` raises.

        `on_stop` is told once why the log takes no more writes, also if it is so from the beginning.
        """

        def opened() -> ShardLog:
            return ShardLog.open(
                storage,
                prefix,
                stream_id=stream_id,
                clock=clock,
                randomness=randomness,
                settings=settings,
                recent=recent,
                opener=opener,
            )

        log = await asyncio.get_running_loop().run_in_executor(executor, opened)
        return cls(log, executor, merger=merger_of(storage, randomness, executor), on_stop=on_stop)

    @property
    def stopped(self) -> FairleadError | None:
        """Why the shard takes no more writes; None while it runs."""
        return self._health.stopped

    @property
    def refuses_records(self) -> FairleadError | None:
        """Why record batches are refused now: the shard has stopped, or the disk is full; None if they are taken."""
        return self.stopped or self._log.full

    @property
    def readable(self) -> bool:
        """Whether reads are answered: the shard runs, or is stopped by damage and answers what lies elsewhere."""
        return self._health.readable

    @property
    def closed(self) -> bool:
        """The server is stopping, or the stream was deleted."""
        return self._closed

    def check_open(self) -> None:
        """Check that the shard can be read.

        Raises:
            Closed: the server is stopping, or the stream was deleted.
            FairleadError: why the shard is stopped.
        """
        if self._closed:
            raise Closed(f"{self.announced.prefix}: the server is stopping, or the stream was deleted")
        self._health.check_readable()

    def set_retention(self, *, ttl_ms: int, producer_expiry_ms: int) -> None:
        """Time-to-live of records (0: for ever) and of what is remembered of producers, in milliseconds."""
        self._log.upkeep.set_retention(ttl_ms, producer_expiry_ms)

    @property
    def links_passed(self) -> int | None:
        """Every link has sent the commits below this one; None if there is no link. See `Upkeep.links_passed`."""
        return self._log.upkeep.links_passed

    @links_passed.setter
    def links_passed(self, commit: int | None) -> None:
        self._log.upkeep.links_passed = commit

    @property
    def now_ms(self) -> int:
        """The `appended_at` of a row that is written now."""
        return self._log.guard.now_ms()

    @property
    def hold(self) -> Hold | None:
        """Why nothing expires; None while the clock is believed."""
        return self._log.guard.hold

    def note_newest(self, newest_ms: int) -> None:
        """A time that the cluster's other logs have reached; see `ExpiryGuard.note_newest`."""
        self._log.guard.note_newest(newest_ms)

    async def accept_clock(self) -> Hold | None:
        """Believe the clock as it is now. Answers the hold that this has ended, once the log says so. Raises as the
        future of `submit`."""
        hold = self._log.guard.accept()
        if hold is not None:
            await self.submit(self._log.note_clock)
        return hold

    def submit(self, request: DraftRequest[T], size_bytes: int = 0) -> asyncio.Future[T]:
        """Let a request add its rows to the next commit, after those of earlier calls; the future has its answer once
        they are durable and announced. Callers bound what waits: a connection reads no more than its share. If the
        future is cancelled, the request may be dropped, or may have been carried out already.

        The future fails with a FairleadError: what the request raised, why the commit failed, or why the shard is
        stopped or closed.
        """
        answer: asyncio.Future[T] = self._loop.create_future()
        try:
            self.check_open()
            self._health.check_writable()
        except FairleadError as error:
            answer.set_exception(error.with_traceback(None))
            return answer
        self._queue.append(_Waiting(request, size_bytes, answer))
        self._queued_bytes += size_bytes
        if self._queued_bytes > self._drop_above_bytes:
            self._drop_abandoned()
        if self._writing is None:
            self._writing = self._loop.create_task(self._write_all())
        else:
            self._gathering.came(len(self._queue))
        return answer

    def _drop_abandoned(self) -> None:
        """Drop the queued requests for which nobody waits any more: while a disk is stuck, clients time out, connect
        again and send again."""
        self._queued_bytes -= sum(waiting.size_bytes for waiting in self._queue if waiting.answer.cancelled())
        self._queue = deque(waiting for waiting in self._queue if not waiting.answer.cancelled())
        self._drop_above_bytes = max(QUEUE_BYTES, 2 * self._queued_bytes)

    async def _write_all(self) -> None:
        try:
            while self._queue:
                await self._linger()
                await self._one_commit()
        except Exception as error:
            self._stop(error)
        finally:
            self._writing = None

    async def _linger(self) -> None:
        settings = self._log.settings
        busy = len(self.announced.tail.commits) >= BUSY_COMMITS
        linger_ms = max(settings.linger_ms, settings.linger_busy_ms if busy else 0)
        if linger_ms:
            await asyncio.sleep(linger_ms / 1000)
        else:
            await self._gathering.wait(len(self._queue))

    async def _one_commit(self) -> None:
        taken = self._take()
        try:
            sealed, failure = await self._seal_and_write([waiting.request for waiting in taken])
        except Exception:
            self._queue.extendleft(reversed(taken))
            raise
        self._queue.extendleft(reversed(taken[len(sealed.answers) :]))
        del taken[len(sealed.answers) :]
        size_bytes = sum(waiting.size_bytes for waiting in taken)
        self._queued_bytes -= size_bytes
        self._drop_above_bytes = QUEUE_BYTES
        self._gathering.committed(len(taken), size_bytes)
        if failure is not None:
            self._failed(sealed, taken, failure)
            return
        try:
            announcement = self._log.announce(sealed)
        except Exception as error:
            self._failed(sealed, taken, error)
            return
        for waiting, answer in zip(taken, sealed.answers, strict=True):
            _resolve(waiting.answer, answer.value, answer.error)
        self._tell(announcement)
        if sealed.news and self.on_news is not None:
            self.on_news(sealed.news)
        if sealed.missing:
            await self._loop.run_in_executor(self._executor, self.reader.load_stored, sealed.missing)

    def _take(self) -> list[_Waiting]:
        """The requests that a commit takes, at least one; those left in the queue can still be given up. A commit goes
        over a link in one frame, which has a limit, so no request is added that would make the commit too large."""
        taken: list[_Waiting] = []
        left_bytes = self._log.settings.commit_bytes_max
        while self._queue and len(taken) < COMMIT_ROWS_MAX and (not taken or self._queue[0].size_bytes <= left_bytes):
            taken.append(self._queue.popleft())
            left_bytes -= taken[-1].size_bytes
        return taken

    async def _seal_and_write(self, requests: list[DraftRequest[Any]]) -> tuple[Sealed, Exception | None]:
        """Evaluate small commits on the loop, and large ones on the thread that writes them: sealing only reads the
        state. Returns the commit and, if it could not be written, the reason. Raises what `seal` raises."""
        if self._queued_bytes >= SEAL_ON_THREAD_BYTES:
            await self._evaluating.acquire()
            return await self._loop.run_in_executor(self._executor, self._sealed_and_written, requests)
        sealed = self._log.seal(requests)
        if not sealed.rows:
            return sealed, None
        return sealed, await self._loop.run_in_executor(self._executor, self._written, sealed)

    def _sealed_and_written(self, requests: list[DraftRequest[Any]]) -> tuple[Sealed, Exception | None]:
        try:
            sealed = self._log.seal(requests)
        finally:
            self._loop.call_soon_threadsafe(self._evaluating.release)
        return sealed, self._written(sealed)

    def _written(self, sealed: Sealed) -> Exception | None:
        prepare = partial(self._loop.call_soon_threadsafe, self._log.prepare, sealed)
        try:
            self._log.write(sealed, prepare if len(sealed.rows) >= PREPARED_ROWS_MIN else None)
        except Exception as error:
            return error
        return None

    def _failed(self, sealed: Sealed, taken: list[_Waiting], error: Exception) -> None:
        self._log.abandon(sealed, error)
        for waiting in taken:
            _resolve(waiting.answer, None, error)
        if self.stopped is not None:
            self._stop(self.stopped)

    def _stopped_elsewhere(self, error: FairleadError) -> None:
        """A reader on a thread, or a writer there, found out why the log must stop."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop, error)

    def _stop(self, error: Exception) -> None:
        self._health.stop(error)
        stopped = self.stopped
        assert stopped is not None
        while self._queue:
            _resolve(self._queue.popleft().answer, None, stopped)
        self._queued_bytes = 0
        if self._stop_told:
            return
        self._stop_told = True
        self._watches.wake_all()
        if self._on_stop is not None:
            self._on_stop(stopped)

    def watch(self, number: int, partition: int, callback: Callable[[], None] | None = None) -> Watch:
        """Be told when a partition moves, by `callback` or by `await watch.wait()`; `close()` it afterwards."""
        return self._watches.add((number, partition), callback)

    @property
    def watched(self) -> int:
        """So many watches are open."""
        return len(self._watches)

    def add_listener(self, listener: AnnouncementListener) -> None:
        """Call `listener` after every announcement, on the loop."""
        self._listeners.append(listener)

    def _tell(self, announcement: Announcement) -> None:
        self._watches.wake(announcement.partitions)
        if announcement.end > announcement.first:
            for listener in list(self._listeners):
                listener(announcement)

    # Upkeep

    @property
    def chores(self) -> tuple[Chore, Chore]:
        """What is done beside the requests."""
        return self.merging, self.copying

    async def _keep_up(self) -> None:
        # First, and between jobs too: under load one follows the other, and all else may lack the room that this gives.
        await self._turns.sweep()
        if self._log.clock_is_news:
            await self.submit(self._log.note_clock)
        await self._expire_topics()
        while self.stopped is None and self._merger is not None and await self._turns.merge(self._merger):
            await self._turns.sweep()

    async def _copy_kept(self) -> None:
        if self.copy_tails is not None and self.state.kept_partitions:
            await self.copy_tails()

    async def _expire_topics(self) -> None:
        expiry = self._log.upkeep.begin_topic_expiry()
        if expiry is None:
            return
        found = await self._loop.run_in_executor(self._executor, self._log.upkeep.topics.find, expiry)
        for first in range(0, len(found), EXPIRED_AT_ONCE):
            some = found[first : first + EXPIRED_AT_ONCE]
            await self.submit(partial(expire, found=some, cut_count=self._log.upkeep.topics.cut_count))

    async def close(self, *, checkpoint: bool = False) -> None:
        """Finish what is queued, then stop; with `checkpoint`, leave one if a start would be slow without it."""
        self._closed = True
        self._watches.wake_all()
        for chore in self.chores:
            await chore.close()
        if self._merger is not None:
            await self._merger.close()
            self._merger = None
        while self._writing is not None:
            await asyncio.wait([self._writing])
        self.announced.recent.close()
        self.reader.close()
        if checkpoint and self.stopped is None:
            await self._leave_checkpoint()

    async def _leave_checkpoint(self) -> None:
        try:
            await self._loop.run_in_executor(self._executor, self._log.upkeep.checkpoint)
        except FairleadError as error:
            # Only a shortcut for the next start is lost.
            self.merging.error = error


def _resolve(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(another(error) if isinstance(error, FairleadError) else error)
    else:
        future.set_result(value)
