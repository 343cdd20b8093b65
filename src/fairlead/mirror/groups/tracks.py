"""What is remembered of the partitions of one source, so that offsets of groups can be translated: written to the
mirror's books with the positions, so that a restart translates too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fairlead.mirror.books.book import Book, BookRecords, Position
from fairlead.mirror.books.points import Barrier, Segment, barrier_record, block_record
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.carrying.standing import Resumed, Standing
from fairlead.mirror.groups.barriers import Barriers
from fairlead.mirror.groups.history import History
from fairlead.mirror.groups.translating import Anchor, anchor_of
from fairlead.mirror.groups.turning import Turn, first_of, turns_of
from fairlead.mirror.lanes import Part, lane_of
from fairlead.mirror.planning.plan import Planned
from fairlead.mirror.ports import Place


def placed(begin: Position, route: Route | None, ends: Mapping[Place, int]) -> Position:
    """Where a partition begins, with where that is at the destination: whatever is sent from now on lies at or behind
    the end. A destination that ends before has lost what the books know of it."""
    end = None if route is None or route.by_key else ends.get(Place(begin.to, route.partition))
    if end is None or 0 <= begin.at <= end:
        return begin
    return replace(begin, at=end, since=begin.offset)


@dataclass(frozen=True, slots=True)
class Track:
    """A partition that keeps its number."""

    standing: Standing
    to: Place
    history: History

    @property
    def comes_again(self) -> Resumed | None:
        """Not None as long as records may lie at the destination that are still to be sent again: then nothing behind
        that place is known for sure."""
        resumed = self.standing.resumed
        return resumed if resumed is not None and self.standing.position.offset < resumed.end else None


@dataclass(slots=True)
class DealtTopic:
    """A topic whose records are dealt to partitions by key."""

    first: Part
    """Its partition 0."""
    to: str
    parts: dict[int, Standing]
    ends: dict[int, int]
    """Where the partitions at the destination ended when they were asked last."""
    barriers: Barriers
    again: dict[int, int] = field(default_factory=dict)
    """Up to where partitions may have been sent by a process of before, which did not record it."""

    def ends_now(self) -> Mapping[int, int]:
        """Where the partitions at the destination end at least."""
        ends = dict(self.ends)
        for standing in self.parts.values():
            for number, end in standing.ends.items():
                ends[number] = max(ends.get(number, 0), end)
        return ends

    def moment(self, ends: Mapping[int, int]) -> Barrier | None:
        """A moment with these ends, which were looked at before the frontiers that are known now; None: a partition is
        not carried, or not all of it is sent that a process of before may have sent."""
        if any(self.parts[number].position.offset < end for number, end in self.again.items()):
            return None
        if any(standing.frontier is None or standing.uncertain for standing in self.parts.values()):
            return None
        count = max(self.parts, default=-1) + 1
        if len(self.parts) < count or not ends:
            return None
        frontiers = tuple(self.parts[number].frontier or 0 for number in range(count))
        return Barrier(frontiers, tuple(ends.get(number, 0) for number in range(max(ends) + 1)))


Ends = Mapping[str, tuple[DealtTopic, Mapping[int, int]]]
"""By the topic at the source: ends of the partitions at the destination."""


def anchor_in(track: Track, offset: int) -> Anchor | None:
    """The nearest place below an offset of a partition; None: nothing is known so far back."""
    again = track.comes_again
    if again is not None and offset >= again.offset:
        return None if again.at < 0 else Anchor(again.offset, again.at, left=False)
    return anchor_of(offset, track.standing.position, track.history)


class News(NamedTuple):
    """What the books lack."""

    blocks: Mapping[Part, Mapping[int, Sequence[Segment] | None]]
    barriers: Mapping[Part, Mapping[int, Barrier | None]]

    @property
    def records(self) -> BookRecords:
        """As records."""
        lanes: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for part, blocks in self.blocks.items():
            records = [block_record(part, number, segments) for number, segments in blocks.items()]
            lanes.setdefault(lane_of(part), []).extend(records)
        for part, barriers in self.barriers.items():
            found = [barrier_record(part, number, barrier) for number, barrier in barriers.items()]
            lanes.setdefault(lane_of(part), []).extend(found)
        return lanes


class Tracks:
    """Of one source."""

    def __init__(self) -> None:
        self.kept: dict[Place, Track] = {}
        """By the partition at the source."""
        self.dealt: dict[str, DealtTopic] = {}
        """By the topic at the source."""
        self.since: dict[str, Sequence[int]] = {}
        """The same: from which offsets on partitions keep their numbers, where the key has dealt what lies before."""
        self._changed: set[Place] = set()
        self._turns: dict[Part, Turn] = {}
        """By the partition 0 of each topic."""
        self._by_key: dict[Part, bool] = {}
        """The same, of topics that were begun: whether the key deals them."""

    def as_begun(self, planned: Planned) -> Planned:
        """A partition that comes later goes as the others of its topic do: what the key deals lies in all partitions,
        so one of them alone says nothing of a group's place."""
        route, by_key = planned.route, self._by_key.get(first_of(planned.part))
        if route is None or by_key in (None, route.by_key):
            return planned
        return replace(planned, route=replace(route, by_key=not route.by_key))

    def turn(self, planned: Iterable[Planned], book: Book, ends: Mapping[Place, int]) -> News:
        """How topics go on of which these partitions begin, if it was not decided before; what the books must say
        before anything of them is sent."""
        planned = [each for each in planned if first_of(each.part) not in self._by_key]
        turns = turns_of(planned, book, ends)
        self._turns.update(turns)
        again = [each.part for each in planned if turns[first_of(each.part)].is_new]
        blocks = {part: dict.fromkeys(book.points[part]) for part in again if part in book.points}
        barriers = {first: turn.barriers.take_changed() for first, turn in turns.items()}
        return News(blocks, {first: found for first, found in barriers.items() if found})

    def begin(
        self, standing: Standing, route: Route, book: Book, ends: Mapping[Place, int], *, fresh: bool = False
    ) -> None:
        """A partition is carried from now on, as the book says, or with `fresh` for the first time; `ends` says where
        those of the destination end."""
        part, to, first = standing.part, standing.to, first_of(standing.part)
        self._by_key[first] = route.by_key
        turn = self._turns.setdefault(first, Turn(Barriers(book.barriers.get(first))))
        if route.by_key:
            self._begin_dealt(standing, turn.barriers, ends, fresh=fresh)
            return
        if turn.since:
            self.since[part.topic] = turn.since
        place, history = Place(part.topic, part.partition), History(None if turn.is_new else book.points.get(part))
        if not fresh:
            known = book.positions.get(part)
            standing.begun_again(known=known is not None and known.at == standing.position.at)
        if fresh:
            history.clear()
            self._changed.add(place)
        self.kept[place] = Track(standing, Place(to, route.partition), history)

    def _begin_dealt(self, standing: Standing, barriers: Barriers, ends: Mapping[Place, int], *, fresh: bool) -> None:
        part, first = standing.part, first_of(standing.part)
        topic = self.dealt.get(part.topic)
        if topic is None or topic.first != first:
            topic = DealtTopic(first, standing.to, {}, {}, barriers)
            self.dealt[part.topic] = topic
        topic.parts[part.partition] = standing
        if not fresh:
            topic.again[part.partition] = standing.end
        topic.ends |= {place.partition: end for place, end in ends.items() if place.topic == standing.to}

    def lose(self, part: Part) -> None:
        """It is carried no more."""
        self.kept.pop(Place(part.topic, part.partition), None)
        self.dealt.pop(part.topic, None)
        self.since.pop(part.topic, None)

    def heard(self, moved: Iterable[Standing]) -> None:
        """Some have moved: what they have found is remembered."""
        for standing in moved:
            place = Place(standing.part.topic, standing.part.partition)
            track = self.kept.get(place)
            if track is not None and track.standing is standing:
                for segment in standing.take_kept():
                    track.history.add(segment)
                    self._changed.add(place)

    def ends_now(self) -> Ends:
        """Where topics end at the destination that are dealt by key."""
        return {name: (topic, topic.ends_now()) for name, topic in self.dealt.items()}

    def remember(self, ends: Ends) -> None:
        """A moment of each topic that is dealt by key; all that is known of frontiers was found out after `ends`."""
        for name, (topic, its) in ends.items():
            barrier = topic.moment(its) if self.dealt.get(name) is topic else None
            if barrier is not None:
                topic.barriers.add(barrier)

    def comes_again(self, standing: Standing, end: int) -> None:
        """Who carried it before may have sent it up to `end`, where the source ends, without having told it."""
        if standing.resumed is not None:
            standing.resumed = standing.resumed._replace(end=max(standing.resumed.end, end))
        topic = self.dealt.get(standing.part.topic)
        if topic is not None and topic.parts.get(standing.part.partition) is standing:
            topic.again[standing.part.partition] = end

    def take_news(self) -> News:
        """What the books lack, which the caller writes."""
        changed, self._changed = self._changed, set()
        tracks = [self.kept[place] for place in changed if place in self.kept]
        blocks = {track.standing.part: track.history.take_changed() for track in tracks}
        barriers = {topic.first: topic.barriers.take_changed() for topic in self.dealt.values()}
        return News(blocks, {part: found for part, found in barriers.items() if found})

    def give_back(self, news: News) -> None:
        """It was not written."""
        for part, blocks in news.blocks.items():
            place = Place(part.topic, part.partition)
            track = self.kept.get(place)
            if track is not None and track.standing.part == part:
                track.history.give_back(blocks)
                self._changed.add(place)
        for part, barriers in news.barriers.items():
            topic = self.dealt.get(part.topic)
            if topic is not None and topic.first == part:
                topic.barriers.give_back(barriers)
