"""Four sites, A → B → D and A → C → D, on storage with every fault: opened, written to, merged, crashed.

What must hold of them stands in `model`, what goes between them in `links`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, TypeVar
from zlib import crc32

from tests.properties.model import IDS, FaultyStorage, Model, Place, Site
from tests.streamlog.world import FakeClock, SeededRandomness, installed, rows_of
from tests.support.batches import produce
from tests.support.stepped import Stalled, SteppedLoop

from fairlead.model.errors import Damaged, FairleadError, Fenced
from fairlead.model.settings import Settings
from fairlead.protocol.batch import build_batch
from fairlead.storage.interface import Storage
from fairlead.storage.memory import Call, Crashed, Fault, MemoryStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.writing.deletion import delete_records
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.topic_expiry import expire
from fairlead.streamlog.writing.topics import create_topic, delete_topic, set_configs, set_partitions
from fairlead.streamlog.writing.writer import ShardLog

RUNS = int(os.environ.get("FAIRLEAD_TEST_RUNS", "250"))
"""Of each test."""
NAMES = ("ships", "ports", "t7")
TTL_MS = 10_000
LIVES = {"retention.ms": (None, None, None, "0", "1500"), "retention.bytes": (None, None, None, "0", "150")}
SETTINGS = Settings(
    merge_commits_min=2,
    merge_idle_seconds=1.0,
    delete_grace_seconds=2.0,
    checkpoint_interval_seconds=5.0,
    commit_bytes_max=200,
    topic_expiry_interval_seconds=0.01,
)
T = TypeVar("T")
_THREADS = ThreadPoolExecutor(1)
"""Of which the stepped loop uses none."""


class World:
    """All sites and the model. Every method is one action; the caller chooses, by a seed or by Hypothesis."""

    def __init__(self, seed: int, make_storage: Callable[[str], FaultyStorage] = lambda site: MemoryStorage()) -> None:
        self.random = Random(seed)
        self.loop = SteppedLoop()
        self.opened = 0
        self.trace: list[str] = []
        self.sites: dict[str, Site] = {}
        for name in "abcd":
            storage, clock = make_storage(name), FakeClock()
            self.sites[name] = Site(name, storage, clock, *self._open(name, storage, clock))
        self.counter = 0
        self.model = Model(self.sites)
        self.on_opened: Callable[[Site], None] = lambda site: None
        self.sequence: dict[Place, int] = {}
        self.deleted: set[bytes] = set()

    def close(self) -> None:
        """The end of the world."""
        self.loop.close()

    def note(self, *what: object) -> None:
        """Add to the trace."""
        self.trace.append(repr(what))

    def digest(self) -> str:
        """Of all that has happened."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    # Opening

    def _open(self, name: str, storage: Storage, clock: FakeClock) -> tuple[ShardLog, Shard]:
        self.opened += 1
        log = ShardLog.open(
            storage,
            "x",
            stream_id=IDS[name],
            clock=clock,
            randomness=SeededRandomness(self.opened * 7919 + ord(name)),
            settings=SETTINGS,
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
        self.on_opened(site)
        self.scan(site)

    def take_over(self, name: str) -> None:
        """A second writer opens the shard while the first sleeps with a commit in its hand."""
        site = self.sites[name]
        old = site.log
        if old.announced.state.topic_count:
            self.counter += 1
            value = b"never %d" % self.counter
            topic = next(iter(old.announced.state.topics()))
            sealed = old.seal([lambda d: produce(d, topic.number, 0, build_batch([(None, value)]))])
            site.sleepers.append((old, sealed))
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

    def land(self, name: str) -> None:
        """A late put lands."""
        storage = self.sites[name].storage
        if storage.late:
            storage.land(self.random.randrange(len(storage.late)))

    # Rows at A

    def run(self, site: Site, request: DraftRequest[T]) -> T | None:
        """A request's answer; None if it was not acknowledged. The site is open again afterwards."""

        async def submitted() -> T:
            return await site.shard.submit(request)

        return self.lived(site, submitted())

    def lived(self, site: Site, work: Coroutine[Any, Any, T]) -> T | None:
        """What the site's process answers; None if it failed or died. The site is open again afterwards."""
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

    def create(self, name: str) -> None:
        """A topic is made at A."""
        a = self.sites["a"]
        if a.log.announced.state.by_name(name) is None:
            partitions, limits = self.random.randint(1, 2), self._life()
            configs = {key: limit for key, limit in limits.items() if limit is not None}
            self.run(a, lambda d: create_topic(d, name, partitions, configs))

    def _life(self) -> dict[str, str | None]:
        return {key: self.random.choice(values) for key, values in LIVES.items()}

    def grow(self, name: str) -> None:
        """A topic gets one more partition."""
        topic = self.sites["a"].log.announced.state.by_name(name)
        if topic is not None and topic.partitions < 4:
            self.run(self.sites["a"], lambda d: set_partitions(d, name, topic.partitions + 1))

    def delete(self, name: str) -> None:
        """A topic is deleted at A."""
        a = self.sites["a"]
        topic = a.log.announced.state.by_name(name)
        if topic is not None:
            self.run(a, lambda d: delete_topic(d, name))
            if a.log.announced.state.by_name(name) is None:
                self.deleted.add(topic.incarnation)

    def delete_records(self, name: str, partition: int, more: int) -> None:
        """The first records of a partition are deleted at A, `more` than were gone, or all."""
        a = self.sites["a"]
        topic = a.log.announced.state.by_name(name)
        if topic is None:
            return
        partition %= topic.partitions
        state = a.log.announced.state.partition(topic.number, partition)
        offset = min(state.log_start + more, state.end) if more else -1
        found = self.run(a, lambda d: delete_records(d, topic.number, partition, offset))
        if found is not None:
            assert found >= offset
            self.model.deleted[topic.incarnation, partition] = found

    def limit(self, name: str) -> None:
        """A topic gets a life of its own at A, or loses it."""
        a = self.sites["a"]
        if a.log.announced.state.by_name(name) is not None:
            limits = self._life()
            self.run(a, lambda d: set_configs(d, name, limits))

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
            self.run(site, lambda d: expire(d, found))

    def produce(self, name: str, partition: int, records: int) -> None:
        """An idempotent producer sends a batch, and sends it again until it is acknowledged."""
        a = self.sites["a"]
        topic = a.log.announced.state.by_name(name)
        if topic is None:
            return
        partition %= topic.partitions
        place = (topic.incarnation, partition)
        values = [b"%d" % (self.counter + i) for i in range(records)]
        self.counter += records
        sequence = self.sequence.get(place, 0)
        batch = build_batch([(None, v) for v in values], producer_id=9, producer_epoch=0, base_sequence=sequence)
        for _ in range(12):
            result = self.run(a, lambda d: produce(d, topic.number, partition, batch))
            if result is not None:
                base = result.base_offset
                self.model.acked.update({(place, base + i): value for i, value in enumerate(values)})
                self.sequence[place] = sequence + records
                return
        raise AssertionError("a produce was never acknowledged, though faults pass")

    # Upkeep

    def merge(self, name: str) -> None:
        """One merge job, installed by the writer that planned it, or by one that was taken over meanwhile."""
        site = self.sites[name]
        log = site.log
        try:
            job = log.upkeep.plan()
            if job is None:
                return
            self.opened += 1
            result = run_job.run(site.storage, SeededRandomness(self.opened * 104_729), job)
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
        except Crashed:
            self.reopen(name, power_fails=self.random.random() < 0.5)
        except FairleadError:
            if log.health.stopped is not None:
                _no_damage(log)
                self.reopen(name, power_fails=False)
        self.model.note_starts(site)

    def sweep(self, name: str) -> None:
        """Delete what manifests have replaced."""
        site = self.sites[name]
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

    # The model

    def scan(self, site: Site) -> None:
        """Take in what the site has announced since."""
        with site.storage.faults.held_off():
            for row in rows_of(site.log, site.scanned, site.log.announced.end):
                self.note(site.name, *row[:-1], crc32(row.batch))
                self.model.see(site, row)
        site.scanned = site.log.announced.end
        self.model.note_starts(site)

    def check(self) -> None:
        """Everything that must hold at any moment. No call fails from now on."""
        for site in self.sites.values():
            site.storage.faults.clear()
        self.model.check()


async def _shard(log: ShardLog) -> Shard:
    return Shard(log, _THREADS)


def _no_damage(log: ShardLog) -> None:
    assert not isinstance(log.health.stopped, Damaged), f"nothing was damaged, yet: {log.health.stopped}"
