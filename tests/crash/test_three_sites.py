"""Three sites that replicate to each other, under load, while their processes are killed, the wires between them are
cut, and topics change their owner, also by takeovers from owners that nobody can reach and that write on.

What holds is checked from outside: the producers' ledger against what consumers read at the end. `make crash ROUNDS=20`
takes ten minutes; FAIRLEAD_TEST_SEED repeats what was chosen in a run.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.test_kill import ROUNDS, SEED
from tests.crash.writers import Acknowledged, Writer
from tests.support.records import Content, Place, differences, read_all
from tests.support.sites import Site, kill_pid
from tests.support.waiting import WAIT_SECONDS, wait_until
from tests.support.wires import Wire, Wires

pytestmark = pytest.mark.crash

NAMES = ("tokyo", "ship", "singapore")
STREAM = "/cargo"
PREFIX = STREAM + ":"
TOPICS = ("container-1", "container-2", "container-3")
PARTITIONS = 2
SETTINGS = {"replicator_workers": "1", "merge_commits_min": "50", "merge_interval_seconds": "1"}
HARM_WITHIN_SECONDS = 1.0
Stored = Mapping[Place, Content]


class World:
    """The sites, the wires between them, and who writes."""

    def __init__(self, sites: list[Site], wires: dict[tuple[Site, Site], Wire]) -> None:
        self.sites = sites
        self._wires = wires
        self.writers = [
            Writer(f"{topic}-{number}", topic, PREFIX, PARTITIONS, sites, sites[0])
            for topic in TOPICS
            for number in range(2)
        ]

    def of(self, topic: str) -> list[Writer]:
        return [writer for writer in self.writers if writer.topic == topic]

    def cut(self, site: Site, *others: Site) -> None:
        """Nothing comes from the site to these and back any more."""
        for pair, wire in self._wires.items():
            if site in pair and set(pair) & set(others):
                wire.cut()

    def heal(self) -> None:
        for wire in self._wires.values():
            wire.heal()

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

    # harm

    def kill_server(self, choice: random.Random) -> None:
        """With it ends its replicator."""
        site = choice.choice(self.sites)
        say("kill", site)
        site.kill()
        site.start()

    def kill_replicator(self, choice: random.Random) -> None:
        site = choice.choice(self.sites)
        say("kill the replicator of", site)
        pid = site.replicator_pid()
        if pid is not None:
            kill_pid(pid)

    def kill_two_servers(self, choice: random.Random) -> None:
        """At once, and the second one comes back first."""
        one, other = choice.sample(self.sites, 2)
        say("kill", one, other)
        for site in (one, other):
            site.kill()
        for site in (other, one):
            site.start()

    def kill_worker(self, choice: random.Random) -> None:
        """A task of Spark; if its replicator has begun any."""
        site = choice.choice(self.sites)
        say("kill a worker of", site)
        for pid in site.spark_worker_pids()[:1]:
            kill_pid(pid)

    def cut_wire(self, choice: random.Random) -> None:
        """Between two sites, both ways."""
        one, other = choice.sample(self.sites, 2)
        say("cut", one, other)
        self.cut(one, other)
        choice.choice(self.writers).wait_for_turns(3)

    def no_harm(self, _: random.Random) -> None:
        say("no harm")


def say(what: str, *about: object) -> None:
    """Shown if the test fails, or with -s."""
    print(f"{time.strftime('%H:%M:%S')} {what}", *(each.name if isinstance(each, Site) else each for each in about))


def path(site: Site) -> str:
    return f"/mapr/{site.name}{STREAM}"


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


def rows(site: Site, route: str, **params: str) -> list[dict[str, Any]]:
    """What a server answers; nothing while it is away."""
    with suppress(httpx.TransportError):
        answer = httpx.get(f"{site.url}/rest/{route}", params=params, timeout=WAIT_SECONDS).json()
        data: list[dict[str, Any]] = answer.get("data", [])
        return data
    return []


@contextmanager
def running(folder: Path, *names: str) -> Iterator[list[Site]]:
    """Sites that know themselves only."""
    started = []
    try:
        for name in names:
            home = folder / f"home of {name}"
            home.mkdir()
            site = Site(name, home, SETTINGS)
            started.append(site)
            site.start()
        yield started
    finally:
        for site in started:
            site.stop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Each site has links to the two others, and reaches them over wires only."""
    with Wires() as wires, running(tmp_path, *NAMES) as sites:
        between = {(here, there): wires.to(there.url) for here, there in permutations(sites, 2)}
        for (here, _), wire in between.items():
            here.cli("cluster", "add", "-http", wire.url)
        for site in sites:
            site.cli("stream", "create", "-path", path(site), "-defaultpartitions", str(PARTITIONS))
        for topic in TOPICS:
            sites[0].cli("stream", "topic", "create", "-path", path(sites[0]), "-topic", topic)
        for here, there in between:
            there.cli("stream", "upstream", "add", "-path", path(there), "-upstream", path(here))
            here.cli("stream", "replica", "add", "-path", path(here), "-replica", path(there))
        wait_until(lambda: all(topics_of(site) == {*TOPICS} for site in sites), "all links carry")
        world = World(sites, between)
        try:
            yield world
        finally:
            for writer in world.writers:
                writer.stop()


def test_three_sites_keep_what_they_acknowledged_over_kills_cuts_transfers_and_takeovers(world: World) -> None:
    """At the end each acknowledged record is at its offset at all three sites, or in a diverged topic at its own; no
    offset holds two values, no topic holds a value twice, and the sites hold the same."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    for number in range(3 * ROUNDS):
        one_round(world, number)
    for writer in world.writers:
        writer.stop()
        writer.check()
    acknowledged = [each for writer in world.writers for each in writer.acknowledged]
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


class Meanwhile:
    """Work in a thread; `end` waits for it and raises what it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # raised by end()
            self._error = error

    def end(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def unsettled(world: World) -> list[str]:
    """What keeps the sites from being at rest with the same topics of the same owners, a line each."""
    known = [
        {(row["topic"], row["owner"]) for row in rows(site, "stream/topic/list", path=STREAM)} for site in world.sites
    ]
    found = [f"{site.name} knows {here}" for site, here in zip(world.sites, known, strict=True) if here != known[0]]
    for site in world.sites:
        found += [f"{site.name} works: {row}" for row in rows(site, "job/list") if row["state"] == "running"]
        links = rows(site, "stream/replica/list", path=STREAM)
        found += [
            f"{site.name} has sent not all: {row}" for row in links if not row["isUptodate"] or row["putsPending"]
        ]
    return found if known[0] else [f"{world.sites[0].name} knows no topic"]


def settled(world: World, acknowledged: list[Acknowledged]) -> bool:
    """Copies of diverged records may come last."""
    if unsettled(world):
        return False
    first, *others = [stored(site) for site in world.sites]
    return not missing(acknowledged, first) and not any(differences(first, other) for other in others)


def topics_of(site: Site) -> set[str]:
    return {str(row["topic"]) for row in rows(site, "stream/topic/list", path=STREAM)}


def stored(site: Site) -> Stored:
    return read_all(site.kafka, topics_of(site), prefix=PREFIX)


def missing(acknowledged: list[Acknowledged], found: Stored) -> list[str]:
    """Acknowledged records that are neither at their place nor at the same one in a diverged topic."""
    names = {place.topic for place in found}
    return [
        f"{each.place}: {each.value!r}, acknowledged by {each.site}, is lost; {here!r} is there"
        for each in acknowledged
        if each.value not in (here := values_at(each.place, names, found))
    ]


def values_at(place: Place, names: set[str], found: Stored) -> list[bytes | None]:
    """What is at a place of a topic, and of those that keep its diverged records."""
    own = [name for name in names if name == place.topic or name.startswith(f"{place.topic}.diverged.")]
    places = [place._replace(topic=name) for name in own]
    return [found[each].value for each in places if each in found]


def faults(acknowledged: list[Acknowledged], found: Stored) -> list[str]:
    """What is lost, and what a topic holds twice."""
    held = Counter((place.topic, content.value) for place, content in found.items())
    return missing(acknowledged, found) + [
        f"{topic} holds {value!r} {count} times" for (topic, value), count in held.items() if count > 1
    ]
