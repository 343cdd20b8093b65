"""Actions of several steps with names: a topic makes room, or comes into a link, in the middle of something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.properties.actions import Action, Play
from tests.properties.model import Site
from tests.properties.named_worlds import NAMES
from tests.properties.shape import EVERYTHING, SHARED, Link
from tests.properties.stories import harmed, written

from fairlead.cluster.topic_filter import ALL_TOPICS, TopicFilter
from fairlead.streamlog.requests.topics import create_topic, rename_topic
from fairlead.streamlog.rows import Kind as RowKind
from fairlead.streamlog.values import Topic


def two_ways(play: Play) -> tuple[Link, Link] | None:
    """Links to and fro between two sites of one's own that bring all."""
    there = replace(play.link(), side=False)
    back = [link for link in play.world.shape.links if (link.source, link.target) == (there.target, there.source)]
    both = [there, *back]
    whole = all(link.peer == "own" and link.forward == "all" for link in both)
    whole = whole and all(play.world.shape.filter_of(link) == EVERYTHING for link in both)
    return (there, back[0]) if back and whole and not play.links.widened else None


def over_two(story: Callable[[Play, Link, Link], None]) -> Callable[[Play], None]:
    """What happens between two sites."""

    def do(play: Play) -> None:
        found = two_ways(play)
        if found is not None:
            story(play, *found)

    return do


def new(play: Play, site: Site, name: str, partitions: int = 1) -> Topic | None:
    """A topic of that name, if the site has none."""
    if site.log.announced.state.by_name(name) is None:
        play.world.run(site, lambda d: create_topic(d, name, partitions, owner_at=site.path))
    topic = site.log.announced.state.by_name(name)
    return topic if topic is not None and topic.owner == site.stream_id else None


def fresh(play: Play) -> str:
    """A name that no topic has."""
    play.names.count += 1
    return f"{SHARED}{play.names.count}"


def cut_and_asked_for_its_name(play: Play, there: Link, back: Link) -> None:
    """A topic is cut to nothing, as another site took it before anything of it had come there; and before what was cut
    off is copied, another one comes by its name."""
    loser, taker = play.world.sites[there.source], play.world.sites[there.target]
    name, before = fresh(play), play.world.shape.prefixes_of(there)[-1]
    play.world.shape.prefixes.setdefault(there, [""]).append("p.")
    play.links.lose_connection(there)
    other, topic = new(play, taker, name), new(play, loser, name)
    play.links.exchange(there)
    held = None if topic is None else taker.log.announced.state.by_incarnation(topic.incarnation)
    if topic is not None and held is not None and other is not None:
        written(play, loser, topic)
        play.owners.take_over(taker, held, play.choose)
        written(play, taker, other)
        play.links.exchange(back)
    play.world.shape.prefixes[there].append(before)
    play.links.lose_connection(there)


def refused_and_asked_for_its_name(play: Play, there: Link, back: Link) -> None:
    """The first records of a topic come damaged, and before they come again, another one comes by its name."""
    owner, replica = play.world.sites[there.source], play.world.sites[there.target]
    names = [link for link in play.world.shape.links if link.target == replica.name and link.source != owner.name]
    if not names:
        return
    name, third = fresh(play), play.world.sites[names[0].source]
    topic, other = new(play, owner, name, partitions=2), new(play, third, name)
    play.links.exchange(there)
    if topic is None or other is None:
        return
    written(play, owner, topic)
    with harmed(play, RowKind.BATCH):
        play.links.bring(there, damage=True)
    written(play, third, other)
    play.links.bring(names[0])


def renamed_while_it_is_read(play: Play, there: Link, back: Link) -> None:
    """A topic that a link leaves out gets a name that it lets by, while a task reads the link."""
    owner = play.world.sites[there.source]
    name = fresh(play)
    play.links.refilter(there, TopicFilter(exclude=name))
    topic = new(play, owner, name)
    if topic is not None:
        play.links.stand(there)
        written(play, owner, topic)
        play.links.announce(there)
        play.world.run(owner, lambda d: rename_topic(d, name, fresh(play)))
        play.links.announce(there)
        play.links.deliver(there, 0, 9, keep=False, damage=False)


def side_copy_is_harmed(play: Play, there: Link, back: Link) -> None:
    """What a side copy brings is damaged, and the link goes on with its topics before that is brought again."""
    owner = play.world.sites[there.source]
    name = fresh(play)
    play.links.refilter(there, TopicFilter(exclude=name))
    topic = new(play, owner, name)
    if topic is None:
        return
    written(play, owner, topic)
    play.links.bring(there)
    play.links.refilter(there, ALL_TOPICS)
    side = replace(there, side=True)
    if there in play.links.widened:
        play.links.step(there)
        with harmed(play, RowKind.BATCH):
            play.links.bring(side, damage=True)
        play.links.bring(there)
        play.links.step(there)


NAMED_STORIES = NAMES._replace(
    steps=40,
    actions=[
        *NAMES.actions,
        Action("cut and asked for its name", 4, over_two(cut_and_asked_for_its_name)),
        Action("refused and asked for its name", 4, over_two(refused_and_asked_for_its_name)),
        Action("renamed while it is read", 4, over_two(renamed_while_it_is_read)),
        Action("side copy is harmed", 4, over_two(side_copy_is_harmed)),
    ],
)
"""Names, in the middle of something."""
