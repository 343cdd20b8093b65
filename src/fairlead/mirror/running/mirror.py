"""A mirror that runs: all sources, one destination, the books, and what people are told meanwhile.

One process and one event loop: streams, producers and books are tasks of it, what computes goes to threads. Nothing is
recorded that the destination has not acknowledged. At its end it fetches no more, waits for what is under way, writes
the positions, and says what became of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.carrying.engine import Engine, Run
from fairlead.mirror.carrying.local import LocalEngine
from fairlead.mirror.destination import Destination
from fairlead.mirror.lanes import Part, streams_used
from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.patience import insisting
from fairlead.mirror.planning.beginning import names_none
from fairlead.mirror.planning.plan import Planned, TopicPlan
from fairlead.mirror.ports import Cluster, Place
from fairlead.mirror.report import Pace, Say, Tally, topic_lines
from fairlead.mirror.running.alongside import Alongside
from fairlead.mirror.running.dry_run import outlook
from fairlead.mirror.running.emitting import emissions, left_out_at_once
from fairlead.mirror.running.ending import a_last_try, settle, write_moved
from fairlead.mirror.running.holding import Holding
from fairlead.mirror.running.paces import USUAL, Paces
from fairlead.mirror.source import Source
from fairlead.mirror.work import Work
from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import BadRequest, TryAgain
from fairlead.model.shown import few


@dataclass(frozen=True, slots=True)
class Upstream:
    """A source that can be opened."""

    label: str
    open: Callable[[], Awaitable[Cluster]]
    """Raises: TryAgain: it is away."""
    group: str | None
    aliases: Aliases | None = None
    """What MirrorMaker 2 would call it, and the destination."""


class Mirror:
    """One run. `say` gets a line for people."""

    def __init__(
        self,
        options: MirrorOptions,
        name: str,
        upstreams: Sequence[Upstream],
        destination: Cluster,
        clock: Clock,
        randomness: Randomness,
        say: Say,
        paces: Paces = USUAL,
        engine: Engine | None = None,
    ) -> None:
        self.tally = Tally()
        self._options = options
        self._clock = clock
        self._say = say
        self._paces = paces
        self._destination = Destination(destination, name, clock, options.replication)
        self._holding = Holding(self._destination, clock, randomness)
        self._engine = engine or LocalEngine(options.streams, options.queue_records, options.handler)
        self._along = Alongside(destination, options, self.tally, paces, say)
        self._upstreams = upstreams
        self._not_begun = {upstream.label: "it has not begun yet" for upstream in upstreams}
        """Sources that are not mirrored from yet, and why."""
        self._sources: list[Source] = []
        """Those that were opened."""
        self._begun: list[Source] = []
        """Those of them that are mirrored from."""
        self.paused = False
        self.finished = False
        """It has done all that `--once` or `--dry-run` asks for."""
        self._holds = False
        """It is the one process that runs this mirror."""
        self._transactions_failed = 0
        self._work = Work()

    def stop(self) -> None:
        """End in order."""
        self._work.end()

    def pause(self, paused: bool) -> None:
        """Mirror nothing until it is told to go on. It goes on running, so no other process takes over."""
        if paused is not self.paused:
            self.paused = paused
            self._say("paused" if paused else "goes on")
        for source in self._begun:
            source.pause(paused)

    @property
    def sources(self) -> Sequence[Source]:
        """Those that were opened."""
        return self._sources

    @property
    def left(self) -> int:
        """Offsets that are known and not mirrored."""
        return sum(source.behind() for source in self._sources)

    @property
    def equal_from(self) -> Mapping[Part, int | None]:
        """For each partition, from which offset on its records have the source's offsets; None: the last one has
        another, or none is mirrored."""
        return {part: copy.position.equal_from for source in self._sources for part, copy in source.copies.items()}

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, refused or stopped, and with `--once` all else that was to come has come."""
        return self.tally.clean and not (self._options.once and self.tally.failing)

    @property
    def bytes_under_way(self) -> int:
        """Fetched, and not acknowledged."""
        return sum(copy.bytes_under_way for source in self._sources for copy in source.copies.values())

    async def run(self) -> None:
        """Mirror until it is told to stop, or with `--once` until everything is there.

        Raises:
            BadRequest: it cannot begin, or a book is not a mirror's.
            Fenced: another process has taken over.
            TryAgain: with `--once` or `--dry-run`, a cluster does not answer.
        """
        try:
            self._work.spawn(self._carry())
            await self._work.over.wait()
            await self._work.cancel()
            if self._holds:
                await self._end()
            await self._work.until_over()
        finally:
            await self._close()

    # ------------------------------------------------------------ before

    async def _patiently(self, call: Callable[[], Coroutine[Any, Any, Any]], what: str) -> None:
        """A mirror that runs for ever waits for clusters that are away; one that ends does not."""
        if self._options.once or self._options.dry_run:
            await call()
        else:
            await insisting(call, lambda error: self._say(f"{what} is away: {error}"), self._paces.progress)

    async def _open_lanes(self) -> None:
        permit, told = self._holding.confirm, self._failed_transactions
        await self._destination.open_lanes(permit, told, here=self._engine.sends_here)

    def _failed_transactions(self, what: str, count: int) -> None:
        self._say(what)
        self._transactions_failed += count
        if self._transactions_failed:
            failed = f"{self._transactions_failed:,} failed, and were mirrored again; the last: {what}"
            self.tally.notes["transactions"] = failed

    async def _show_plan(self) -> None:
        for upstream in self._upstreams:
            source = await self._opened(upstream)
            topics, planned = await self._planned(source)
            source.claim(topics)
            async for line in outlook(source, topics, planned, self._along):
                self._say(line)

    async def _planned(self, source: Source) -> tuple[TopicPlan, list[Planned]]:
        """As `Source.plan`, and told what of `--from` is for none of it."""
        topics, planned = await source.plan(self._taken(source))
        there = (Place(each.part.topic, each.part.partition) for each in planned)
        if unused := names_none(self._options.begin, there):
            self._say(
                f"{source.label}: partitions of --from's file that are not mirrored from here: {len(unused):,} "
                f"({few(unused)})"
            )
        return topics, planned

    def _taken(self, source: Source) -> Mapping[str, str]:
        """The destination topics of the other sources."""
        others = [other for other in self._sources if other is not source]
        return {topic: other.label for other in others for topic in other.destinations}

    # ------------------------------------------------------------ meanwhile

    async def _carry(self) -> None:
        await self._patiently(self._destination.refresh, "the destination")
        if self._options.exactly_once:
            await self._patiently(self._destination.check_transactions, "the destination")
        if self._options.dry_run:
            await self._destination.read_book()
            await self._show_plan()
            self._finish()
            return
        await self._hold()
        for work in self._kept_up():
            self._work.spawn(work)
        for upstream in self._upstreams:
            try:
                await self._start(upstream)
            except TryAgain as error:
                if self._options.once:
                    raise
                self._not_begun[upstream.label] = str(error)
                self._say(f"{upstream.label} is away: {error}")
                self._work.spawn(self._start_later(upstream))
        if self._options.once:
            await self._until_all_is_there()
            self._finish()

    async def _hold(self) -> None:
        """Become the one that runs this mirror, and open all but the sources."""
        await self._patiently(self._destination.open_books, "the destination")
        await self._patiently(self._destination.read_book, "the destination")
        await self._holding.take(takeover=self._options.takeover)
        self._holds = True
        if self._options.exactly_once:
            await self._patiently(self._open_lanes, "the destination")
        await self._engine.open(Run(self._destination.cluster.id, self._holding.confirm, self._failed_transactions))

    def _kept_up(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What goes on from before the first source is begun to the end."""
        yield self._holding.keep(self._paces.holder)
        if self._destination.lanes is not None:
            yield self._destination.lanes.watch()
        yield from self._engine.work()
        yield self._write_positions()
        yield from self._along.work(self._begun)
        yield self._show_progress()

    async def _opened(self, upstream: Upstream) -> Source:
        for source in self._sources:
            if source.label == upstream.label:
                return source
        cluster = await upstream.open()
        upward = (upstream.label, cluster, upstream.group, upstream.aliases)
        source = Source(*upward, self._destination, self._options, self.tally, self._engine, self._give_up)
        self._sources.append(source)
        return source

    async def _start(self, upstream: Upstream) -> None:
        source = await self._opened(upstream)
        topics, planned = await self._planned(source)
        known, taken = sum(each.known for each in planned), sum(each.taken_over for each in planned)
        taken_over = f" and {taken} where another mirror has ended" if taken else ""
        self._say(
            f"{source.label}: {len(topics.topics)} topics with {len(planned)} partitions match, {known} of them go on "
            f"from their positions{taken_over}; "
            f"{sum(max(each.end - each.begin.offset, 0) for each in planned):,} records to mirror"
        )
        await source.start(topics, planned)
        self._begun.append(source)
        del self._not_begun[upstream.label]
        source.pause(self.paused)
        if (used := streams_used(self._options.streams, len(planned))) < self._options.streams:
            self._say(f"{source.label}: {used} of {self._options.streams} streams have something to do")
        for work in source.work():
            self._work.spawn(work)
        self._work.spawn(self._keep_fresh(source))
        if self._options.once:
            if not_written := left_out_at_once(source, self._options):
                self._say(f"{source.label}: --once writes no {' and no '.join(not_written)}")
            return
        for work in self._along.following(source):
            self._work.spawn(work)
        there, every = self._destination.cluster, self._paces.positions
        for what, work in emissions(source, there, self._options, self._clock, every):
            self._work.spawn(self._unless_refused(work, what))

    async def _start_later(self, upstream: Upstream) -> None:
        while True:
            await asyncio.sleep(self._paces.retry)
            with suppress(TryAgain):
                await self._destination.refresh()
                try:
                    await self._start(upstream)
                    return
                except TryAgain as error:
                    self._not_begun[upstream.label] = str(error)

    async def _keep_fresh(self, source: Source) -> None:
        pause = min(self._paces.topics, self._paces.retry)
        left = self._paces.topics
        while True:
            await asyncio.sleep(pause)
            left -= pause
            await source.keep_fresh(self._taken(source), new=left <= 0)
            if left <= 0:
                left = self._paces.topics

    async def _unless_refused(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """What the records do not depend on: where it is refused, that is told, and they are mirrored."""
        try:
            await work
        except BadRequest as error:
            self.tally.notes[what] = f"none are written: {error}"
            self._say(f"{what}: none are written: {error}")

    async def _write_positions(self) -> None:
        while True:
            await asyncio.sleep(self._paces.positions)
            await write_moved(self._sources)

    async def _show_progress(self) -> None:
        loop = asyncio.get_running_loop()
        pace = Pace(loop.time())
        while True:
            await asyncio.sleep(self._paces.progress)
            self._say(pace.line(self.tally, loop.time(), self.left, self.waits()))
            if self._options.verbose:
                for line in topic_lines(self.tally):
                    self._say(line)

    def waits(self) -> Iterable[str]:
        """What it waits for, if anything is away."""
        if self._destination.down is not None:
            yield f"waits for the destination: {self._destination.down}"
        for label, why in self._not_begun.items():
            yield f"waits for {label}: {why}"
        for source in self._begun:
            if source.down is not None:
                yield f"waits: {source.down}"

    async def _until_all_is_there(self) -> None:
        """With `--once`: the records, and then what goes along with them."""
        for source in self._begun:
            await source.done()
            await self._along.bring_last(source)

    # ------------------------------------------------------------ the end

    def _finish(self) -> None:
        self.finished = True
        self.stop()

    def _give_up(self, why: str) -> None:
        if not self._work.over.is_set():
            self._say(f"ends, as --abort.on.send.failure says: {why}")
            self.stop()

    async def _end(self) -> None:
        groups = partial(self._along.move_groups_once_more, self._begun)
        if not await settle(self._sources, self._paces.drain, groups):
            self.tally.unacknowledged = True
            self._say("the destination has not acknowledged everything; what is missing comes with the next start")
        for label, why in self._not_begun.items():
            self.tally.notes[label] = f"nothing was mirrored from it: {why}"
        await a_last_try(self._holding.release)
        for source in self._begun:
            await self._along.commit(source)

    async def _close(self) -> None:
        await self._work.cancel()
        for source in self._sources:
            await source.close()
        await self._engine.close()
        await self._destination.close()
