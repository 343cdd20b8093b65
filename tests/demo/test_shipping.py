"""The shipping demo without clusters: who is linked to whom, what is written where, the map, the table, the picture."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from examples.shipping import cargo, fleet, textmap
from examples.shipping import watch as watching
from examples.shipping.acts.reckoning import heard_in_singapore, moved_table
from examples.shipping.fleet import CLUSTERS, HUB, OFFICES, SHIPS, WORLDWIDE, Link
from examples.shipping.harbour import call_at, short
from examples.shipping.lookout import Sightings, delays
from examples.shipping.play import Play, lying, voyage
from examples.shipping.receivers import gapless
from examples.shipping.routes import PORTS
from examples.shipping.sensors import BEGAN_MS
from examples.shipping.textmap import HEIGHT, WIDTH, Ship
from examples.shipping.watch import Course, Line, Moved, Watch, line_of, summed
from examples.shipping.world import counts_through, stages_of
from examples.ships.sites import Site, SiteFailed, Sites
from rich.console import Console
from tests.support.waiting import wait_until

TOPIC = "/containers/blue:BBLU0001000"


def reached(start: str, stream: str) -> set[str]:
    """Offices to which a stream comes from one of them, hop by hop."""
    links = [link for link in fleet.links_between_offices() if link.stream == stream]
    ways = {(link.source, link.replica) for link in links} | {(x.replica, x.source) for x in links if x.both_ways}
    found, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        for there in {replica for source, replica in ways if source == here} - found:
            found.add(there)
            waiting.append(there)
    return found


@pytest.mark.parametrize("stream", WORLDWIDE)
def test_what_one_port_writes_comes_to_all_offices(stream: str) -> None:
    """Headquarters reads, and writes nothing."""
    for port in fleet.PORTS:
        assert reached(port, stream) == set(OFFICES)
    assert reached(fleet.HEADQUARTERS, stream) == {fleet.HEADQUARTERS}


def test_movements_of_tokyo_are_told_to_the_next_port_and_to_headquarters() -> None:
    """And those of each port to headquarters."""
    assert {HUB, fleet.HEADQUARTERS} <= reached("tokyo", fleet.movements_of("tokyo"))
    assert all(fleet.HEADQUARTERS in reached(port, fleet.movements_of(port)) for port in fleet.PORTS)


def test_streams_that_a_ship_brings_are_on_board_and_worldwide() -> None:
    """Each is made on the ship before it first asks a port."""
    made = set(fleet.streams())
    for (ship, port), streams in fleet.CARRIED.items():
        assert {(ship, link.stream) for link in fleet.links_of_call(ship, port)} <= made
        assert ship in SHIPS
        assert port in fleet.PORTS
        assert set(streams) <= set(WORLDWIDE)
        assert {(ship, stream) for stream in streams} <= made
    assert {cluster for cluster, _ in made} <= set(CLUSTERS)


def test_a_call_is_one_agreement_of_both_ways_and_rests_on_both() -> None:
    """The ship's streams with the port's, and no other command is needed to end it."""
    link = Link("/alerts", "bluewhale", "sydney", True)
    assert link.set_up() == (
        *("stream", "replica", "autosetup", "-path", "/mapr/bluewhale/alerts", "-replica", "/mapr/sydney/alerts"),
        *("-useexistingreplica", "true", "-multimaster", "true"),
    )
    assert [each[-3::2] for each in link.order("pause")] == [
        ("/mapr/bluewhale/alerts", "/mapr/sydney/alerts"),
        ("/mapr/sydney/alerts", "/mapr/bluewhale/alerts"),
    ]
    assert len(Link("/alerts", HUB, fleet.HEADQUARTERS).order("pause")) == 1


def test_a_command_is_shown_with_the_first_of_many_numbers() -> None:
    """All of them are typed."""
    assert short(("stream", "topic", "transfer", "-topic", "A1|B2|C3", "-to", "x")) == (
        "fairlead stream topic transfer -topic 'A1|…' -to x"
    )


def test_another_company_is_a_partner_and_gets_only_what_is_named() -> None:
    """It is told of no other container."""
    *_, add = fleet.partner(fleet.BLUE, "tokyo", fleet.MAKER, "BBLU1|BBLU2")
    assert add[-4:-2] == ("-peer", "partner")
    assert add[-2:] == ("-topics", "BBLU1|BBLU2")


def test_a_ship_knows_by_its_position_where_it_lies() -> None:
    """At both ends of a voyage, and nowhere between."""
    way = voyage("bluewhale", "tokyo", HUB, BEGAN_MS, 168)
    assert (call_at(way[0]), call_at(way[-1])) == ("tokyo", HUB)
    assert {call_at(position) for position in way[1:-1]} == {None}
    assert call_at(lying("blueheron", "london", BEGAN_MS)) == "london"


def test_singapores_receiver_hears_ships_of_two_companies_come_and_go() -> None:
    """Each lies there, and is far away afterwards."""
    heard = heard_in_singapore()
    assert {(position.ship, position.company) for position in heard} == {
        ("bluewhale", "Big Blue"),
        ("blueheron", "Big Blue"),
        ("redhen", "Red"),
    }
    for ship in {position.ship for position in heard}:
        calls = [call_at(each) for each in sorted(heard, key=lambda each: each.time_ms) if each.ship == ship]
        assert HUB in calls
        assert calls[-1] is None


# ---------------------------------------------------------------- histories


def history(*said: tuple[str, int]) -> dict[tuple[str, int], bytes]:
    return {(TOPIC, n): json.dumps({"place": place, "seq": seq}).encode() for n, (place, seq) in enumerate(said)}


def test_a_history_tells_places_in_its_order_and_a_gap_is_seen() -> None:
    """In offsets, and in the sensor's own numbers."""
    whole = history(("tokyo", 0), ("tokyo", 1), ("bluewhale", 2), (HUB, 3), ("blueheron", 4))
    assert stages_of(whole, TOPIC) == ["tokyo", "bluewhale", HUB, "blueheron"]
    assert gapless(whole, TOPIC)
    assert counts_through(whole, TOPIC)
    assert not counts_through(history(("tokyo", 0), (HUB, 2)), TOPIC)
    assert not gapless({place: value for place, value in whole.items() if place[1] != 2}, TOPIC)
    assert not gapless({}, TOPIC)
    assert not counts_through({}, TOPIC)
    assert stages_of(history(("tokyo", 0), (HUB, 1), ("tokyo", 2)), TOPIC) == ["tokyo", HUB, "tokyo"]


# ---------------------------------------------------------------- links seen


def said(waiting: int, size: int, *, paused: bool = False) -> Line:
    return line_of({"putsPending": waiting, "recordsCopied": size // 10, "bytesCopied": size, "paused": paused})


def test_streams_of_a_way_are_summed_and_it_rests_only_as_a_whole() -> None:
    """Waiting, records and bytes."""
    way, other = ("tokyo", HUB), ("tokyo", "bluewhale")
    found = summed(
        {
            (way, "/ships"): said(3, 100),
            (way, "/alerts"): said(4, 50, paused=True),
            (other, "/ships"): said(9, 0, paused=True),
        }
    )
    assert found == {way: Line(7, 15, 150, False), other: Line(9, 0, 0, True)}


def test_what_moved_is_counted_by_chapter_from_first_to_last() -> None:
    """What had moved before is not counted again, and what stands still is no movement."""
    course, way = Course("A"), ("tokyo", HUB)
    for seconds, size in ((1, 0), (2, 100), (3, 300), (4, 300)):
        course.saw(seconds, {(way, "/ships"): said(0, size)})
    course.chapter = "B"
    course.saw(5, {(way, "/ships"): said(2, 300)})
    course.saw(6, {(way, "/ships"): said(0, 350)})
    assert list(course.moved.values()) == [Moved("A", way, 2, 3, 30, 300), Moved("B", way, 6, 6, 5, 50)]
    assert course.waiting[way][-2:] == [(5, 2), (6, 0)]
    assert moved_table(list(course.moved.values())).row_count == 2


def test_a_stream_without_an_answer_stays_as_it_was() -> None:
    """What it had sent is not counted again when it answers again."""
    course, way = Course("A"), ("tokyo", HUB)
    course.saw(1, {(way, "/ships"): said(0, 100), (way, "/alerts"): said(0, 50)})
    course.saw(2, {(way, "/alerts"): said(0, 60)})
    course.saw(3, {(way, "/ships"): said(0, 130), (way, "/alerts"): said(0, 60)})
    assert course.moved["A", way].size_bytes == 190


def test_only_the_lines_of_a_ships_last_call_are_shown() -> None:
    """What it writes at sea waits for the port that it left until it calls at the next, and no longer for that."""
    course, tokyo, hub = Course("A"), ("bluewhale", "tokyo"), ("bluewhale", HUB)
    course.calls["bluewhale"] = "tokyo"
    course.saw(1, {(tokyo, "/ships"): said(7, 100, paused=True), (tokyo[::-1], "/ships"): said(0, 100, paused=True)})
    assert course.shown.keys() == {tokyo, tokyo[::-1]}
    course.calls["bluewhale"] = HUB
    course.saw(2, {(tokyo, "/ships"): said(9, 100, paused=True), (hub, "/ships"): said(8, 10)})
    assert course.shown == {hub: said(8, 10)}
    assert course.waiting[tokyo] == [(1, 7)]
    assert course.waiting[hub] == [(2, 8)]


def ended() -> subprocess.Popen[bytes]:
    """A program that has ended."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return gone


def test_a_watch_whose_thread_has_died_says_so_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The course would lack what came then."""
    monkeypatch.setattr(watching, "EVERY_SECONDS", 0)
    watch = Watch({"tokyo": Site("tokyo", "", "http://host:port", ended())}, {"tokyo": ["/ships"]})
    wait_until(lambda: "watch" not in {thread.name for thread in threading.enumerate()}, "the thread has died")
    with pytest.raises(SiteFailed, match="watch over the links"):
        watch.stop()


def test_a_watch_looks_when_it_is_told_to_and_ends() -> None:
    """A cluster that has ended says nothing."""
    watch = Watch({"tokyo": Site("tokyo", "", "http://127.0.0.1:1", ended())}, {"tokyo": ["/ships"]})
    watch.look()
    watch.stop()
    assert watch.course.shown == {}


# ---------------------------------------------------------------- alerts


def test_a_lookout_notes_an_alert_once_with_its_delay() -> None:
    """From the time of the reading that showed it; the same alert again is told apart."""
    lookout = Sightings()
    value = json.dumps({"container": "C1", "kind": "overboard", "timestamp": "1970-01-01T00:00:10.250Z"}).encode()
    lookout.took(value, 11.5)
    lookout.took(value, 99)
    assert lookout.seen == {("C1", "overboard"): 1.25}
    assert lookout.twice == [("C1", "overboard")]


def test_delays_are_those_of_the_chosen_alerts_in_all_offices() -> None:
    """The worst office counts."""
    alert = ("C1", "overboard")
    seen = {"tokyo": {alert: 1.0, ("C2", "silent"): 9.0}, "london": {alert: 3.0}, "sydney": {alert: 2.0}}
    found = delays(seen, [alert])
    assert (found.median, found.p99, found.most, found.count) == (2.0, 3.0, 3.0, 3)
    assert delays(seen, [("C3", "overboard")]).count == 0


# ---------------------------------------------------------------- map and picture


@pytest.mark.parametrize("terminal", [True, False])
def test_on_a_terminal_the_map_moves_while_a_ship_sails(tmp_path: Path, terminal: bool) -> None:
    """With the records that wait on board. Elsewhere it is printed only when the story says so."""
    shown = io.StringIO()
    play = Play(Sites(tmp_path), Console(file=shown, force_terminal=terminal, width=WIDTH, height=2 * HEIGHT))
    play.watch = cast(Watch, SimpleNamespace(course=Course("A")))
    with play.moving():
        for place, waits in ((PORTS["tokyo"], "5"), (PORTS["sydney"], "1,700")):
            play.ships["bluewhale"] = Ship("bluewhale", place, "sails", int(waits.replace(",", "")))
            if terminal:
                wait_until(lambda waits=waits: f"{waits} records wait" in shown.getvalue(), "the map says so")  # type: ignore[misc]
    rows = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", shown.getvalue()).splitlines()
    places = {row.index("▲ bluewhale") for row in rows if "▲ bluewhale" in row and "sails" not in row}
    assert len(places) == (2 if terminal else 0)


def test_the_map_has_all_offices_ships_and_what_waits() -> None:
    """A link with something to send is drawn otherwise than one that is in step, and one without a line says so."""
    lines = {
        ("tokyo", HUB): Line(30, 0, 0, False),
        ("bluewhale", "tokyo"): Line(1200, 0, 0, True),
        (HUB, "sydney"): Line(0, 9, 9, False),
    }
    drawn = textmap.draw(lines, [Ship("bluewhale", (20.0, 121.0), "at sea, 50 %", 1200)])
    rows = drawn.splitlines()
    assert all(len(each) <= WIDTH for each in rows[:HEIGHT])
    assert all(sum(name in each for each in rows[:HEIGHT]) == 1 for name in (*OFFICES, fleet.MAKER, fleet.AUTHORITY))
    assert "▲ bluewhale" in "\n".join(rows[:HEIGHT])
    assert "•" in drawn
    assert "·" in drawn
    assert any("1,200 records (no link)" in each and "bluewhale" in each for each in rows)
    assert any("30 records" in each and "tokyo" in each for each in rows)
    assert "in step" in textmap.draw({}, [])


def test_los_angeles_lies_east_of_sydney_on_the_map() -> None:
    """It ends in America."""
    assert textmap.cell(PORTS["losangeles"])[0] > textmap.cell(PORTS["sydney"])[0]
    assert all(
        0 <= column < WIDTH and 0 <= line < HEIGHT for column, line in map(textmap.cell, textmap.PLACES.values())
    )


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    """Also of a ship that has gone nowhere yet."""
    pytest.importorskip("matplotlib", reason="make test, demos with a chart and the bench install it")
    from examples.shipping.picture import Seen, draw

    course = Course("A")
    for second in range(4):
        course.saw(
            second, {(("bluewhale", "tokyo"), "/ships"): said(second, 10), ((HUB, "tokyo"), "/ships"): said(0, 10)}
        )
    way = [(each.lat, each.lon) for each in voyage("bluewhale", "tokyo", HUB, BEGAN_MS, 168)]
    file = tmp_path / "deeper" / "shipping.png"
    draw(Seen({"bluewhale": way, "blueheron": []}, 3, PORTS["sydney"], course), file)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert 2_000 < file.stat().st_size < 150_000


def test_the_makers_pattern_matches_his_containers_alone() -> None:
    """Whole names, so no other number that begins alike."""
    every = [*cargo.from_tokyo(), *cargo.from_singapore()]
    pattern = re.compile(cargo.pattern_of(each for each in every if each.cargo == "ducks"))
    assert {each.number for each in every if pattern.fullmatch(each.topic)} == {
        each.number for each in every if each.cargo == "ducks"
    }
