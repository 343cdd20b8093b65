"""The files of `examples/README.md`, from the shortest on, on two clusters that all of them share."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Producer
from examples import query_moves
from examples.mirror.clusters import property_file
from examples.plants import queries
from examples.plants.metrics import PLANTS, PREFIX, STREAM, Made, Reading, readings, topic_of
from examples.ships.analytics import session
from pyspark.sql import SparkSession
from tests.support.scripts import install_scripts
from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]  # they take minutes where others work beside them
_SCRIPT_SECONDS = 800

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE, THERE = "sanfrancisco", "newyork"
STREAM_BY_HAND = "/handmade"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two clusters that know each other, and their folder."""

    folder: Path
    here: Site
    there: Site

    def script(self, name: str, *arguments: str) -> list[str]:
        """What an example prints, line by line."""
        program = [sys.executable] if name.endswith(".py") else []
        return self._run([*program, str(EXAMPLES / name), *arguments]).splitlines()

    def types(self, line: str) -> str:
        """What a line of `examples/README.md` prints; clusters are at other addresses here than by default."""
        for shown, own in (
            ("produce_and_consume.py", f"produce_and_consume.py {self.here.kafka}"),
            *(("127.0.0.1:9092", self.here.kafka), ("127.0.0.1:9093", self.there.kafka)),
            *(("http://127.0.0.1:7660", self.here.url), ("http://127.0.0.1:7661", self.there.url)),
        ):
            line = line.replace(shown, own)
        return self._run(["bash", "-o", "pipefail", "-c", line])

    def _run(self, command: list[str]) -> str:
        """With the commands of this Python first in the path."""
        path = (str(install_scripts(self.folder / "bin")), str(Path(sys.executable).parent), os.environ["PATH"])
        own = {"PATH": ":".join(path), "FAIRLEAD_CLUSTERS": str(self.folder / "clusters.toml")}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=_SCRIPT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


def typed(section: int) -> list[str]:
    """The lines that a section of `examples/README.md` says to type."""
    text = (EXAMPLES / "README.md").read_text().split(f"\n## {section} ")[1].split("\n## ")[0]
    return [
        line for block in re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL) for line in block.splitlines()
    ]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with sites(folder, HERE, THERE, settings={"round_seconds": "30"}) as (here, there):
        yield Pair(folder, here, there)


@pytest.fixture(scope="module")
def replicated(pair: Pair) -> list[str]:
    """A stream with two records, set up by hand at the other site; what the procedure printed."""
    pair.here.cli("stream", "create", "-path", STREAM_BY_HAND, "-ttl", "99999")
    produce(pair.here, f"{STREAM_BY_HAND}:topic_1", b"one", b"two")
    return pair.script("manual-procedure.sh", f"/mapr/{HERE}{STREAM_BY_HAND}", f"/mapr/{THERE}{STREAM_BY_HAND}")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests here."""
    made = session()
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def produce(site: Site, topic: str, *values: bytes, key: str = "k") -> None:
    producer = Producer({"bootstrap.servers": site.kafka})
    for value in values:
        producer.produce(topic, value, key=key)
    assert producer.flush(WAIT_SECONDS) == 0


def consumed(site: Site, topic: str) -> list[str]:
    """Lines of partition and offset, and value."""
    done = site.cli("consume", f"/mapr/{site.name}{topic}", "--from-beginning", "--offset", check=False)
    return [" ".join(line.split("\t")[0:2] + line.split("\t")[3:]) for line in done.stdout.splitlines()]


def test_the_readme_works_word_by_word(pair: Pair) -> None:
    """From ten lines to a query that goes on at another site, which goes on there alone when it is typed again."""
    (pair.folder / "examples").symlink_to(EXAMPLES)
    lines = [line for section in range(1, 5) for line in typed(section)]
    said = {line: pair.types(line) for line in lines}

    def of(words: str) -> str:
        (found,) = (out for line, out in said.items() if words in line)
        return found

    assert of("produce_and_consume").splitlines() == [
        *("0 b'ever-given' b'12.5'", "1 b'ever-given' b'13.0'", "2 b'ever-given' b'13.4'")
    ]
    assert of("group_fails_over").splitlines() == [
        *(f"{pair.here.kafka} {number} b'{number + 1}'" for number in range(5)),
        *(f"{pair.there.kafka} {number} b'{number + 1}'" for number in range(5, 10)),
    ]
    assert re.fullmatch(r"0\t0\t\d+\thello\n", of("newyork/activity:first"))
    assert of("records_and_back") == "ever-given 13.4\n"
    assert of("consume fastest") == 'ever-given\t{"knots":13.4}\n'
    (moving,) = (line for line in lines if "query_moves" in line)
    assert _rows(said[moving]) == ["|first|0|0|hello|"]
    produce(pair.here, "/activity:first", b"world")
    wait_until(lambda: len(consumed(pair.there, "/activity:first")) == 2, "the second record has arrived")
    assert _rows(pair.types(moving)) == ["|first|0|0|hello|", "|first|0|1|world|"]


def _rows(shown: str) -> list[str]:
    """Of a table as Spark prints it."""
    return [row.replace(" ", "") for row in shown.splitlines() if row.startswith("|")][1:]


def test_a_stream_is_replicated_by_hand(pair: Pair, replicated: list[str]) -> None:
    """What was there is copied, with the stream's settings; what comes later follows, at the same offsets."""
    assert f"/mapr/{THERE}{STREAM_BY_HAND}" in "\n".join(replicated)
    assert consumed(pair.there, f"{STREAM_BY_HAND}:topic_1")[:2] == ["0 0 one", "0 1 two"]
    assert (
        "ttl                   99999"
        in pair.there.cli("stream", "info", "-path", f"/mapr/{THERE}{STREAM_BY_HAND}").stdout
    )
    produce(pair.here, f"{STREAM_BY_HAND}:topic_1", b"three")
    expected = consumed(pair.here, f"{STREAM_BY_HAND}:topic_1")
    wait_until(lambda: consumed(pair.there, f"{STREAM_BY_HAND}:topic_1") == expected, "the third record has arrived")


def test_a_stream_is_replicated_by_hand_inside_one_cluster(pair: Pair) -> None:
    """The same steps; paths without the leading slash, as the handbook's last example writes them."""
    pair.here.cli("stream", "create", "-path", "/activity1")
    produce(pair.here, "/activity1:topic_1", b"one", b"two")
    pair.script("manual-procedure.sh", f"mapr/{HERE}/activity1", f"mapr/{HERE}/activity2")
    assert consumed(pair.here, "/activity2:topic_1") == ["0 0 one", "0 1 two"]
    produce(pair.here, "/activity1:topic_1", b"three")
    expected = consumed(pair.here, "/activity1:topic_1")
    wait_until(lambda: consumed(pair.here, "/activity2:topic_1") == expected, "the third record has arrived")


def test_records_come_into_a_dataframe_and_answers_go_back(pair: Pair) -> None:
    """Without what is no number; the answers are records of another topic."""
    before = len(consumed(pair.here, "/default:fastest"))
    produce(pair.here, "speed", b"12.5", b"13.4", key="ever-given")
    produce(pair.here, "speed", b"7", b"unknown", key="emma")
    produce(pair.here, "speed", b"unknown", key="silent")
    printed = pair.script("records_and_back.py", f"/mapr/{HERE}/default")
    assert sorted(printed) == ["emma 7.0", "ever-given 13.4"]
    found = [line.split()[-1] for line in consumed(pair.here, "/default:fastest")[before:]]
    assert sorted(found) == ['{"knots":13.4}', '{"knots":7.0}']


@pytest.mark.usefixtures("replicated")
def test_a_query_goes_on_at_another_site(pair: Pair, spark: SparkSession, tmp_path: Path) -> None:
    """Behind what it has written, also of a topic that is new there; each record of both topics is written once."""
    tables = [str(tmp_path / "0"), str(tmp_path / "1")]
    produce(pair.here, f"{STREAM_BY_HAND}:moving", *(b"%d" % number for number in range(10)))
    query_moves.follow(spark, pair.here.url, STREAM_BY_HAND, tables[0])
    produce(pair.here, f"{STREAM_BY_HAND}:moving", b"10", b"11")
    query_moves.follow(spark, pair.here.url, STREAM_BY_HAND, tables[0])
    produce(pair.here, f"{STREAM_BY_HAND}:moving", b"12", b"13")
    produce(pair.here, f"{STREAM_BY_HAND}:new", b"first")
    expected = {topic: consumed(pair.here, f"{STREAM_BY_HAND}:{topic}") for topic in ("moving", "new")}
    wait_until(
        lambda: expected == {topic: consumed(pair.there, f"{STREAM_BY_HAND}:{topic}") for topic in expected},
        "all records have arrived",
    )
    query_moves.follow(
        spark, pair.there.url, STREAM_BY_HAND, tables[1], query_moves.next_offsets(spark.read.parquet(tables[0]))
    )
    places = "concat_ws(' ', partition, offset, value) AS line"
    there = spark.read.parquet(tables[1]).selectExpr("topic", places).collect()
    assert {(row.topic, row.line) for row in there} == {
        ("moving", "0 12 12"),
        ("moving", "0 13 13"),
        ("new", "0 0 first"),
    }
    produce(pair.here, f"{STREAM_BY_HAND}:moving", b"14")
    expected["moving"] = consumed(pair.here, f"{STREAM_BY_HAND}:moving")
    wait_until(
        lambda: consumed(pair.there, f"{STREAM_BY_HAND}:moving") == expected["moving"], "the last record has arrived"
    )
    query_moves.move(spark, STREAM_BY_HAND, pair.here.url, pair.there.url, str(tmp_path))  # run again
    rows = spark.read.parquet(*tables).where("topic IN ('moving', 'new')").selectExpr("topic", places).collect()
    assert sorted(row.line for row in rows if row.topic == "moving") == sorted(expected["moving"])
    assert len(rows) == 16


def test_a_mirror_sends_faults_alone(pair: Pair) -> None:
    """By the command that the file names; heat is left out, all else is as it was."""
    some = list(islice(readings("asia"), 300))
    produce(pair.here, "line-1", *(reading.value(17) for reading in some))
    property_file(pair.folder, "sourceCluster1Consumer.config", pair.here.kafka)
    property_file(pair.folder, "targetClusterProducer.config", pair.there.kafka)
    files = ("sourceCluster1Consumer.config", "targetClusterProducer.config")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "fairlead.cli.main", "mirror", "--once", "--whitelist=line-1"),
            *("--consumer.config", files[0], "--producer.config", files[1]),
            *("--message.handler", "handler:faults_alone"),
        ],
        cwd=pair.folder,
        env={**os.environ, "PYTHONPATH": f"{EXAMPLES / 'mirror'}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=_SCRIPT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    faults = [reading for reading in some if reading.fault is not None]
    assert 0 < len(faults) < len(some)
    assert [line.split(" ", 2)[2] for line in consumed(pair.there, "/default:line-1")] == [
        f'{{"units": {reading.units}, "fault": "{reading.fault}", "time": 17}}' for reading in faults
    ]


def test_one_query_reads_all_plants_and_a_table_goes_on_where_it_was(
    pair: Pair, spark: SparkSession, tmp_path: Path
) -> None:
    """Of recorded readings, half of them produced after the consolidation was stopped; asked of stream and table."""
    recorded = {plant: list(islice(readings(plant), 600)) for plant in PLANTS}
    pair.there.cli("stream", "create", "-path", f"/mapr/{THERE}{STREAM}")
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    for half in (slice(300), slice(300, 600)):
        for plant, all_of in recorded.items():
            _report(pair.there, plant, all_of[half])
        query = queries.consolidate(spark, pair.there.url, table, checkpoint)
        query.processAllAvailable()
        batches = queries.finished(query)
        query.stop()
        assert sum(batch.rows for batch in batches) == 600
    consolidated = spark.read.parquet(str(table))
    assert consolidated.count() == consolidated.select("topic", "partition", "offset").distinct().count() == 1200
    for source in (consolidated, queries.now(spark, pair.there.url)):
        lines = queries.picture(spark, source)
        assert {(line.plant, line.line): line.made for line in lines} == _counted(recorded)
        assert any(line.faults == 0 for line in lines)
        assert all(line.faults_per_1000_readings == round(1000 * line.faults / line.readings, 2) for line in lines)


def _report(site: Site, plant: str, some: list[Reading]) -> None:
    """As if they had come from there behind a prefix."""
    producer = Producer({"bootstrap.servers": site.kafka, "linger.ms": 20})
    for reading in some:
        producer.produce(f"{PREFIX}{plant}.{topic_of(reading.line)}", reading.value(17), key=reading.machine)
    assert producer.flush(WAIT_SECONDS) == 0


def _counted(recorded: dict[str, list[Reading]]) -> dict[tuple[str, int], Made]:
    made: dict[tuple[str, int], Made] = {}
    for plant, some in recorded.items():
        for reading in some:
            made.setdefault((plant, reading.line), Made()).add(reading)
    return made
