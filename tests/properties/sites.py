"""Sites on storage with every fault: opened, written to, merged, crashed, rolled back.

What must hold of them stands in `invariants`, what goes between them in `links`, what is chosen in `actions`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch
from zlib import crc32

from tests.properties.lives import TTL_MS
from tests.properties.model import FaultyStorage, Model, Site
from tests.properties.readers import copy_kept
from tests.properties.shape import IDS, SHARED, SLICES_USED, Shape, names_of
from tests.streamlog.world import START_MS, FakeClock, SeededRandomness, installed, rows_of
from tests.support.batches import produce
from tests.support.stepped import Stalled, SteppedLoop

from fairlead.model.errors import Damaged, FairleadError, Fenced
from fairlead.model.settings import Settings
from fairlead.protocol.batch import build_batch
from fairlead.storage.interface import Storage
from fairlead.storage.memory import Call, Crashed, Fault, MemoryStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.job import MergeJob
from fairlead.streamlog.requests import diverged
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.topic_expiry import expire
from fairlead.streamlog.writing.writer import ShardLog

RUNS = int(os.environ.get("FAIRLEAD_TEST_RUNS", "84"))
"""How many seeds are played of each kind of world; fewer of some."""
HOUR_MS = 3_600_000
SETTINGS = Settings(
    merge_commits_min=2,
    merge_idle_seconds=1.0,
    delete_grace_seconds=2.0,
    checkpoint_interval_seconds=5.0,
    commit_bytes_max=200,
    topic_expiry_interval_seconds=0.01,
)
COPIED_BYTES = (1, 150, 4_000_000)
FULL_FOR = 6
"""Puts that a full disk refuses before somebody makes room."""
T = TypeVar("T")
MakeStorage = Callable[[str], FaultyStorage]
_THREADS = ThreadPoolExecutor(1)
"""Of which the stepped loop uses none."""


class World:
    """All sites and the model. Every public method is one action; the caller chooses, by a seed or by Hypothesis."""

    def __init__(
        self,
        seed: int,
        shape: Shape,
        make_storage: MakeStorage = lambda site: MemoryStorage(),
        commit_bytes: int = SETTINGS.commit_bytes_max,
    ) -> None:
        self.random = Random(seed)
        self._settings = replace(SETTINGS, commit_bytes_max=commit_bytes)
        self.shape = shape
        self.loop = SteppedLoop()
        self.trace: list[str] = []
        self.sites: dict[str, Site] = {}
        self.model = Model(self.sites, shape)
        self.on_opened: Callable[[Site], None] = lambda site: None
        self.on_rolled_back: Callable[[Site], None] = lambda site: None
        self.on_checked: Callable[[Site], None] = lambda site: None
        """Told of each site of which all is checked."""
        self.on_healing: Callable[[], None] = lambda: None
        self.on_undecided: Callable[[], bool] = lambda: False
        """People may end conflicts now; whether they did so of any."""
        self.on_healed: Callable[[], None] = lambda: None
        self._opened = 0
        self._values = 0
        for name in shape.sites:
            storage, clock = make_storage(name), FakeClock(START_MS + self.random.randrange(HOUR_MS))
            self.sites[name] = Site(name, storage, clock, *self._open(name, storage, clock), step_ms=clock.wall)

    def close(self) -> None:
        """The end of the world."""
        self.loop.close()

    def note(self, *what: object) -> None:
        """Add to the trace."""
        self.trace.append(repr(what))

    def digest(self) -> str:
        """Of all that has happened."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def names(self, site: str) -> list[str]:
        """What a site may call its topics."""
        return [*names_of(site), SHARED]

    @property
    def slices(self) -> list[int]:
        """Those in which topics lie."""
        return sorted({*SLICES_USED, *self.model.slices})

    def new_values(self, count: int) -> list[bytes]:
        """Of records; none is ever used twice."""
        self._values += count
        return [b"%d" % (self._values - count + each) for each in range(count)]

    # Opening

    def _open(self, name: str, storage: Storage, clock: FakeClock) -> tuple[ShardLog, Shard]:
        self._opened += 1
        log = ShardLog.open(
            storage,
            "x",
            stream_id=IDS[name],
            clock=clock,
            randomness=SeededRandomness(self._opened * 7919 + ord(name)),
            settings=self._settings,
        )
        log.upkeep.set_retention(TTL_MS)
        self.note("opened", name, log.epoch.number, log.announced.end)
        return log, self.loop.run(_shard(log))

    def reopen(self, name: str, *, power_fails: bool) -> None:
        """The process dies and another starts; with a power failure some of what was not synced is lost."""
        self.note("reopen", name, power_fails)
        site = self.sites[name]
        if power_fails:
            lucky = self.random.random()
            site.storage.crash(lambda _: self.random.random() < lucky)
            site.sleepers.clear()
        else:
            site.storage.restart()
        self._open_until_it_opens(site)

    def _open_until_it_opens(self, site: Site) -> None:
        while True:
            try:
                site.log, site.shard = self._open(site.name, site.storage, site.clock)
                break
            except (Crashed, FairleadError):
                site.storage.restart()
        site.changed = True
        self.on_opened(site)
        self.scan(site)

    def take_over(self, name: str) -> None:
        """A second writer opens the shard while the first sleeps with a commit in its hand."""
        site = self.sites[name]
        old = site.log
        own = next((t for t in old.announced.state.topics() if t.owner == site.stream_id), None)
        if own is not None:
            batch = build_batch([(None, self.new_values(1)[0])])
            site.sleepers.append((old, old.seal([lambda d: produce(d, own.number, 0, batch)])))
        self._open_until_it_opens(site)

    def wake(self, name: str) -> None:
        """A writer that slept through a takeover goes on: it must find out."""
        site = self.sites[name]
        if not site.sleepers:
            return
        log, sealed = site.sleepers.pop(self.random.randrange(len(site.sleepers)))
        if not sealed.rows:
            return
        try:
            log.write(sealed)
        except FairleadError:
            return
        except Crashed:
            self.reopen(name, power_fails=False)
            return
        raise AssertionError("a writer that slept through a takeover was acknowledged")

    def fault(self, name: str, fault: Fault, call: Call, nth: int, times: int = 1) -> None:
        """Let a later call of the site's storage fail."""
        self.note("fault", name, fault.value, call, nth, times)
        for more in range(times):
            self.sites[name].storage.fail(fault, call=call, nth=nth + more)

    def fill_disk(self, name: str) -> None:
        """A site's disk is full for a while."""
        self.fault(name, Fault.FULL, "put", 1, FULL_FOR)

    def land(self, name: str) -> None:
        """A late put lands."""
        storage = self.sites[name].storage
        if storage.late:
            storage.land(self.random.randrange(len(storage.late)))

    # Backups

    def back_up(self, name: str) -> None:
        """Somebody copies a site's directory."""
        site = self.sites[name]
        self.note("backup", name, site.shown.scanned)
        site.snapshot = site.storage.snapshot(), self.model.keep(site)

    def roll_back(self, name: str) -> None:
        """A site is put back to its last backup: its processes and connections end, and what it has done since was
        never done."""
        site = self.sites[name]
        if site.snapshot is None:
            return
        objects, shown = site.snapshot
        self.note("rolled back", name, site.shown.scanned, shown.scanned)
        site.sleepers.clear()
        site.storage.late.clear()
        site.storage.replace(objects)
        site.storage.restart()
        self.model.roll_back(site, shown)
        self.on_rolled_back(site)
        self._open_until_it_opens(site)

    # Requests

    def run(self, site: Site, request: DraftRequest[T]) -> T | FairleadError | None:
        """A request's answer; None if its process died. The site is open again afterwards."""

        async def submitted() -> T:
            return await site.shard.submit(request)

        return self.lived(site, submitted())

    def lived(self, site: Site, work: Coroutine[Any, Any, T]) -> T | FairleadError | None:
        """What the site's process answers; None if it died. The site is open again afterwards."""
        try:
            answer = self.loop.run(work)
            self.note("answer", site.name, answer)
            return answer
        except (Crashed, Stalled):
            assert site.storage.faults.dead, "somebody waits for what never comes"
            self.reopen(site.name, power_fails=self.random.random() < 0.5)
        except FairleadError as error:
            self.note("error", site.name, repr(error))
            self.reopen_stopped(site, power_fails=0.3)
            return error
        finally:
            self.check_tasks()
            self.scan(site)
        return None

    def reopen_stopped(self, site: Site, power_fails: float = 0.0) -> None:
        """Open the site again if its log has stopped."""
        if site.log.health.stopped is not None:
            _no_damage(site.log)
            self.reopen(site.name, power_fails=self.random.random() < power_fails)

    def check_tasks(self) -> None:
        """Raise what a task of the loop died of, but for the end of its process."""
        for error in self.loop.unheard():
            if not isinstance(error, Crashed):
                raise error

    # Upkeep

    def expire_topics(self, name: str) -> None:
        """At one site records expire by their topics' own settings."""
        site = self.sites[name]
        expiry = site.log.upkeep.begin_topic_expiry()
        if expiry is None:
            return
        try:
            found = site.log.upkeep.topics.find(expiry)
        except Crashed:
            self.reopen(name, power_fails=self.random.random() < 0.5)
        except FairleadError:
            self.reopen_stopped(site)
        else:
            self.run(site, lambda d: expire(d, found, site.log.upkeep.topics.cut_count))

    def merge(self, name: str, *, later: bool = False) -> None:
        """One merge job, installed by the writer that planned it, or by one that was taken over meanwhile. `later`: by
        the next call, if the writer is the same then."""
        site = self.sites[name]
        log = site.log
        planned = waiting = site.merging
        site.merging = None
        try:
            if planned is None or planned[0] is not log:
                job = log.upkeep.plan()
                if job is None:
                    return
                self._opened += 1
                planned = log, job, run_job.run(site.storage, SeededRandomness(self._opened * 104_729), job)
                if later:
                    site.merging = planned
                    return
            _, job, result = planned
            later_than_planned = planned is waiting
            site.changed = True
            if self.random.random() < 0.1:
                self.take_over(name)
                try:
                    installed(log, result)
                except Fenced:
                    return
                except FairleadError:
                    return
                raise AssertionError("a writer that was taken over installed a manifest")
            installed(log, result)
            if job.commits:
                self._check_dropped(site, job)
            if later_than_planned:
                self._note_expired(site, job)
        except Crashed:
            self.reopen(name, power_fails=self.random.random() < 0.5)
        except FairleadError:
            if log.health.stopped is not None:
                _no_damage(log)
                self.reopen(name, power_fails=False)
        self.model.note_starts(site)

    def _note_expired(self, site: Site, job: MergeJob) -> None:
        """What had expired when a job was planned is gone, though a cut came before the job was installed."""
        with site.storage.faults.held_off():
            for row in rows_of(site.log, job.first, job.end):
                if row.kind == Kind.START and row.topic in site.shown.topics:
                    place = (site.shown.topics[row.topic].incarnation, row.partition)
                    site.shown.gone[place] = max(row.base_offset, site.shown.gone.get(place, 0))

    def _check_dropped(self, site: Site, job: MergeJob) -> None:
        """Of what was cut, only that is left which is still to be copied."""
        cuts = sorted(job.cuts, key=lambda cut: cut[3:])
        with site.storage.faults.held_off():
            for row in rows_of(site.log, job.first, job.end) if cuts else ():
                where = (row.topic, row.partition)
                after = [c for c in cuts if c[:2] == where and (row.commit, row.row) < c[3:]]
                first = next((cut for cut in after if row.base_offset >= cut[2]), None)
                is_left = row.kind == Kind.BATCH and first is not None and first not in job.kept
                assert not is_left, f"{site.name}: a merge has left {row[:6]}, dead by {first}"

    def copy_kept(self, name: str) -> None:
        """What was cut off goes into topics of its own, in commits of any size."""
        self.note("copy", name)
        with patch.object(diverged, "COPIED_BYTES", self.random.choice(COPIED_BYTES)):
            self.lived(self.sites[name], copy_kept(self.sites[name]))

    def sweep(self, name: str) -> None:
        """Delete what manifests have replaced."""
        site = self.sites[name]
        site.changed = True
        try:
            site.log.upkeep.sweep(site.log.upkeep.take_due())
        except Crashed:
            self.reopen(name, power_fails=self.random.random() < 0.5)
        except FairleadError:
            pass

    def upkeep(self, name: str) -> None:
        """What is merged meanwhile is gone when a reader comes to it."""
        self.expire_topics(name)
        for _ in range(2):
            self.merge(name)
        self.pass_time(name, int(SETTINGS.delete_grace_seconds * 1000) + 1)
        self.sweep(name)

    def pass_time(self, name: str, ms: int) -> None:
        """Time goes by at one site."""
        self.sites[name].clock.pass_ms(ms)

    def jump(self, name: str, ms: int) -> None:
        """A site's wall clock jumps; no time has passed."""
        self.note("jump", name, ms)
        self.sites[name].clock.wall += ms
        self.sites[name].step_ms += max(ms, 0)

    # The model

    def scan(self, site: Site) -> None:
        """Take in what the site has announced since."""
        shown, end = site.shown, site.log.announced.end
        if shown.scanned < end:
            with site.storage.faults.held_off():
                for row in rows_of(site.log, shown.scanned, end):
                    self.note(site.name, *row[:-1], crc32(row.batch))
                    self.model.see(site, row)
            shown.scanned = end
        self.model.note_starts(site)


async def _shard(log: ShardLog) -> Shard:
    return Shard(log, _THREADS)


def _no_damage(log: ShardLog) -> None:
    assert not isinstance(log.health.stopped, Damaged), f"nothing was damaged, yet: {log.health.stopped}"
