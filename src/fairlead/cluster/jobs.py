"""Jobs: commands that touch many topics, kept in `meta/` until they are done, whatever happens to the server meanwhile.

In: a list of topics and what is to become of them; then, after each batch, how it went. Out: the record, and the topics
that come next. Always true: a job has its whole list, which stays until it has ended; a job that has ended does not go
on. What is done to a topic is no business of this module (`gateway/jobs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, Self

from fairlead.cluster.keys import JOB, VERSION, with_worklists, worklist_key, worklists
from fairlead.cluster.records import put_record
from fairlead.cluster.stream import Stream
from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import Busy, FairleadError, NotFound, TryAgain
from fairlead.model.strict_json import Id, JsonForm
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import delete_entry
from fairlead.streamlog.writing.shard import Shard

BATCH: Final = 500
"""Topics that a job hands on at a time, and asks neighbours for in one question."""
_LISTS_AT_ONCE: Final = 4
"""Batches of a new job that share a commit, which holds the loop for 0.7 ms."""
RUNNING_MAX: Final = 100
ENDED_KEPT: Final = 20
"""The newest jobs that have ended are still shown."""
REFUSALS_SHOWN: Final = 100
RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A topic that stays as it is, and why."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class Lack:
    """A topic that was changed as `-force` says, though something of it is missing, and what."""

    topic: str
    what: str


def refusals(names: Iterable[str], outcomes: Iterable[object]) -> list[Refusal]:
    """The topics of a batch that stay as they are, of what became of each.

    Raises:
        TryAgain: one of them may go later, so that the batch is to have its turn again.
        Exception: a bug met one of them.
    """
    failed = [(name, each) for name, each in zip(names, outcomes, strict=True) if isinstance(each, Exception)]
    for _, error in failed:
        if isinstance(error, TryAgain) or not isinstance(error, FairleadError):
            raise error
    return [Refusal(name, str(error)) for name, error in failed]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch of topics; whoever of those `done` is neither changed nor refused was as it should be."""

    changed: int
    refused: Sequence[Refusal] = ()
    brought: int = 0
    """Records that came for it: from neighbours, or from diverged topics."""
    lacks: Sequence[Lack] = ()
    done: int | None = None
    """So many of the batch had their turn, and the others are handed on once more; None: all had it."""


@dataclass(frozen=True, slots=True)
class Flags:
    """How a kind of job does its work: a dataclass of booleans, which the job's record keeps as texts."""

    def as_texts(self) -> dict[str, str]:
        """For the job's record."""
        return {each.name: str(getattr(self, each.name)).lower() for each in fields(self)}

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Self:
        """The inverse of `as_texts`."""
        return cls(**{each.name: texts[each.name] == "true" for each in fields(cls)})


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job, and how far it is."""

    id: Id
    kind: str
    """`transfer`, `takeover`, `claim` or `recover`."""
    stream: Id
    """Id of the stream whose topics these are."""
    path: str
    """Its path."""
    options: Mapping[str, str]
    """What is to become of them."""
    total: int
    """Topics."""
    created_at: int
    """Milliseconds since 1970."""
    done: int = 0
    """Topics that had their turn, in the order of the list."""
    changed: int = 0
    refused: int = 0
    brought: int = 0
    """The same of all of them; what would come, if nothing is to be changed."""
    refusals: tuple[Refusal, ...] = field(default=())
    """The first of the refused."""
    lacking: int = 0
    """Topics that were changed though something is missing."""
    lacks: tuple[Lack, ...] = field(default=())
    """The first of them."""
    state: str = RUNNING
    """`running`, `done`, `cancelled` or `failed`."""
    error: str = ""
    """Why it failed."""
    ended_at: int | None = None

    @property
    def running(self) -> bool:
        """It goes on, also after a restart."""
        return self.state == RUNNING

    def after(self, topics: int, outcome: BatchOutcome, now_ms: int) -> JobRecord:
        """The same with so many more topics that had their turn; the last of them end it, unless somebody has."""
        room, room_of_lacks = REFUSALS_SHOWN - len(self.refusals), REFUSALS_SHOWN - len(self.lacks)
        further = replace(
            self,
            done=self.done + topics,
            changed=self.changed + outcome.changed,
            refused=self.refused + len(outcome.refused),
            brought=self.brought + outcome.brought,
            refusals=(*self.refusals, *outcome.refused[:room]),
            lacking=self.lacking + len(outcome.lacks),
            lacks=(*self.lacks, *outcome.lacks[:room_of_lacks]),
        )
        return further.ended(DONE, now_ms) if self.running and further.done >= self.total else further

    def ended(self, state: str, now_ms: int, error: str = "") -> JobRecord:
        """The same, ended so."""
        return replace(self, state=state, error=error, ended_at=now_ms)


_FORM: Final = JsonForm(JobRecord)


class Jobs:
    """The job entries of `meta/`."""

    def __init__(self, meta: Shard, clock: Clock, randomness: Randomness) -> None:
        self._meta = meta
        self._clock = clock
        self._randomness = randomness
        self._adding: set[bytes] = set()
        """Jobs of which only the lists may be there."""

    def all(self) -> list[JobRecord]:
        """Every job that runs and those that ended lately, oldest first."""
        found = (_record(id, entry) for id, entry in JOB.found(self._meta.state.entries))
        return sorted(found, key=lambda job: (job.created_at, job.id))

    def get(self, id: bytes) -> JobRecord:
        """The job with that id.

        Raises:
            NotFound
        """
        entry = self._meta.state.entries.get(JOB.key(id))
        if entry is None:
            raise _unknown(id)
        return _record(id, entry)

    def topics(self, job: JobRecord) -> Sequence[str]:
        """The topics whose turn is next, at most a batch; none of a job that has ended."""
        entry = self._meta.state.entries.get(worklist_key(job.id, job.done // BATCH))
        return () if entry is None else tuple(entry["topics"][job.done % BATCH :])

    def new(self, kind: str, stream: Stream, options: Mapping[str, str], topics: int) -> JobRecord:
        """A job for so many topics of a stream; `add` records it."""
        return JobRecord(self._randomness.id16(), kind, stream.id, stream.path, options, topics, self._clock.wall_ms())

    async def add(self, job: JobRecord, topics: Sequence[str]) -> None:
        """Record a job with its list. The list comes first, some batches at a time: fifty thousand names are 16 ms of
        work, and nobody is to wait for all of it. A job of no topics has ended.

        Raises:
            Busy: too many run.
        """
        self._check_room()
        lists = [topics[first : first + BATCH] for first in range(0, len(topics), BATCH)]
        job = job if topics else job.ended(DONE, self._clock.wall_ms())
        self._adding.add(job.id)
        try:
            for first in range(0, len(lists), _LISTS_AT_ONCE):
                await self._meta.submit(partial(_put_lists, job.id, lists, first))
            await self._meta.submit(partial(self._put_new, job, len(lists)))
        finally:
            self._adding.discard(job.id)

    def _put_new(self, job: JobRecord, lists: int, draft: Draft) -> None:
        """Whoever gave the job up meanwhile may find its lists gone with those of no job."""
        self._check_room()
        if any(draft.state.entry(worklist_key(job.id, number)) is None for number in range(lists)):
            raise _unknown(job.id)
        _put(draft, job)
        for old in [each for each in self.all() if not each.running][:-ENDED_KEPT]:
            delete_entry(draft, JOB.key(old.id))
        self._delete_lists_of_no_job(draft)

    def _delete_lists_of_no_job(self, draft: Draft) -> None:
        """A server that was killed while it recorded a job, or could not, has left them."""
        entries = self._meta.state.entries
        for id in with_worklists(entries) - self._adding:
            if draft.state.entry(JOB.key(id)) is None:
                for key in worklists(entries, id):
                    delete_entry(draft, key)

    def _check_room(self) -> None:
        if sum(each.running for each in self.all()) >= RUNNING_MAX:
            raise Busy(f"{RUNNING_MAX} jobs are running; wait for one, or cancel one (`fairlead job list`)")

    async def note(self, id: bytes, topics: int, outcome: BatchOutcome) -> JobRecord:
        """A batch of so many topics had its turn. Raises: NotFound."""
        return await self._edit(id, lambda job: job.after(topics, outcome, self._clock.wall_ms()))

    async def end(self, id: bytes, state: str, error: str = "") -> JobRecord:
        """End a job before it is done; one that has ended stays as it is. Raises: NotFound."""

        def changed(job: JobRecord) -> JobRecord:
            return job.ended(state, self._clock.wall_ms(), error) if job.running else job

        return await self._edit(id, changed)

    async def _edit(self, id: bytes, changed: Callable[[JobRecord], JobRecord]) -> JobRecord:
        def request(draft: Draft) -> JobRecord:
            entry = draft.state.entry(JOB.key(id))
            if entry is None:
                raise _unknown(id)
            job = changed(_record(id, entry))
            _put(draft, job)
            if not job.running:
                for key in worklists(self._meta.state.entries, id):
                    delete_entry(draft, key)
            return job

        return await self._meta.submit(request)


def _put_lists(job: bytes, lists: Sequence[Sequence[str]], first: int, draft: Draft) -> None:
    for number, topics in enumerate(lists[first : first + _LISTS_AT_ONCE], first):
        put_record(draft, worklist_key(job, number), {"v": VERSION, "topics": list(topics)})


def _put(draft: Draft, job: JobRecord) -> None:
    plain = {name: value for name, value in _FORM.to_plain(job).items() if name != "id"}
    put_record(draft, JOB.key(job.id), {"v": VERSION, **plain})


def _record(id: bytes, entry: Any) -> JobRecord:
    return _FORM.from_plain({**entry, "id": id.hex()})


def _unknown(id: bytes) -> NotFound:
    return NotFound(f"job {id.hex()} does not exist; `fairlead job list` shows those there are")
