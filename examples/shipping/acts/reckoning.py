"""At the end: histories at every site, what other companies were told, what moved over each link, and the picture."""

from __future__ import annotations

import json

from examples.shipping import cargo, fleet, routes
from examples.shipping.acts import singapore, sydney, tokyo
from examples.shipping.cargo import Container
from examples.shipping.fleet import (
    ALERTS,
    AUTHORITY,
    BLUE,
    FIRST_SHIP,
    HUB,
    MAKER,
    OFFICES,
    REPORTS,
    SECOND_SHIP,
    SHIPS,
)
from examples.shipping.pipelines.lost import alerts
from examples.shipping.pipelines.movements import movements
from examples.shipping.pipelines.positions import positions
from examples.shipping.pipelines.readings import readings
from examples.shipping.pipelines.subset import report
from examples.shipping.play import Play, after, lying, voyage
from examples.shipping.receivers import gapless, latest, read
from examples.shipping.routes import Position
from examples.shipping.sensors import BEGAN_MS
from examples.shipping.watch import Moved
from examples.shipping.world import counts_through, stages_of, topic_of
from examples.ships import traffic
from rich.table import Table

RED_SHIP = "redhen"
"""A ship of another company, which is seen in Singapore."""


def play_it(play: Play) -> None:
    """All that is told in the end."""
    play.chapter("What everybody knows")
    _histories(play)
    _maker(play)
    _authority(play)
    play.watch.look()
    play.console.print(moved_table(list(play.watch.course.moved.values())))


def _histories(play: Play) -> None:
    """One container's, shown; and all of them at all offices."""
    every = [*cargo.from_tokyo(), *cargo.from_singapore()]
    topics = [topic_of(each) for each in every]
    written = play.world.written(topics)
    held = {office: play.held(office, every) for office in OFFICES}
    whole = all(gapless(written, topic) and counts_through(written, topic) for topic in topics)
    play.stage.claim(
        "every container's history is one topic without a gap, the same at every office",
        whole and all(found == written for found in held.values()),
        f"{len(topics)} containers, {len(written):,} records at the same offsets in {len(held)} offices",
    )
    _one(play, next(each for each in every if each.bound == "london"))


def _one(play: Play, duck: Container) -> None:
    """From quay to quay to quay, over two ships."""
    topic = topic_of(duck)
    way = ["tokyo", FIRST_SHIP, HUB, SECOND_SHIP, "london"]
    places = [*OFFICES, *SHIPS, MAKER]
    held = {place: play.held(place, [duck]) for place in places}
    owners = {str(row["owner"]) for row in play.at[HUB].ask("/rest/stream/topic/info", path=BLUE, topic=duck.topic)}
    play.stage.claim(
        f"{duck.number} went over two ships and three quays in one topic",
        all(stages_of(found, topic) == way and gapless(found, topic) for found in held.values())
        and all(found == held[HUB] for found in held.values())
        and owners == {fleet.path("london", BLUE)},
        f"{' → '.join(way)}; {len(held[HUB])} records, alike in {len(held)} clusters, owned by {', '.join(owners)}",
    )


def _maker(play: Play) -> None:
    """His replica, and the report about it."""
    play.stage.say(f"the report to {MAKER} is written")
    analysts, site = play.analysts(), play.at["tokyo"]
    told = alerts(analysts.now(site, ALERTS))
    analysts.tell(
        report(readings(analysts.now(site, BLUE)), cargo.from_tokyo(), told), site, REPORTS, "report", "container"
    )
    ducks = [each for each in cargo.from_tokyo() if each.cargo == "ducks"]
    said = latest(play.at[MAKER].kafka, f"{REPORTS}:report", len(ducks))
    fates = {str(each["container"]): str(each["fate"]) for each in said}
    lost = {number for number, fate in fates.items() if fate == "lost"}
    play.stage.claim(
        f"{MAKER} reads the fate of each of his containers",
        lost == {each.number for each in play.gone}
        and fates.keys() == {each.number for each in ducks}
        and set(fates.values()) == {"lost", "arrived"},
        f"{len(fates)} containers: {len(fates) - len(lost)} arrived, {len(lost)} lost",
    )
    topics = play.harbour.topics(MAKER, BLUE)
    here = play.held(MAKER, ducks)
    play.stage.claim(
        f"{MAKER} has his containers and no other",
        topics == {each.topic for each in ducks} and here == play.world.written([topic_of(each) for each in ducks]),
        f"{len(topics)} topics, {len(here):,} records; {len(play.harbour.topics(HUB, BLUE))} topics are in {HUB}",
    )


def _authority(play: Play) -> None:
    """What Singapore's receiver heard of all ships becomes movements."""
    play.stage.say(f"{HUB}'s receiver has heard all companies' ships; Spark tells {AUTHORITY} who docked and left")
    analysts, site = play.analysts(), play.at[HUB]
    stream = fleet.movements_of(HUB)
    traffic.create_topics(site.kafka, ["ships"], prefix=f"{stream}:")
    traffic.create_topics(site.kafka, ["ships"], prefix=f"{fleet.heard_at(HUB)}:")
    heard = heard_in_singapore()
    play.world.hears(HUB, heard)
    found = movements(positions(analysts.following(site, fleet.heard_at(HUB))))
    analysts.write_once("movements", found, site, stream, "ships", "ship")
    expected = {(ship, event) for ship in (FIRST_SHIP, SECOND_SHIP, RED_SHIP) for event in ("docked", "left")}
    rows = [json.loads(value) for value in read(play.at[AUTHORITY].kafka, [f"{stream}:ships"], len(expected)).values()]
    told = [(row["ship"], row["event"]) for row in rows if row["port"] == HUB]
    companies = {str(row["company"]) for row in rows}
    play.stage.claim(
        f"{AUTHORITY} knows which ships of all companies docked and left",
        sorted(told) == sorted(expected) and len(companies) > 1,
        f"{len(told)} movements of {len({ship for ship, _ in told})} ships of {' and '.join(sorted(companies))}",
    )


def heard_in_singapore() -> list[Position]:
    """Ships that came near, by what they said there."""
    arrived = voyage(FIRST_SHIP, "tokyo", HUB, tokyo.SAILS_MS, tokyo.HOURS)
    left = voyage(FIRST_SHIP, HUB, "sydney", singapore.SAILS_MS, sydney.HOURS)
    second = voyage(SECOND_SHIP, HUB, "london", after(singapore.SAILS_MS, 2), singapore.HOURS_TO_LONDON)
    other = routes.voyage(RED_SHIP, "Red", HUB, "sydney", after(BEGAN_MS, 60), 250, 7)
    came = lying(SECOND_SHIP, HUB, singapore.SAILS_MS)
    return [*arrived[-3:], *left[:3], came, *second[:3], *list(other)[:3]]


def moved_table(moved: list[Moved]) -> Table:
    """What went over each link in each chapter."""
    made = Table(title="what moved over each link")
    for heading in ("chapter", "from", "to", "seconds", "records", "bytes"):
        made.add_column(heading, justify="right" if heading in ("seconds", "records", "bytes") else "left")
    for each in sorted(moved, key=lambda each: (each.first, each.way)):
        when = f"{each.first:.0f} - {each.last:.0f}"
        made.add_row(each.chapter, *each.way, when, f"{each.records:,}", f"{each.size_bytes:,}")
    return made
