"""`make demo-plants`: plants in Asia and Europe send their metrics to North America, where one query reads all of them.

    python -m examples.plants.demo [--rate 400] [--away 5] [--chart .make/plants.png | --no-chart]
                                   [--keep]

North America's Spark is killed in the middle, while plants and replicas go on, and catches up. Every line of the last
table is a claim with what was measured. The exit code is 0 only if all of them hold, the counts of Spark against those
of the plants among them. Everything that was started is stopped, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from examples.plants import queries
from examples.plants.course import Course, Point
from examples.plants.metrics import NAME_OF_THE_STORY, PARTITIONS, PLANTS, PREFIX, STREAM, Plant, topics
from examples.ships import traffic
from examples.ships.asked import Asked
from examples.ships.compare import Held, compare
from examples.ships.sites import Site, SiteFailed, Sites, tail
from examples.ships.stage import Stage, add_chart_options, chart_file, errors_into, run, table
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

CENTRE = "northamerica"
ENGINEERING = "/engineering/metrics"
ROOT = Path(__file__).parents[2]
BATCHES_BEFORE = 3
"""So many micro-batches Spark has finished when it is killed."""


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description="Plants' metrics, consolidated in North America.")
    parser.add_argument("--rate", type=int, default=400, help="readings a second of each plant")
    parser.add_argument(
        "--away", type=int, default=5, help="Spark is away until so many seconds' readings have come without it"
    )
    add_chart_options(parser, ROOT / ".make" / "plants.png")
    parser.add_argument("--keep", action="store_true", help="keep data and logs")
    options = parser.parse_args()
    options.chart = chart_file(parser, options)
    return run("fairlead-plants-", lambda sites, console: _play(sites, console, options), _verdict, keep=options.keep)


def _verdict(play: Play) -> str | None:
    made = sum(plant.total for plant in play.plants.values())
    return f"{len(play.stage.claims)} claims hold; {made:,} readings, each once" if play.stage.good else None


def _play(sites: Sites, console: Console, options: argparse.Namespace) -> Play:
    play = Play(sites, console, options)
    try:
        play.all_acts()
    except PySparkException as error:
        raise SiteFailed(f"Spark: {error}") from error
    finally:
        for plant in play.plants.values():
            plant.give_up()
    console.print(table("asia + europe → northamerica", play.stage.claims))
    return play


@dataclass(slots=True)
class Clock:
    """What was seen when, for the chart; seconds since 1970."""

    began: float = field(default_factory=time.time)
    replicated: list[Point] = field(default_factory=list)
    batches: list[queries.Batch] = field(default_factory=list)
    killed: float = 0
    back: float = 0

    def course(self) -> Course:
        consolidated, rows = [(0.0, 0)], 0
        for batch in sorted(self.batches, key=lambda batch: batch.ended):
            rows += batch.rows
            consolidated.append((batch.ended - self.began, rows))
        return Course(self.replicated, consolidated, (self.killed - self.began, self.back - self.began))


class Play:
    """The play, act by act."""

    def __init__(self, sites: Sites, console: Console, options: argparse.Namespace) -> None:
        self.stage = Stage(sites, console)
        self.plants: dict[str, Plant] = {}
        self._sites = sites
        self._console = console
        self._rate: int = options.rate
        self._away: int = options.away
        self._chart: Path | None = options.chart
        self._table, self._checkpoint = sites.folder / "table", sites.folder / "checkpoint"
        self._clock = Clock()
        self._at: dict[str, Site] = {}
        """The clusters by name."""
        self._at_kill: dict[str, int] = {}
        """Of each plant, how many readings were in North America when Spark was killed."""

    def all_acts(self) -> None:
        """All of it."""
        self.stage.say("three clusters start")
        with self._console.status("starting"):
            self._at |= {name: self._sites.start(name) for name in (*PLANTS, CENTRE)}
        self._there = Asked(self._at[CENTRE].kafka, [name for plant in PLANTS for name in _replicas(plant)], PARTITIONS)
        self._names()
        self._produce()
        self._replicate()
        self._spark_dies(self._spark_starts())
        self._spark_returns()

    # ------------------------------------------------------------ acts

    def _names(self) -> None:
        self.stage.say(f"the story's topic {NAME_OF_THE_STORY!r} has a space, which Kafka's names have not")
        self.stage.run("stream", "create", "-path", f"/mapr/asia{STREAM}")
        self.stage.run("stream", "create", "-path", f"/mapr/europe{STREAM}")
        refused = ""
        try:
            traffic.create_topics(self._at["asia"].kafka, [NAME_OF_THE_STORY], PARTITIONS, PREFIX)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_EXCEPTION:
                raise
            refused = error.args[0].str()
        self.stage.claim(f"no topic is called {NAME_OF_THE_STORY!r}", bool(refused), f"refused: {refused}")
        both = ", ".join(sorted(set(topics("asia")) & set(topics("europe"))))
        self._console.print(f"so it is line-2, and asia.line-2 in {CENTRE}; both plants have {both}", soft_wrap=True)

    def _produce(self) -> None:
        self.stage.say(f"machines report, {self._rate:,} readings a second in each plant")
        for plant in PLANTS:
            bootstrap = self._at[plant].kafka
            traffic.create_topics(bootstrap, topics(plant), PARTITIONS, PREFIX)
            self.plants[plant] = Plant(plant, bootstrap, self._rate)

    def _replicate(self) -> None:
        self.stage.say("many to one, each plant behind its prefix; and a copy for engineering in each plant's cluster")
        for number, plant in enumerate(PLANTS):
            pair = ("-path", f"/mapr/{plant}{STREAM}", "-replica", f"/mapr/{CENTRE}{STREAM}", "-prefix", f"{plant}.")
            existing = ("-useexistingreplica", "true") if number else ()
            self.stage.run("stream", "replica", "autosetup", *pair, *existing)
            own = ("-path", f"/mapr/{plant}{STREAM}", "-replica", f"/mapr/{plant}{ENGINEERING}")
            self.stage.run("stream", "replica", "autosetup", *own)
        with self._console.status("the replicators' Spark starts in both plants"):
            for plant in PLANTS:
                for asked in (self._there_of(plant), self._engineering(plant)):
                    self.stage.until(f"all lines of {plant} are replicated", partial(self._all_there, asked))

    def _spark_starts(self) -> subprocess.Popen[bytes]:
        """North America's own, which has nothing to do with that of the replicators."""
        self.stage.say(f"{CENTRE} consolidates: Spark writes all plants' readings into a table as they come")
        folders = ("--table", str(self._table), "--checkpoint", str(self._checkpoint))
        command = ("python", "-m", "examples.plants.queries", "--server", self._at[CENTRE].http, *folders)
        self._console.print(f"$ {' '.join(command)}", style="bold", highlight=False, soft_wrap=True)
        spark = self._sites.begin_program("spark", [sys.executable, *command[1:]], ROOT)

        def consolidates() -> bool:
            if spark.poll() is not None:
                raise SiteFailed(f"Spark ended:\n{tail(self._sites.folder / 'spark.log')}")
            self._look()
            return len(self._told()) >= BATCHES_BEFORE

        self.stage.until("Spark consolidates", consolidates)
        return spark

    def _spark_dies(self, spark: subprocess.Popen[bytes]) -> None:
        self.stage.say("Spark is killed; plants and replicas go on")
        self._console.print(f"$ kill -9 -- -{spark.pid}", style="bold", highlight=False)
        self._sites.kill_group(spark)
        self._clock.killed, self._at_kill = time.time(), self._replicated()
        self._clock.batches += self._told()
        self.stage.until("replicas go on without Spark", lambda: not self._lacks(), fails=False)

    def _spark_returns(self) -> None:
        self.stage.say("Spark starts again, where it was")
        with errors_into(self._sites.folder / "spark.log"):
            spark = queries.small_session()
        try:
            self._catch_up(spark)
            self._judge(spark)
        finally:
            spark.stop()

    def _catch_up(self, spark: SparkSession) -> None:
        rows, known = spark.read.parquet(str(self._table)).count(), sum(self._at_kill.values())
        self._clock.back, waiting = time.time(), self._look() - rows
        self._console.print(f"{rows:,} readings are in the table, {waiting:,} wait for Spark in {CENTRE}")
        self.stage.claim(
            "while Spark was away, plants and replicas went on",
            not self._lacks() and 0 < rows <= known and not any(plant.failed for plant in self.plants.values()),
            f"{rows:,} readings in the table, {waiting:,} more came to {CENTRE} in "
            f"{self._clock.back - self._clock.killed:.0f} s; no producer failed",
        )
        query, began = queries.consolidate(spark, self._at[CENTRE].http, self._table, self._checkpoint), time.time()

        behind = waiting

        def caught_up() -> bool:
            nonlocal behind
            if (error := query.exception()) is not None:
                raise SiteFailed(f"Spark: {error}")
            done = sum(batch.rows for batch in queries.finished(query))
            behind = self._look() - rows - done
            return done >= waiting and behind < waiting

        self.stage.until("Spark has what it missed", caught_up, fails=False)
        seconds, more = time.time() - began, self._look() - rows - waiting
        self.stage.claim(
            "Spark caught up while plants went on",
            behind < waiting and more > 0,
            f"{waiting:,} readings waited, {behind:,} after {seconds:.1f} s, in which {more:,} more came",
        )
        self.stage.say("the shift ends; replicas and Spark come to the last reading")
        for plant in self.plants.values():
            plant.stop()
        made = sum(plant.total for plant in self.plants.values())
        self.stage.until("everything is replicated", lambda: self._look() >= made)
        for name in PLANTS:
            asked, total = self._engineering(name), self.plants[name].total
            self.stage.until("engineering has everything", lambda: asked.records() >= total)  # noqa: B023
        query.processAllAvailable()
        self._clock.batches += queries.finished(query)
        query.stop()

    def _judge(self, spark: SparkSession) -> None:
        self.stage.say("all is counted, and compared record by record")
        self._claim_counts(spark)
        for plant in PLANTS:
            self._claim_copies(plant)

    def _claim_counts(self, spark: SparkSession) -> None:
        made = {(name, line): found for name, plant in self.plants.items() for line, found in plant.made.items()}
        total = sum(found.readings for found in made.values())
        failed = sum(len(plant.failed) for plant in self.plants.values())
        self.stage.claim("every reading was acknowledged", failed == 0 < total, f"{total:,} readings, {failed} errors")
        consolidated = spark.read.parquet(str(self._table)).cache()
        rows = consolidated.count()
        once = consolidated.select("topic", "partition", "offset").distinct().count()
        self.stage.claim(
            "each reading is in the table once, though Spark was killed",
            rows == once == total,
            f"{rows:,} rows, {once:,} different, of {total:,}",
        )
        self.stage.note(queries.PICTURE.strip())
        for what, source in (("stream", queries.now(spark, self._at[CENTRE].http)), ("table", consolidated)):
            lines = queries.picture(spark, source)
            self.stage.claim(
                f"the query of the {what} says what the plants counted",
                {(line.plant, line.line): line.made for line in lines} == made,
                f"{len(lines)} lines, {sum(line.units for line in lines):,} units, "
                f"{sum(line.faults for line in lines):,} faults; plants: "
                f"{sum(each.units for each in made.values()):,}, {sum(each.faults for each in made.values()):,}",
            )
        self._console.print(_picture(lines))
        if self._chart is not None:
            from examples.plants.chart import draw  # needs matplotlib, and nothing else here does

            draw(lines, self._clock.course(), self._chart)
            self._console.print(f"chart: {self._chart}", highlight=False, soft_wrap=True)

    def _claim_copies(self, plant: str) -> None:
        source = self._own(plant).held()
        for where, asked, prefix in (
            (CENTRE, self._there_of(plant), f"{PREFIX}{plant}."),
            (f"{plant}{ENGINEERING}", self._engineering(plant), f"{ENGINEERING}:"),
        ):
            found = compare(source, _renamed(asked.held(), prefix), self.plants[plant].acknowledged)
            self.stage.claim(
                f"{where} has {plant}'s readings at their offsets",
                found.equal,
                f"{found.same:,} alike, {found.missing + found.extra + found.different + found.unacknowledged} not",
            )

    # ------------------------------------------------------------ helpers

    def _look(self) -> int:
        """How many readings are in North America now."""
        count = self._there.records()
        self._clock.replicated.append((time.time() - self._clock.began, count))
        return count

    def _replicated(self) -> dict[str, int]:
        """How many of each plant."""
        return {plant: self._there_of(plant).records() for plant in PLANTS}

    def _lacks(self) -> list[str]:
        """Plants of which too few readings have come since Spark was killed."""
        self._look()
        now, enough = self._replicated(), self._away * self._rate
        return [plant for plant, before in self._at_kill.items() if now[plant] - before < enough]

    def _all_there(self, asked: Asked) -> bool:
        """Each topic has a record."""
        self._look()
        return {topic for (topic, _), end in asked.ends().items() if end} == set(asked.topics)

    def _told(self) -> list[queries.Batch]:
        """What the Spark that is to be killed has said of its micro-batches."""
        text = (self._sites.folder / "spark.out").read_text()
        return [queries.Batch(**json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]

    def _own(self, plant: str) -> Asked:
        return Asked(self._at[plant].kafka, [PREFIX + name for name in topics(plant)], PARTITIONS)

    def _there_of(self, plant: str) -> Asked:
        return Asked(self._at[CENTRE].kafka, _replicas(plant), PARTITIONS)

    def _engineering(self, plant: str) -> Asked:
        return Asked(self._at[plant].kafka, [f"{ENGINEERING}:{name}" for name in topics(plant)], PARTITIONS)


def _replicas(plant: str) -> list[str]:
    """A plant's topics as clients in North America know them."""
    return [PREFIX + name for name in topics(plant, f"{plant}.")]


def _renamed(held: Held, prefix: str) -> Held:
    """By the names that topics have in their plant."""
    places = {
        (PREFIX + topic.removeprefix(prefix), number, offset): content
        for (topic, number, offset), content in held.records.items()
    }
    return Held(places, held.size_bytes)


def _picture(lines: list[queries.Line]) -> Table:
    """The lines as people see them."""
    made = Table(title=f"all plants, asked in {CENTRE}")
    for heading in ("plant", "line", "readings", "units", "faults", "faults per 1,000 readings"):
        made.add_column(heading, justify="left" if heading == "plant" else "right")
    for line in lines:
        counts = (f"{count:,}" for count in (line.readings, line.units, line.faults))
        made.add_row(line.plant, str(line.line), *counts, f"{line.faults_per_1000_readings:.1f}")
    return made


if __name__ == "__main__":
    sys.exit(main())
