"""Some sites with wires between them, what harm a test may do to them, and what they hold, read from outside."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Self

import httpx

from tests.crash.writers import Acknowledged, Writer
from tests.support.carrier import CarriedSite
from tests.support.http_calls import post
from tests.support.records import Content, Place, differences, read_all
from tests.support.sites import Site, kill_pid
from tests.support.waiting import WAIT_SECONDS
from tests.support.wires import Wire, Wires

STREAM = "/cargo"
PREFIX = STREAM + ":"
PARTITIONS = 2
SETTINGS = {"replicator_workers": "1", "merge_commits_min": "50", "merge_interval_seconds": "1"}
Stored = Mapping[Place, Content]
Between = Mapping[tuple[Site, Site], Wire]
"""By who uses a wire, and whom he reaches over it."""


class Network:
    """The sites, the wires between them, and who writes."""

    def __init__(self, sites: list[Site], wires: Between) -> None:
        self.sites = sites
        self._wires = wires
        self.writers: list[Writer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for writer in self.writers:
            writer.stop()

    def acknowledged(self) -> list[Acknowledged]:
        """All of it, once nobody writes any more.

        Raises:
            BaseException: what ended a writer before.
        """
        for writer in self.writers:
            writer.stop()
            writer.check()
        return [each for writer in self.writers for each in writer.acknowledged]

    def cut(self, site: Site, *others: Site) -> None:
        """Nothing comes from the site to these and back any more."""
        for pair, wire in self._wires.items():
            if site in pair and set(pair) & set(others):
                wire.cut()

    def heal(self) -> None:
        for wire in self._wires.values():
            wire.heal()

    def kill_server(self, choice: random.Random) -> None:
        """With it ends its replicator."""
        site = choice.choice(self.sites)
        say("kill", site)
        site.kill()
        site.start()

    def kill_replicator(self, choice: random.Random) -> None:
        site = choice.choice(self.sites)
        say("kill the replicator of", site)
        site.kill_replicator()

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
        choice.choice([writer for writer in self.writers if not writer.is_stopped]).wait_for_turns(3)

    def no_harm(self, _: random.Random) -> None:
        say("no harm")


def say(what: str, *about: object) -> None:
    """Shown if the test fails, or with -s."""
    print(f"{time.strftime('%H:%M:%S')} {what}", *(each.name if isinstance(each, Site) else each for each in about))


def path(site: Site) -> str:
    return f"/mapr/{site.name}{STREAM}"


def rows(site: Site, route: str, **params: str) -> list[dict[str, Any]]:
    """What a server answers; nothing while it is away."""
    with suppress(httpx.TransportError):
        answer = httpx.get(f"{site.url}/rest/{route}", params=params, timeout=WAIT_SECONDS).json()
        data: list[dict[str, Any]] = answer.get("data", [])
        return data
    return []


def order(site: Site, route: str, **params: Any) -> None:
    """A command, without a process for it."""
    answer = post(f"{site.url}/rest/{route}", json=params).json()
    assert answer["status"] == "OK", answer


def side_by_side(site_does: Callable[[Site], None], sites: Iterable[Site]) -> None:
    """All at once. Raises what the first raised that failed, once all have ended."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(site_does, sites))


@contextmanager
def running(folder: Path, *names: str, without_spark: Container[str] = ()) -> Iterator[list[Site]]:
    """Sites that know themselves only."""
    homes = [folder / f"home of {name}" for name in names]
    for home in homes:
        home.mkdir()
    sites = [
        (CarriedSite if name in without_spark else Site)(name, home, SETTINGS)
        for name, home in zip(names, homes, strict=True)
    ]
    try:
        side_by_side(methodcaller("start"), sites)
        yield sites
    finally:
        side_by_side(methodcaller("stop"), sites)


@contextmanager
def linked(
    folder: Path, names: Iterable[str], neighbours: Iterable[tuple[int, int]], *, without_spark: Container[str] = ()
) -> Iterator[tuple[list[Site], Between]]:
    """Neighbours, by their numbers, have links both ways, over wires only. No site has a topic."""
    with Wires() as wires, running(folder, *names, without_spark=without_spark) as sites:
        pairs = [(sites[one], sites[other]) for one, other in neighbours]
        between = {(here, there): wires.to(there.url) for pair in pairs for here, there in (pair, pair[::-1])}
        side_by_side(partial(_learn_neighbours, between), sites)
        for site in sites:
            order(site, "stream/create", path=path(site), defaultpartitions=str(PARTITIONS))
        for here, there in between:
            order(there, "stream/upstream/add", path=path(there), upstream=path(here))
        for (here, there), wire in between.items():
            known = {there.name: [wire.url]}
            order(here, "stream/replica/add", path=path(here), replica=path(there), clusters=known)
        yield sites, between


def _learn_neighbours(between: Between, site: Site) -> None:
    for (here, _), wire in between.items():
        if here is site:
            site.cli("cluster", "add", "-http", wire.url)


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


def unsettled(network: Network) -> list[str]:
    """What keeps the sites from being at rest with the same topics of the same owners, a line each."""
    known = [
        {(row["topic"], row["owner"]) for row in rows(site, "stream/topic/list", path=STREAM)} for site in network.sites
    ]
    found = [f"{site.name} knows {here}" for site, here in zip(network.sites, known, strict=True) if here != known[0]]
    for site in network.sites:
        found += [f"{site.name} works: {row}" for row in rows(site, "job/list") if row["state"] == "running"]
        links = rows(site, "stream/replica/list", path=STREAM)
        found += [
            f"{site.name} has sent not all: {row}" for row in links if not row["isUptodate"] or row["putsPending"]
        ]
    return found if known[0] else [f"{network.sites[0].name} knows no topic"]


def settled(network: Network, acknowledged: list[Acknowledged]) -> bool:
    """Copies of diverged records may come last."""
    if unsettled(network):
        return False
    first, *others = [stored(site) for site in network.sites]
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
