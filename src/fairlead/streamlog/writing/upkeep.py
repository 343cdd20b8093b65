"""The writer's part of merging and deleting: it plans jobs, puts manifests and removes what they replace.

plan      what to merge next; CPU only
(the merging process does the job)
prepare   put the manifest that names the result; blocking
finish    let it rule; CPU only
sweep     delete what manifests have replaced, after the grace; blocking

At a clean stop `checkpoint` puts the state as it is in memory, so that the next start need not replay the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import FairleadError, StorageFull, StorageUnavailable
from fairlead.model.settings import Settings
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.streamlog.merging import policy as merge_policy
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.garbage import Replaced, replaced_by, unreferenced
from fairlead.streamlog.merging.histories import Histories
from fairlead.streamlog.merging.job import MergeJob, MergeResult
from fairlead.streamlog.merging.policy import MergeSettings, Now
from fairlead.streamlog.objects import checkpoint, format, opening
from fairlead.streamlog.objects.manifest import CheckpointEntry, Manifest
from fairlead.streamlog.payloads import decode_start
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import DeadFrom, PartitionKey, WriterEpoch
from fairlead.streamlog.writing.reserve import Reserve
from fairlead.streamlog.writing.retention import ExpiryGuard
from fairlead.streamlog.writing.topic_expiry import Expired, Round, TopicExpiry

CHECKPOINT_ROWS_MIN = 20_000
"""A clean stop leaves no checkpoint if fewer rows than this must be replayed, which takes a third of a second."""
PRODUCER_EXPIRY_MS = 7 * 86_400_000
"""A producer that is silent for longer is forgotten, unless the shard's setting says otherwise."""
STARTS_AT_ONCE = 500
"""Partitions whose start is raised in one step, so that a step takes some milliseconds."""


class Prepared(NamedTuple):
    """A manifest that is durable and does not rule yet, and the `start` rows it brings."""

    manifest: Manifest
    starts: list[Row]
    replaced: Replaced


class _Due(NamedTuple):
    at_monotonic_ms: int
    replaced: Replaced


class Upkeep:
    """Upkeep of one shard's objects."""

    def __init__(
        self,
        log: AnnouncedLog,
        epoch: WriterEpoch,
        guard: ExpiryGuard,
        reserve: Reserve,
        clock: Clock,
        randomness: Randomness,
        settings: Settings,
    ) -> None:
        self._log = log
        self._epoch = epoch
        self._guard = guard
        self._reserve = reserve
        self._clock = clock
        self._randomness = randomness
        self._settings = settings
        self._tombstone_ms = int(settings.tombstone_seconds * 1000)
        self._ttl_ms = 0
        self.topics = TopicExpiry(log, guard, clock, settings)
        """Expiry by the settings of topics."""
        self._producer_expiry_ms = PRODUCER_EXPIRY_MS
        self._producers_next_ms = 0
        """From this cut-off on producers are looked at again."""
        self._shortest_ms = 0
        self._exempt = _exempt(_compacted(log.state), log.state.kept_from())
        self._exempt_less_at_ms = guard.now_ms() - 1
        """What the last writer had not looked at yet, nobody knows: it is looked at again."""
        self._due: deque[_Due] = deque()
        self._checkpoint_at_ms: int | None = None
        self._k = log.manifest.k
        self.links_passed: int | None = None
        """Every link has sent the commits below this one; None if there is no link. Whoever keeps the links sets it. It
        must be 0 while the shard's links are not yet known: what a merge forgets is never sent."""
        self._planned = False
        self._left_over = False
        """A job was not finished, or a deletion failed: the next manifest looks for what they left. It does so only
        once it is durable, since a manifest of unknown outcome may name the objects."""

    @property
    def ttl_ms(self) -> int:
        """Life of a record, milliseconds; 0: for ever."""
        return self._ttl_ms

    def set_retention(self, ttl_ms: int, producer_expiry_ms: int = PRODUCER_EXPIRY_MS) -> None:
        """How long records live (0: for ever), and how long silent producers are known."""
        self._ttl_ms, self._producer_expiry_ms = ttl_ms, producer_expiry_ms
        self._tell_lives()

    def _tell_lives(self) -> None:
        self._shortest_ms = self.topics.shortest_ms()
        self._guard.set_lives((self._ttl_ms, self._producer_expiry_ms, self._tombstone_ms, self._shortest_ms))

    def begin_topic_expiry(self) -> Round | None:
        """What may have expired by the settings of topics, about once a minute; None: nothing to look for now."""
        found = self.topics.begin(self._ttl_ms)
        if found is not None and self._shortest_ms != self.topics.shortest_ms():
            self._tell_lives()
        return found

    def plan(self) -> MergeJob | None:
        """The next merge job, if one is worth it."""
        log, settings = self._log, self._settings
        now = self._now()
        forget_before_ms = self._guard.cut_off_ms(self._tombstone_ms)
        merging = MergeSettings(
            commits_min=settings.merge_commits_min,
            idle_ms=int(settings.merge_idle_seconds * 1000),
            segment_bytes_max=settings.segment_bytes_max,
            tombstone_ms=now.now_ms - (forget_before_ms or 0),
        )
        self._left_over |= self._planned
        job = merge_policy.plan(log.manifest, list(log.tail.commits), now, merging)
        self._planned = job is not None
        return None if job is None else self._told(job)

    def _told(self, job: MergeJob) -> MergeJob:
        """The job with what the merger must know of the state."""
        state = self._log.state
        deleted_to = state.deleted_to()
        job = replace(
            job,
            deleted_to=tuple((*key, offset) for key, offset in deleted_to.items()),
            deleted_before=tuple(_deleted_before(state, deleted_to)),
            expired_below=tuple(_still_below(state, found) for found in self.topics.dead.partitions),
            cuts=tuple(state.dead_from(job.first)),
        )
        if _may_expire(self._log, job):
            return replace(job, histories=Histories.of_all(state))
        losing = {each[:2] for each in (*job.deleted_to, *job.expired_below)}
        return replace(job, histories=Histories.given({key: state.partition(*key).history for key in losing}))

    def _now(self) -> Now:
        log = self._log
        state = log.state
        deleted = {t.number: t.deleted_at_ms for t in state.tombstones.values()} | state.yielded
        now_ms, cut_off_ms = self._guard.now_ms(), self._guard.cut_off_ms(self._ttl_ms)
        compact, kept = _compacted(state), state.kept_from()
        if cut_off_ms is not None:
            exempt = _exempt(compact, kept)
            if any(isinstance(each, tuple) or state.topic(each) is not None for each in self._exempt - exempt):
                self._exempt_less_at_ms = now_ms - 1  # a segment that is made now has this in `cleaned_at`
            self._exempt = exempt
        return Now(
            now_ms=now_ms,
            ttl_ms=self._ttl_ms,
            cut_off_ms=cut_off_ms,
            producers_before_ms=self._guard.cut_off_ms(self._producer_expiry_ms),
            stream_id=state.stream_id,
            links_passed=log.end if self.links_passed is None else self.links_passed,
            deleted=deleted,
            compact=compact,
            exempt_less_at=self._exempt_less_at_ms,
            kept=tuple(kept),
            half_dead=self.topics.dead.segments,
            urgent=self._reserve.is_reached,
            room_bytes=self._reserve.room_for_merging_bytes(),
            make_checkpoint=self._checkpoint_is_due() and not self._reserve.is_reached,
        )

    def _checkpoint_is_due(self) -> bool:
        if self._log.manifest.checkpoint is None or self._checkpoint_at_ms is None:
            return True
        since_ms = self._clock.monotonic_ms() - self._checkpoint_at_ms
        return since_ms >= self._settings.checkpoint_interval_seconds * 1000

    def prepare(self, result: MergeResult) -> Prepared:
        """Put the manifest that names a job's result. Blocking.

        Raises:
            Fenced, Damaged: the log must stop.
            StorageFull, StorageUnavailable
            ValueError: the result is of an older manifest.
        """
        log = self._log
        # A number is never used twice, even if it is not known whether its manifest was written.
        self._k = k = self._k + 1
        manifest = replace(merge_policy.new_manifest(log.manifest, result), k=k)
        starts = _starts(log.storage, result.control) if result.starts and result.control else []
        try:
            opening.put_manifest(log.storage, manifest, self._epoch)
        except StorageFull:
            # Nothing was put, so nobody names what the job has made; there would be no room for it to be made again.
            run_job.remove(log.storage, result)
            raise
        replaced = replaced_by(log.manifest, manifest, result)
        if self._left_over:
            left = unreferenced(log.storage, manifest)
            replaced = replaced._replace(names=tuple(dict.fromkeys((*replaced.names, *left))))
            self._left_over = False
        return Prepared(manifest, starts, replaced)

    def raise_starts(self, prepared: Prepared) -> Iterator[list[tuple[int, int]]]:
        """Before `finish`, raise the starts of expired partitions in steps of some milliseconds; yields each step's
        partitions. A reader on a thread that misses expired rows then finds that they lie below the start."""
        for at in range(0, len(prepared.starts), STARTS_AT_ONCE):
            step = prepared.starts[at : at + STARTS_AT_ONCE]
            for row in step:
                _raise_start(self._log.state, row)
            yield [(row.topic, row.partition) for row in step]

    def finish(self, prepared: Prepared) -> None:
        """Let a prepared manifest rule. Then `forget` what it has merged."""
        log = self._log
        if prepared.manifest.checkpoint != log.manifest.checkpoint:
            self._checkpoint_at_ms = self._clock.monotonic_ms()
        log.manifest = prepared.manifest
        self._planned = False
        self.replace_later(prepared.replaced)

    def forget(self) -> Iterator[int]:
        """Drop merged commits from the index, in steps; all must be dropped before inputs are deleted."""
        return self._log.tail.forget(self._log.manifest.merged_end)

    def checkpoint(self) -> None:
        """Put a checkpoint of the state at the log's end if a start would have to replay many rows. Blocking; nothing
        may be written meanwhile.

        Always true: its commit is the log's end, above everything merged, and no job makes a checkpoint of an earlier
        commit from it (`merging.policy`).

        Raises:
            Fenced, StorageFull, StorageUnavailable
        """
        log = self._log
        if self._reserve.is_reached or self._rows_to_replay() < CHECKPOINT_ROWS_MIN:
            return
        entry = CheckpointEntry(names.checkpoint(log.prefix, self._randomness.id16()), log.end)
        opening.put_known(
            log.storage, entry.name, checkpoint.write(*snapshot.dump(log.state), name=entry.name, commit=entry.commit)
        )
        self._k += 1
        manifest = replace(log.manifest, k=self._k, checkpoint=entry)
        opening.put_manifest(log.storage, manifest, self._epoch)
        log.manifest = manifest

    def _rows_to_replay(self) -> int:
        log = self._log
        known = log.manifest.checkpoint
        from_commit = 0 if known is None else known.commit
        merged = sum(segment.rows for segment in log.manifest.segments if segment.end > from_commit)
        return merged + sum(stats.rows for stats in log.tail.commits if stats.commit >= from_commit)

    def replace_later(self, replaced: Replaced) -> None:
        """Have these objects deleted once the grace is over, when nobody reads them any more."""
        grace_ms = int(self._settings.delete_grace_seconds * 1000)
        self._due.append(_Due(self._clock.monotonic_ms() + grace_ms, replaced))

    def take_due(self) -> list[Replaced]:
        """Objects whose grace is over; the caller sweeps them."""
        now_ms = self._clock.monotonic_ms()
        found: list[Replaced] = []
        while self._due and self._due[0].at_monotonic_ms <= now_ms:
            found.append(self._due.popleft().replaced)
        return found

    def sweep(self, due: Iterable[Replaced]) -> None:
        """Delete objects, once it is certain that the shard is still ours, and then the folders that older epochs
        leave: nobody acknowledges what is put there. One that cannot be deleted keeps no other. Blocking.

        Raises:
            Fenced, StorageUnavailable
        """
        log = self._log
        due_names = [name for replaced in due for name in replaced.all(log.prefix)]
        failure: FairleadError | None = None
        try:
            if due_names:
                opening.check_fence(log.storage, log.prefix, self._epoch)
            for name in due_names:
                try:
                    log.storage.delete(name)
                except StorageUnavailable as error:
                    failure = failure or error
            for prefix in (names.commits_of(log.prefix), names.manifests_of(log.prefix)):
                log.storage.remove_empty(prefix, names.of_epoch(prefix, self._epoch.number))
            if failure is not None:
                raise failure
        except FairleadError:
            self._left_over = True
            raise

    def expire_producers(self) -> Iterator[int]:
        """Forget idempotent producers that were silent for longer than the setting, in steps. All are looked at for
        that, so it is done once time has moved by a hundredth of it; until then there are no steps."""
        cut_off_ms = self._guard.cut_off_ms(self._producer_expiry_ms)
        if cut_off_ms is None or cut_off_ms < self._producers_next_ms:
            return iter(())
        self._producers_next_ms = cut_off_ms + self._producer_expiry_ms // 100
        return self._log.state.producers.expiring(cut_off_ms)


def _deleted_before(state: ShardState, partitions: Iterable[PartitionKey]) -> Iterator[tuple[int, int, int, int]]:
    """What the owners before had deleted of these partitions, where the owner has changed."""
    for number, partition in partitions:
        topic = state.topic(number)
        if topic is not None and topic.epoch and not topic.is_of_kafka:
            yield number, partition, topic.epoch, topic.deleted_before(partition)


def _still_below(state: ShardState, found: Expired) -> tuple[int, int, int]:
    """What had expired when it was looked for, but no more than lies below the partition's start now: it may have been
    cut since."""
    start = state.partition(found.number, found.partition).log_start
    return found.number, found.partition, min(found.offset, start)


def _raise_start(state: ShardState, row: Row) -> None:
    """Let a partition begin where a merge says, but no higher than where it was cut after the row."""
    if state.topic_table.slot_of(row.topic, row.partition) < 0:
        return
    known = state.partition(row.topic, row.partition)
    cuts = state.cuts_of(row.topic, row.partition)
    lowest = min([cut.offset for cut in cuts if (row.commit, row.row) < (cut.commit, cut.row)], default=known.end)
    if known.start < (start := min(row.base_offset, lowest)):
        state.put_partition(row.topic, row.partition, known._replace(start=start))


def _starts(storage: Storage, name: str) -> list[Row]:
    """The `start` rows of a segment of control rows below which everything is gone."""
    rows = format.read_whole(storage.get(name), name).rows()
    return [row for row in rows if row.kind == Kind.START and decode_start(row.batch).gap_from is None]


def _compacted(state: ShardState) -> frozenset[int]:
    """Topics that are exempt from time-to-live until compaction exists: those that are compacted only."""
    return frozenset(number for number, life in state.topic_table.lives.items() if not life.expires)


def _exempt(compacted: Iterable[int], kept: Iterable[DeadFrom]) -> frozenset[int | DeadFrom]:
    """Those topics, and the cuts whose dead batches are kept."""
    return frozenset((*compacted, *kept))


def _may_expire(log: AnnouncedLog, job: MergeJob) -> bool:
    """Whether the job has record batches that are older than the time-to-live."""
    if job.cut_off_ms is None:
        return False
    run = (s for s in log.manifest.segments if s.kind == "data" and job.first <= s.first and s.end <= job.end)
    first = (stats.appended_at for stats in log.tail.commits if job.commits and stats.commit >= job.first)
    oldest_at = min(chain((s.oldest_at for s in run), islice(first, 1)), default=job.cut_off_ms)
    return oldest_at < job.cut_off_ms
