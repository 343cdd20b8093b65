"""The source's side of all links of one cluster: contact, grants, announcements, failures.

In: link records (`cluster.links`), reader and sink tasks on their control connections, new ends of shards. Out: grants
to readers, withdrawals to readers and sinks, numbers for `replica list`. One task per link asks its destination and
waits; so a destination that is a black hole delays nobody else, and an idle link runs no timer and sends nothing.
Always true: a slice of a link is held by one reader at a time; a paused, removed or stopped link holds none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import httpx
import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.destination import Backoff, Gateways, Timing
from fairlead.gateway.links.errors import STOPS, RolledBack, StreamChanged
from fairlead.gateway.links.granting import Granting
from fairlead.gateway.links.running_link import LinkCounts, Phase, RunningLink, SliceKey, urls_of, wire_id
from fairlead.model.clock import Clock, Randomness
from fairlead.model.envelope import code_of
from fairlead.model.errors import BadRequest, Damaged, FairleadError, NotAgreed, UnknownStream
from fairlead.model.names import StreamPath
from fairlead.streamlog.values import GrantRun
from fairlead.streamlog.writing.writer import Announcement
from fairlead.wire.messages import (
    LinkAnswer,
    LinkRequest,
    StreamPlace,
    WithdrawRun,
)

log = structlog.get_logger()

REPAIR_DELAY_MAX_S = 60.0
REPAIRS_BESIDE_TRAFFIC = 2
"""What is still behind after so many repairs is repaired while its slices stand still: rows that come meanwhile would
be refused, and the next repair find them missing, for as long as they keep coming."""


@dataclass(frozen=True, slots=True)
class CopyNumbers:
    """How far a copy is, or how it ended in this process."""

    counts: LinkCounts
    error: FairleadError | None
    conflicts: int


class SinkPort(Protocol):
    """One connected sink task."""

    def withdraw(self, message: WithdrawRun) -> None:
        """Tell the sink to drop the frames of a link up to a run."""
        ...


class LinkRunner:
    """Runs every link of a cluster. `start` and `close` enclose its life; all methods run on one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        http: httpx.AsyncClient,
        clock: Clock,
        randomness: Randomness,
        *,
        data_root: str = "",
        timing: Timing | None = None,
    ) -> None:
        self.cluster = cluster
        self.http = http
        self.clock = clock
        self.randomness = randomness
        self.timing = timing or Timing()
        self.states: dict[bytes, RunningLink] = {}
        self.granting = Granting(cluster, data_root)
        self.sinks: set[SinkPort] = set()
        self.ended_copies: dict[tuple[str, StreamPath], CopyNumbers] = {}
        self._beginning: set[tuple[bytes, StreamPath]] = set()
        self.contacts = 0
        self.failures = 0
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._timers: dict[bytes, asyncio.TimerHandle] = {}
        self._followed: set[tuple[bytes, int]] = set()
        self._watchers: set[Callable[[], None]] = set()
        self._closed = False

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Run the links there are, and follow changes of their records."""
        self.cluster.links.listen(self._sync)
        self._sync()

    async def close(self) -> None:
        """End all links."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    @property
    def active(self) -> int:
        """Links that want to move data; with none, no Spark is needed."""
        return sum(not state.record.paused for state in self.states.values())

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` when links were added, removed, paused or resumed; answers what ends that."""
        self._watchers.add(watcher)
        return partial(self._watchers.discard, watcher)

    def new_gateways(self) -> Gateways:
        """Calls of the gateways of one destination."""
        return Gateways(self.http, self.clock, self.timing)

    def source(self, link: RunningLink) -> Stream:
        """The link's source stream.

        Raises:
            UnknownStream: it was deleted.
            Damaged: it could not be opened.
        """
        stream = self.cluster.stream_by_id(link.record.source)
        if stream is None:
            damaged = self.cluster.damaged.get(link.record.source_path)
            if damaged is not None:
                raise damaged
            raise UnknownStream(f"stream {link.record.source_path} was deleted")
        return stream

    # ------------------------------------------------------------ records

    def _sync(self) -> None:
        """Bring what runs in line with the records."""
        if self._closed:
            return
        records = {record.id: record for record in self.cluster.links.all()}
        for gone in self.states.keys() - records.keys():
            self._end(gone)
        for record in records.values():
            if record.id in self.states:
                self._changed(self.states[record.id], record)
            else:
                self._begin(record)
        for stream in self.cluster.streams():
            self._tell_upkeep(stream)
        for watcher in list(self._watchers):
            watcher()

    def _begin(self, record: LinkRecord) -> None:
        link = RunningLink(record, Backoff(self.timing, self.randomness), self.new_gateways())
        for other in self._beside(link) if record.once is not None else []:
            link.shares = other.wire_id
            self._withdraw(other, "a copy is made")
            self.restart(other)
        self.states[record.id] = link
        self._tasks[record.id] = asyncio.get_running_loop().create_task(self._drive(link))

    def _end(self, link_id: bytes) -> None:
        link = self.states.pop(link_id)
        self._withdraw(link, "removed")
        self._tasks.pop(link_id).cancel()
        for other in self._beside(link) if link.record.once is not None else []:
            self.restart(other)
        timer = self._timers.pop(link_id, None)
        if timer is not None:
            timer.cancel()

    def _changed(self, link: RunningLink, record: LinkRecord) -> None:
        before, link.record = link.record, record
        if (record.paused, record.rescan, record.replica_urls) == (before.paused, before.rescan, before.replica_urls):
            return
        if record.rescan != before.rescan:
            self._withdraw(link, "rescan", before=before)
            link.forget()
        self.restart(link)

    def restart(self, link: RunningLink) -> None:
        """Pause or resume by the record, also a link that had stopped; felt at once."""
        link.phase = Phase.PAUSED if link.record.paused else Phase.CONTACTING
        if link.record.paused:
            self._withdraw(link, "paused")
        link.error = None
        link.rouse()

    def _beside(self, link: RunningLink) -> list[RunningLink]:
        """Other links of the same source and replica: a standing one, or copies."""
        pair = (link.record.source, link.record.replica_path)
        found = [other for other in self.states.values() if (other.record.source, other.record.replica_path) == pair]
        return [other for other in found if other is not link]

    def _copy_beside(self, link: RunningLink) -> RunningLink | None:
        return next((other for other in self._beside(link) if other.record.once is not None), None)

    # ------------------------------------------------------------ one link

    async def _drive(self, link: RunningLink) -> None:
        while True:
            link.wake.clear()
            link.changed.clear()
            if self._holds_still(link):
                await link.wake.wait()
                continue
            try:
                await self._contact_or_end(link)
            except FairleadError as error:
                self._fail(link, error)
                await self._rest(link)
                continue
            except Exception as error:
                self._break(link, error)
                continue
            await link.wake.wait()
            if link.failed:
                await self._rest(link)

    async def _contact_or_end(self, link: RunningLink) -> None:
        try:
            await self._contact(link)
        except BadRequest as error:
            if link.record.once is not None:
                await self._end_copy(link, error)
            raise

    def _holds_still(self, link: RunningLink) -> bool:
        """Paused, stopped, or a copy to the same replica is under way, which moves the same positions."""
        if link.record.paused:
            link.phase = Phase.PAUSED
        return link.phase in {Phase.PAUSED, Phase.STOPPED} or self._copy_beside(link) is not None

    async def _rest(self, link: RunningLink) -> None:
        """Wait out a back-off; a changed record ends it. A stopped link does not wait here."""
        link.failed = False
        if link.phase is Phase.STOPPED:
            return
        # Before Python 3.12 `wait_for` forgets that it was cancelled if what it waits for has just come.
        with suppress(TimeoutError):
            async with asyncio.timeout(min(link.backoff.next_s(), self._longest_s(link))):
                await link.changed.wait()

    def _longest_s(self, link: RunningLink) -> float:
        """Whoever adds the missing upstream waits for it, so that is looked for more often than a dead site."""
        return self.timing.agreement_s if isinstance(link.error, NotAgreed) else self.timing.backoff_max_s

    async def _contact(self, link: RunningLink) -> None:
        """Ask the destination where it stands, check that it is still the same and so are we, and grant.

        Raises:
            FairleadError: it does not answer, refuses, or one of the two is not what it was.
        """
        record, stream = link.record, self.source(link)
        self.contacts += 1
        known = dict(link.positions)
        answer = await link.gateways.ask(urls_of(self.cluster, record), self.request(link))
        await self._bind(link, answer)
        if self._holds_still(link) or link.record.rescan != record.rescan:
            return
        self._check_history(link, stream, answer)
        self._check_positions(link, known, answer)
        self._learn(link, stream, answer)
        if self._copy_is_done(link):
            await self._finish_copy(link)
            return
        self._follow(stream)
        self._repair(link, stream, answer)
        self.granting.fill(link, stream)

    def request(self, link: RunningLink) -> LinkRequest:
        """What this link says at contact."""
        source = StreamPlace(self.cluster.name, link.record.source_path, link.record.source, tuple(self.cluster.urls))
        return LinkRequest(link.wire_id, source, link.record.replica_path.path, once=link.record.once is not None)

    async def _bind(self, link: RunningLink, answer: LinkAnswer) -> None:
        record = link.record
        if record.replica_stream is None:
            await self.cluster.links.edit(record.id, replica_stream=answer.stream)
        elif record.replica_stream != answer.stream:
            names = f"-path {self._source_path(record)} -replica {record.replica_path}"
            raise StreamChanged(
                f"{record.replica_path} is another stream than the one this link began with; to start with the new one "
                f"run: fairlead stream replica remove {names}, then: fairlead stream replica add {names}"
            )

    def _check_history(self, link: RunningLink, stream: Stream, answer: LinkAnswer) -> None:
        for position in answer.positions:
            known = position.shard < len(stream.shards) and stream.shards[position.shard].log.knows(
                position.epoch_id, position.commit
            )
            if not known:
                raise RolledBack(
                    f"source rolled back: {link.record.replica_path} has applied commits up to {position.commit} that "
                    f"{self._source_path(link.record)} does not have (was it restored from a copy?); to send the whole "
                    f"log again run: fairlead stream replica resume -path {self._source_path(link.record)} "
                    f"-replica {link.record.replica_path} -rescan"
                )

    def _check_positions(self, link: RunningLink, known: Mapping[SliceKey, int], answer: LinkAnswer) -> None:
        """A destination that was restored from a copy has less than it had answered before it was asked (`known`): what
        it says now counts, or it would be sent only what is new, and refuse that or never hear of the rest."""
        found = {(each.shard, each.slice): each.commit for each in answer.positions}
        lost = [key for key, before in known.items() if found.get(key, 0) < before]
        if not lost:
            return
        log.warning("replica has less than it had: restored from a copy?", replica=str(link.record.replica_path))
        self._take_back(link, "the replica has less than it had")
        link.unlearn(lost)

    def _learn(self, link: RunningLink, stream: Stream, answer: LinkAnswer) -> None:
        if link.answer is None:
            link.began_empty = not answer.positions
        link.answer = answer
        link.error = None
        link.phase = Phase.READY
        if not link.undelivered:
            link.backoff.reset()
        for position in answer.positions:
            link.advance(position.shard, {position.slice: position.commit})
        self.granting.runs.seen(position.run for position in answer.positions)
        self._note_passed(link)
        if not link.copy_ends:
            link.copy_ends = tuple(shard.log.end for shard in stream.shards)
            link.copy_bytes = sum(self.granting.pending_bytes(link, stream).values())

    def _fail(self, link: RunningLink, error: FairleadError) -> None:
        self.failures += 1
        self._withdraw(link, code_of(error))
        if link.record.paused:
            return
        # What a person said while the answer was on its way is not answered by it.
        stops = isinstance(error, STOPS) and not link.changed.is_set()
        link.phase = Phase.STOPPED if stops else Phase.FAILED
        if link.error is None or str(link.error) != str(error):
            log.warning("link failed", replica=str(link.record.replica_path), error=str(error), stopped=stops)
        link.error = error

    def _break(self, link: RunningLink, error: Exception) -> None:
        """A bug: the link stops, visibly, and the others go on."""
        log.error("a bug stopped a link", replica=str(link.record.replica_path), exc_info=error)
        self._fail(
            link, FairleadError(f"a bug stopped the link ({type(error).__name__}: {error}); see the server's log")
        )
        link.phase = Phase.STOPPED

    def _withdraw(self, link: RunningLink, reason: str, before: LinkRecord | None = None) -> None:
        """Take all grants of a link back, from readers and sinks. Before it is granted again, `_drive` looks at it."""
        link.wake.set()
        last = self.granting.withdraw(link, reason)
        if last is not None:
            self._tell_sinks(link.wire_id if before is None else wire_id(before), last)
        self._serve_waiting()

    def _take_back(self, link: RunningLink, reason: str) -> None:
        """The same while `_drive` looks at it: it is granted again at once."""
        last = self.granting.withdraw(link, reason)
        if last is not None:
            self._tell_sinks(link.wire_id, last)

    def _tell_sinks(self, known_as: bytes, run: GrantRun) -> None:
        for sink in self.sinks:
            sink.withdraw(WithdrawRun(known_as, run))

    def _source_path(self, record: LinkRecord) -> StreamPath:
        return self.cluster.global_path(record.source_path)

    def _serve_waiting(self) -> None:
        for link in self.states.values():
            if link.phase is Phase.READY and not link.wake.is_set():
                with suppress(UnknownStream, Damaged):
                    self.granting.fill(link, self.source(link))

    def _repair(self, link: RunningLink, stream: Stream, answer: LinkAnswer) -> None:
        behind = [each for each in answer.behind if not each.reason.startswith("conflict")]
        if any(held.repair for held in self.granting.table.of(link.record.id)):
            return
        link.note_behind(answer.behind_total - answer.conflicts_total)
        alone = link.repairs > REPAIRS_BESIDE_TRAFFIC and any(
            each.reason != "crc" and any(shard.state.by_incarnation(each.incarnation) for shard in stream.shards)
            for each in behind
        )
        if alone:
            self._take_back(link, "a repair goes first")
        if behind and not self.granting.repair(link, stream, behind, alone=alone):
            self._later(link, REPAIR_DELAY_MAX_S)

    def _later(self, link: RunningLink, delay_s: float) -> None:
        """Ask the destination again after a while, for what is behind; sooner if that was said before: rows that keep
        being refused must not put it off."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(link.record.id)
        if timer is not None:
            if loop.time() < timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[link.record.id] = loop.call_later(delay_s, link.wake.set)

    # ------------------------------------------------------------ the log

    def _follow(self, stream: Stream) -> None:
        for number, shard in enumerate(stream.shards):
            key = (stream.id, number)
            if key not in self._followed:
                self._followed.add(key)
                shard.add_listener(partial(self._announced, key))

    def _announced(self, key: tuple[bytes, int], announcement: Announcement) -> None:
        if announcement.non_local:
            for port in self.granting.table.ports:
                port.moved(key)

    def _note_passed(self, link: RunningLink) -> None:
        stream = self.cluster.stream_by_id(link.record.source)
        if stream is not None and link.note_passed(len(stream.shards)):
            self._tell_upkeep(stream)

    def _tell_upkeep(self, stream: Stream) -> None:
        """Merging remembers deletions until every link has passed them, also one that is paused or unheard of yet."""
        links = [link for link in self.states.values() if link.record.source == stream.id]
        for number, shard in enumerate(stream.shards):
            passed = [link.passed[number] if link.passed else 0 for link in links]
            shard.log.upkeep.links_passed = min(passed, default=None)

    # ------------------------------------------------------------ copies that end

    def _note_caught_up(self, link: RunningLink) -> None:
        link.note_caught_up()
        self._note_passed(link)
        if link.record.once is not None and self._copy_is_done(link):
            link.wake.set()

    def _copy_is_done(self, link: RunningLink) -> bool:
        once = link.record.once
        if once is None or link.answer is None or link.answer.behind_total > link.answer.conflicts_total:
            return False
        return link.reached(once)

    async def _finish_copy(self, link: RunningLink) -> None:
        """Take back the permission at the destination, then forget the link.

        Its grants go first: who held one would report the end of the permission as a failure.
        """
        self._take_back(link, "the copy is done")
        request = replace(self.request(link), once=link.shares is None)
        await link.gateways.tell(urls_of(self.cluster, link.record), request, "/gateway/copy/end")
        await self._end_copy(link, None)

    async def _end_copy(self, link: RunningLink, error: FairleadError | None) -> None:
        """Remember how a copy ended, for whoever waits for it, and remove its link (which ends this task)."""
        self.ended_copies[link.record.source_path, link.record.replica_path] = CopyNumbers(
            link.counts, error, link.conflicts
        )
        await asyncio.shield(self.cluster.links.remove(link.record.id))
