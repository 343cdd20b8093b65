"""A cluster that is mirrored from: which of its topics, where each begins, how far it is.

A partition that cannot keep what was asked for stands still with its reason, and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.books.book import Book, Position
from fairlead.mirror.books.origins import Origins
from fairlead.mirror.carrying.engine import Engine, Load, Way
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.destination import Destination
from fairlead.mirror.following.topics import Topics
from fairlead.mirror.groups.syncing import GroupSync
from fairlead.mirror.groups.tracks import Tracks, placed
from fairlead.mirror.lanes import Part
from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.planning.plan import Planned, PlannedTopic, TopicPlan, plan_partitions, plan_topics
from fairlead.mirror.planning.returning import Returning
from fairlead.mirror.ports import LATEST, Answer, Cluster, Place, Topic
from fairlead.mirror.report import Tally
from fairlead.mirror.settling import Settling
from fairlead.mirror.whence import EARLIEST, From
from fairlead.model.errors import NotFound, TryAgain, UnknownTopic


class Source:
    """One `--consumer.config`."""

    def __init__(
        self,
        label: str,
        cluster: Cluster,
        group: str | None,
        aliases: Aliases | None,
        destination: Destination,
        options: MirrorOptions,
        tally: Tally,
        engine: Engine,
        give_up: Callable[[str], None],
    ) -> None:
        """`give_up` is told why the whole mirror is to end."""
        self.label = label
        self.cluster = cluster
        self.group = group
        self.aliases = aliases
        self.trouble: str | None = None
        """Why the last look at its topics failed, if it did."""
        self.copies: dict[Part, Standing] = {}
        self.until: dict[Part, int] = {}
        """With `--once`: where each partition ends."""
        self._destination = destination
        self._options = options
        self._tally = tally
        self._give_up = give_up
        self._origins = Origins(cluster, destination.cluster.id)
        self._returning = Returning(cluster, destination.cluster.id)
        both = cluster, destination
        self._topics = Topics(*both, self._origins, self._returning, options.follows.copied, tally)
        self._carrier = engine.carrier(Way(label, cluster, self._origins, destination, tally, self._heard, self._worry))
        self._known: dict[str, Topic] = {}
        self._names: dict[str, str] = {}
        """Source topic → destination topic of what is mirrored."""
        self._never_begun: set[Part] = set()
        self._late: dict[str, set[Part]] = {}
        """Topics that could not be begun when they were to be, or these partitions of them."""
        self._taken_over: dict[Part, int] = {}
        """Where another mirror has ended, of what could not be begun when this one began."""
        self._past: dict[Part, Position] = {}
        """How far topics were mirrored that are gone since."""
        self._changed: set[Standing] = set()
        self._settling = Settling(cluster, self._carrier, self.copies, options.goes_on, tally)
        self._tracks = Tracks()
        self.groups = GroupSync(
            *(cluster, group, self._origins, self._tracks, destination, options.groups, tally.groups_of(label)),
            self._find_out,
            countable=options.handler is None,
            checkpoints=aliases.checkpoints_topic if aliases and options.groups.checkpoints else None,
        )
        self._moved = asyncio.Event()

    # ------------------------------------------------------------ what is mirrored

    async def plan(self, taken: Mapping[str, str]) -> tuple[TopicPlan, list[Planned]]:
        """What would be mirrored, without a change of anything. Raises: BadRequest, TryAgain."""
        there = await self._look()
        topics = self._plan_topics(there, taken, self._options.begin)
        numbers = {topic.source.name: range(topic.source.partitions) for topic in topics.topics}
        return topics, await plan_partitions(
            self.cluster,
            self._destination.cluster,
            topics.topics,
            self._options,
            self._destination.book,
            self.group,
            numbers,
            self._options.begin,
        )

    async def _look(self) -> Mapping[str, Topic]:
        """The source's topics, and where they come from."""
        there = await self.cluster.topics(None)
        await self._origins.refresh()
        chosen = self._options.chosen.among(name for name, topic in there.items() if not topic.internal)
        await self._returning.look([there[name] for name in chosen])
        self.groups.look(list(there))
        return there

    def claim(self, plan: TopicPlan) -> None:
        """From now on no other source may write the topics of this plan."""
        self._names.update({topic.source.name: topic.to for topic in plan.topics})

    def _plan_topics(self, there: Mapping[str, Topic], taken: Mapping[str, str], begin: From) -> TopicPlan:
        here = self._destination.topics
        options, book = self._options, self._book()
        looping = self._origins.looping
        to = self._destination.cluster.id
        known, made, aliases = self._returning, self._topics.made, self.aliases
        return plan_topics(self.cluster, there, here, to, options, book, taken, looping, known, aliases, begin, made)

    async def start(self, topics: TopicPlan, planned: Sequence[Planned]) -> None:
        """Make the topics and begin to mirror. Where it could not, it may be called again.

        Raises:
            NotAllowed: the group has members.
            BadRequest, TryAgain
        """
        self._note_others(topics)
        self.claim(topics)
        with _as_of_a_look():
            # Before all else: a group with members is somebody else's, maybe a MirrorMaker that still runs.
            await self._commit({each.part: each.begin for each in planned if each.stop is None and each.route})
            ready = await self._topics.ready(topics.topics)
            await self._carrier.open()
            names = {topic.source.name for topic in ready}
            self._late = {topic.source.name: set() for topic in topics.topics if topic.source.name not in names}
            waits = (each for each in planned if each.is_later or each.part.topic not in names)
            self._taken_over = {each.part: each.begin.offset for each in waits if each.taken_over}
            await self._begin(ready, [each for each in planned if each.part.topic in names])

    async def _begin(self, topics: Sequence[PlannedTopic], planned: Sequence[Planned]) -> None:
        later, planned = [x for x in planned if x.is_later], [x for x in planned if not x.is_later]
        limits = await self._destination.limits([topic.to for topic in topics])
        ends = await self._ends(topics)
        planned = [self._tracks.as_begun(each) for each in planned]
        planned = [replace(each, begin=placed(each.begin, each.route, ends)) for each in planned]
        fresh = {each.part: each.begin for each in planned if not each.known and each.stop is None}
        recorded = self._book().positions
        # Before anything is fetched: whoever began at the end goes on from there, also if nothing came until a restart.
        await self._destination.begin(fresh)
        carried = [each for each in planned if each.stop is None and each.route is not None]
        await self._destination.write_positions({}, self._tracks.turn(carried, self._book(), ends).records)
        self._topics.begun(topics)
        # Nothing is awaited from here on: what is known is begun, and what could not be is planned again the next time.
        self._known.update({topic.source.name: topic.source for topic in topics})
        were_late = set[Part]().union(*(self._late.pop(topic.source.name, ()) for topic in topics))
        self._begin_later(later)
        for each in planned:
            if each.part in were_late:
                self._tally.goes_on(str(each.part))
            self.until[each.part] = each.end
            if each.stop is not None or each.route is None:
                self._stand_still(each)
                continue
            known = recorded.get(each.part)
            offset = -1 if known is None else known.offset
            load = Load(each.part, each.to, each.route, limits[each.to], each.begin, each.end, offset)
            copy = self.copies[each.part] = self._carrier.take(load)
            self._tracks.begin(copy, each.route, self._destination.book, ends, fresh=not each.known)

    def _begin_later(self, planned: Iterable[Planned]) -> None:
        """They are planned again with the next look at the topics."""
        for each in planned:
            self._late.setdefault(each.part.topic, set()).add(each.part)
            self._tally.stopped(each.part, each.stop or "")

    def _stand_still(self, each: Planned) -> None:
        """From the start, for a reason that does not pass."""
        self._never_begun.add(each.part)
        standing = self.copies[each.part] = Standing(each.part, each.to, each.begin, self._tally, self._heard, each.end)
        standing.stop(each.stop or "")

    async def _ends(self, topics: Iterable[PlannedTopic]) -> Mapping[Place, int]:
        """Where the topics end at the destination; nothing of partitions that cannot be asked for that now."""
        made = {Place(topic.to, number): 0 for topic in topics if topic.makes for number in range(topic.partitions)}
        others = [Place(topic.to, number) for topic in topics if not topic.makes for number in range(topic.partitions)]
        with suppress(TryAgain, NotFound):  # another broker may not have heard of new partitions yet
            return {**made, **(await self._destination.cluster.offsets(others, LATEST) if others else {})}
        return made

    def _note_others(self, plan: TopicPlan) -> None:
        for topic, why in plan.refused.items():
            self._tally.stopped(f"topic {topic}", why)
        self._tally.notes.update({f"topic {topic}": why for topic, why in plan.left_out.items()})

    # ------------------------------------------------------------ what changes meanwhile

    async def _refresh(self, taken: Mapping[str, str], *, new: bool) -> None:
        there = await self._look()
        plan = self._plan_topics(there, taken, EARLIEST)
        if new:
            self._note_others(plan)
            self.claim(plan)
        await self._lose_deleted(there)
        self._find_again(there)
        there_still = {topic.source.name for topic in plan.topics}
        self._late = {name: parts for name, parts in self._late.items() if name in there_still}
        wanted = [topic for topic in plan.topics if new or topic.source.name in self._late]
        numbers = {topic.source.name: self._new_numbers(topic) for topic in wanted}
        wanted = [topic for topic in wanted if numbers[topic.source.name]]
        fresh = await self._topics.ready(wanted)
        refused = {topic.source.name for topic in wanted} - {topic.source.name for topic in fresh}
        self._late |= {name: set() for name in refused if name not in self._late}
        if not fresh:
            return
        book, group = self._book(), self.group
        here = self._destination.cluster
        planned = await plan_partitions(self.cluster, here, fresh, self._options, book, group, numbers, EARLIEST)
        await self._begin(fresh, [self._where_another_ended(each) for each in planned])

    def _where_another_ended(self, each: Planned) -> Planned:
        """Though it begins late."""
        offset = self._taken_over.get(each.part)
        if offset is None or each.known or each.is_later:
            return each
        return replace(each, begin=replace(each.begin, offset=offset), taken_over=True)

    def _book(self) -> Book:
        """The books as they were read, and what has moved since."""
        book = self._destination.book
        begun = {part: copy.position for part, copy in self.copies.items()}
        return replace(book, positions={**book.positions, **self._past, **begun})

    def _new_numbers(self, topic: PlannedTopic) -> Sequence[int]:
        """The partitions of a topic that are not mirrored yet."""
        name, topic_id = topic.source.name, topic.source.topic_id
        known = self._known.get(name)
        if name not in self._late and known is not None and known.topic_id == topic_id:
            return range(known.partitions, topic.source.partitions)
        parts = (Part(self.cluster.id, topic_id, name, number) for number in range(topic.source.partitions))
        return [part.partition for part in parts if part not in self.copies]

    async def _lose_deleted(self, there: Mapping[str, Topic]) -> None:
        """Topics that are gone, or were made again: what was not mirrored is lost, and is said."""
        for name, known in list(self._known.items()):
            found = there.get(name)
            if found is not None and found.topic_id == known.topic_id:
                continue
            del self._known[name]
            for part, copy in list(self.copies.items()):
                if (part.topic, part.topic_id) == (name, known.topic_id):
                    await self._lose(part, copy)

    def _find_again(self, there: Mapping[str, Topic]) -> None:
        """Partitions whose topic is there all the same, and the same one, go on."""
        for copy in self._settling.take_missed():
            part = copy.part
            found = there.get(part.topic)
            same = found is not None and found.topic_id == part.topic_id
            if same and copy.stopped is None and self.copies.get(part) is copy:
                self._carrier.resume(copy)

    async def _lose(self, part: Part, copy: Standing) -> None:
        self._tally.notes[part.topic] = "it was deleted at the source"
        await self._carrier.leave(copy)
        left = copy.end - copy.position.offset - copy.records_under_way
        if left > 0 and copy.stopped is None:
            copy.stop(f"the topic was deleted at the source, and up to {left:,} records of it were not mirrored")
        self._past[part] = copy.position
        self._tracks.lose(part)
        del self.copies[part]
        self._moved.set()

    async def _look_for_losses(self) -> None:
        """What is gone of that for which an end would wait. Raises: TryAgain."""
        there = await self.cluster.topics(None)
        await self._lose_deleted(there)
        self._find_again(there)
        missing = {Place(part.topic, part.partition): copy for part, copy in self.copies.items() if self._lacks(copy)}
        with suppress(NotFound):  # its topic was made again meanwhile: the next look says so
            for place, end in (await self.cluster.offsets(missing, LATEST) if missing else {}).items():
                self._lose_end(missing[place], end)

    def _lacks(self, copy: Standing) -> bool:
        """Whether an end waits for it."""
        part = copy.part
        is_carried = self.copies.get(part) is copy and copy.stopped is None
        return is_carried and copy.position.offset < self.until[part]

    def _lose_end(self, copy: Standing, end: int) -> None:
        """The source's partition ends at `end` now. It does not go back as long as the source loses nothing."""
        until = self.until[copy.part]
        if self._lacks(copy) and copy.position.offset == end:
            self._tally.lost_offsets += until - end
            gone = f"offsets {end} to {until - 1} were gone at the source before they were mirrored"
            copy.stop(f"{gone}: its log ends at {end} now")

    @property
    def carried(self) -> Mapping[str, str]:
        """Source topic → destination topic of what is mirrored now."""
        return {name: self._names[name] for name in self._known if name in self._names}

    # ------------------------------------------------------------ how far it is

    async def _worry(self, copy: Standing, offset: int, answer: Answer) -> None:
        self._settling.spawn(copy, offset, answer)

    async def _find_out(self) -> bool:
        """Find out how far partitions are that others carry, and what of them may come again; whether all was found."""
        found = not self._tracks.dealt or await self._carrier.look()
        lost = [copy for copy in self.copies.values() if copy.uncertain]
        if lost:
            await self._ask_what_comes_again(lost)
        return found

    async def _ask_what_comes_again(self, lost: Sequence[Standing]) -> None:
        for copy in lost:
            copy.uncertain = False  # if one is lost while it is asked, it is asked again
        try:
            ends = await self.cluster.offsets([Place(each.part.topic, each.part.partition) for each in lost], LATEST)
        except BaseException:
            for copy in lost:
                copy.uncertain = True
            raise
        for copy in lost:
            self._tracks.comes_again(copy, ends[Place(copy.part.topic, copy.part.partition)])

    def _heard(self, copy: Standing) -> None:
        self._changed.add(copy)
        self._moved.set()
        if copy.refused and self._options.aborts:
            self._give_up(f"{copy.part}: {copy.stopped}")

    async def record(self) -> None:
        """Write the positions that have moved, and wait until they are durable."""
        changed, self._changed = self._changed, set()
        moved = [(copy, copy.position) for copy in changed if copy.position != copy.recorded]
        self._tracks.heard(changed)
        news = self._tracks.take_news()
        try:
            await self._destination.write_positions({copy.part: position for copy, position in moved}, news.records)
        except BaseException:
            self._changed |= changed  # whoever was cut off has written nothing for sure
            self._tracks.give_back(news)
            raise
        for copy, position in moved:
            copy.recorded = position

    async def commit(self) -> None:
        """Tell the source's group where the mirror stands, for people who look at its lag there.

        Raises:
            BadRequest: the group has members, or takes no commit of ours.
            TryAgain
        """
        begun = {part: copy.position for part, copy in self.copies.items() if part not in self._never_begun}
        with suppress(UnknownTopic):  # the others are committed, and the next look says what became of that one
            await self._commit(begun)

    async def _commit(self, positions: Mapping[Part, Position]) -> None:
        offsets = {Place(part.topic, part.partition): (at.offset, at.epoch) for part, at in positions.items()}
        if self.group is not None and offsets:
            await self.cluster.commit(self.group, offsets)

    # ------------------------------------------------------------ running

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What runs for as long as it is mirrored from."""
        return [*self._carrier.work(), self._settling.work()]

    def pause(self, paused: bool) -> None:
        """Hand nothing on until it is told to go on."""
        self._carrier.pause(paused)

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        return self._carrier.down or self.trouble

    @property
    def destinations(self) -> Iterable[str]:
        """The destination topics that it writes."""
        return self._names.values()

    def behind(self) -> int:
        """Offsets that are not mirrored yet, as far as is known."""
        return sum(max(copy.end - copy.position.offset, 0) for copy in self.copies.values())

    async def done(self) -> None:
        """With `--once`: wait until everything that was there at the start is mirrored, stands still or is lost."""
        for copy in list(self.copies.values()):
            while self._lacks(copy):
                await self._move()

    async def keep_fresh(self, taken: Mapping[str, str], *, new: bool) -> None:
        """One look at the topics of both clusters; what is away now is told, and tried again the next time. What is not
        `new` was to be mirrored before: with nothing of that left, nobody is asked. With `--once` nothing is begun."""
        try:
            if self._options.once:
                await self._look_for_losses()
            elif new or self._late or self._settling.missed:
                await self._destination.refresh()
                with _as_of_a_look():
                    await self._refresh(taken, new=new)
            self.trouble = None
        except TryAgain as error:
            self.trouble = f"{self.label}: {error}"

    async def drain(self) -> None:
        """Wait until what is under way is acknowledged; its work has ended."""
        await self._settling.cancel()
        await self._carrier.drain()

    async def _move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def close(self) -> None:
        """End."""
        await self._settling.cancel()
        await self._carrier.close()
        await self.cluster.close()


@contextmanager
def _as_of_a_look() -> Iterator[None]:
    """What is done by a look at the topics: one that has gone since is no reason to end, but to look again.

    Raises:
        TryAgain
    """
    try:
        yield
    except NotFound as error:
        raise TryAgain(str(error)) from error
