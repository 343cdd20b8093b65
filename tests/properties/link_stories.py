"""Actions of several steps with links: rows come damaged, and repairs late, in the one order in which that matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.properties.actions import MOVES, Action, Play, exchange_all
from tests.properties.model import Site
from tests.properties.owners import topics_of
from tests.properties.shape import Link
from tests.properties.stories import harmed, written

from fairlead.streamlog.rows import Kind as RowKind
from fairlead.streamlog.values import Topic


def of_a_link(story: Callable[[Play, Link, Site, Topic], None]) -> Callable[[Play], None]:
    """What happens on a link whose source owns a topic that has come to its destination."""

    def do(play: Play) -> None:
        link = replace(play.link(), side=False)
        owner = play.world.sites[link.source]
        topics = topics_of(owner, owned=True)
        if topics:
            topic = play.choose.choice(topics)
            play.links.exchange(link)
            story(play, link, owner, topic)

    return do


def repair_comes_late(play: Play, link: Link, owner: Site, topic: Topic) -> None:
    """Records come damaged; before what brings them again arrives, so do others."""
    written(play, owner, topic)
    with harmed(play, RowKind.BATCH):
        play.links.bring(link, damage=True)
        play.links.repair(link, later=True)
        late = play.links.held_back(link)
        written(play, owner, topic)
        play.links.bring(link, damage=True)
    play.links.let_come(link, late)
    play.links.deliver(link, 0, len(late), keep=False, damage=False)


def deletion_is_harmed(play: Play, link: Link, owner: Site, topic: Topic) -> None:
    """The row by which an owner deletes a topic comes damaged."""
    if play.choose.random() < 0.5:
        written(play, owner, topic)
    play.owners.delete(owner, topic, play.choose)
    with harmed(play, RowKind.TOPIC_DELETED):
        play.links.bring(link, damage=True)
    if play.choose.random() < 0.5:
        exchange_all(play, out_of=link.target)


LINK_STORIES = MOVES._replace(
    steps=40,
    actions=[
        *MOVES.actions,
        Action("repair comes late", 6, of_a_link(repair_comes_late)),
        Action("deletion is harmed", 2, of_a_link(deletion_is_harmed)),
    ],
    weights={**MOVES.weights, "take a topic": 0.3, "take from another": 1, "ask and take": 1, "fault": 0.5},
)
"""Links, in the middle of something."""
