"""A Spark query that writes to a topic is killed, or workers of its tasks, or its process that sends, or the server:
each record is there exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.records import ends, read_all
from tests.support.rounds import rounds, seed
from tests.support.sites import Site, children, command_of, descendants, kill_pid, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

VICTIMS = ("query", "server", "worker", "sender")
ROUNDS = rounds(len(VICTIMS))
SEED = seed(15)
RECORDS_A_ROUND = 6_000
PARTITIONS = 3
STARTED_SECONDS = 4 * WAIT_SECONDS
"""For a query's first batch: Spark and its workers start anew each time, which takes minutes beside other tests."""


class Query:
    """The program, in a session of its own."""

    def __init__(self, folder: Path, site: Site, *how: str) -> None:
        self._staged = folder / "checkpoint" / "fairlead-staged"
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
        """Python processes of Spark's tasks."""
        return self._forks_for("pyspark.worker")

    def senders(self) -> list[int]:
        """The Python process in which the driver sends what tasks have left, as long as it does."""
        return self._forks_for("pyspark.sql.worker.python_streaming_sink_runner")

    def sends(self) -> bool:
        """A batch is settled, and not known to be there whole."""
        return any(self._staged.glob("*/*/manifest"))

    def ended(self) -> bool:
        return self.process.poll() is not None

    def _forks_for(self, module: str) -> list[int]:
        """What Spark's daemon has forked to run a module. The daemon is not one of them, nor is the JVM."""
        end = f" -m pyspark.daemon {module}"
        found = [pid for pid in descendants(self.process.pid) if command_of(pid).endswith(end)]
        return [fork for pid in found for fork in children(pid) if fork in found]


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


@pytest.mark.timeout(180 * (ROUNDS + 1))  # Spark starts in each round, which takes minutes where others work beside it
def test_what_a_query_writes_is_there_once_over_kills(site: Site, tmp_path: Path) -> None:
    """At random moments of its batches, half of them while one is being sent; the records of a batch are in other tasks
    when it runs again. A query that only lost workers goes on by itself: their tasks run again within the batch."""
    choose = random.Random(SEED)
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        produce(site, number)
        victim = VICTIMS[number % len(VICTIMS)]
        before, all_of = copied(site), (number + 1) * RECORDS_A_ROUND
        with running(tmp_path, site) as query:
            wait_until(lambda before=before: copied(site) > before, "the query writes", STARTED_SECONDS)  # type: ignore[misc]
            if victim == "sender" or choose.random() < 0.5:
                aim = query.senders if victim == "sender" else query.sends
                wait_until(lambda: aim() or copied(site) == all_of, "a batch is sent", every_seconds=0.001)  # noqa: B023
            else:
                time.sleep(choose.random() * 2)  # the moment of the kill, not a condition
            sends, hits = query.sends(), hit(victim, query, site)
            seen["while a batch was sent"] += sends and hits
            then = copied(site)
            wait_until(lambda: query.ended() or copied(site) > then or then == all_of, "it goes on or ends")  # noqa: B023
            seen[f"{victim}, and the query {'ended' if query.ended() else 'went on'}"] += hits
            assert victim != "worker" or not query.ended(), (tmp_path / "query.log").read_text()[-3000:]
    with running(tmp_path, site, "once") as last:
        assert last.process.wait(800) == 0, (tmp_path / "query.log").read_text()[-3000:]
    found = read_all(site.kafka, ["out"], prefix="/default:")
    print(f"seed {SEED}: {ROUNDS} rounds, {ROUNDS * RECORDS_A_ROUND} records; kills: {dict(seen)}")
    assert sorted(int(content.value or b"-1") for content in found.values()) == list(range(ROUNDS * RECORDS_A_ROUND))


def hit(victim: str, query: Query, site: Site) -> bool:
    """Whether there was somebody to hit; a sender may have come to its end meanwhile."""
    if victim == "query":
        query.kill()
    elif victim == "server":
        site.kill()
        site.start()
    else:
        found = query.workers() if victim == "worker" else query.senders()
        assert found or victim != "worker"
        for pid in found:
            kill_pid(pid)
        return bool(found)
    return True


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
