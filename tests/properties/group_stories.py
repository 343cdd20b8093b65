"""Actions of several steps with groups: what one at random hardly ever brings about.

A group reads at one site and another in turns, or goes on over a cut that its members have not heard of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.properties.actions import GROUPS, Action, Play
from tests.properties.groups import GROUPS as GROUP_NAMES
from tests.properties.groups import ONE_PLACE
from tests.properties.model import Site
from tests.properties.owners import topics_of
from tests.properties.shape import Link
from tests.properties.stories import Parted, harmed, of_two, taken, written

from fairlead.streamlog.requests.cursors import delete_cursor
from fairlead.streamlog.rows import Kind as RowKind
from fairlead.streamlog.values import Topic

ANY_PLACE = next(name for name in GROUP_NAMES if name != ONE_PLACE)
"""A group that may be at work at several sites."""


def two_ways(play: Play) -> tuple[Link, Link] | None:
    """Links to and fro between two sites of one's own that bring all."""
    there = replace(play.link(), side=False)
    back = [link for link in play.world.shape.links if (link.source, link.target) == (there.target, there.source)]
    whole = all(link.peer == "own" and link.forward == "all" for link in (there, *back))
    return (there, back[0]) if back and whole else None


def read_of(play: Play, site: Site, topic: Topic, group: str, *, late: bool = False) -> None:
    """Members at the site read a topic's first partition as far as it goes, and commit; or later."""
    held = site.log.announced.state.by_incarnation(topic.incarnation)
    if held is not None:
        play.groups.read_all(site, group, held, 0, play.choose, late=late)


def between_two(story: Callable[[Play, Topic, Link, Link], None]) -> Callable[[Play], None]:
    """What happens between two sites, the first of which owns a topic that both have."""

    def do(play: Play) -> None:
        links = two_ways(play)
        if links is None:
            return
        owner = play.world.sites[links[0].source]
        topics = topics_of(owner, owned=True)
        if topics:
            topic = play.choose.choice(topics)
            written(play, owner, topic)
            play.links.exchange(links[0])
            story(play, topic, *links)

    return do


def at_work_in_two_places(play: Play, topic: Topic, there: Link, back: Link) -> None:
    """Members at both sites read on while they hear of each other, and then those of one site go."""
    sites = [play.world.sites[there.source], play.world.sites[there.target]]
    for _ in range(play.choose.randint(2, 4)):
        for site, link in zip(sites, (there, back), strict=True):
            if play.choose.random() < 0.8:
                written(play, sites[0], topic)
                play.links.exchange(there)
            read_of(play, site, topic, ANY_PLACE)
            play.groups.publish(site)
            play.links.exchange(link)
    site = play.choose.choice(sites)
    play.groups.go(site, ANY_PLACE)
    play.groups.check(site)
    if play.choose.random() < 0.5:
        play.groups.change(site, play.choose)
    read_of(play, site, topic, ANY_PLACE)


def unseen(play: Play, topic: Topic, there: Link, back: Link) -> None:
    """Members commit what no link brings, and others go on elsewhere; then the first come back."""
    here, elsewhere = play.world.sites[there.source], play.world.sites[there.target]
    group = play.choose.choice(GROUP_NAMES)
    read_of(play, here, topic, group)
    play.groups.publish(here)
    play.links.exchange(there)
    for _ in range(play.choose.randint(1, 3)):
        written(play, here, topic)
        read_of(play, here, topic, group)
    play.links.exchange(there)
    play.groups.go(here, group)
    read_of(play, elsewhere, topic, group)
    play.groups.publish(elsewhere)
    play.links.exchange(back)
    read_of(play, here, topic, group)


def deleted_and_merged(play: Play, topic: Topic, there: Link, back: Link) -> None:
    """A cursor is deleted, all is merged, and its group begins once more."""
    here = play.world.sites[there.source]
    group = play.choose.choice(GROUP_NAMES)
    read_of(play, here, topic, group)
    play.groups.publish(here)
    play.links.exchange(there)
    play.groups.go(here, group)
    held = here.log.announced.state.by_incarnation(topic.incarnation)
    if held is not None:
        play.world.run(here, lambda d: delete_cursor(d, group, held.number, 0))
        play.groups.publish(here)
        play.links.exchange(there)
        for _ in range(2):
            play.world.merge(here.name)
    read_of(play, here, topic, group)
    play.groups.publish(here)
    play.links.exchange(there)


def ahead_of_its_records(play: Play, topic: Topic, there: Link, back: Link) -> None:
    """What a group has read comes damaged, and where it stands does not."""
    here, elsewhere = play.world.sites[there.source], play.world.sites[there.target]
    group = play.choose.choice(GROUP_NAMES)
    written(play, here, topic)
    read_of(play, here, topic, group)
    play.groups.publish(here)
    with harmed(play, RowKind.BATCH):
        play.links.bring(there, damage=True)
    play.groups.go(here, group)
    read_of(play, elsewhere, topic, group)


def over_a_cut(play: Play, two: Parted) -> None:
    """Members have read what is cut off, and commit that before they hear of it, or go on afterwards."""
    group = play.choose.choice(GROUP_NAMES)
    read_of(play, two.loser, two.topic, group, late=play.choose.random() < 0.6)
    if play.choose.random() < 0.3:
        play.groups.publish(two.loser)
    taken(play, two.taker, two.topic)
    play.links.exchange(two.news)
    play.groups.commit_all_late(two.loser)
    play.groups.check(two.loser)
    if play.choose.random() < 0.5:
        play.groups.go(two.loser, group)
    read_of(play, two.loser, two.topic, group)


GROUP_STORIES = GROUPS._replace(
    steps=40,
    actions=[
        *GROUPS.actions,
        Action("at work in two places", 4, between_two(at_work_in_two_places)),
        Action("unseen", 3, between_two(unseen)),
        Action("deleted and merged", 2, between_two(deleted_and_merged)),
        Action("ahead of its records", 2, between_two(ahead_of_its_records)),
        Action("over a cut", 4, of_two(over_a_cut)),
    ],
    weights={
        **GROUPS.weights,
        "take a topic": 0.3,
        "take from another": 1,
        "ask and take": 1,
        "roll back": 0,
        "fault": 0.5,
    },
    late=True,
)
"""Groups, in the middle of something."""
