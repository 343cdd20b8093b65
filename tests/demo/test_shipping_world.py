"""The simulated world of the shipping demo: containers, ways, sensors with their faults."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest
from examples.shipping import cargo, heard, routes, sensors
from examples.shipping.pipelines.lost import SILENT_AFTER, Bay
from examples.shipping.pipelines.movements import Course, state_after
from examples.shipping.sensors import BEGAN_MS, HOUR_MS, Reading, Sensor, Where
from pyais import encode_dict


def test_numbers_of_containers_have_the_check_digit_of_iso_6346() -> None:
    """CSQU3054383 is the standard's own example; a changed digit is noticed."""
    assert cargo.is_number("CSQU3054383")
    assert not cargo.is_number("CSQU3054384")
    assert not cargo.is_number("CSQU305438")
    assert all(cargo.is_number(each.number) for each in [*cargo.from_tokyo(), *cargo.from_singapore()])


def test_a_third_of_the_ducks_is_bound_for_each_port_and_owners_have_streams_of_their_own() -> None:
    """The same at every call; no number twice."""
    loaded = [*cargo.from_tokyo(), *cargo.from_singapore()]
    ducks = Counter(each.bound for each in loaded if each.cargo == "ducks")
    assert ducks == {"singapore": 6, "london": 6, "sydney": 6}
    assert {each.stream for each in loaded} == {"/containers/blue", "/containers/red", "/containers/yellow"}
    assert len({each.number for each in loaded}) == len(loaded)
    assert loaded == [*cargo.from_tokyo(), *cargo.from_singapore()]


def test_ways_are_about_as_long_as_at_sea() -> None:
    """Tokyo to Singapore is about 2,900 nautical miles, Singapore to London by Suez about 8,300."""
    assert routes.length_nm(routes.way("tokyo", "singapore")) == pytest.approx(2_900, rel=0.05)
    assert routes.length_nm(routes.way("singapore", "sydney")) == pytest.approx(4_300, rel=0.1)
    assert routes.length_nm(routes.way("singapore", "london")) == pytest.approx(8_300, rel=0.05)


def test_a_voyage_begins_and_ends_in_a_port_and_moves_on_each_hour() -> None:
    """At rest at both ends, at an even speed with some noise between."""
    found = list(routes.voyage("blue-whale", "Big Blue", "tokyo", "singapore", BEGAN_MS, 170, 1))
    for end, port in ((found[0], "tokyo"), (found[-1], "singapore")):
        assert routes.distance_nm((end.lat, end.lon), routes.PORTS[port]) < 1
    assert (found[0].knots, found[-1].knots) == (0, 0)
    assert all(14 < each.knots < 20 for each in found[1:-1])
    assert all(after.time_ms - before.time_ms == HOUR_MS for before, after in pairwise(found))
    assert found == list(routes.voyage("blue-whale", "Big Blue", "tokyo", "singapore", BEGAN_MS, 170, 1))


@pytest.mark.skipif(not routes.EVER_GIVEN.exists(), reason="the recording is not here")
def test_the_real_track_stands_still_until_the_recording_ends() -> None:
    """The Ever Given ran aground on the 23rd of March 2021, and lay for six days, one of which is recorded."""
    track = routes.recorded()
    stuck = [each for each in track if routes.distance_nm((each.lat, each.lon), (30.0176, 32.5802)) < 0.5]
    assert len(track) > 200
    assert stuck[-1] == track[-1]
    assert (stuck[-1].time_ms - stuck[0].time_ms) / HOUR_MS > 24


def sentences(second: int, **fields: float) -> list[bytes]:
    """What a receiver writes of one message."""
    said = encode_dict({"msg_type": 1, "mmsi": 219000037, "lat": 56.5, "lon": 11.25, "speed": 7.3, **fields})
    return [b"$PGHP,1,2010,6,11,11,46,%d,386,219,,2190047,1,00*2F" % second, *(each.encode() for each in said)]


def test_a_receivers_recording_gives_the_positions_of_those_that_know_theirs() -> None:
    """With the time at which each was heard. Without those that know neither place nor speed, and other messages."""
    unknown: list[dict[str, float]] = [{"lat": 91.0, "lon": 181.0}, {"speed": 102.3}, {"msg_type": 5}]
    recording = [
        line for second, fields in enumerate([{}, *unknown, {"speed": 0.0}]) for line in sentences(second, **fields)
    ]
    first, last = heard.positions(recording)
    assert first == routes.Position("219000037", "recorded", 1276256760386, 56.5, 11.25, 7.3, "")
    assert (last.time_ms - first.time_ms, last.knots) == (4000, 0.0)


def world(steps: int) -> list[Reading]:
    """What a whole load says in so many hours at sea."""
    listening = [Sensor(container, index) for index, container in enumerate(cargo.from_tokyo())]
    found = []
    for step in range(steps):
        found += sensors.round_of(listening, Where("ship", 20, 130, BEGAN_MS + step * HOUR_MS, 0.3))
    return [*found, *(reading for sensor in listening for reading in sensor.last_words())]


def test_every_container_counts_through_also_with_a_bad_radio() -> None:
    """What a bad radio keeps comes late and together, and in order."""
    found = world(10)
    by_container: dict[str, list[int]] = {}
    for reading in found:
        by_container.setdefault(reading.container, []).append(reading.seq)
    assert all(seqs == list(range(10)) for seqs in by_container.values())
    assert world(10) == found
    value = json.loads(found[0].value(BEGAN_MS))
    assert (value["container"], value["seq"], value["heard"]) == (found[0].container, 0, BEGAN_MS)


def test_some_clocks_are_wrong_and_some_readings_late() -> None:
    """Hours ahead, or in 1970; a bad radio says nothing for some rounds."""
    found = world(3)
    assert any(reading.time < HOUR_MS * 24 * 365 for reading in found)
    assert any(reading.time > BEGAN_MS + 4 * HOUR_MS for reading in found)
    assert sum(BEGAN_MS <= reading.time <= BEGAN_MS + 2 * HOUR_MS for reading in found) > len(found) * 0.8
    listening = [Sensor(container, index) for index, container in enumerate(cargo.from_tokyo())]
    at_once = sensors.round_of(listening, Where("ship", 20, 130, BEGAN_MS))
    assert 0 < len(listening) - len(at_once) < 6


def test_a_reefer_that_fails_thaws() -> None:
    """Its cargo gets as warm as the air, slowly."""
    sensor = Sensor(next(each for each in cargo.from_tokyo() if each.cargo == "tuna"), 0)
    at = Where("ship", 5, 105, BEGAN_MS)
    assert sensor.heard(at)[0].celsius < -20
    sensor.cooling = False
    temperatures = [sensor.heard(at)[0].celsius for _ in range(60)]
    assert temperatures[2] < -10
    assert temperatures[-1] > 15


def test_a_container_overboard_is_told_at_once_and_once() -> None:
    """By tilt, a hit and water together; a hard wave alone says nothing."""
    containers = cargo.from_tokyo()[:3]
    listening = [Sensor(container, index) for index, container in enumerate(containers)]
    at, bay = Where("ship", -34, 151, BEGAN_MS, 0.9), Bay({})
    assert heard_in(bay, listening, at, 20) == []
    said = [alert for reading in listening[0].overboard(at) for alert in bay.took(reading)]
    assert said == [(containers[0].number, "overboard")]
    assert heard_in(bay, listening[1:], at, 20) == []


def test_silence_is_an_alert_only_while_neighbours_are_heard() -> None:
    """A dead sensor is noticed; a silent bay, or a lone neighbour, is not taken for it."""
    containers = cargo.from_tokyo()[:3]
    listening = [Sensor(container, index) for index, container in enumerate(containers)]
    at, bay = Where("ship", -34, 151, BEGAN_MS), Bay({})
    heard_in(bay, listening, at, 1)
    assert heard_in(bay, listening[:1], at, 50) == []
    bay = Bay.loads(bay.dumps())
    assert heard_in(bay, listening[1:2], at, SILENT_AFTER) == [(containers[2].number, "silent")]
    assert heard_in(bay, listening[1:2], at, 1) == []


def test_a_sensor_that_is_heard_again_may_fall_silent_again() -> None:
    """Each time is told once."""
    listening = [Sensor(container, index) for index, container in enumerate(cargo.from_tokyo()[:3])]
    at, bay = Where("ship", -34, 151, BEGAN_MS), Bay({})
    silent = [(listening[0].container.number, "silent")]
    for _ in range(2):
        assert heard_in(bay, listening, at, 1) == []
        assert heard_in(bay, listening[1:], at, 2 * SILENT_AFTER) == silent


def test_a_container_that_was_unloaded_is_not_missed_on_board() -> None:
    """Nor by what its radio had kept, or an earlier movement that comes late; loaded again, it is watched over."""
    containers = cargo.from_tokyo()[:3]
    listening = [Sensor(container, index) for index, container in enumerate(containers)]
    at, bay = Where("ship", -34, 151, BEGAN_MS), Bay({})
    assert heard_in(bay, listening, at, 3) == []
    bay.moved(containers[0].number, "unloaded", 1)
    bay.moved(containers[0].number, "loaded", 0)
    bay = Bay.loads(bay.dumps())
    assert heard_in(bay, listening[:1], at, 1) == []
    assert heard_in(bay, listening[1:], at, 3 * SILENT_AFTER) == []
    bay.moved(containers[0].number, "loaded", 2)
    assert heard_in(bay, listening, at, 1) == []
    assert heard_in(bay, listening[1:], at, SILENT_AFTER) == [(containers[0].number, "silent")]


def heard_in(bay: Bay, listening: list[Sensor], at: Where, rounds: int) -> list[tuple[str, str]]:
    """The alerts of some rounds of readings."""
    said = [reading for _ in range(rounds) for reading in sensors.round_of(listening, at)]
    return [alert for reading in said for alert in bay.took(reading)]


def test_a_ship_docks_by_lying_still_and_leaves_by_going_away() -> None:
    """Passing by is no call, shifting berth is no leaving."""
    ports = {"here": (0.0, 0.0)}
    assert state_after(None, (0.01, 0.0), 8, ports) is None
    assert state_after(None, (0.01, 0.0), 0.1, ports) == "here"
    assert state_after("here", (0.02, 0.0), 4, ports) == "here"
    assert state_after("here", (0.2, 0.0), 12, ports) is None


def test_a_position_that_comes_late_takes_no_ship_back() -> None:
    """Neither to the port that it has left, nor out of the one where it lies, though nothing was told of it between."""
    ports = {"here": (0.0, 0.0), "there": (0.0, 10.0)}
    course = Course()
    told = [
        course.took(routes.Position("s", "c", hour, 0.0, lon, knots, "there"), ports)
        for hour, lon, knots in [(1, 0.0, 0.0), (3, 5.0, 15.0), (2, 0.0, 0.0), (5, 10.0, 0.0), (4, 7.0, 15.0)]
    ]
    assert told == [("here", "docked"), ("here", "left"), None, ("there", "docked"), None]
