"""Stage B: what was recorded at sea comes ashore and goes on; ducks stay, containers of others come, a second ship."""

from __future__ import annotations

import json
import time
from typing import Any

from examples.shipping import cargo, routes
from examples.shipping.acts import tokyo
from examples.shipping.cargo import Container
from examples.shipping.fleet import (
    ALERTS,
    AUTHORITY,
    BLUE,
    FIRST_SHIP,
    HEADQUARTERS,
    HUB,
    LOG,
    OFFICES,
    RECIPIENTS,
    RETAIL,
    SECOND_SHIP,
    SUMMARIES,
    movements_of,
    partner,
    path,
)
from examples.shipping.pipelines.breaches import breaches
from examples.shipping.pipelines.hourly import hourly
from examples.shipping.pipelines.readings import readings
from examples.shipping.play import Play, after, lying, voyage
from examples.shipping.receivers import latest
from examples.shipping.sensors import Where
from examples.shipping.world import counts_through, stages_of, topic_of
from examples.ships import traffic
from examples.ships.traffic import now_ms
from pyspark.sql import functions as f

PORT = HUB
ARRIVED_MS = tokyo.ARRIVES_MS
SHORE_HOURS = 6
"""So long unloaded ducks are heard ashore."""
SAILS_MS = after(ARRIVED_MS, 24)
HOURS_TO_LONDON = 460
EVERY_TO_LONDON = 12
BREACHES = f"{PORT}.breaches"


def play_it(play: Play) -> None:
    """From the first ship's arrival to the second one's in London."""
    play.chapter("B: Singapore")
    for command in partner(movements_of(PORT), PORT, AUTHORITY):
        play.harbour.type([command])
    _comes_ashore(play)
    _breaches(play)
    _calls(play)
    _shops(play)
    _environment(play)
    play.leaves(FIRST_SHIP, PORT)
    play.chapter("B: London")
    _second_ship(play)


def _comes_ashore(play: Play) -> None:
    """The catch-up, and on from here."""
    on_board = play.world.at(FIRST_SHIP)
    waited = play.ships[FIRST_SHIP].waits
    began = time.monotonic()
    play.docks(lying(FIRST_SHIP, PORT, ARRIVED_MS))
    play.in_step()
    took = time.monotonic() - began
    written = play.world.written(tokyo.topics_of(on_board))
    missing = {place: len(written.keys() - play.held(place, on_board).keys()) for place in (PORT, "tokyo", "sydney")}
    play.map()
    play.stage.claim(
        f"what was recorded at sea is in {', '.join(missing)}",
        not any(missing.values()),
        f"{waited:,} readings of the passage, {took:.1f} s after the ship docked; {sum(missing.values())} missing",
    )


def _breaches(play: Play) -> None:
    """What the passage did to the cargo."""
    analysts, site = play.analysts(), play.at[PORT]
    play.stage.say("Spark looks for cargo that fared badly")
    traffic.create_topics(site.kafka, [BREACHES], prefix=f"{ALERTS}:")
    found = breaches(readings(analysts.following(site, BLUE)), cargo.from_tokyo())
    analysts.sum_up("breaches", found, site, ALERTS, BREACHES, "container", "since")
    play.in_step()
    told = latest(play.at[HEADQUARTERS].kafka, f"{ALERTS}:{BREACHES}")
    failed = next(each.number for each in play.world.at(FIRST_SHIP) if each.cargo == "tuna")
    play.stage.claim(
        f"{HEADQUARTERS} is told of the reefer that thawed, and of no other",
        {each["container"] for each in told} == {failed},
        f"{failed}: up to {max(each['celsius_max'] for each in told):.1f} °C, {len(told)} days",
    )


def _calls(play: Play) -> None:
    """Some go ashore, others come on board."""
    play.stage.say("ducks for local shops and for London go ashore; Red and Yellow containers come on board")
    for bound in (PORT, "london"):
        play.unloads(play.world.at(FIRST_SHIP, bound, "ducks"), FIRST_SHIP, PORT)
    others = cargo.from_singapore()
    known, new = others[:-1], others[-1]
    play.in_service(known, PORT)
    play.world.listen(Where(PORT, *routes.PORTS[PORT], after(ARRIVED_MS, 2)))
    play.stage.say(f"{new.number} of {new.owner.capitalize()} is newly in service")
    before = sum(play.end_offsets(office, [new]) for office in OFFICES)
    play.in_service([new], PORT)
    play.loads(others, PORT, FIRST_SHIP)
    for hour in range(SHORE_HOURS):
        play.world.listen(Where(PORT, *routes.PORTS[PORT], after(ARRIVED_MS, 4 + hour)), everything=True)
    play.checks(FIRST_SHIP, PORT, after(ARRIVED_MS, 20), PORT, ["tokyo", PORT])
    written = play.world.written([topic_of(new)])
    held = [play.held(office, [new]) for office in OFFICES]
    play.stage.claim(
        "a container newly in service is known everywhere, from its first reading on",
        before == 0 and counts_through(written, topic_of(new)) and all(found == written for found in held),
        f"{new.number}: {len(written)} records in each of {len(held)} offices, {before} before",
    )
    _ashore(play, play.world.at(PORT, cargo="ducks"))


def _ashore(play: Play, ducks: list[Container]) -> None:
    """Who writes their history now, and what the ship reads of it."""
    owners = {row["topic"]: row["owner"] for row in play.at[PORT].ask("/rest/stream/topic/list", path=BLUE)}
    owned = sum(owners[each.topic] == path(PORT, BLUE) for each in ducks)
    on_ship = play.held(FIRST_SHIP, ducks)
    here = sum(stages_of(on_ship, topic_of(each))[-1] == PORT for each in ducks)
    play.stage.claim(
        "ducks ashore report to the shore's cluster",
        owned == here == len(ducks) > 0 and on_ship == play.world.written(tokyo.topics_of(ducks)),
        f"{owned} of {len(ducks)} topics are owned by {PORT}, of {here} {FIRST_SHIP} reads that they are there",
    )


def _shops(play: Play) -> None:
    """Coarser views: by hour and place for shops, temperature and humidity by hour for recipients."""
    play.stage.say("shops and recipients get coarser views")
    analysts, site = play.analysts(), play.at[PORT]
    ashore = play.world.at(PORT, PORT)
    heard = readings(analysts.following(site, BLUE)).where(f.col("container").isin([each.number for each in ashore]))
    here = heard.where(f.col("place") == PORT)
    analysts.sum_up("retail", hourly(here, "place"), site, RETAIL, PORT, "place", "hour")
    by_container = hourly(here, "container").select("hour", "container", "celsius", "humidity")
    analysts.sum_up("recipients", by_container, site, RECIPIENTS, PORT, "container", "hour")
    retail = _rows(play, RETAIL, PORT)
    recipients = _rows(play, RECIPIENTS, PORT)
    count = sum(json.loads(value)["place"] == PORT for value in play.world.written(tokyo.topics_of(ashore)).values())
    play.stage.claim(
        "shops and recipients are told less than is known",
        sum(row["readings"] for row in retail) == count > 0
        and not any(row.keys() & {"container", "lat", "lon", "tilt"} for row in retail)
        and {row["container"] for row in recipients} == {each.number for each in ashore}
        and all(row.keys() == {"hour", "container", "celsius", "humidity"} for row in recipients),
        f"{count} readings as {len(retail)} hours for shops, {len(recipients)} rows for recipients",
    )


def _environment(play: Play) -> None:
    """Analysts get every hour of every container of Big Blue, wherever it was."""
    play.stage.say("environment analysts get every container's hours, at sea and ashore")
    analysts, site = play.analysts(), play.at[PORT]
    found = hourly(readings(analysts.following(site, BLUE)))
    analysts.sum_up("summaries", found, site, SUMMARIES, "hourly", "container", "place", "hour")
    rows, every = _rows(play, SUMMARIES, "hourly"), cargo.from_tokyo()
    count = len(play.world.written(tokyo.topics_of(every)))
    play.stage.claim(
        "environment analysts have each hour of each container, summed up",
        sum(row["readings"] for row in rows) == count > 0
        and {row["container"] for row in rows} == {each.number for each in every}
        and {row["place"] for row in rows} == {"tokyo", FIRST_SHIP, PORT},
        f"{count:,} readings as {len(rows):,} hours of {len(every)} containers",
    )


def _second_ship(play: Play) -> None:
    """It takes the ducks for London."""
    traffic.create_topics(play.at[SECOND_SHIP].kafka, [SECOND_SHIP], prefix=f"{LOG}:")
    ducks = play.world.at(PORT, "london")
    play.docks(lying(SECOND_SHIP, PORT, SAILS_MS))
    play.loads(ducks, PORT, SECOND_SHIP)
    play.checks(SECOND_SHIP, PORT, after(SAILS_MS, 1), PORT, ["tokyo", PORT])
    play.leaves(SECOND_SHIP, PORT)
    way = voyage(SECOND_SHIP, PORT, "london", after(SAILS_MS, 2), HOURS_TO_LONDON)
    play.stage.say(f"{SECOND_SHIP} sails for London, {HOURS_TO_LONDON} hours")
    play.sails(way, PORT, EVERY_TO_LONDON)
    play.docks(way[-1])
    since_ms = now_ms()
    play.unloads(ducks, SECOND_SHIP, "london")
    play.world.listen(Where("london", *routes.PORTS["london"], after(way[-1].time_ms, 3)), everything=True)
    play.in_step()
    play.checks_quay(SECOND_SHIP, "london", since_ms, HEADQUARTERS, ["tokyo", PORT, "london"])


def _rows(play: Play, stream: str, topic: str) -> list[dict[str, Any]]:
    return latest(play.at[PORT].kafka, f"{stream}:{topic}")
