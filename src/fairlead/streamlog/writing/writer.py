"""The log of one shard: its state, its end, and the one way by which it grows.

    seal      evaluate requests in order against the state; CPU only
    write     put the commit, check the fence; blocking, on a thread
    announce  let the rows take effect and readers see them; CPU only
    abandon   the put failed: nothing has changed

One commit is under way at a time, so each is evaluated after the outcome of the one before is known. A commit that
failed for want of space certainly wrote nothing, and its number is given to the next; after any other failure the log
is stopped and answers every call with that error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import Damaged, FairleadError, StorageFull, StorageUnavailable, another
from fairlead.model.settings import Settings
from fairlead.storage import names
from fairlead.storage.interface import Put, Storage
from fairlead.streamlog.merging.garbage import Replaced, unreferenced
from fairlead.streamlog.merging.job import MergeJob
from fairlead.streamlog.objects import format, opening
from fairlead.streamlog.objects.manifest import Manifest
from fairlead.streamlog.reading.fetch import LogReader
from fairlead.streamlog.reading.index import Tail
from fairlead.streamlog.reading.recent import LogBatches, RecentBatches
from fairlead.streamlog.reading.sizes import Sizes
from fairlead.streamlog.reading.views import LogViews
from fairlead.streamlog.rows import LOCAL_KINDS, Kind, Row
from fairlead.streamlog.state import effects
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import NotLoaded, RowKey, WriterEpoch
from fairlead.streamlog.writing import recovery
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.retention import ExpiryGuard
from fairlead.streamlog.writing.sealed import Announcement, RequestAnswer, Sealed
from fairlead.streamlog.writing.upkeep import Upkeep

__all__ = ["Announcement", "RequestAnswer", "Sealed", "ShardLog"]

COMMIT_ROWS_MAX = 2000
"""A commit is closed at so many rows: evaluating it holds the loop, which serves everybody else."""
SPACE_CHECK_MS = 1000
SPACE_CHECK_BYTES = 8_000_000
"""Free space is looked at after so long or so much: a fast producer would write through the reserve in a second."""
DAY_MS = 86_400_000


@dataclass(slots=True)
class _Space:
    """When the disk's free space was last looked at, and what was found."""

    checked_at_ms: int | None = None
    sealed_bytes: int = 0
    """Of record batches since then."""
    full: StorageFull | None = field(default=None)


class ShardLog(LogViews):
    """The log of one shard; made by `open`. `seal`, `write` and `fetch` may run on threads, all else on the owner's;
    nothing changes the state during a `seal`."""

    def __init__(
        self,
        storage: Storage,
        manifest: Manifest,
        state: ShardState,
        tail: Tail,
        end: int,
        recent: LogBatches,
        *,
        clock: Clock,
        randomness: Randomness,
        settings: Settings,
    ) -> None:
        self.storage = storage
        self.prefix = manifest.prefix
        self.manifest = manifest
        self.state = state
        self.tail = tail
        self.recent = recent
        self.end = self.news_end = end
        self.stopped: FairleadError | None = None
        self.on_stop: Callable[[FairleadError], None] | None = None
        """Called once when the log stops, on whatever thread found out why."""
        self.settings = settings
        self.clock = clock
        self.ttl_ms = 0
        """Life of a record, milliseconds; 0: for ever."""
        self.producer_expiry_ms = DAY_MS * 7
        own = manifest.epochs[-1]
        self.epoch = WriterEpoch(own.number, own.id)
        self.guard = ExpiryGuard(clock, last_appended_at_ms=state.appended_at_last)
        self.reader = LogReader(self)
        self.upkeep = Upkeep(self)
        self.sizes = Sizes(self)
        self._randomness = randomness
        self._sealed: Sealed | None = None
        self._space = _Space()

    @classmethod
    def open(
        cls,
        storage: Storage,
        prefix: str,
        *,
        stream_id: bytes,
        clock: Clock,
        randomness: Randomness,
        settings: Settings | None = None,
        recent: RecentBatches | None = None,
    ) -> ShardLog:
        """Claim the shard, find its end and rebuild its state. Blocking. `recent` is shared by all logs of a process.

        Raises:
            Damaged: an object that counts cannot be read.
            Fenced: another server claims it at the same time.
            StorageUnavailable, StorageFull
        """
        settings = settings or Settings()
        storage.sync(prefix + "/")
        epoch = opening.claim(storage, prefix, randomness)
        manifest = opening.next_manifest(storage, prefix, epoch)
        opening.put_manifest(storage, manifest, epoch)
        tail = Tail()
        state, end = recovery.recover(storage, manifest, stream_id, tail)
        recent = recent or RecentBatches(settings)
        log = cls(
            storage, manifest, state, tail, end, recent.of_log(), clock=clock, randomness=randomness, settings=settings
        )
        log.upkeep.replace_later(Replaced(tuple(unreferenced(storage, manifest))))
        return log

    def checkpoint(self) -> None:
        """At a clean stop: see `Upkeep.checkpoint`."""
        self.upkeep.checkpoint(self._randomness)

    # Growing

    def seal(self, requests: Sequence[DraftRequest[Any]]) -> Sealed:
        """Evaluate requests into the next commit, as many as its size allows; at least one.

        Raises:
            FairleadError: the log is stopped; see `stopped`.
        """
        self.check_running()
        assert self._sealed is None, "one commit at a time"
        draft = self._draft()
        answers: list[RequestAnswer] = []
        missing: tuple[RowKey, ...] = ()
        for request in requests:
            try:
                answers.append(RequestAnswer(draft.run(request), None))
            except NotLoaded as error:
                missing = error.keys
                break
            except FairleadError as error:
                answers.append(RequestAnswer(None, another(error)))
            except Exception as error:
                answers.append(RequestAnswer(None, error))
            if draft.batch_bytes >= self.settings.commit_bytes_max or len(draft.rows) >= COMMIT_ROWS_MAX:
                break
        self._space.sealed_bytes += draft.batch_bytes
        sealed = Sealed(self.end, draft.rows, answers, missing, durable=not draft.rows)
        self._sealed = sealed if draft.rows else None
        return sealed

    def _draft(self) -> Draft:
        return Draft(
            self.state,
            self.end,
            self.guard.now_ms(),
            find_stored=self.reader.find_stored,
            full=self._reserve_reached(),
            randomness=self._randomness,
        )

    def write(self, sealed: Sealed) -> None:
        """Make the commit durable and check that it is ours to make. Blocking; nothing to do for one without rows.

        Raises:
            StorageFull: certainly nothing was written; `abandon` it and go on.
            Fenced, StorageUnavailable, Damaged: `abandon` it; the log stops.
        """
        if not sealed.rows:
            return
        name = names.commit(self.prefix, self.epoch.number, sealed.commit)
        outcome = opening.put_known(self.storage, name, format.encode(sealed.rows))
        opening.check_fence(self.storage, self.prefix, self.epoch)
        if outcome is Put.ANOTHER:
            raise Damaged(name, "another object has the name of our commit")
        sealed.durable = True

    def announce(self, sealed: Sealed) -> Announcement:
        """Let a durable commit take effect."""
        assert sealed.durable, "only what is written is announced"
        if not sealed.rows:
            return Announcement(self.end, self.end, (), non_local=False)
        state = self.state
        controlled = _moved_by_control_rows(state, sealed.rows)
        # The batches first: a reader on a thread that finds nothing below the end takes it for a gap.
        stats = self.tail.add(sealed.commit, sealed.rows)
        self.recent.add(sealed.commit, sealed.rows)
        for row in sealed.rows:
            effects.replay(state, row)
        self.end = sealed.commit + 1
        self._sealed = None
        non_local = _non_local(sealed.rows)
        if non_local:
            self.news_end = self.end
        return Announcement(sealed.commit, self.end, (*stats.keys, *controlled), non_local)

    def abandon(self, sealed: Sealed, error: Exception) -> None:
        """The commit failed and changes nothing; unless it failed for want of space, the log stops."""
        self._sealed = None
        if not isinstance(error, StorageFull):
            self.stop(error)

    def stop(self, error: BaseException) -> None:
        """From now on every call is answered with this error."""
        if self.stopped is not None:
            return
        if isinstance(error, FairleadError):
            self.stopped = another(error)
        else:
            self.stopped = StorageUnavailable(f"{self.prefix}: stopped after an unexpected error: {error!r}")
        if self.on_stop is not None:
            self.on_stop(self.stopped)

    def check_running(self) -> None:
        """Raises the error that stopped the log, if one did."""
        if self.stopped is not None:
            raise another(self.stopped)

    # Upkeep

    def plan_merge(self) -> MergeJob | None:
        """What to merge next; None if nothing is worth it."""
        return self.upkeep.plan()

    @property
    def space_is_short(self) -> bool:
        """The reserve was reached when space was last looked at."""
        return self._space.full is not None

    def _reserve_reached(self) -> StorageFull | None:
        now_ms = self.clock.monotonic_ms()
        space = self._space
        long_ago = space.checked_at_ms is None or now_ms - space.checked_at_ms >= SPACE_CHECK_MS
        if long_ago or space.sealed_bytes >= SPACE_CHECK_BYTES:
            space.checked_at_ms, space.sealed_bytes = now_ms, 0
            space.full = self._look_at_space()
        return space.full

    def _look_at_space(self) -> StorageFull | None:
        free = self.storage.free_bytes()
        reserve = self.settings.reserve_bytes + int(self.settings.reserve_ratio * self.storage.total_bytes())
        return StorageFull(self.prefix, free, reserve) if free < reserve else None


def _moved_by_control_rows(state: ShardState, rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Partitions that begin elsewhere or are gone once these rows have taken effect."""
    found: list[tuple[int, int]] = []
    for row in rows:
        if row.kind == Kind.START:
            found.append((row.topic, row.partition))
        elif row.kind == Kind.TOPIC_DELETED and (topic := state.topic(row.topic)) is not None:
            found += [(row.topic, partition) for partition in range(topic.partitions)]
    return found


def _non_local(rows: Sequence[Row]) -> bool:
    return any(row.kind not in LOCAL_KINDS for row in rows)
