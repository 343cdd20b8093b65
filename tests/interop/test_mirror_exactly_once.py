"""`fairlead mirror --exactly.once` between real brokers of Apache Kafka, in both protocols of transactions and by both
engines: whatever is killed, paused or restarted, who reads committed records at the destination sees each record once,
in order."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count as counting
from pathlib import Path

import pytest
from benchmarks.systems.kafka import Kafka

from tests.interop.kafka_pair import KafkaPair
from tests.support.mirrors import MirrorProcess, count, load, make_topic, mirroring, produce, properties
from tests.support.records import read_all, wait_for_markers
from tests.support.rounds import rounds, seed
from tests.support.sites import children, command_of, descendants, java_of, kill_pid
from tests.support.waiting import wait_until

ROUNDS = rounds(2)
SEED = seed(14)
PARTITIONS = 3
_topics = counting(1)


@pytest.fixture(params=["second", "first"])
def target(request: pytest.FixtureRequest, pair: KafkaPair) -> Kafka:
    """A destination of each protocol."""
    if request.param == "second":
        return pair.target
    found: Kafka = request.getfixturevalue("first_protocol")
    return found


@pytest.fixture
def topic(pair: KafkaPair) -> str:
    """A topic of the source."""
    return make_topic(pair.source.bootstrap, f"exactly-{next(_topics)}", PARTITIONS)


def options(folder: Path, source: str, target: str, topic: str, *more: str, **producer: str) -> list[str]:
    """Of a mirror of this topic, with its files."""
    files = [
        "--consumer.config",
        str(properties(folder / "consumer.config", source, group_id=f"exactly-{topic}")),
        "--producer.config",
        str(properties(folder / "producer.config", target, **producer)),
    ]
    return [*files, "--whitelist", topic, "--exactly.once", *more]


def finish(folder: Path, arguments: list[str]) -> str:
    """Mirror what is left; what it said."""
    mirror = MirrorProcess(folder, [*arguments, "--once"])
    assert mirror.wait() == 0, mirror.said()
    return mirror.said()


def numbers(bootstrap: str, topic: str) -> list[list[int]]:
    """The numbers in each partition, as who reads committed records sees them."""
    wait_for_markers(bootstrap, topic)
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for place, content in sorted(read_all(bootstrap, [topic], prefix="").items()):
        found[place.partition].append(int(content.value or b"-1"))
    return found


def has_come(bootstrap: str, topic: str, before: int) -> bool:
    return count(bootstrap, topic) > before


def test_a_mirror_that_is_killed_again_and_again_doubles_nothing(
    pair: KafkaPair, target: Kafka, topic: str, tmp_path: Path
) -> None:
    """`kill -9` at random moments under load: none lost, none doubled, in order."""
    source = pair.source.bootstrap
    choose = random.Random(SEED)
    arguments = options(tmp_path, source, target.bootstrap, topic)
    with load(source, topic, PARTITIONS) as written:
        for _ in range(ROUNDS):
            before = count(target.bootstrap, topic)
            with mirroring(tmp_path, *arguments) as mirror:
                wait_until(partial(has_come, target.bootstrap, topic, before), "it mirrors")
                time.sleep(choose.random())  # the moment of the kill, not a condition
                mirror.kill()
    finish(tmp_path, arguments)
    assert numbers(target.bootstrap, topic) == [list(range(number)) for number in written]
    print(f"seed {SEED}: kills {ROUNDS}, records {sum(written)}, lost 0, doubled 0, in order")


def test_a_mirror_that_is_killed_as_it_starts_doubles_nothing(
    pair: KafkaPair, target: Kafka, topic: str, tmp_path: Path
) -> None:
    """While it opens its lanes, or in its first transactions."""
    source = pair.source.bootstrap
    choose = random.Random(SEED)
    arguments = options(tmp_path, source, target.bootstrap, topic)
    for turn in range(ROUNDS):
        for partition in range(PARTITIONS):
            pairs = [(None, b"%d" % number) for number in range(turn * 1000, turn * 1000 + 1000)]
            produce(source, topic, pairs, partition=partition)
        mirror = MirrorProcess(tmp_path, arguments)
        wait_until(partial(_has_begun, mirror), "it begins")
        time.sleep(choose.random() * 0.5)  # the moment of the kill, not a condition
        mirror.kill()
    finish(tmp_path, arguments)
    assert numbers(target.bootstrap, topic) == [list(range(ROUNDS * 1000))] * PARTITIONS


def _has_begun(mirror: MirrorProcess) -> bool:
    """Whether Python has read most of the program."""
    return "uvloop" in Path(f"/proc/{mirror.process.pid}/maps").read_text()


def test_a_zombie_commits_nothing(pair: KafkaPair, target: Kafka, topic: str, tmp_path: Path) -> None:
    """Paused (`SIGSTOP`) in the middle, while another takes over; when it goes on, it is fenced, and ends with that."""
    source = pair.source.bootstrap
    for name in ("zombie", "heir"):
        (tmp_path / name).mkdir()
    arguments = options(tmp_path, source, target.bootstrap, topic)
    with load(source, topic, PARTITIONS) as written, mirroring(tmp_path / "zombie", *arguments) as zombie:
        wait_until(partial(has_come, target.bootstrap, topic, 0), "it mirrors")
        zombie.process.send_signal(signal.SIGSTOP)
        with mirroring(tmp_path / "heir", *arguments, "--takeover") as heir:
            wait_until(partial(has_come, target.bootstrap, topic, count(target.bootstrap, topic)), "the heir mirrors")
            zombie.process.send_signal(signal.SIGCONT)
            assert zombie.wait() == 1
            assert "was taken over by process" in zombie.said()
            wait_until(partial(has_come, target.bootstrap, topic, count(target.bootstrap, topic)), "the heir goes on")
            assert heir.stop() == 0, heir.said()
    finish(tmp_path, arguments)
    assert numbers(target.bootstrap, topic) == [list(range(number)) for number in written]


def test_a_destination_that_restarts_in_the_middle_doubles_nothing(
    pair: KafkaPair, target: Kafka, topic: str, tmp_path: Path
) -> None:
    source = pair.source.bootstrap
    arguments = options(tmp_path, source, target.bootstrap, topic)
    with mirroring(tmp_path, *arguments) as mirror:
        with load(source, topic, PARTITIONS) as written:
            wait_until(partial(has_come, target.bootstrap, topic, 0), "it mirrors")
            target.restart()
            wait_until(partial(has_come, target.bootstrap, topic, count(target.bootstrap, topic)), "it goes on")
        assert mirror.stop() == 0, mirror.said()
    finish(tmp_path, arguments)
    assert numbers(target.bootstrap, topic) == [list(range(number)) for number in written]


def test_a_transaction_that_takes_too_long_is_told_and_mirrored_again(
    pair: KafkaPair, target: Kafka, topic: str, tmp_path: Path
) -> None:
    """Paused for longer than it may take, again and again until one was open then; nobody else has taken over, so the
    mirror goes on."""
    source = pair.source.bootstrap
    arguments = options(tmp_path, source, target.bootstrap, topic, transaction_timeout_ms="500")
    with load(source, topic, PARTITIONS) as written, mirroring(tmp_path, *arguments) as mirror:
        while "a transaction has failed and is mirrored again" not in mirror.said():
            wait_until(partial(has_come, target.bootstrap, topic, count(target.bootstrap, topic)), "it mirrors")
            mirror.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)  # three times as long as a transaction may take
            mirror.process.send_signal(signal.SIGCONT)
        wait_until(partial(has_come, target.bootstrap, topic, count(target.bootstrap, topic)), "it goes on")
        assert mirror.stop() == 0, mirror.said()
    finish(tmp_path, arguments)
    assert numbers(target.bootstrap, topic) == [list(range(number)) for number in written]


# ---------------------------------------------------------------- with Spark


def task_processes(mirror: MirrorProcess) -> list[int]:
    """The Python processes of its tasks: readers and sinks."""
    daemons = (pid for pid in descendants(mirror.process.pid) if _is_worker(pid))
    return [pid for daemon in daemons for pid in children(daemon) if _is_worker(pid)]


def _is_worker(pid: int) -> bool:
    return command_of(pid).endswith("fairlead.mirror.spark.worker_daemon pyspark.worker")


def java_processes(mirror: MirrorProcess) -> list[int]:
    found = java_of(mirror.process.pid)
    return [] if found is None else [found]


@contextmanager
def suspended(mirror: MirrorProcess) -> Iterator[None]:
    """All of its processes; at the end of the block its tasks go on first, and whoever would stop them last."""
    pids = [mirror.process.pid, *descendants(mirror.process.pid)]
    for pid in pids:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def goes_on(bootstrap: str, topic: str) -> None:
    """Wait until much more has come than was on its way."""
    wait_until(partial(has_come, bootstrap, topic, count(bootstrap, topic) + 1_000), "it goes on")


@pytest.mark.spark
def test_a_mirror_on_spark_doubles_nothing_whatever_of_it_is_killed(
    pair: KafkaPair, topic: str, tmp_path: Path
) -> None:
    """`kill -9` under load of processes of its task, again and again, of the JVM, and in the end of the coordinator."""
    victims = [*[task_processes] * (ROUNDS // 2), java_processes]
    source, target = pair.source.bootstrap, pair.target.bootstrap
    choose = random.Random(SEED)
    arguments = options(tmp_path, source, target, topic)
    with load(source, topic, PARTITIONS) as written, mirroring(tmp_path, *arguments, "--engine", "spark") as mirror:
        goes_on(target, topic)
        for victim in victims:
            kill_pid(choose.choice(wait_until(partial(victim, mirror), "there is one")))
            goes_on(target, topic)
        mirror.kill()
    finish(tmp_path, arguments)
    assert numbers(target, topic) == [list(range(number)) for number in written]
    print(f"seed {SEED}: kills {len(victims) + 1}, records {sum(written)}, lost 0, doubled 0, in order")


@pytest.mark.spark
def test_a_mirror_on_spark_that_was_suspended_commits_nothing(pair: KafkaPair, topic: str, tmp_path: Path) -> None:
    """All of it, coordinator, JVM and tasks (`SIGSTOP`), while another takes over."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    for name in ("zombie", "heir"):
        (tmp_path / name).mkdir()
    arguments = options(tmp_path, source, target, topic)
    arguments += ["--engine", "spark"]
    with load(source, topic, PARTITIONS) as written, ExitStack() as stack:
        zombie = stack.enter_context(mirroring(tmp_path / "zombie", *arguments))
        goes_on(target, topic)
        with suspended(zombie):
            heir = stack.enter_context(mirroring(tmp_path / "heir", *arguments, "--takeover"))
            goes_on(target, topic)
        assert zombie.wait() == 1
        assert "was taken over by process" in zombie.said()
        goes_on(target, topic)
        assert heir.stop() == 0, heir.said()
    finish(tmp_path, arguments)
    assert numbers(target, topic) == [list(range(number)) for number in written]
