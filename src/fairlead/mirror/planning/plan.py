"""What a mirror is going to do with the topics of one source, before it does it: `--dry-run` shows it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.books.book import Book, Position
from fairlead.mirror.carrying.making import Route, route_of
from fairlead.mirror.lanes import Part
from fairlead.mirror.names import destinations
from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.planning.beginning import begins
from fairlead.mirror.planning.returning import Returning
from fairlead.mirror.ports import EARLIEST, LATEST, Cluster, Place, Topic
from fairlead.mirror.whence import From
from fairlead.model.errors import BadRequest, FairleadError, TryAgain

_TWICE: Final = (
    "it was taken over from {} of the destination, which has its records, so they would be there twice: start the "
    "mirror anew with --from latest to mirror what comes from then on, or with a --prefix, or delete the topic there"
)


@dataclass(frozen=True, slots=True)
class Planned:
    """A partition that is mirrored, or stands still from the start."""

    part: Part
    to: str
    route: Route | None
    """None: it must keep its number, and the destination has no such partition."""
    begin: Position
    known: bool
    """Whether the position was in the books."""
    end: int
    stop: str | None
    """Why it stands still."""
    taken_over: bool = False
    """Whether it goes on where another mirror has ended."""
    is_later: bool = False
    """Whether it stands still only until the source says where it begins and ends."""


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic that is mirrored."""

    source: Topic
    to: str
    makes: bool
    """Whether the destination has no such topic yet."""
    grows: bool
    """Whether the destination's topic gets more partitions."""
    partitions: int
    """Of the destination, then."""
    is_new: bool
    """Whether nothing of what the books say of it is there: it was not there, as it was looked at first."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Which topics, before any partition is looked at."""

    topics: tuple[PlannedTopic, ...]
    refused: Mapping[str, str]
    left_out: Mapping[str, str]


def plan_topics(
    source: Cluster,
    there: Mapping[str, Topic],
    here: Mapping[str, Topic],
    destination: str,
    options: MirrorOptions,
    book: Book,
    taken: Mapping[str, str],
    looping: Container[str],
    returning: Returning,
    aliases: Aliases | None,
    begin: From,
    made: Container[str],
) -> TopicPlan:
    """Which topics of `there` go where among those of `here`; `begin` is for those that are in no books. `made` are
    those of `here` that were made since, or were to be, and in which nothing was begun.

    A topic that was mirrored before, or that has as many partitions at both ends, grows with its source. One that
    somebody else made with fewer partitions stays as it is, unless all are to grow.
    """
    names = options.chosen.among(name for name, topic in there.items() if not topic.internal)
    within_one = source.id == destination
    loops = {"looping": looping, "returning": returning.topics}
    named = destinations(names, options.prefix, same_cluster=within_one, taken=taken, aliases=aliases, **loops)
    known = {(part.topic_id, position.to) for part, position in book.positions.items() if part.cluster == source.id}
    twice = {
        name: _TWICE.format(to)
        for name, to in named.carried.items()
        if begin.what != "latest" and (there[name].topic_id, to) not in known and returning.is_same(name, here.get(to))
    }
    topics = tuple(
        _planned_topic(there[name], to, here.get(to), options.grows_all or book.knows(source.id, name), to in made)
        for name, to in named.carried.items()
        if name not in twice
    )
    return TopicPlan(topics, named.refused, {**named.left_out, **twice})


def _planned_topic(source: Topic, to: str, found: Topic | None, follows: bool, was_made: bool) -> PlannedTopic:
    if found is None:
        return PlannedTopic(source, to, makes=True, grows=False, partitions=source.partitions, is_new=True)
    grows = follows and found.partitions < source.partitions
    return PlannedTopic(source, to, False, grows, source.partitions if grows else found.partitions, was_made)


async def plan_partitions(
    source: Cluster,
    destination: Cluster,
    topics: Iterable[PlannedTopic],
    options: MirrorOptions,
    book: Book,
    group: str | None,
    numbers: Mapping[str, Sequence[int]],
    begin: From,
) -> list[Planned]:
    """Where the partitions `numbers` of these topics begin; `begin` is for those that are in no books. One that has no
    leader now holds up none of the others.

    Raises:
        BadRequest, TryAgain
    """
    topics = list(topics)
    places = [Place(topic.source.name, number) for topic in topics for number in numbers[topic.source.name]]
    ends, untold = await _told(source, places, LATEST)
    starts, more = await _told(source, list(ends), EARLIEST)
    untold |= more
    last = _last_begun(book, source.id)
    known = {Place(part.topic, part.partition) for part in book.positions if part.cluster == source.id}
    fresh = await begins(begin, source, destination, group, starts, ends, untold, known)
    planned = []
    for topic in topics:
        for number in numbers[topic.source.name]:
            place = Place(topic.source.name, number)
            part = Part(source.id, topic.source.topic_id, topic.source.name, number)
            # What a MirrorMaker 2 has copied went with its topic.
            taken = place in fresh.taken_over and not (topic.is_new and begin.what == "mm2")
            if place in untold:
                later = _planned_later(part, topic.to, untold[place], fresh.offsets[place] if taken else 0)
                planned.append(replace(later, taken_over=taken))
                continue
            # One that came later is mirrored from its start, whether the mirror ran when it came or not.
            is_later = not topic.is_new and number > last.get((topic.source.topic_id, topic.to), number)
            other = place in fresh.taken_over or (is_later and begin.what == "latest")
            where = fresh.offsets[place] if taken or not other else starts[place]
            each = _planned(part, topic, options, book, starts[place], where, ends[place])
            planned.append(replace(each, taken_over=taken and not each.known))
    return planned


def _last_begun(book: Book, cluster: str) -> Mapping[tuple[bytes, str], int]:
    """By a topic of the source and where it goes: the highest of its partitions that was begun. Partitions are added
    behind it; one below it that was not begun was there before."""
    last: dict[tuple[bytes, str], int] = {}
    for part, position in book.positions.items():
        if part.cluster == cluster:
            which = part.topic_id, position.to
            last[which] = max(part.partition, last.get(which, -1))
    return last


async def _told(
    source: Cluster, places: Sequence[Place], at: int
) -> tuple[dict[Place, int], dict[Place, FairleadError]]:
    """What the source says of these, and why of some it does not; it says something. Raises: BadRequest, TryAgain."""
    found: dict[Place, int] = {}
    untold: dict[Place, FairleadError] = {}
    for place, told in (await source.told_offsets(places, at) if places else {}).items():
        if isinstance(told, int):
            found[place] = told
        elif isinstance(told, BadRequest):
            raise told
        else:
            untold[place] = told
    if untold and not found:
        raise TryAgain(str(next(iter(untold.values()))))
    return found, untold


def _planned_later(part: Part, to: str, error: FairleadError, offset: int) -> Planned:
    stop = f"the source does not say where it begins and ends, and is asked again with each look at the topics: {error}"
    return Planned(part, to, None, Position(offset, -1, part.topic, to), False, 0, stop, is_later=True)


def _planned(
    part: Part, topic: PlannedTopic, options: MirrorOptions, book: Book, start: int, fresh: int, end: int
) -> Planned:
    preserve, keep_order = options.preserve_partitions, options.preserve_order
    route = route_of(
        part.partition, topic.source.partitions, topic.partitions, preserve=preserve, keep_order=keep_order
    )
    position = book.positions.get(part)
    stop = None
    if route is None:
        stop = (
            f"{topic.to} has {topic.partitions} partitions at the destination, and --preserve.partitions asks for this "
            "number; give it more partitions"
        )
    if position is not None and (topic.is_new or position.to != topic.to):
        position = None  # what was mirrored went with the topic at the destination, or is in another one
    elif position is None and book.made_again(part):
        fresh = start
        if not options.goes_on.recreated:
            stop = "the topic was deleted at the source and made again; --on.recreated continue mirrors the new one"
    begin = position or Position(fresh, -1, part.topic, topic.to)
    return Planned(part, topic.to, route, begin, position is not None, end, stop)
