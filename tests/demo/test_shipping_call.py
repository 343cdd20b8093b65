"""One call of the shipping demo, with two clusters: a ship asks a port, a container changes hands, the ship leaves.

And all of the demo, as people see it.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from examples.shipping import cargo, fleet
from examples.shipping.fleet import BLUE, FIRST_SHIP
from examples.shipping.harbour import Harbour
from examples.shipping.receivers import Receiver, gapless, read
from examples.shipping.routes import PORTS
from examples.shipping.sensors import BEGAN_MS, HOUR_MS, Where
from examples.shipping.world import World, counts_through, stages_of, topic_of
from examples.ships import traffic
from examples.ships.asked import Asked
from examples.ships.sites import Site, Sites
from examples.ships.stage import Stage
from rich.console import Console
from tests.support.charts import chart_options, drawn

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
PORT = "tokyo"
DUCKS = cargo.batch("blue", "ducks", ["sydney"] * 3, 100, 0)


@dataclass(frozen=True, slots=True)
class Quay:
    """A port, and a ship that comes there."""

    at: dict[str, Site]
    world: World
    harbour: Harbour


@pytest.fixture(scope="module")
def quay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quay]:
    sites = Sites(tmp_path_factory.mktemp("quay"))
    try:
        at = {name: sites.start(name) for name in (PORT, FIRST_SHIP)}
        harbour = Harbour(Stage(sites, Console(file=io.StringIO())), sites, at)
        streams = {link.stream for link in fleet.links_of_call(FIRST_SHIP, PORT)}
        harbour.type([("stream", "create", "-path", fleet.path(name, each)) for name in at for each in sorted(streams)])
        yield Quay(at, World({name: Receiver(name, site.kafka) for name, site in at.items()}), harbour)
        harbour.close()
    finally:
        assert sites.stop() == []


def listen(quay: Quay, place: str, hour: int) -> None:
    quay.world.listen(Where(place, *PORTS[PORT], BEGAN_MS + hour * HOUR_MS), everything=True)


def records(quay: Quay, place: str) -> int:
    return Asked(quay.at[place].kafka, [topic_of(each) for each in DUCKS], 1).records()


def test_containers_go_on_board_with_their_topics_and_a_ship_that_left_keeps_what_it_hears(quay: Quay) -> None:
    """Quay, ship, and quay again after the ship has come back: one topic without a gap, alike in both clusters."""
    traffic.create_topics(quay.at[PORT].kafka, [each.topic for each in DUCKS], prefix=f"{BLUE}:")
    quay.world.enter(DUCKS, PORT)
    listen(quay, PORT, 0)
    quay.harbour.docks(FIRST_SHIP, PORT)
    quay.harbour.hand_over(DUCKS, PORT, FIRST_SHIP)
    quay.world.stands(DUCKS, FIRST_SHIP)
    listen(quay, FIRST_SHIP, 1)
    quay.harbour.leaves(FIRST_SHIP, PORT)
    ashore = records(quay, PORT)
    assert ashore == records(quay, FIRST_SHIP) == 6
    listen(quay, FIRST_SHIP, 2)
    assert (records(quay, PORT), records(quay, FIRST_SHIP)) == (6, 9)
    quay.harbour.docks(FIRST_SHIP, PORT)
    quay.harbour.in_step(fleet.links_of_call(FIRST_SHIP, PORT), "the port has what was heard at sea")
    quay.harbour.hand_over(DUCKS, FIRST_SHIP, PORT)
    quay.world.stands(DUCKS, PORT)
    listen(quay, PORT, 3)
    topics = [topic_of(each) for each in DUCKS]
    written = quay.world.written(topics)
    assert len(written) == 12
    for site in quay.at.values():
        found = read(site.kafka, topics, 12)
        assert found == written
        for topic in topics:
            assert stages_of(found, topic) == [PORT, FIRST_SHIP, PORT]
            assert gapless(found, topic)
            assert counts_through(found, topic)


@pytest.mark.timeout(1800)  # nine clusters: alone it takes four minutes, where others work beside it more
def test_the_demo_plays_and_all_of_its_claims_hold(tmp_path: Path) -> None:
    """From the loading in Tokyo to what everybody knows at the end."""
    chart = tmp_path / "shipping.png"
    command = [sys.executable, "-m", "examples.shipping.demo", *chart_options(chart)]
    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1700, check=False)
    assert played.returncode == 0, played.stdout + played.stderr
    assert "OK: 23 claims hold; " in played.stdout
    assert drawn(chart)
