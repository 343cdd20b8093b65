"""`fairlead mirror` on Spark: the command as it is written, and what `kill -9` of each of its processes leaves."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.mirror.test_command import EXAMPLE, SEED
from tests.support.broker import RunningBroker, run_broker
from tests.support.mirrors import MirrorProcess, count, make_topic, mirroring, produce, properties
from tests.support.records import read_all
from tests.support.scripts import install_scripts
from tests.support.sites import children, command_of, descendants, java_of, kill_pid
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

SPARK_ENGINE = ("--engine", "spark")
DAEMON = "fairlead.mirror.spark.worker_daemon pyspark.worker"
PARTITIONS = 3
BURST = 1_000
"""Records of each partition while something is killed."""
NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningBroker]]:
    """Two sources and a destination."""
    folder = tmp_path_factory.mktemp("clusters")
    with (
        run_broker(folder / "1", name="one") as first,
        run_broker(folder / "2", name="two") as second,
        run_broker(folder / "3", name="target") as target,
    ):
        yield [first, second, target]


def test_the_command_of_the_seed_runs_as_it_is_written(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """With the files of the example, but for their addresses. Both sources are mirrored, Ctrl-C ends it with 0, and
    nothing is left of Spark."""
    for name, broker in zip(
        ("sourceCluster1Consumer", "sourceCluster2Consumer", "targetClusterProducer"), brokers, strict=True
    ):
        text = (EXAMPLE / f"{name}.config").read_text()
        changed = re.sub(r"bootstrap\.servers=.*", f"bootstrap.servers={broker.bootstrap}", text)
        (tmp_path / f"{name}.config").write_text(changed)
    first, second, target = brokers
    for broker, topic in ((first, "seed-one"), (second, "seed-two")):
        make_topic(broker.bootstrap, topic, PARTITIONS)
        produce(broker.bootstrap, topic, [(b"k%d" % (number % 7), b"%d" % number) for number in range(500)])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(EXAMPLE.parents[1] / "src"),  # the command runs in another folder
        "PATH": f"{install_scripts(tmp_path / 'bin')}:{os.environ['PATH']}",
        "TMPDIR": str(scratch),
    }
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            shlex.split(SEED), cwd=tmp_path, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    try:
        wait_until(
            lambda: [count(target.bootstrap, topic) for topic in ("seed-one", "seed-two")] == [500, 500],
            "all is mirrored",
        )
        below = list(descendants(process.pid))
        assert any("java" in command_of(pid) for pid in below)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not any(command_of(pid) for pid in below), "Spark's processes have ended")
    assert list(scratch.iterdir()) == []
    for broker, topic in ((first, "seed-one"), (second, "seed-two")):
        assert _values(target, topic) == _values(broker, topic)
    assert re.search(r"in all +1,000", log.read_text())


def _values(broker: RunningBroker, topic: str) -> list[tuple[int, bytes | None]]:
    found = read_all(broker.bootstrap, [topic], prefix="")
    return [(place.partition, content.value) for place, content in sorted(found.items())]


class Killing:
    """A topic under load, its mirror, and what is killed of it in the middle of bursts."""

    def __init__(self, source: RunningBroker, target: RunningBroker, topic: str) -> None:
        self._source, self._target = source.bootstrap, target.bootstrap
        self.topic = make_topic(self._source, topic, PARTITIONS)
        self._written = 0
        self.kills = 0

    def burst(self) -> None:
        """More records of each partition."""
        first, self._written = self._written, self._written + BURST
        pairs = [(None, b"%d" % value) for value in range(first, self._written)]
        for partition in range(PARTITIONS):
            produce(self._source, self.topic, pairs, partition=partition, enable_idempotence=True)

    def settle(self, mirror: MirrorProcess) -> None:
        """Wait until the mirror knows that all is mirrored; before that a kill may double more than the last burst."""
        wait_until(lambda: count(self._target, self.topic) >= PARTITIONS * self._written, "all is mirrored")
        mirror.log.write_text("")
        wait_until(lambda: "nothing behind" in mirror.said(), "the mirror knows")

    def kill(self, pid: int, mirror: MirrorProcess) -> None:
        """In the middle of a burst."""
        self.settle(mirror)
        self.burst()
        kill_pid(pid)
        self.kills += 1
        self.burst()

    def check(self) -> None:
        """None is lost, all in order but for where it went back, and no more twice than was under way at the kills."""
        found: dict[int, list[int]] = {}
        for place, content in sorted(read_all(self._target, [self.topic], prefix="").items()):
            found.setdefault(place.partition, []).append(int(content.value or b"-1"))
        doubled = sum(map(len, found.values())) - PARTITIONS * self._written
        print(f"kills {self.kills}, records {PARTITIONS * self._written}, lost 0, doubled {doubled}")
        for values in found.values():
            assert sorted(set(values)) == list(range(self._written))
            assert sum(other <= one for one, other in pairwise(values)) <= self.kills
        assert doubled <= self.kills * PARTITIONS * 2 * BURST


def _tasks(mirror: MirrorProcess) -> list[int]:
    """The Python processes of tasks."""
    daemons = [pid for pid in descendants(mirror.process.pid) if command_of(pid).rstrip().endswith(DAEMON)]
    return [pid for daemon in daemons for pid in children(daemon) if command_of(pid).rstrip().endswith(DAEMON)]


@pytest.mark.timeout(900)  # it takes minutes where others work beside it
def test_whatever_is_killed_nothing_is_lost(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """Processes of tasks, Spark's JVM, and the mirror itself with all workers it leaves behind: each in the middle of a
    burst. The mirror that is started again goes on at its positions."""
    source, _, target = brokers
    killing = Killing(source, target, "killed")
    arguments = [
        *("--consumer.config", str(properties(tmp_path / "consumer.config", source.bootstrap, group_id="killed"))),
        *("--producer.config", str(properties(tmp_path / "producer.config", target.bootstrap))),
        *("--whitelist", "killed", "--num.streams", "2", *SPARK_ENGINE),
    ]
    killing.burst()
    with mirroring(tmp_path, *arguments) as mirror:
        killing.settle(mirror)
        for pid in random.Random(14).sample(_tasks(mirror), 2):
            killing.kill(pid, mirror)
        killing.settle(mirror)
        java = java_of(mirror.process.pid)
        assert java is not None
        killing.kill(java, mirror)
        # Tasks may have carried the burst to its end before they noticed.
        wait_until(lambda: java_of(mirror.process.pid) not in (None, java), "another Spark is started")
        killing.settle(mirror)
        below = list(descendants(mirror.process.pid))
        killing.kill(mirror.process.pid, mirror)
        mirror.wait()
        wait_until(lambda: not any(command_of(pid) for pid in below), "workers and Spark end with the mirror")
    last = MirrorProcess(tmp_path, [*arguments, "--once"])
    assert last.wait() == 0, last.said()
    killing.check()


def test_a_source_that_is_away_stops_no_other(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """Their workers are the same. It is said to be away."""
    source, _, target = brokers
    make_topic(source.bootstrap, "beside", PARTITIONS)
    arguments = [
        *("--consumer.config", str(properties(tmp_path / "away.config", NOBODY, group_id="beside"))),
        *("--consumer.config", str(properties(tmp_path / "consumer.config", source.bootstrap, group_id="beside"))),
        *("--producer.config", str(properties(tmp_path / "producer.config", target.bootstrap))),
        *("--whitelist", "beside", *SPARK_ENGINE),
    ]
    with mirroring(tmp_path, *arguments) as mirror:
        produce(source.bootstrap, "beside", [(None, b"%d" % number) for number in range(100)])
        wait_until(lambda: count(target.bootstrap, "beside") == 100, "all is mirrored")
        wait_until(lambda: "away.config is away" in mirror.said(), "it is said to be away")
        assert mirror.stop() == 0, mirror.said()
