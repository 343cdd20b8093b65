"""A Spark query that writes to a topic is killed, or its worker, or the server: each record is there exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.records import ends, read_all
from tests.support.rounds import rounds, seed
from tests.support.sites import Site, command_of, descendants, kill_pid, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

ROUNDS = rounds(3)
SEED = seed(15)
RECORDS_A_ROUND = 6_000
PARTITIONS = 3
STARTED_SECONDS = 4 * WAIT_SECONDS
"""For a query's first batch: Spark and its workers start anew each time, which takes minutes beside other tests."""


class Query:
    """The program, in a session of its own."""

    def __init__(self, folder: Path, site: Site, *how: str) -> None:
        self._log = (folder / "query.log").open("ab")
        command = [sys.executable, "-m", "tests.crash.sink_query", site.url, str(folder / "checkpoint"), "in", "out"]
        self.process = subprocess.Popen(
            [*command, *how], stdout=self._log, stderr=self._log, start_new_session=True, cwd=Path(__file__).parents[2]
        )

    def kill(self) -> None:
        """All of it: the program, Spark's JVM and its workers."""
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()

    def workers(self) -> list[int]:
        """Python processes of Spark's tasks and of its driver."""
        return [pid for pid in descendants(self.process.pid) if "pyspark" in command_of(pid)]


@contextmanager
def running(folder: Path, site: Site, *how: str) -> Iterator[Query]:
    query = Query(folder, site, *how)
    try:
        yield query
    finally:
        query.kill()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with sites(tmp_path, "port", settings={"merge_commits_min": "50"}) as (site,):
        site.cli("stream", "topic", "create", "-path", "/mapr/port/default", "-topic", "in")
        site.cli(
            *("stream", "topic", "create", "-path", "/mapr/port/default", "-topic", "out"),
            *("-partitions", str(PARTITIONS)),
        )
        yield site


@pytest.mark.timeout(900)  # it takes minutes where others work beside it
def test_what_a_query_writes_is_there_once_over_kills(site: Site, tmp_path: Path) -> None:
    """At random moments of its batches; the records of a batch are in other tasks when it runs again."""
    choose = random.Random(SEED)
    victims = ["query", "server", "worker"]
    for number in range(ROUNDS):
        produce(site, number)
        victim = victims[number % len(victims)]
        seen = copied(site)
        with running(tmp_path, site) as query:
            wait_until(lambda seen=seen: copied(site) > seen, "the query writes", STARTED_SECONDS)  # type: ignore[misc]
            time.sleep(choose.random() * 2)  # the moment of the kill, not a condition
            hit(victim, query, site)
    with running(tmp_path, site, "once") as last:
        assert last.process.wait(800) == 0, (tmp_path / "query.log").read_text()[-3000:]
    found = read_all(site.kafka, ["out"], prefix="/default:")
    print(f"seed {SEED}: {ROUNDS} kills, {ROUNDS * RECORDS_A_ROUND} records")
    assert sorted(int(content.value or b"-1") for content in found.values()) == list(range(ROUNDS * RECORDS_A_ROUND))


def hit(victim: str, query: Query, site: Site) -> None:
    if victim == "server":
        site.kill()
        site.start()
    elif victim == "worker":
        for pid in query.workers():
            kill_pid(pid)


def copied(site: Site) -> int:
    """Offsets of the topic that is written."""
    return sum(ends(site.kafka, "out"))


def produce(site: Site, number: int) -> None:
    producer = Producer({"bootstrap.servers": site.kafka, "linger.ms": 5, "batch.num.messages": 500})
    for value in range(number * RECORDS_A_ROUND, (number + 1) * RECORDS_A_ROUND):
        while True:
            try:
                producer.produce("in", b"%d" % value, key=b"%d" % (value % 100))
                break
            except BufferError:
                producer.poll(1)
    assert producer.flush(WAIT_SECONDS) == 0
