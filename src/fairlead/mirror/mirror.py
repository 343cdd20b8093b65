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
from fairlead.mirror.books.heartbeats import beat
from fairlead.mirror.carrying.engine import Engine, Run
from fairlead.mirror.carrying.local import LocalEngine
from fairlead.mirror.destination import Destination
from fairlead.mirror.following.acls import Acls
from fairlead.mirror.following.settings import Settings, shown
from fairlead.mirror.holding import Holding
from fairlead.mirror.lanes import Part
from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.patience import PAUSE_SECONDS, insisting
from fairlead.mirror.planning import Planned, TopicPlan
from fairlead.mirror.ports import Cluster
from fairlead.mirror.report import Pace, Tally, topic_lines
from fairlead.mirror.source import Source
from fairlead.mirror.syncing import write_syncs
from fairlead.model.clock import Clock, Randomness
from fairlead.model.errors import BadRequest, TryAgain

Say = Callable[[str], None]
Follow = Callable[[Mapping[str, str]], Awaitable[None]]
"""Brings what has changed of topics: source → destination."""
_FOLLOWING = 20
"""So many times as long as a look takes, is the pause behind it at least."""
_LAST_MOVE_SECONDS = 5.0
_LAST_WRITE_SECONDS = 5.0
"""An end tries for so long to write positions, and then that it ends, whatever was acknowledged before."""
_LAST_TRIES = 3
"""With `--once`: of what goes along with the records."""
GROUPS_SHOWN_MAX = 100
"""Names of groups in a dry run; beyond that only their number."""


@dataclass(frozen=True, slots=True)
class Paces:
    """How often, in seconds."""

    positions: float = 1.0
    commits: float = 5.0
    groups: float = 5.0
    topics: float = 10.0
    """Looks for new topics and partitions."""
    retry: float = 10.0
    """Until what could not be begun or found is tried again, whether new topics are looked for or not."""
    progress: float = 5.0
    holder: float = 10.0
    drain: float = 30.0
    """How long an end waits for acknowledgements."""


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
        paces: Paces = Paces(),
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
        self._upstreams = upstreams
        self._sources: list[Source] = []
        """Those that were opened."""
        self._begun: list[Source] = []
        """Those of them that are mirrored from."""
        self.paused = False
        self._told: set[str] = set()
        self.finished = False
        """It has done all that `--once` or `--dry-run` asks for."""
        self._holds = False
        """It is the one process that runs this mirror."""
        self._transactions_failed = 0
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None

    def stop(self) -> None:
        """End in order."""
        self._stop.set()

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
            self._spawn(self._carry())
            await self._stop.wait()
            await self._cancel_tasks()
            if self._holds:
                await self._end()
            if self._failed is not None:
                raise self._failed
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
            topics, planned = await source.plan(self._taken(source))
            source.claim(topics)
            self._say_plan(source, topics, planned)
            await self._say_groups(source)
            await self._say_changes(source, topics)

    def _say_plan(self, source: Source, topics: TopicPlan, planned: Sequence[Planned]) -> None:
        self._say(f"{source.label}: {len(topics.topics)} topics with {len(planned)} partitions")
        for topic in topics.topics:
            made = ", to be made" if topic.makes else ", gets more partitions" if topic.grows else ""
            self._say(f"  {topic.source.name} → {topic.to} ({topic.partitions} partitions{made})")
        for each in planned:
            where = "position" if each.known else "taken over" if each.taken_over else "new"
            left = max(each.end - each.begin.offset, 0)
            stop = f"; STOPS: {each.stop}" if each.stop else ""
            self._say(f"  {each.part}: from {each.begin.offset} ({where}), {left:,} to mirror{stop}")
        for topic_name, why in sorted({**topics.refused, **topics.left_out}.items()):
            self._say(f"  {topic_name}: not mirrored: {why}")

    async def _say_groups(self, source: Source) -> None:
        if source.groups.wanted:
            names = list(await source.groups.matching())
            more = f" and {len(names) - GROUPS_SHOWN_MAX} more" if len(names) > GROUPS_SHOWN_MAX else ""
            shown = ", ".join(names[:GROUPS_SHOWN_MAX]) + more
            self._say(f"  {len(names)} groups go along{': ' if names else ''}{shown}")

    async def _say_changes(self, source: Source, plan: TopicPlan) -> None:
        follows = self._options.follows
        topics = {each.source.name: each.to for each in plan.topics}
        if follows.settings:
            there = {each.source.name: each.to for each in plan.topics if not each.makes}
            for to, changes in (await self._settings_of(source).differences(there)).items():
                for line in shown(to, changes):
                    self._say(f"  {line}")
        if follows.acls:
            try:
                missing = await self._acls_of(source).missing(topics)
            except BadRequest as error:  # as while it runs: the rest goes on
                self._say(f"  ACLs of topics do not follow: {error}")
            else:
                self._say(f"  {len(missing)} ACLs to be added")

    def _settings_of(self, source: Source) -> Settings:
        there, here, copied = source.cluster, self._destination.cluster, self._options.follows.copied
        return Settings(there, here, copied, self.tally, self._tell)

    def _acls_of(self, source: Source) -> Acls:
        there, here = source.cluster, self._destination.cluster
        return Acls(there, here, self.tally, lambda line: self._tell(f"{source.label}, {line}"))

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
            self._spawn(work)
        for upstream in self._upstreams:
            try:
                await self._start(upstream)
            except TryAgain as error:
                if self._options.once:
                    raise
                self._say(f"{upstream.label} is away: {error}")
                self._spawn(self._start_later(upstream))
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
        yield self._commit_groups()
        yield self._move_groups()
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
        topics, planned = await source.plan(self._taken(source))
        known, taken = sum(each.known for each in planned), sum(each.taken_over for each in planned)
        taken_over = f" and {taken} where another mirror has ended" if taken else ""
        self._say(
            f"{source.label}: {len(topics.topics)} topics with {len(planned)} partitions match, {known} of them go on "
            f"from their positions{taken_over}; "
            f"{sum(max(each.end - each.begin.offset, 0) for each in planned):,} records to mirror"
        )
        await source.start(topics, planned)
        self._begun.append(source)
        source.pause(self.paused)
        if source.workers < self._options.streams:
            self._say(f"{source.label}: {source.workers} of {self._options.streams} streams have something to do")
        for work in source.work():
            self._spawn(work)
        self._spawn(self._keep_fresh(source))
        if self._options.once:
            self._say_what_is_not_written(source)
            return
        for what, follow in self._followers(source).items():
            self._spawn(self._follow(source, follow, what))
        self._emit_heartbeats(source)
        self._emit_offset_syncs(source)

    async def _start_later(self, upstream: Upstream) -> None:
        while True:
            await asyncio.sleep(self._paces.retry)
            with suppress(TryAgain):
                await self._destination.refresh()
                await self._start(upstream)
                return

    async def _keep_fresh(self, source: Source) -> None:
        pause = min(self._paces.topics, self._paces.retry)
        left = self._paces.topics
        while True:
            await asyncio.sleep(pause)
            left -= pause
            await source.keep_fresh(self._taken(source), new=left <= 0)
            if left <= 0:
                left = self._paces.topics

    def _say_what_is_not_written(self, source: Source) -> None:
        """What MirrorMaker 2's tools read is of use only while a mirror goes on."""
        asked = {"heartbeats": self._options.heartbeats, "offset syncs": self._options.offset_syncs}
        named = [what for what, options in asked.items() if options is not None and source.aliases is not None]
        if named:
            self._say(f"{source.label}: --once writes no {' and no '.join(named)}")

    def _emit_heartbeats(self, source: Source) -> None:
        heartbeats, aliases = self._options.heartbeats, source.aliases
        if heartbeats is None or aliases is None:
            return
        ends = {"source": (source.cluster, aliases.target, aliases.source)} if heartbeats.at_source else {}
        if heartbeats.at_target:
            ends["destination"] = (self._destination.cluster, aliases.source, aliases.target)
        for end, (cluster, origin, target) in ends.items():
            work = beat(cluster, origin, target, self._clock, heartbeats.seconds, heartbeats.replication)
            self._spawn(self._unless_refused(work, f"heartbeats at the {end} ({source.label})"))

    def _emit_offset_syncs(self, source: Source) -> None:
        asked, aliases = self._options.offset_syncs, source.aliases
        if asked is None or aliases is None:
            return
        what = f"offset syncs ({source.label})"
        work = write_syncs(source, self._destination.cluster, aliases, asked, self._clock, self._paces.positions)
        self._spawn(self._unless_refused(work, what))

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
            await self._write_moved()

    async def _write_moved(self) -> None:
        for source in self._sources:
            await source.record()

    async def _commit_groups(self) -> None:
        while True:
            await asyncio.sleep(self._paces.commits)
            for source in self._begun:
                await self._commit(source)

    async def _commit(self, source: Source) -> None:
        await self._brought(f"{source.label}, the offsets of group {source.group} there", source.commit)

    async def _move_groups(self) -> None:
        while True:
            await asyncio.sleep(self._paces.groups)
            for source in self._begun:
                await self._move_groups_of(source)

    async def _move_groups_of(self, source: Source) -> bool:
        """Whether all of them are where they belong."""
        if not source.groups.wanted:
            return True
        return await self._brought(f"{source.label}, consumer groups", source.groups.round)

    async def _brought(self, what: str, bring: Callable[[], Awaitable[Sequence[str] | None]]) -> bool:
        """Bring what goes along with the records, and which are mirrored without it all the same; whether nothing of it
        has failed. `bring` says of what has. All of that is said when it is new."""
        try:
            reasons = await bring() or ()
        except (BadRequest, TryAgain) as error:
            reasons = (str(error),)
        before = {*self.tally.failing.pop(what, ())}
        if reasons:
            self.tally.failing[what] = reasons
        for why in reasons:
            if why not in before:
                self._say(f"{what}: {why}")
        return not reasons

    def _followers(self, source: Source) -> Mapping[str, Follow]:
        found: dict[str, Follow] = {}
        if self._options.follows.settings:
            found["settings of topics"] = self._settings_of(source).round
        if self._options.follows.acls:
            found["ACLs of topics"] = self._acls_of(source).round
        return found

    async def _follow(self, source: Source, follow: Follow, what: str) -> None:
        """Bring again and again what has changed of topics, so seldom that it takes a twentieth of the time at most."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._followed(source, follow, what)
            await asyncio.sleep(max(self._paces.topics, _FOLLOWING * (loop.time() - began)))

    async def _followed(self, source: Source, follow: Follow, what: str) -> bool:
        return await self._brought(f"{source.label}, {what} do not follow", lambda: follow(source.carried))

    async def _move_groups_once_more(self) -> None:
        """For those whose records came last; a source that is away now does not hold up the end."""
        try:
            async with asyncio.timeout(_LAST_MOVE_SECONDS):
                for source in self._begun:
                    await self._move_groups_of(source)
        except TimeoutError:
            self._say(
                f"consumer groups: not all could be moved in {_LAST_MOVE_SECONDS:g} s; they are with the next start"
            )

    def _tell(self, line: str) -> None:
        """Say what goes on as it is and would be said again and again, once."""
        if line not in self._told:
            self._told.add(line)
            self._say(line)

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
        for source in self._sources:
            if source.down is not None:
                yield f"waits: {source.down}"

    async def _until_all_is_there(self) -> None:
        """With `--once`: the records, and then what goes along with them."""
        for source in self._begun:
            await source.done()
            for what, follow in self._followers(source).items():
                await self._bring_last(partial(self._followed, source, follow, what))
            await self._bring_last(partial(self._move_groups_of, source))

    async def _bring_last(self, bring: Callable[[], Awaitable[bool]]) -> None:
        """What passes by itself has passed with one of these tries, or the run has failed."""
        for _ in range(_LAST_TRIES):
            if await bring():
                return
            await asyncio.sleep(min(PAUSE_SECONDS, self._paces.retry))

    # ------------------------------------------------------------ the end

    def _finish(self) -> None:
        self.finished = True
        self.stop()

    def _give_up(self, why: str) -> None:
        if not self._stop.is_set():
            self._say(f"ends, as --abort.on.send.failure says: {why}")
            self.stop()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = self._failed or error
            self.stop()

    async def _end(self) -> None:
        in_time = await _within(self._paces.drain, self._drain)
        if in_time:
            await self._move_groups_once_more()
        written = await _within(_LAST_WRITE_SECONDS, self._write_moved)
        if not (in_time and written) or self._is_under_way:
            self.tally.unacknowledged = True
            self._say("the destination has not acknowledged everything; what is missing comes with the next start")
        await _within(_LAST_WRITE_SECONDS, self._holding.release)
        for source in self._begun:
            await self._commit(source)

    async def _drain(self) -> None:
        for source in self._sources:
            await source.drain()
        await self._write_moved()

    @property
    def _is_under_way(self) -> bool:
        """Whether anything is that did not stop for a reason of its own."""
        copies = (copy for source in self._sources for copy in source.copies.values())
        return any(copy.bytes_under_way and copy.stopped is None for copy in copies)

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _close(self) -> None:
        await self._cancel_tasks()
        for source in self._sources:
            await source.close()
        await self._engine.close()
        await self._destination.close()


async def _within(seconds: float, work: Callable[[], Awaitable[None]]) -> bool:
    """Whether it came to its end in that time."""
    try:
        async with asyncio.timeout(seconds):
            await work()
    except TimeoutError:
        return False
    return True
