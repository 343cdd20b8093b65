"""Masters in a mesh of three and in a chain of four, under load, while their processes are killed, the wires between
them are cut, a name is made at two of them at once, and a group of consumers goes from site to site.

Each site writes a topic of its own. What holds is checked from outside: the producers' ledger against what ordinary
consumers read at each site at the end. `make crash` takes ten minutes; FAIRLEAD_TEST_SEED repeats what was chosen.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from tests.crash.hands import ConfluentHand
from tests.crash.network import (
    PARTITIONS,
    PREFIX,
    Between,
    Meanwhile,
    Network,
    Stored,
    linked,
    path,
    say,
    stored,
    topics_of,
)
from tests.crash.test_kill import ROUNDS, SEED
from tests.crash.writers import Acknowledged, Writer
from tests.support.ledger import faults
from tests.support.records import Place, differences
from tests.support.sites import Site
from tests.support.waiting import wait_until

pytestmark = pytest.mark.crash

HARM_WITHIN_SECONDS = 1.0
GROUP = "watch"


@dataclass(frozen=True, slots=True)
class Topology:
    """Names of the sites, and which of them are neighbours, by number."""

    sites: tuple[str, ...]
    neighbours: tuple[tuple[int, int], ...]


MESH = Topology(("tokyo", "ship", "singapore"), tuple(combinations(range(3), 2)))
CHAIN = Topology(("tokyo", "busan", "manila", "singapore"), tuple(pairwise(range(4))))


class Masters(Network):
    """Each site writes its own topic; a group of one member reads all of them at one site after the other."""

    def __init__(self, sites: list[Site], wires: Between) -> None:
        super().__init__(sites, wires)
        self.own = {site.name: f"of-{site.name}" for site in sites}
        self.doubled: dict[str, list[Site]] = {}
        """A name that two sites made while neither knew of the other's, and who."""
        self.read: set[bytes] = set()
        """What the group has been given, wherever it was."""
        for site in sites:
            self._create(site, self.own[site.name])

    def write(self) -> None:
        """From now on; the group reads at the first site."""
        self.writers = [self._writer(site, self.own[site.name]) for site in self.sites]
        self._hand = self._join(self.sites[0])

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        with suppress(AttributeError):  # it was not there yet
            self._hand.stop()

    # what users do

    def move_group(self, choice: random.Random) -> None:
        """The member leaves, and joins at another site, or at the same one."""
        to = choice.choice(self.sites)
        say("the group goes to", to)
        self._leave()
        self._hand = self._join(to)

    def name_twice(self, choice: random.Random) -> None:
        """Two sites that nobody reaches make a topic of one name, and write it; that lasts until `heal`."""
        one, other = choice.sample(self.sites, 2)
        topic = f"found-{len(self.doubled)}"
        say("made twice:", topic, one, other)
        self.doubled[topic] = [one, other]
        for site in (one, other):
            self.cut(site, *self.sites)
            wait_until(partial(self._create, site, topic), f"{site.name} makes {topic}")
            self.writers.append(self._writer(site, topic))
        for writer in self.writers[-2:]:
            writer.wait_for_acknowledged(20)

    def unread(self, acknowledged: Sequence[Acknowledged]) -> list[str]:
        """What the group has not been given though it stays where it is, a line each."""

        def left() -> list[Acknowledged]:
            self._hand.check()
            read = self.read | {*self._hand.values}
            return [each for each in acknowledged if each.value not in read]

        with suppress(TimeoutError):
            wait_until(lambda: not left(), "the group has read all", every_seconds=0.2)
        return [f"{each.place}: the group was not given {each.value!r}" for each in left()]

    def _create(self, site: Site, topic: str) -> bool:
        """Now, or it is there already, by a request whose answer was lost."""
        done = site.cli("stream", "topic", "create", "-path", path(site), "-topic", topic, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return topic in topics_of(site)

    def _writer(self, site: Site, topic: str) -> Writer:
        return Writer(f"{topic}@{site.name}", topic, PREFIX, PARTITIONS, [site], site)

    def _join(self, site: Site) -> ConfluentHand:
        first, *others = [PREFIX + topic for topic in self.own.values()]
        hand = ConfluentHand(site.kafka, first, GROUP, others=others)
        wait_until(lambda: reads(hand), f"the group reads at {site.name}")
        return hand

    def _leave(self) -> None:
        self._hand.stop()
        self.read |= {*self._hand.values}


@pytest.mark.timeout(900)  # it takes minutes where others work beside it
@pytest.mark.parametrize("topology", [MESH, CHAIN], ids=["mesh", "chain"])
def test_masters_of_one_another_hold_the_same_after_kills_cuts_conflicts_and_moving_groups(
    topology: Topology, tmp_path: Path
) -> None:
    """Each acknowledged record is at its own offset at every site once, and nothing else is there; a name that was made
    twice keeps both sites' records where they were written; a group that moves misses nothing."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    with (
        linked(tmp_path, topology.sites, topology.neighbours) as (sites, between),
        Masters(sites, between) as masters,
    ):
        own = {*masters.own.values()}
        wait_until(lambda: all(topics_of(site) >= own for site in sites), "all links carry")
        masters.write()
        for number in range(2 * ROUNDS):
            one_round(masters, number)
        say("all was written")
        acknowledged = masters.acknowledged()
        ours = [each for each in acknowledged if each.place.topic in own]
        doubled = [each for each in acknowledged if each.place.topic in masters.doubled]
        with suppress(TimeoutError):  # what follows says what is missing
            wait_until(partial(same, masters, ours), "all that was acknowledged is everywhere", every_seconds=1)
        found = {site.name: stored(site) for site in sites}
        assert wrong(ours, {name: of(own, held) for name, held in found.items()}) == []
        assert misnamed(masters, doubled, found) == []
        assert masters.unread(ours) == []
    print(f"{len(acknowledged):,} records acknowledged, {len(doubled):,} of them under {len(masters.doubled)} names")


def one_round(masters: Masters, number: int) -> None:
    """Users do something, and harm is done meanwhile; then all heals, and every site writes."""
    choices = [random.Random(f"{SEED} {number} {what}") for what in ("deeds", "harms")]
    deeds: list[Callable[[random.Random], None]] = [masters.move_group, masters.name_twice]
    harms = [
        *(masters.kill_server, masters.kill_two_servers, masters.kill_replicator, masters.kill_worker),
        *(masters.cut_wire, masters.no_harm),
    ]
    say(f"round {number}")
    doing = Meanwhile(partial(deeds[number % 2], choices[0]))
    time.sleep(choices[1].uniform(0, HARM_WITHIN_SECONDS))
    choices[1].choice(harms)(choices[1])
    doing.end()
    masters.heal()
    for writer in masters.writers:
        writer.wait_for_acknowledged(20)


def reads(hand: ConfluentHand) -> bool:
    """It has been given something."""
    hand.check()
    return bool(hand.values)


def of(topics: set[str], held: Stored) -> Stored:
    return {place: content for place, content in held.items() if place.topic in topics}


def same(masters: Masters, acknowledged: Sequence[Acknowledged]) -> bool:
    """Every site has all of it, and no more than the others."""
    found = {site.name: of({*masters.own.values()}, stored(site)) for site in masters.sites}
    lines = wrong(acknowledged, found)
    say(f"{len(lines)} faults", *lines[:3])
    return not lines


def wrong(acknowledged: Sequence[Acknowledged], found: dict[str, Stored]) -> list[str]:
    """What is lost, changed or double at a site, and what sites hold otherwise than the first one, a line each."""
    ledger: dict[Place, bytes] = {each.place: each.value for each in acknowledged}
    first, *_ = found.values()
    return [
        f"{name}: {line}" for name, held in found.items() for line in [*faults(ledger, held), *differences(first, held)]
    ]


def misnamed(masters: Masters, acknowledged: Sequence[Acknowledged], found: dict[str, Stored]) -> list[str]:
    """Of names that were made twice: who made it keeps what it acknowledged; another site has what one of them has."""
    lines = []
    for topic, makers in masters.doubled.items():
        held = {name: of({topic}, each) for name, each in found.items()}
        for maker in makers:
            ledger = {each.place: each.value for each in acknowledged if each[2] == maker.name}
            own = {place: value for place, value in ledger.items() if place.topic == topic}
            lines += [f"{maker.name}: {line}" for line in faults(own, held[maker.name])]
        made = [held[maker.name] for maker in makers]
        lines += [
            f"{name} holds of {topic} what neither maker has"
            for name, each in held.items()
            if each and all(differences(other, each) for other in made)
        ]
    return lines
