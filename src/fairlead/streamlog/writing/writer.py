"""The log of one shard: its state, its end, and the one way in which it grows.

    seal      evaluate requests in order against the state; CPU only
    write     put the commit, check the fence; blocking, on a thread
    prepare   make of the rows what readers will find, perhaps while they are written; CPU only, changes nothing
    announce  let the rows take effect and readers see them; CPU only
    abandon   the put failed: nothing has changed

One commit is under way at a time, so each is evaluated after the outcome of the one before is known. A commit that
failed for lack of space certainly wrote nothing, and the next one gets its number. After any other failure the log is
stopped and answers every call with that error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import Damaged, FairleadError, StorageFull, another
from fairlead.model.settings import Settings
from fairlead.storage import names
from fairlead.storage.interface import Put, Storage
from fairlead.streamlog.merging.garbage import Replaced, unreferenced
from fairlead.streamlog.objects import format, opening
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.fetch import LogReader
from fairlead.streamlog.reading.health import Health
from fairlead.streamlog.reading.index import Tail
from fairlead.streamlog.reading.recent import RecentBatches
from fairlead.streamlog.reading.sizes import Sizes
from fairlead.streamlog.rows import LOCAL_KINDS, Kind, Row
from fairlead.streamlog.state import effects
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import NOBODY, NotLoaded, Opener, RowKey, WriterEpoch
from fairlead.streamlog.writing import recovery
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.entries import delete_entry, put_entry
from fairlead.streamlog.writing.reserve import Reserve
from fairlead.streamlog.writing.retention import RECORD_KEY, ExpiryGuard
from fairlead.streamlog.writing.sealed import Announcement, RequestAnswer, Sealed, readable_of
from fairlead.streamlog.writing.upkeep import Upkeep

__all__ = ["Announcement", "RequestAnswer", "Sealed", "ShardLog"]

COMMIT_ROWS_MAX = 2000
"""A commit is closed at this many rows: evaluating it holds the loop, which serves everybody else."""


class ShardLog:
    """The log of one shard; made by `open`. `seal`, `write` and `fetch` may run on any thread, everything else on the
    owner's; nothing changes the state during a `seal`."""

    def __init__(
        self,
        announced: AnnouncedLog,
        *,
        clock: Clock,
        randomness: Randomness,
        settings: Settings,
    ) -> None:
        own = announced.epochs[-1]
        self.announced = announced
        self._opened_at_ms = announced.state.appended_at_last
        self.epoch = WriterEpoch(own.number, own.id)
        self.settings = settings
        self.health = Health(announced.prefix, announced.needs)
        self.reader = LogReader(announced, self.health, settings.message_bytes_max)
        self.sizes = Sizes(announced)
        self.guard = ExpiryGuard(
            clock,
            last_appended_at_ms=announced.state.appended_at_last,
            record=announced.state.entry(RECORD_KEY),
            hold_ms=int(settings.expiry_hold_seconds * 1000),
        )
        self._reserve = Reserve(announced.storage, announced.prefix, clock, settings)
        self.upkeep = Upkeep(announced, self.epoch, self.guard, self._reserve, clock, randomness, settings)
        self._randomness = randomness
        self._record: dict[str, Any] | None = None
        self._sealed: Sealed | None = None

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
        opener: Opener = NOBODY,
    ) -> ShardLog:
        """Claim the shard, find its end and rebuild its state. Blocking. `recent` is shared by all logs of a process.

        If a commit or segment that counts cannot be read, the log is stopped by that damage from the beginning: what
        lies elsewhere can be read, and nothing is written or deleted.

        Raises:
            Damaged: it cannot be said which objects count.
            Fenced: another server claims it at the same time.
            StorageUnavailable, StorageFull
        """
        settings = settings or Settings()
        storage.sync(prefix + "/")
        epoch = opening.claim(storage, prefix, stream_id, randomness, opener, clock.wall_ms())
        damages: list[Damaged] = []
        manifest = opening.next_manifest(storage, prefix, stream_id, epoch, damages)
        tail = Tail()
        state, end = recovery.recover(storage, manifest, stream_id, tail, damages)
        if not damages:
            opening.put_manifest(storage, manifest, epoch)
            opening.check_rules(storage, manifest)
        recent = recent or RecentBatches(settings)
        announced = AnnouncedLog(storage, manifest, state, tail, recent.of_log(), end, next(iter(damages), None))
        log = cls(announced, clock=clock, randomness=randomness, settings=settings)
        if announced.damage is not None:
            log.health.stop(announced.damage)
        else:
            log.upkeep.replace_later(Replaced(tuple(unreferenced(storage, manifest))))
        return log

    def seal(self, requests: Sequence[DraftRequest[Any]]) -> Sealed:
        """Evaluate requests into the next commit, as many as its size allows; at least one.

        Raises:
            FairleadError: the log is stopped.
        """
        self.health.check_writable()
        assert self._sealed is None, "one commit at a time"
        now_ms, self._record = self.guard.commit_time()
        draft = self._draft(now_ms)
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
        if not missing:
            self.reader.forget_stored()
        if draft.rows:
            self.note_clock(draft)
        self._reserve.add(draft.batch_bytes)
        sealed = Sealed(self.announced.end, draft.rows, answers, missing, durable=not draft.rows, news=draft.news)
        self._sealed = sealed if draft.rows else None
        return sealed

    @property
    def clock_is_news(self) -> bool:
        """Whether the log does not say yet what it must of its clock: a hold has begun or ended, and nothing was
        written since."""
        return self.guard.is_told and self.guard.record() != self.announced.state.entry(RECORD_KEY)

    def note_clock(self, draft: Draft) -> None:
        """A request: have the log say what it must of its clock, as every commit with rows does."""
        if self._record is None:
            delete_entry(draft, RECORD_KEY)
        elif draft.state.entry(RECORD_KEY) != self._record:
            put_entry(draft, RECORD_KEY, self._record)

    @property
    def full(self) -> StorageFull | None:
        """Why no record batch may be added now; None if there is room."""
        return self._reserve.check()

    def _draft(self, now_ms: int) -> Draft:
        return Draft(
            self.announced.state,
            self.announced.end,
            now_ms,
            find_stored=self.reader.find_stored,
            full=self._reserve.check(),
            randomness=self._randomness,
            opened_at_ms=self._opened_at_ms,
        )

    def write(self, sealed: Sealed, meanwhile: Callable[[], object] | None = None) -> None:
        """Make the commit durable and check that it is ours to make. Blocking; does nothing for one without rows.
        `meanwhile` is called when all that is left is to wait for the storage.

        Raises:
            StorageFull: certainly nothing was written; `abandon` it and go on.
            Fenced, StorageUnavailable, Damaged: `abandon` it; the log stops.
        """
        if not sealed.rows:
            return
        storage, prefix = self.announced.storage, self.announced.prefix
        name = names.commit(prefix, self.epoch.number, sealed.commit)
        data = format.encode(sealed.rows, name=name, epoch_id=self.epoch.id)
        if meanwhile is not None:
            meanwhile()
        outcome = opening.put_known(storage, name, data)
        opening.check_fence(storage, prefix, self.epoch)
        if outcome is Put.ANOTHER:
            raise Damaged(name, "another object has the name of our commit")
        sealed.durable = True

    def prepare(self, sealed: Sealed) -> None:
        """Make what announcing a commit adds to what can be read, so that it takes less time. It changes nothing: if
        the commit fails, this goes with it."""
        sealed.readable = readable_of(sealed.rows)

    def announce(self, sealed: Sealed) -> Announcement:
        """Let a durable commit take effect."""
        assert sealed.durable, "only what is written is announced"
        log = self.announced
        if not sealed.rows:
            return Announcement(log.end, log.end, (), non_local=False)
        state = log.state
        live, compact = sealed.readable or readable_of(sealed.rows)
        controlled = _moved_by_control_rows(state, live.others)
        # The batches first: a reader on a thread that finds nothing below the end takes it for a gap.
        log.tail.add(live)
        log.recent.add(sealed.commit, live, compact)
        effects.replay_announced(state, sealed.rows)
        log.end = sealed.commit + 1
        self._sealed = None
        non_local = len(live.others) < len(sealed.rows) or any(row.kind not in LOCAL_KINDS for row in live.others)
        if non_local:
            log.news_end = log.end
        return Announcement(sealed.commit, log.end, (*live.partitions, *controlled), non_local)

    def abandon(self, sealed: Sealed, error: Exception) -> None:
        """The commit failed and changes nothing; unless it failed for lack of space, the log stops."""
        self._sealed = None
        if not isinstance(error, StorageFull):
            self.health.stop(error)


def _moved_by_control_rows(state: ShardState, rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Partitions that begin elsewhere, are gone, or whose topic is another (its epoch, its settings) once these rows
    have taken effect."""
    found: list[tuple[int, int]] = []
    for row in rows:
        if row.kind in {Kind.START, Kind.TRUNCATE, Kind.EXPIRED}:
            found.append((row.topic, row.partition))
        elif row.kind in {Kind.TOPIC, Kind.TOPIC_DELETED} and (topic := state.topic(row.topic)) is not None:
            found += [(row.topic, partition) for partition in range(topic.partitions)]
    return found
