"""Worlds in which sites are put back to their backups and recover: what they had written since comes back."""

from __future__ import annotations

from tests.properties.actions import MOVES, Action, Play, exchange_all
from tests.properties.model import Site
from tests.properties.owners import Owners, topics_of
from tests.properties.recoveries import Returns

CHANGES = (Owners.produce, Owners.produce, Owners.produce, Owners.hand_over, Owners.grow, Owners.delete_records)


def changed(play: Play, site: Site) -> None:
    """A site does some of what an owner does, and others hear of it."""
    for _ in range(play.choose.randint(1, 4)):
        topics = topics_of(site, owned=True)
        others = topics_of(site, owned=False)
        if others and (not topics or play.choose.random() < 0.2):
            play.owners.take_over(site, play.choose.choice(others), play.choose)
        elif topics:
            play.choose.choice(CHANGES)(play.owners, site, play.choose.choice(topics), play.choose)
    exchange_all(play, out_of=site.name)


def back_up(play: Play) -> None:
    """A site is copied, goes on, and others get that."""
    site = play.site()
    exchange_all(play, out_of=site.name)
    play.world.back_up(site.name)
    changed(play, site)


def give_back(play: Play) -> None:
    """A site that was backed up gets a topic from a neighbour, and writes to it."""
    for site in play.world.sites.values():
        if site.snapshot is not None:
            for other in play.world.shape.neighbours(site.name):
                topics = topics_of(play.world.sites[other], owned=True)
                if topics:
                    play.owners.hand_over(play.world.sites[other], play.choose.choice(topics), play.choose)
                    exchange_all(play, into=site.name)
                    changed(play, site)
                    return


def recover(play: Play) -> None:
    """A site is put back to its backup, may write before that is noticed, and recovers."""
    backed = [site for site in play.world.sites.values() if site.snapshot is not None]
    if not backed:
        return
    site, returns = play.choose.choice(backed), Returns(play.world, play.links)
    before = site.shown.scanned
    play.world.roll_back(site.name)
    if site.shown.scanned >= before:
        return
    if play.choose.random() < 0.3:
        for topic in topics_of(site, owned=True):
            play.owners.produce(site, topic, play.choose)
    expected = returns.longest(site)
    if returns.recover(site, play.choose):
        returns.check(site, expected)
    site.snapshot = None


RETURNS = MOVES._replace(
    steps=50,
    actions=[
        *MOVES.actions,
        Action("back up and go on", 6, back_up),
        Action("give back", 5, give_back),
        Action("recover", 8, recover),
    ],
    weights={**MOVES.weights, "roll back": 0, "back up": 0, "fault": 1, "exchange": 12},
)
"""Sites are put back to their backups often, and recover."""
