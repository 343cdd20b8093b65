"""Masters in a mesh of three and in a chain of four, under load, while their processes are killed, the wires between
them are cut, links leave topics out and bring them in again, a name is made at two sites at once and the conflict is
resolved, and a group of consumers goes from site to site.

Each site writes a topic of its own. What holds is checked from outside: the producers' ledger against what ordinary
consumers read at each site at the end. `make crash` takes ten minutes, with Spark at all sites, where a usual run has
it at one; FAIRLEAD_TEST_SEED repeats what was chosen.
"""

from __future__ import annotations

import random
import re
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
    STREAM,
    Between,
    Meanwhile,
    Network,
    Stored,
    linked,
    path,
    rows,
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
NO_ANSWER = re.compile("no server answers|no answer")
"""What the command line says of a site that was killed."""


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
        self._renamed: dict[tuple[str, str], str] = {}
        """What the owner of such a topic has called it since, by the name that it had and the owner's."""
        self._left_out: tuple[str, Site] | None = None
        """A topic that no link brings to a site."""
        self.brought = 0
        """So many records were missing because links left their topic out, and were to come when it was let in."""
        self.read: set[bytes] = set()
        """What the group has been given, wherever it was."""
        for site in sites:
            assert self._create(site, self.own[site.name])

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

    def leave_out(self, choice: random.Random) -> None:
        """No link brings a topic to one of the sites from now on, by either of the two options."""
        to = choice.choice(self.sites)
        topic = self.own[choice.choice([site.name for site in self.sites if site is not to])]
        others = "|".join(["found-.*", *(name for name in self.own.values() if name != topic)])
        say("left out:", topic, to)
        self._edit_links(to, choice.choice([("-excludetopics", topic), ("-topics", others)]))
        self._left_out = topic, to

    def count_lacking(self) -> None:
        """What is left out lacks there what was written since."""
        if self._left_out is None:
            return
        topic, to = self._left_out
        written = {each.place for writer in self.writers for each in list(writer.acknowledged)}
        lacking = {place for place in written if place.topic == topic} - stored(to).keys()
        assert lacking, f"{to.name} was brought {topic} though all links left it out"
        self.brought += len(lacking)

    def let_in(self, _: random.Random) -> None:
        """What was left out comes again, with all that it lacks."""
        assert self._left_out is not None
        (topic, to), self._left_out = self._left_out, None
        say("let in:", topic, to)
        self._edit_links(to, ("-topics", "", "-excludetopics", ""))

    def resolve(self, choice: random.Random) -> None:
        """The conflict of the last name that was made twice: its owner gives one of the topics another name, or each
        site gives that name to the one that waits there."""
        topic, makers = list(self.doubled.items())[-1]
        maker = choice.choice(makers)
        if choice.random() < 0.5:
            say("renamed:", topic, maker)
            writer = next(each for each in self.writers if each.name == name_of_writer(topic, maker))
            writer.stop()
            to = self._renamed[topic, maker.name] = f"{topic}-of-{maker.name}"
            maker.cli(*("stream", "topic", "resolve", "-path", path(maker), "-topic", topic, "-rename", to, "--yes"))
            self.writers.append(self._writer(maker, to))
            return
        wait_until(partial(self._all_hold_both, topic), f"all sites hold both of {topic}", every_seconds=0.5)

    def _all_hold_both(self, topic: str) -> bool:
        """Now; all are asked, since in a chain a site hears of the second one only once its neighbour holds both."""
        held = [self._holds_both(site, topic) for site in self.sites]
        return all(held)

    def _holds_both(self, site: Site, topic: str) -> bool:
        """Now; where one of the two waits for its name, it gets another one first."""
        if len(called(topic, topics_of(site))) == 2:
            return True
        if any(
            "waits" in each
            for row in rows(site, "stream/topic/info", path=STREAM, topic=topic)
            for each in row["conflicts"]
        ):
            as_ = f"{topic}-at-{site.name}"
            say("named", as_, "at", site)
            arguments = ("-path", path(site), "-topic", topic, "-as", as_, "--yes")
            done = site.cli("stream", "topic", "resolve", *arguments, check=False)
            # Meanwhile another site may have brought it by a name that it has there.
            assert done.returncode == 0 or "waits" in done.stderr, done.stderr
        return False

    def place_of(self, each: Acknowledged) -> Place:
        """Where a record is that was acknowledged before its topic was renamed."""
        return each.place._replace(topic=self._renamed.get((each.place.topic, each.site), each.place.topic))

    def _edit_links(self, to: Site, options: Sequence[str]) -> None:
        for here in (here for here, there in self._wires if there is to):
            arguments = ("stream", "replica", "edit", "-path", path(here), "-replica", path(to), *options)
            wait_until(partial(done, here, arguments), f"{here.name} edits its link to {to.name}")

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
        return Writer(name_of_writer(topic, site), topic, PREFIX, PARTITIONS, [site], site)

    def _join(self, site: Site) -> ConfluentHand:
        first, *others = [PREFIX + topic for topic in self.own.values()]
        hand = ConfluentHand(site.kafka, first, GROUP, others=others)
        wait_until(lambda: reads(hand), f"the group reads at {site.name}")
        return hand

    def _leave(self) -> None:
        self._hand.stop()
        self.read |= {*self._hand.values}


@pytest.mark.timeout(900 + 60 * ROUNDS)  # it takes minutes where others work beside it
@pytest.mark.parametrize("topology", [MESH, CHAIN], ids=["mesh", "chain"])
def test_masters_of_one_another_hold_the_same_after_kills_cuts_conflicts_filters_and_moving_groups(
    topology: Topology, tmp_path: Path
) -> None:
    """Each acknowledged record is at its own offset at every site once, and nothing else is there, also of a topic that
    links left out for a while, and of both topics of a name that was made twice; a group that moves misses nothing."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    with (
        linked(tmp_path, topology.sites, topology.neighbours, without_spark=without_spark(topology)) as (
            sites,
            between,
        ),
        Masters(sites, between) as masters,
    ):
        own = {*masters.own.values()}
        say("all is set up")
        wait_until(lambda: all(topics_of(site) >= own for site in sites), "all links carry")
        masters.write()
        for number in range(2 * ROUNDS):
            one_round(masters, number)
        say("all was written")
        acknowledged = masters.acknowledged()
        ours = [each for each in acknowledged if each.place.topic in own]
        doubled = [each for each in acknowledged if each.place.topic not in own]
        with suppress(TimeoutError):  # what follows says what is missing
            # The site that was killed last may have to start its Spark first.
            wait_until(partial(all_sent, sites), "all links have sent all", every_seconds=1)
        with suppress(TimeoutError):
            wait_until(
                partial(same, masters, ours, doubled), "all that was acknowledged is everywhere", every_seconds=1
            )
        found = {site.name: stored(site) for site in sites}
        assert wrong(ours, {name: of(own, held) for name, held in found.items()}) == []
        assert misnamed(masters, doubled, found) == []
        assert masters.unread(ours) == []
    print(
        f"{len(acknowledged):,} records acknowledged, {len(doubled):,} of them under {len(masters.doubled)} names; "
        f"{masters.brought:,} were left out and came later"
    )


def one_round(masters: Masters, number: int) -> None:
    """Users do something, and harm is done meanwhile; then all heals, conflicts are resolved, and every site writes."""
    choices = [random.Random(f"{SEED} {number} {what}") for what in ("deeds", "harms")]
    deeds = [(masters.leave_out, masters.move_group), (masters.let_in, masters.name_twice)][number % 2]
    harms = [
        *(masters.kill_server, masters.kill_two_servers, masters.kill_replicator, masters.kill_worker),
        *(masters.cut_wire, masters.no_harm),
    ]
    say(f"round {number}")
    doing = Meanwhile(partial(in_turn, deeds, choices[0]))
    time.sleep(choices[1].uniform(0, HARM_WITHIN_SECONDS))
    choices[1].choice(harms)(choices[1])
    doing.end()
    masters.heal()
    if masters.name_twice in deeds:
        masters.resolve(choices[0])
    for writer in masters.writers:
        if not writer.is_stopped:
            writer.wait_for_acknowledged(20)
    masters.count_lacking()


def in_turn(deeds: Sequence[Callable[[random.Random], None]], choice: random.Random) -> None:
    for deed in deeds:
        deed(choice)


def without_spark(topology: Topology) -> list[str]:
    """All but one site, unless many rounds are played: most of the time of few goes into starts of Spark."""
    return [] if ROUNDS > 1 else random.Random(SEED).sample(topology.sites, len(topology.sites) - 1)


def name_of_writer(topic: str, site: Site) -> str:
    return f"{topic}@{site.name}"


def called(topic: str, names: set[str]) -> set[str]:
    """The topics of a name that was made twice, whatever they are called since."""
    return {name for name in names if name == topic or name.startswith(f"{topic}-")}


def done(site: Site, arguments: Sequence[str]) -> bool:
    """A command that may be given again, because its site was killed before it answered."""
    tried = site.cli(*arguments, check=False)
    assert tried.returncode == 0 or NO_ANSWER.search(tried.stderr), tried.stderr
    return tried.returncode == 0


def reads(hand: ConfluentHand) -> bool:
    """It has been given something."""
    hand.check()
    return bool(hand.values)


def of(topics: set[str], held: Stored) -> Stored:
    return {place: content for place, content in held.items() if place.topic in topics}


def same(masters: Masters, ours: Sequence[Acknowledged], doubled: Sequence[Acknowledged]) -> bool:
    """Every site has all of it, and no more than the others."""
    found = {site.name: stored(site) for site in masters.sites}
    lines = wrong(ours, {name: of({*masters.own.values()}, held) for name, held in found.items()})
    lines += misnamed(masters, doubled, found)
    say(f"{len(lines)} faults", *lines[:3])
    return not lines


def all_sent(sites: Sequence[Site]) -> bool:
    return all(row["isUptodate"] for site in sites for row in rows(site, "stream/replica/list", path=STREAM))


def wrong(acknowledged: Sequence[Acknowledged], found: dict[str, Stored]) -> list[str]:
    """What is lost, changed or double at a site, and what sites hold otherwise than the first one, a line each."""
    ledger: dict[Place, bytes] = {each.place: each.value for each in acknowledged}
    first, *_ = found.values()
    return [
        f"{name}: {line}" for name, held in found.items() for line in [*faults(ledger, held), *differences(first, held)]
    ]


def misnamed(masters: Masters, acknowledged: Sequence[Acknowledged], found: dict[str, Stored]) -> list[str]:
    """Of names that were made twice: who made a topic has it where it wrote it, all that it acknowledged and no more;
    every site holds what the two makers hold, each under a name of its own, and nothing else."""
    lines = []
    for topic, makers in masters.doubled.items():
        made = []
        for maker in makers:
            own = {masters.place_of(each): each.value for each in acknowledged if each.site == maker.name}
            ledger = {place: value for place, value in own.items() if called(topic, {place.topic})}
            held = of({place.topic for place in ledger}, found[maker.name])
            lines += [f"{maker.name}: {line}" for line in faults(ledger, held)]
            made.append(nameless(held))
        for name, held in found.items():
            here = [nameless(of({each}, held)) for each in called(topic, {place.topic for place in held})]
            lines += [f"{name} lacks one of {topic}, or has it otherwise" for each in made if here.count(each) != 1]
            lines += [f"{name} holds {len(here)} topics called {topic}"] * (len(here) != len(made))
    return lines


def nameless(held: Stored) -> Stored:
    return {place._replace(topic=""): content for place, content in held.items()}
