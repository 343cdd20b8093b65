"""Stage A: ducks are loaded in Tokyo, Singapore knows it before the ship comes, and at sea there is no link."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

from examples.shipping import cargo, routes
from examples.shipping.fleet import (
    ALERTS,
    BLUE,
    FIRST_SHIP,
    HEADQUARTERS,
    HUB,
    LOG,
    MAKER,
    REPORTS,
    movements_of,
    partner,
)
from examples.shipping.pipelines.arrivals import arrivals
from examples.shipping.pipelines.positions import positions
from examples.shipping.pipelines.ship_log import ship_log
from examples.shipping.play import Play, after, lying, voyage
from examples.shipping.receivers import latest, read
from examples.shipping.sensors import BEGAN_MS, HOUR_MS, Where
from examples.ships import traffic

PORT = "tokyo"
SAILS_MS = after(BEGAN_MS, 6)
HOURS = 168
ARRIVES_MS = after(SAILS_MS, HOURS)
EVERY = 4
"""Hours between two readings at sea."""
WATCH_HOURS = 4
ASKED_HOURS_BEFORE = 48
WRONG_BY_AT_MOST_HOURS = 2
"""So far off may the estimate of that time be: four in a hundred of what is left, and speeds are read to some tenths of
a knot of seventeen."""
LOST = f"{FIRST_SHIP}.lost"
"""The topic of the ship's alerts."""


def play_it(play: Play) -> None:
    """From the quay in Tokyo to a day before Singapore."""
    play.chapter("A: Tokyo")
    _maker(play)
    ducks = cargo.from_tokyo()
    play.stage.say(
        f"{len(ducks)} containers are brought to the quay, {sum(each.cargo == 'ducks' for each in ducks)} of ducks"
    )
    play.in_service(ducks, PORT)
    for hour in range(2):
        play.world.listen(Where(PORT, *routes.PORTS[PORT], after(BEGAN_MS, hour)))
    traffic.create_topics(play.at[FIRST_SHIP].kafka, [FIRST_SHIP], prefix=f"{LOG}:")
    traffic.create_topics(play.at[FIRST_SHIP].kafka, [LOST], prefix=f"{ALERTS}:")
    play.docks(lying(FIRST_SHIP, PORT, after(BEGAN_MS, 2)))
    play.loads(ducks, PORT, FIRST_SHIP)
    play.checks(FIRST_SHIP, PORT, after(BEGAN_MS, 5), PORT, [PORT])
    play.map()
    play.leaves(FIRST_SHIP, PORT)
    _knows_before(play, ducks)
    _at_sea(play, ducks)


def _maker(play: Play) -> None:
    play.stage.say(f"{MAKER}, another company, gets the containers of its ducks and a report, and nothing else")
    numbers = cargo.pattern_of(each for each in cargo.from_tokyo() if each.cargo == "ducks")
    for commands in (partner(BLUE, PORT, MAKER, numbers), partner(REPORTS, PORT, MAKER)):
        for command in commands:
            play.harbour.type([command])


def _knows_before(play: Play, loaded: list[cargo.Container]) -> None:
    """What the port has announced, read at the next port and at headquarters."""
    topic = f"{movements_of(PORT)}:containers"
    for place in (HUB, HEADQUARTERS):
        said = [json.loads(value) for value in read(play.at[place].kafka, [topic], len(loaded)).values()]
        listed = {each["container"] for each in said if (each["event"], each["ship"]) == ("loaded", FIRST_SHIP)}
        here = play.held(place, loaded)
        on_board = {
            json.loads(value)["container"] for value in here.values() if json.loads(value)["place"] == FIRST_SHIP
        }
        expected = {each.number for each in loaded}
        play.stage.claim(
            f"{place} knows the loading before the ship docks",
            listed == on_board == expected and here == play.world.written(topics_of(loaded)),
            f"{len(listed)} loaded by the port's word, {len(on_board)} heard on board; {len(here):,} records",
        )


def _at_sea(play: Play, on_board: list[cargo.Container]) -> None:
    play.stage.say(f"at sea, {HOURS} hours: no link; a reefer fails; sensors go on writing on board")
    failed = next(each for each in on_board if each.cargo == "tuna")
    play.world.sensors[failed.number].cooling = False
    before = {place: play.end_offsets(place, on_board) for place in (PORT, HUB)}
    play.sails(voyage(FIRST_SHIP, PORT, HUB, SAILS_MS, HOURS), PORT, EVERY)
    play.map()
    on_ship = play.end_offsets(FIRST_SHIP, on_board)
    ashore = {place: play.end_offsets(place, on_board) for place in before}
    play.stage.claim(
        "at sea nothing of the ship comes ashore, and all is kept on board",
        ashore == before and on_ship - before[PORT] == play.ships[FIRST_SHIP].waits > 0,
        f"{on_ship - before[PORT]:,} readings on board alone; {', '.join(before)} have 0 of them",
    )
    _keeps_log(play)


def _keeps_log(play: Play) -> None:
    """The ship's own Spark queries: its log, and when it comes."""
    analysts, site = play.analysts(), play.at[FIRST_SHIP]
    began = time.monotonic()
    heard = positions(analysts.following(site, LOG))
    ways = {HUB: routes.way(PORT, HUB)}
    for name, found in (("log", ship_log(heard)), ("arrivals", arrivals(heard, ways))):
        group = ("ship", "watch") if name == "log" else ("ship", "bound", "since")
        analysts.sum_up(name, found, site, LOG, f"{FIRST_SHIP}.{name}", *group)
    took = time.monotonic() - began
    watches = sorted(_ms(row["watch"]) for row in _rows(play, "log"))
    said = [row for row in _rows(play, "arrivals") if _ms(row["at"]) <= after(ARRIVES_MS, -ASKED_HOURS_BEFORE)]
    then = max((row for row in said if "arrives" in row), key=lambda row: _ms(row["at"]))
    wrong = abs(_ms(then["arrives"]) - ARRIVES_MS) / HOUR_MS
    play.stage.claim(
        "the ship keeps its log and says when it comes",
        wrong < WRONG_BY_AT_MOST_HOURS and watches == list(range(BEGAN_MS, ARRIVES_MS, WATCH_HOURS * HOUR_MS)),
        f"{len(watches)} watches, each once; its arrival to {wrong:.1f} h, "
        f"{(ARRIVES_MS - _ms(then['at'])) / HOUR_MS:.0f} h and {then['miles_left']} miles before; "
        f"asked in {took:.0f} s",
    )


def _rows(play: Play, name: str) -> list[dict[str, Any]]:
    return latest(play.at[FIRST_SHIP].kafka, f"{LOG}:{FIRST_SHIP}.{name}")


def _ms(said: str) -> int:
    """A time in a record, in milliseconds since 1970."""
    return round(datetime.fromisoformat(said).timestamp() * 1000)


def topics_of(containers: list[cargo.Container]) -> list[str]:
    """As Kafka clients name them."""
    return [f"{each.stream}:{each.topic}" for each in containers]
