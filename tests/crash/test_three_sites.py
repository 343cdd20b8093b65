"""Three sites that replicate to each other, under load, while their processes are killed, the wires between them are
cut, and topics change their owner, also by takeovers from owners that nobody can reach and that write on.

What holds is checked from outside: the producers' ledger against what consumers read at the end. `make crash ROUNDS=20`
takes ten minutes; FAIRLEAD_TEST_SEED repeats what was chosen in a run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, combinations
from pathlib import Path

import pytest

from tests.crash.network import (
    PARTITIONS,
    PREFIX,
    STREAM,
    Between,
    Meanwhile,
    Network,
    faults,
    linked,
    path,
    rows,
    say,
    settled,
    stored,
    topics_of,
    unsettled,
)
from tests.crash.test_kill import ROUNDS, SEED
from tests.crash.writers import Writer
from tests.support.records import differences
from tests.support.sites import Site
from tests.support.waiting import wait_until

pytestmark = pytest.mark.crash

NAMES = ("tokyo", "ship", "singapore")
TOPICS = ("container-1", "container-2", "container-3")
HARM_WITHIN_SECONDS = 1.0


class World(Network):
    """Three sites, and two writers of each topic that look for its owner."""

    def __init__(self, sites: list[Site], wires: Between) -> None:
        super().__init__(sites, wires)
        self.writers = [
            Writer(f"{topic}-{number}", topic, PREFIX, PARTITIONS, sites, sites[0])
            for topic in TOPICS
            for number in range(2)
        ]

    def of(self, topic: str) -> list[Writer]:
        return [writer for writer in self.writers if writer.topic == topic]

    def others(self, site: Site) -> list[Site]:
        return [other for other in self.sites if other is not site]

    # moves of owners

    def transfer(self, topic: str, choice: random.Random) -> None:
        """To another site, whatever that lacks."""
        owner = self.owner(topic)
        to = choice.choice(self.others(owner))
        say("transfer", topic, owner, to)
        move(owner, "transfer", "-topic", topic, "-to", to.name, "-force")

    def takeover(self, topic: str, choice: random.Random) -> None:
        """From an owner that nobody reaches, and that clients still write to."""
        owner = self.owner(topic)
        heir = choice.choice(self.others(owner))
        say("takeover", topic, owner, heir)
        self.cut(owner, *self.others(owner))
        stays, goes = self.of(topic)
        stays.move_to(owner)
        stays.wait_for_turns(2)
        wait_until(lambda: taken_over(heir, topic), f"{heir.name} takes {topic} over")
        goes.move_to(heir)
        goes.wait_for_turns(2)

    def owner(self, topic: str) -> Site:
        """By what the site says that knows the latest epoch."""

        def found() -> Site | None:
            asked = [rows(site, "stream/topic/info", path=STREAM, topic=topic) for site in self.sites]
            newest = max(chain.from_iterable(asked), key=lambda row: int(row["topicepoch"]), default=None)
            return next((site for site in self.sites if newest and newest["owner"] == path(site)), None)

        site = wait_until(found, f"somebody knows the owner of {topic}")
        assert site is not None
        return site


def owned(site: Site, topic: str) -> bool:
    """By what it knows itself."""
    return any(row["owner"] == path(site) for row in rows(site, "stream/topic/info", path=STREAM, topic=topic))


def taken_over(site: Site, topic: str) -> bool:
    """Asked again as long as the server is away."""
    if not owned(site, topic):
        move(site, "takeover", "-topic", topic, "-force")
    return owned(site, topic)


def move(site: Site, command: str, *options: str) -> None:
    """It may be refused, or the server may be killed before it answers; it may not fail otherwise."""
    done = site.cli("stream", "topic", command, "-path", path(site), *options, "--yes", "--nowait", check=False)
    assert "Traceback" not in done.stderr, done.stderr
    say(f"{command}:", done.stderr.strip() or done.stdout.strip())
    wait_until(lambda: not any(row["state"] == "running" for row in rows(site, "job/list")), "the job has ended")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Each site has links to the two others, and reaches them over wires only."""
    with linked(tmp_path, NAMES, combinations(range(3), 2)) as (sites, between):
        for topic in TOPICS:
            sites[0].cli("stream", "topic", "create", "-path", path(sites[0]), "-topic", topic)
        wait_until(lambda: all(topics_of(site) == {*TOPICS} for site in sites), "all links carry")
        with World(sites, between) as world:
            yield world


@pytest.mark.timeout(900)  # it takes minutes where others work beside it
def test_three_sites_keep_what_they_acknowledged_over_kills_cuts_transfers_and_takeovers(world: World) -> None:
    """At the end each acknowledged record is at its offset at all three sites, or in a diverged topic at its own; no
    offset holds two values, no topic holds a value twice, and the sites hold the same."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    for number in range(3 * ROUNDS):
        one_round(world, number)
    acknowledged = world.acknowledged()
    with suppress(TimeoutError):  # what follows says what is missing
        wait_until(lambda: not unsettled(world), "the sites agree on topics and owners", every_seconds=0.5)
        wait_until(lambda: settled(world, acknowledged), "all that was acknowledged is everywhere", every_seconds=1)
    assert unsettled(world) == []
    first, *others = [stored(site) for site in world.sites]
    assert faults(acknowledged, first) == []
    for other in others:
        assert differences(first, other) == []
    diverged = sum(1 for place in first if place.topic not in TOPICS)
    print(f"{len(acknowledged):,} records acknowledged, {len(first):,} there, {diverged:,} of them diverged")


def one_round(world: World, number: int) -> None:
    """A topic changes its owner, and harm is done meanwhile; then all heals, and every topic is written again."""
    choices = [random.Random(f"{SEED} {number} {what}") for what in ("moves", "harms")]
    topic = choices[0].choice(TOPICS)
    moves = [world.transfer, world.takeover]
    harms = [
        *(world.kill_server, world.kill_two_servers, world.kill_replicator, world.kill_worker),
        *(world.cut_wire, world.no_harm),
    ]
    say(f"round {number}")
    moving = Meanwhile(partial(moves[number % 2], topic, choices[0]))
    time.sleep(choices[1].uniform(0, HARM_WITHIN_SECONDS))
    choices[1].choice(harms)(choices[1])
    moving.end()
    world.heal()
    for each in TOPICS:
        for writer in world.of(each):
            writer.wait_for_acknowledged(20)
