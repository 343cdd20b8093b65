"""The shipping demo's pipelines on recorded data: a voyage that was made by dice, the Ever Given's real track, and what
a receiver heard around Denmark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from examples.shipping import cargo, heard, routes, sensors
from examples.shipping.analysts import Analysts
from examples.shipping.pipelines.aboard import aboard, ashore, moves
from examples.shipping.pipelines.arrivals import arrivals
from examples.shipping.pipelines.breaches import breaches
from examples.shipping.pipelines.hourly import hourly
from examples.shipping.pipelines.lost import lost_containers
from examples.shipping.pipelines.movements import movements
from examples.shipping.pipelines.positions import positions
from examples.shipping.pipelines.readings import readings
from examples.shipping.pipelines.ship_log import ship_log
from examples.shipping.pipelines.subset import report
from examples.shipping.receivers import latest
from examples.shipping.sensors import BEGAN_MS, HOUR_MS, Sensor, Where
from examples.ships import ais, analytics
from examples.ships.sites import Site
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.running_server import RunningServer
from tests.support.waiting import WAIT_SECONDS

pytestmark = pytest.mark.spark

RECORD = "value BINARY, timestamp TIMESTAMP"
SHIP = "blue-whale"
HOURS = 48
DANISH = {"copenhagen": (55.70, 12.60), "helsingor": (56.03, 12.62), "skagen": (57.72, 10.59)}
Record = tuple[bytes, datetime]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests here."""
    made = analytics.session(
        spark_sql_streaming_stateStore_providerClass=(
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        spark_sql_session_timeZone="UTC",
    )
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def voyage() -> tuple[list[Record], list[Record]]:
    """Two days at sea with a reefer that fails; then what is heard while two containers of ducks go overboard."""
    containers = cargo.from_tokyo()
    listening = [Sensor(container, index) for index, container in enumerate(containers)]
    next(each for each in listening if each.container.cargo == "tuna").cooling = False
    at_sea = []
    for hour in range(HOURS):
        now = BEGAN_MS + hour * HOUR_MS
        at_sea += [
            _record(each.value(now), now) for each in sensors.round_of(listening, Where(SHIP, 10, 110, now, 0.4))
        ]
    now = BEGAN_MS + HOURS * HOUR_MS
    in_port = []
    for number in range(3):
        listed = listening if number == 0 else listening[2:]
        in_port += [_record(each.value(now), now) for each in sensors.round_of(listed, Where(SHIP, -34, 151, now))]
        if number == 0:
            gone = [each for sensor in listening[:2] for each in sensor.overboard(Where(SHIP, -34, 151, now))]
            in_port += [_record(each.value(now), now) for each in gone]
    return at_sea, in_port


def _record(value: bytes, time_ms: int) -> Record:
    return value, datetime.fromtimestamp(time_ms / 1000, UTC)


@pytest.fixture(scope="module")
def at_sea(spark: SparkSession) -> DataFrame:
    """The readings of two days at sea."""
    return readings(spark.createDataFrame(voyage()[0], RECORD)).cache()


def streamed(
    spark: SparkSession,
    folder: Path,
    batches: Iterable[list[Record]],
    query: Callable[[DataFrame], DataFrame],
    mode: str = "append",
) -> list[Any]:
    """What a streaming query gives that gets one file of records after the other, and is started anew between; a group
    that it revises comes again."""

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "out" / str(number)))

    (folder / "in").mkdir()
    for number, records in enumerate(batches):
        written = folder / f"written-{number}"
        spark.createDataFrame(records, RECORD).coalesce(1).write.parquet(str(written))
        next(written.glob("*.parquet")).rename(folder / "in" / f"{number}.parquet")
        source = spark.readStream.schema(RECORD).parquet(str(folder / "in"))
        writer = query(source).writeStream.outputMode(mode).foreachBatch(keep).trigger(availableNow=True)
        running = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        assert running.awaitTermination(int(WAIT_SECONDS))
    return spark.read.parquet(*(str(each) for each in (folder / "out").iterdir())).collect()


def test_a_wrong_clock_is_noticed_and_the_receivers_time_counts(at_sea: DataFrame) -> None:
    """Clocks in 1970 and some hours ahead; a bad radio's late readings keep their own time."""
    found = at_sea.collect()
    wrong = {row.container for row in found if row.clock_wrong}
    right = {row.container for row in found if not row.clock_wrong}
    assert 2 <= len(wrong) <= 3
    assert not wrong & right
    assert all(BEGAN_MS <= row.when.timestamp() * 1000 < BEGAN_MS + HOURS * HOUR_MS for row in found)
    assert any(row.heard - row.time >= HOUR_MS for row in found if not row.clock_wrong)


def test_only_the_cargo_that_thaws_breaches_its_conditions(at_sea: DataFrame) -> None:
    """Ducks bear the heat in which tuna does not keep; a single reading out of limits is no breach. Also where sensors
    are heard every six or twelve hours."""
    failed = next(each.number for each in cargo.from_tokyo() if each.cargo == "tuna")
    duck = cargo.from_tokyo()[0].number
    once = f.when((f.col("container") == duck) & (f.col("seq") == 5), 70.0).otherwise(f.col("celsius"))
    heard = at_sea.withColumn("celsius", once)
    for every in (1, 6, 12):
        found = breaches(heard.where(f.col("seq") % every == 5 % every), cargo.from_tokyo()).collect()
        assert {row.container for row in found} == {failed}
        assert len({row.since for row in found}) == len(found) == HOURS // 24
        assert max(row.celsius_max for row in found) > 0


def test_cargo_that_is_too_cold_breaches_its_conditions_too(at_sea: DataFrame) -> None:
    """How far it went is said of both sides; readings within limits say nothing of that."""
    duck = cargo.from_tokyo()[0].number
    cold = f.when(f.col("seq") % 2 == 0, f.lit(-30.0) - f.col("seq")).otherwise(f.col("celsius"))
    changed = at_sea.where(f.col("container") == duck).withColumn("celsius", cold)
    (first, _) = breaches(changed, cargo.from_tokyo()).orderBy("since").collect()
    assert (first.readings, first.out, first.celsius_min, first.celsius_max) == (24, 12, -52.0, -30.0)


def test_what_a_second_ship_brings_ashore_late_is_not_dropped(spark: SparkSession, tmp_path: Path) -> None:
    """It was at sea for nineteen days, while the query had the readings of another one."""
    late, _ = voyage()
    other, passage_ms = Sensor(cargo.from_tokyo()[0], 0), 460 * HOUR_MS
    now = BEGAN_MS + passage_ms
    first = [_record(each.value(now), now) for each in other.heard(Where("other", 10, 110, now))]
    failed = next(each.number for each in cargo.from_tokyo() if each.cargo == "tuna")
    for name, query in (
        ("hours", lambda records: hourly(readings(records), "place")),
        ("breaches", lambda records: breaches(readings(records), cargo.from_tokyo())),
    ):
        (tmp_path / name).mkdir()
        found = streamed(spark, tmp_path / name, [first, late], query, "update")
        if name == "hours":
            assert Counter(row.place for row in found) == {"other": 1, SHIP: HOURS}
        else:
            assert {row.container for row in found} == {failed}


def test_lost_containers_are_told_once_over_restarts_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing at sea; overboard in port, by both that slipped, though the query was stopped between."""
    sea, port = voyage()
    found = streamed(spark, tmp_path, [sea, port, port[-30:]], lost)
    gone = {each.number for each in cargo.from_tokyo()[:2]}
    assert sorted((row.container, row.kind) for row in found) == sorted((number, "overboard") for number in gone)
    assert {row.place for row in found} == {SHIP}


def lost(records: DataFrame) -> DataFrame:
    """Readings and movements are in one table here, and none is the other."""
    return lost_containers(readings(records), moves(records))


def test_a_call_in_the_middle_raises_no_alert(spark: SparkSession, tmp_path: Path) -> None:
    """Containers that are unloaded are not missed by their neighbours, over a restart, also where a radio says ashore
    what it had kept on board; one that falls silent is."""
    containers = cargo.from_tokyo()
    listening = [Sensor(container, index) for index, container in enumerate(containers)]

    def heard_from(some: list[Sensor], first_hour: int) -> list[Record]:
        hours = [BEGAN_MS + hour * HOUR_MS for hour in range(first_hour, first_hour + 30)]
        where = [Where(SHIP, 10, 110, now, 0.4) for now in hours]
        return [_record(each.value(at.time_ms), at.time_ms) for at in where for each in sensors.round_of(some, at)]

    before = heard_from(listening, 0)
    move = {"ship": SHIP, "port": "singapore", "event": "unloaded", "number": 1}
    ashore = [
        _record(json.dumps({**move, "container": each.number, "bay": each.bay}).encode(), BEGAN_MS + 30 * HOUR_MS)
        for each in containers[:3]
    ]
    after = heard_from(listening[:1], 30)[:1] + heard_from(listening[4:], 31)
    found = streamed(spark, tmp_path, [before, ashore + after[:40], after[40:]], lost)
    assert [(row.container, row.kind) for row in found] == [(containers[3].number, "silent")]


def _voyage_records() -> list[Record]:
    """A ship from Tokyo to Singapore, and one of another company that passes by there."""
    own = routes.voyage(SHIP, "Big Blue", "tokyo", "singapore", BEGAN_MS, 168, 3)
    other = routes.voyage("red-hen", "Red", "singapore", "sydney", BEGAN_MS, 240, 4)
    return [_record(json.dumps(asdict(each)).encode(), each.time_ms) for each in (*own, *other)]


def test_movements_are_told_of_all_companies_ships_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Each docking and each leaving once."""
    records = _voyage_records()
    half = [records[:80] + records[169:200], records[80:169] + records[200:]]
    found = streamed(spark, tmp_path, half, lambda each: movements(positions(each)))
    assert sorted((row.ship, row.event, row.port, row.company) for row in found) == [
        (SHIP, "docked", "singapore", "Big Blue"),
        (SHIP, "docked", "tokyo", "Big Blue"),
        (SHIP, "left", "tokyo", "Big Blue"),
        ("red-hen", "docked", "singapore", "Red"),
        ("red-hen", "docked", "sydney", "Red"),
        ("red-hen", "left", "singapore", "Red"),
    ]


def test_positions_that_come_late_double_no_movement(spark: SparkSession, tmp_path: Path) -> None:
    """The second half of a passage comes before the first, over a restart of the query."""
    own = routes.voyage(SHIP, "Big Blue", "tokyo", "singapore", BEGAN_MS, 168, 3)
    records = [_record(json.dumps(asdict(each)).encode(), each.time_ms) for each in own]
    halves = [records[:40] + records[80:], records[40:80]]
    found = streamed(spark, tmp_path, halves, lambda each: movements(positions(each)))
    assert [(row.event, row.port) for row in found] == [("docked", "tokyo"), ("left", "tokyo"), ("docked", "singapore")]


@pytest.mark.skipif(not ais.REAL_DATA.exists(), reason="the recording is not here")
def test_of_real_ships_those_that_lie_in_port_are_told_once_and_none_that_passes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Half a minute of AIS around Denmark, some of it late, over a restart of the query; ships under way pass within
    three miles of each of these ports."""
    heard_all = list(heard.positions(ais.REAL_DATA.read_bytes().splitlines()))
    assert (len(heard_all), len({each.ship for each in heard_all})) == (2859, 1287)
    records = [_record(json.dumps(asdict(each)).encode(), each.time_ms) for each in heard_all]
    half = [records[:1500], records[1500:]]
    found = streamed(spark, tmp_path, half, lambda each: movements(positions(each), DANISH))
    assert {row.event for row in found} == {"docked"}
    assert len({row.ship for row in found}) == len(found)
    assert Counter(row.port for row in found) == {"copenhagen": 16, "helsingor": 10, "skagen": 32}
    lie_still = {each.ship for each in heard_all if each.knots <= 0.5}
    assert {row.ship for row in found} <= lie_still


def test_the_log_has_an_entry_for_each_watch(spark: SparkSession) -> None:
    """Four hours at some 17 knots, of which the last position is 3 hours after the first."""
    found = ship_log(positions(spark.createDataFrame(_voyage_records(), RECORD))).where(f"ship = '{SHIP}'").collect()
    assert len(found) == 168 // 4 + 1
    under_way = [row for row in found if row.reports == 4 and row.knots > 15]
    assert len(under_way) == 41
    # Where a ship changes its course within a watch, it has made less good than it has sailed.
    assert all(0.85 * 3 * row.knots < row.miles < 1.15 * 3 * row.knots for row in under_way)


def test_arrivals_are_estimated_by_the_way_that_is_left(spark: SparkSession) -> None:
    """Along the way's points; the nearer, the closer to the truth, and null for a ship that lies still."""
    ways = {"singapore": routes.way("tokyo", "singapore")}
    found = arrivals(positions(spark.createDataFrame(_voyage_records(), RECORD)), ways).orderBy("at").collect()
    own = [row for row in found if row.ship == SHIP]
    arrives = BEGAN_MS / 1000 + 168 * 3600
    errors = [abs(row.arrives.timestamp() - arrives) / 3600 for row in own if row.arrives is not None]
    assert len(errors) == 28
    assert max(errors[2:]) < 8
    assert errors[-1] < 2
    assert own[-1].arrives is None


@pytest.mark.skipif(not routes.EVER_GIVEN.exists(), reason="the recording is not here")
def test_the_ever_given_has_no_arrival_while_it_is_stuck(spark: SparkSession) -> None:
    """Real positions: an estimate while it sails, none once it lies across the canal."""
    records = [_record(json.dumps(asdict(each)).encode(), each.time_ms) for each in routes.recorded()]
    found = arrivals(positions(spark.createDataFrame(records, RECORD)), {"suez": ((31.26, 32.31),)}).collect()
    aground = datetime(2021, 3, 23, 12, tzinfo=UTC)
    before = [row.arrives for row in found if row.at.replace(tzinfo=UTC) < aground]
    after = [row.arrives for row in found if row.at.replace(tzinfo=UTC) >= aground]
    assert any(each is not None for each in before)
    assert len(after) > 3
    assert not any(after)


def test_the_manufacturer_is_told_of_his_containers_and_of_no_other(spark: SparkSession, at_sea: DataFrame) -> None:
    """Each with its fate; what came by his filtered replica is what is read, and more would be left out."""
    ducks = [each for each in cargo.from_tokyo() if each.cargo == "ducks"]
    alerts = spark.createDataFrame(
        [(ducks[0].number, "overboard"), (ducks[1].number, "silent")], "container STRING, kind STRING"
    )
    found = {row.container: row for row in report(at_sea, cargo.from_tokyo(), alerts).collect()}
    assert found.keys() == {each.number for each in ducks}
    assert {number for number, row in found.items() if row.fate == "lost"} == {ducks[0].number}
    assert all(row.place == SHIP and row.celsius_min <= row.celsius_max for row in found.values())
    home = report(at_sea.withColumn("place", at_sea.container.substr(1, 0)), cargo.from_tokyo()).collect()
    assert {row.fate for row in home} == {"on its way"}


def test_hours_are_summed_up_by_container_and_coarser(at_sea: DataFrame) -> None:
    """An entry for each hour, with all readings in one of them; wrong clocks are counted."""
    by_place = hourly(at_sea, "place").orderBy("hour").collect()
    assert [int(row.hour.timestamp() * 1000) for row in by_place] == [BEGAN_MS + n * HOUR_MS for n in range(HOURS)]
    assert sum(row.readings for row in by_place) == at_sea.count()
    assert sum(row.wrong_clocks for row in by_place) == at_sea.where("clock_wrong").count() > 0
    assert hourly(at_sea).select("container").distinct().count() == len(cargo.from_tokyo())


def test_an_hour_that_is_summed_up_again_has_the_same_key(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    """So the last record of a key counts, whoever asks, and how often."""
    server.post("/rest/stream/create", path="/heard")
    server.post("/rest/stream/create", path="/summaries")
    site, analysts = cast(Site, server), Analysts(spark, tmp_path)  # its addresses are all that is asked for
    sensor = Sensor(cargo.from_tokyo()[0], 0)
    told = []
    for minutes in ((0,), (20, 70)):
        for now in (BEGAN_MS + minute * HOUR_MS // 60 for minute in minutes):
            said = sensor.heard(Where(SHIP, 10, 110, now))
            server.produce("one", [each.value(now).decode() for each in said], "/heard")
        found = hourly(readings(analysts.following(site, "/heard")))
        analysts.sum_up("hours", found, site, "/summaries", "hourly", "container", "place", "hour")
        told.append({row["hour"]: row["readings"] for row in latest(server.kafka, "/summaries:hourly")})
    first, second = "2026-03-01T00:00:00.000Z", "2026-03-01T01:00:00.000Z"
    assert told == [{first: 1}, {first: 2, second: 1}]


def test_what_sensors_and_manifest_do_not_agree_on_is_named(spark: SparkSession, at_sea: DataFrame) -> None:
    """One that was unloaded and is heard on board still, one that was loaded and is not."""
    numbers = [each.number for each in cargo.from_tokyo()]
    said = [{"container": each, "ship": SHIP, "port": "tokyo", "event": "loaded", "number": 0} for each in numbers]
    said += [{"container": "BBLU9999999", "ship": SHIP, "port": "tokyo", "event": "loaded", "number": 0}]
    said += [{"container": numbers[0], "ship": SHIP, "port": "singapore", "event": "unloaded", "number": 1}]
    records = spark.createDataFrame([_record(json.dumps(each).encode(), BEGAN_MS) for each in said], RECORD)
    (unloaded,) = ashore(moves(records), at_sea, "singapore").collect()
    assert (unloaded.container, unloaded.manifest, unloaded.sensors, unloaded.agree) == (numbers[0], True, False, False)
    on_quay = at_sea.where(f.col("container") == numbers[0]).withColumn("place", f.lit("singapore"))
    assert [row.agree for row in ashore(moves(records), on_quay, "singapore").collect()] == [True]
    found = aboard(moves(records), at_sea, SHIP).collect()
    apart = {row.container: (row.manifest, row.sensors) for row in found if not row.agree}
    assert apart == {"BBLU9999999": (True, False), numbers[0]: (False, True)}
    assert sum(row.agree for row in found) == len(numbers) - 1
