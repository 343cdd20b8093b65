"""A shard under asyncio: group commit, waiting for new records, announcements.

While one commit is written, requests gather for the next. A shard without work has no task. Everything but the
writes and the reads from disk runs on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, NamedTuple, TypeVar

from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import Closed, Damaged, FairleadError, Fenced, another
from fairlead.model.settings import Settings
from fairlead.storage.interface import Storage
from fairlead.streamlog.draft import Request
from fairlead.streamlog.merging import Merger, merger_of
from fairlead.streamlog.recent import RecentBatches
from fairlead.streamlog.state import ShardState
from fairlead.streamlog.writer import Announcement, Sealed, ShardLog

T = TypeVar("T")
BUSY_COMMITS = 50_000
"""So many commits that wait for merging make the writer linger."""
SEAL_ON_THREAD_BYTES = 1024 * 1024
"""With so much in the queue requests are evaluated on a thread, so that the loop serves others meanwhile."""
Listener = Callable[[Announcement], None]


class _Waiting(NamedTuple):
    request: Request[Any]
    size_bytes: int
    answer: asyncio.Future[Any]


class Watch:
    """Tells when a partition moves: its end, its start, or that its topic is gone. Small: there may be many."""

    __slots__ = ("_callback", "_event", "_key", "_moved", "_shard")

    def __init__(self, shard: Shard, key: tuple[int, int], callback: Callable[[], None] | None) -> None:
        self._shard = shard
        self._key = key
        self._callback = callback
        self._moved = False
        self._event: asyncio.Event | None = None

    def notify(self) -> None:
        """The partition moved."""
        self._moved = True
        if self._event is not None:
            self._event.set()
        if self._callback is not None:
            self._callback()

    async def wait(self) -> None:
        """Until the partition moves."""
        if not self._moved:
            self._event = self._event or asyncio.Event()
            await self._event.wait()

    def close(self) -> None:
        """Watch no longer."""
        self._shard._unwatch(self._key, self)

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


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
        self.log = log
        self._executor = executor
        self._on_stop = on_stop
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._room = asyncio.Event()
        self._entry = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None
        self._watches: dict[tuple[int, int], set[Watch]] = {}
        self._listeners: list[Listener] = []
        self._closed = False
        self._stop_told = False
        log.on_stop = self._stopped_elsewhere
        self._evaluating = asyncio.Lock()
        """Held while requests are evaluated on a thread: nothing else changes the state then."""
        self.upkeep_failures = 0
        """Merges and deletions that failed and are tried again; for metrics."""
        self.upkeep_error: Exception | None = None
        """The newest of these failures."""
        self._merger = merger
        self._upkeep = None if merger is None else self._loop.create_task(self._keep_up(merger))

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
        on_stop: Callable[[FairleadError], None] | None = None,
    ) -> Shard:
        """Open the log on a thread. Raises what `ShardLog.open` raises."""

        def opened() -> ShardLog:
            return ShardLog.open(
                storage,
                prefix,
                stream_id=stream_id,
                clock=clock,
                randomness=randomness,
                settings=settings,
                recent=recent,
            )

        log = await asyncio.get_running_loop().run_in_executor(executor, opened)
        return cls(log, executor, merger=merger_of(storage, randomness, executor), on_stop=on_stop)

    @property
    def state(self) -> ShardState:
        """What is announced."""
        return self.log.state

    @property
    def stopped(self) -> FairleadError | None:
        """Why the shard answers nothing any more; None while it runs."""
        return self.log.stopped

    @property
    def closed(self) -> bool:
        """The server is stopping, or the stream was deleted."""
        return self._closed

    def check_open(self) -> None:
        """
        Raises:
            Closed: the server is stopping, or the stream was deleted.
            FairleadError: why the shard is stopped.
        """
        if self._closed:
            raise Closed(f"{self.log.prefix}: the server is stopping, or the stream was deleted")
        self.log.check_running()

    def set_retention(self, *, ttl_ms: int, producer_expiry_ms: int) -> None:
        """Time-to-live of records (0: for ever) and of what is remembered of producers, in milliseconds."""
        self.log.ttl_ms = ttl_ms
        self.log.producer_expiry_ms = producer_expiry_ms

    async def submit(self, request: Request[T], size_bytes: int = 0) -> T:
        """Let a request add its rows to the next commit; its answer, once they are durable and announced.

        Waits while more than `commit_queue_bytes_max` are queued.

        Raises:
            FairleadError: what the request raised, why the commit failed, or why the shard is stopped.
        """
        # In turn: a newcomer does not pass those who wait for room, or a producer's batches would change places. With
        # room and nobody waiting this does not suspend, so that requests are queued in the order of their calls.
        async with self._entry:
            while self._queued_bytes > self.log.settings.commit_queue_bytes_max and not self._closed:
                self._room.clear()
                await self._room.wait()
        self.check_open()
        answer: asyncio.Future[T] = self._loop.create_future()
        self._queue.append(_Waiting(request, size_bytes, answer))
        self._queued_bytes += size_bytes
        if self._writing is None:
            self._writing = self._loop.create_task(self._write_all())
        try:
            return await answer
        finally:
            del answer  # an error in it would hold this frame, and so itself and the request

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
        settings = self.log.settings
        busy = len(self.log.tail.commits) >= BUSY_COMMITS
        linger_ms = max(settings.linger_ms, settings.linger_busy_ms if busy else 0)
        if linger_ms:
            await asyncio.sleep(linger_ms / 1000)

    async def _one_commit(self) -> None:
        sealed = await self._seal([waiting.request for waiting in self._queue])
        taken = [self._queue.popleft() for _ in sealed.answers]
        self._queued_bytes -= sum(waiting.size_bytes for waiting in taken)
        self._room.set()
        try:
            if sealed.rows:
                await self._loop.run_in_executor(self._executor, self.log.write, sealed)
            announcement = self.log.announce(sealed)
        except Exception as error:
            self._failed(sealed, taken, error)
            return
        for waiting, answer in zip(taken, sealed.answers, strict=True):
            _resolve(waiting.answer, answer.value, answer.error)
        self._tell(announcement)
        if sealed.missing:
            await self._loop.run_in_executor(self._executor, self.log.reader.load_stored, sealed.missing)

    async def _seal(self, requests: list[Request[Any]]) -> Sealed:
        """Evaluate on the loop what is quickly done, and large frames on a thread: sealing only reads the state."""
        if self._queued_bytes < SEAL_ON_THREAD_BYTES:
            return self.log.seal(requests)
        async with self._evaluating:
            return await self._loop.run_in_executor(self._executor, self.log.seal, requests)

    def _failed(self, sealed: Sealed, taken: list[_Waiting], error: Exception) -> None:
        self.log.abandon(sealed, error)
        for waiting in taken:
            _resolve(waiting.answer, None, error)
        if self.log.stopped is not None:
            self._stop(self.log.stopped)

    def _stopped_elsewhere(self, error: FairleadError) -> None:
        """A reader on a thread, or a writer there, found out why the log must stop."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop, error)

    def _stop(self, error: Exception) -> None:
        self.log.stop(error)
        stopped = self.log.stopped
        assert stopped is not None
        while self._queue:
            _resolve(self._queue.popleft().answer, None, stopped)
        self._queued_bytes = 0
        self._room.set()
        if self._stop_told:
            return
        self._stop_told = True
        self._wake_all()
        if self._on_stop is not None:
            self._on_stop(stopped)

    def _wake_all(self) -> None:
        for watches in list(self._watches.values()):
            for watch in list(watches):
                watch.notify()

    def _wake(self, partitions: Iterable[tuple[int, int]]) -> None:
        for key in partitions:
            for watch in list(self._watches.get(key, ())):
                watch.notify()

    def watch(self, number: int, partition: int, callback: Callable[[], None] | None = None) -> Watch:
        """Be told when a partition moves, by `callback` or by `await watch.wait()`; `close()` it afterwards."""
        watch = Watch(self, (number, partition), callback)
        self._watches.setdefault((number, partition), set()).add(watch)
        return watch

    def _unwatch(self, key: tuple[int, int], watch: Watch) -> None:
        watches = self._watches.get(key)
        if watches is not None:
            watches.discard(watch)
            if not watches:
                del self._watches[key]

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` after every announcement, on the loop."""
        self._listeners.append(listener)

    def _tell(self, announcement: Announcement) -> None:
        if self._watches:
            self._wake(announcement.partitions)
        if announcement.end > announcement.first:
            for listener in list(self._listeners):
                listener(announcement)

    # Upkeep

    async def _keep_up(self, merger: Merger) -> None:
        """Merge and delete every few seconds, until the shard closes or stops."""
        while self.log.stopped is None:
            await asyncio.sleep(self.log.settings.merge_interval_seconds)
            try:
                while self.log.stopped is None and await self._merge_once(merger):
                    pass
                await self._sweep()
            except (Fenced, Damaged) as error:
                self._stop(error)
            except Exception as error:
                # Merging only rearranges what is durable: what failed is shown, and planned again at the next interval.
                self.upkeep_failures += 1
                self.upkeep_error = error

    async def _merge_once(self, merger: Merger) -> bool:
        """Do one merge job; False if there is none."""
        async with self._evaluating:
            job = self.log.plan_merge()
        if job is None:
            return False
        result = await merger.run(job)
        upkeep = self.log.upkeep
        prepared = await self._loop.run_in_executor(self._executor, upkeep.prepare, result)
        async for moved in self._in_turns(upkeep.raise_starts(prepared)):
            self._wake(moved)
        async with self._evaluating:
            upkeep.finish(prepared)
        async for _ in self._in_turns(upkeep.forget()):
            pass
        return True

    async def _in_turns(self, steps: Iterator[T]) -> AsyncIterator[T]:
        """Steps that change what others see, each while nothing is evaluated on a thread, others' turns in between."""
        while True:
            async with self._evaluating:
                found = next(steps, None)
            if found is None:
                return
            yield found
            await asyncio.sleep(0)

    async def _sweep(self) -> None:
        upkeep = self.log.upkeep
        async with self._evaluating:
            upkeep.expire_producers()
        due = upkeep.take_due()
        if due:
            await self._loop.run_in_executor(self._executor, upkeep.sweep, due)

    async def close(self, *, checkpoint: bool = False) -> None:
        """Finish what is queued, then stop; with `checkpoint` leave one, where a start would be slow without."""
        self._closed = True
        self._wake_all()
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.wait([self._upkeep])
        if self._merger is not None:
            await self._merger.close()
            self._merger = None
        self._room.set()
        while self._writing is not None:
            await asyncio.wait([self._writing])
        self.log.recent.close()
        if checkpoint and self.log.stopped is None:
            await self._leave_checkpoint()

    async def _leave_checkpoint(self) -> None:
        try:
            await self._loop.run_in_executor(self._executor, self.log.checkpoint)
        except FairleadError as error:
            # Only a shortcut of the next start is lost.
            self.upkeep_error = error


def _resolve(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(another(error) if isinstance(error, FairleadError) else error)
    else:
        future.set_result(value)
