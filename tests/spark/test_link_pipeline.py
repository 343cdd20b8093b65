"""A stream replicated to three sites by the real replicator: Spark in long rounds, real servers, real clients."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.records import differences, read_all
from tests.support.sites import Site, command_of, descendants, java_of, kill_pid, sites
from tests.support.waiting import QUIET_SECONDS, WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

STREAM = "/ships"
PREFIX = STREAM + ":"
ROUND_SECONDS = 600
"""Longer than the tests: what arrives has arrived in the middle of a round."""
STARTED_SECONDS = 2 * WAIT_SECONDS
"""For a job that starts a Spark of its own, where others work beside it."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A source with its replicator, and three destinations without one."""

    source: Site
    replicas: tuple[Site, ...]

    def send(self, topics: list[str], records: int, label: str = "r") -> None:
        """Publish and wait for all acknowledgements."""
        producer = Producer({"bootstrap.servers": self.source.kafka, "linger.ms": 5})
        for number in range(records):
            for topic in topics:
                producer.produce(PREFIX + topic, f"{label} {number}", key=str(number))
            producer.poll(0)
        assert producer.flush(WAIT_SECONDS) == 0

    def same(self, topics: list[str], replica: Site) -> list[str]:
        """What differs between the source and a replica."""
        source = read_all(self.source.kafka, topics, prefix=PREFIX)
        return differences(source, read_all(replica.kafka, topics, prefix=PREFIX))

    def synced(self, *replicas: Site) -> bool:
        """These replicas have all that the source had before the call."""
        wanted = {f"/mapr/{replica.name}{STREAM}" for replica in replicas}
        rows = [row for row in self.source.replica_status(STREAM) if row["replicaPath"] in wanted]
        return len(rows) == len(wanted) and all(row["isUptodate"] and row["putsPending"] == 0 for row in rows)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One Spark for all tests of this file."""
    folder = tmp_path_factory.mktemp("fleet")
    settings = {"round_seconds": str(ROUND_SECONDS), "replicator_workers": "2"}
    with sites(folder, "sanfrancisco", settings=settings) as (source,):
        replicas = [Site(name, folder) for name in ("newyork", "tokyo", "rotterdam")]
        try:
            for replica in replicas:
                replica.start("server")
                _introduce(source, replica)
            source.cli("stream", "create", "-path", f"/mapr/sanfrancisco{STREAM}")
            yield Fleet(source, tuple(replicas))
        finally:
            for replica in replicas:
                replica.stop()


def _introduce(source: Site, replica: Site) -> None:
    """Enter a cluster without a replicator in the address book."""
    source.cli("cluster", "add", "--name", replica.name, "--http", replica.url, "--kafka", replica.kafka)


def _add(fleet: Fleet, replica: Site) -> None:
    fleet.source.cli(
        *("stream", "replica", "autosetup", "-path", f"/mapr/sanfrancisco{STREAM}"),
        *("-replica", f"/mapr/{replica.name}{STREAM}"),
    )


def test_without_a_link_there_is_no_jvm(fleet: Fleet) -> None:
    """The replicator waits for work without Java."""
    replicator = wait_until(fleet.source.replicator_pid, "the replicator runs")
    assert replicator is not None
    assert java_of(replicator) is None


def test_what_exists_is_copied_when_a_link_is_made(fleet: Fleet) -> None:
    """Many topics, written before: every record at the same offset, with the same content."""
    topics = [f"old-{number}" for number in range(300)]
    fleet.send(topics, 10)
    _add(fleet, fleet.replicas[0])
    wait_until(lambda: fleet.synced(fleet.replicas[0]), "the replica has all")
    assert fleet.same(topics, fleet.replicas[0]) == []


def test_a_stranger_on_this_machine_is_not_heard_by_spark(fleet: Fleet) -> None:
    """Spark's ports are open to every user here, and deserialise what whoever knows the secret sends them."""
    replicator = fleet.source.replicator_pid()
    assert replicator is not None
    java = java_of(replicator)
    assert java is not None
    answers = _said_by(_listening(java), 2)
    # A third port is Py4J's, which waits for its own secret.
    assert [b"Expected SaslMessage" in answer for answer in answers] == [True, True], answers


def _listening(pid: int) -> set[int]:
    """The TCP ports on which a process listens."""
    links = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            links.append(os.readlink(file))
    rows = [
        line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{kind}").read_text().split("\n")
    ]
    open_here = [row[1] for row in rows if row[3:4] == ["0A"] and f"socket:[{row[9]}]" in links]
    return {int(address.rpartition(":")[2], 16) for address in open_here}


def _said_by(ports: Iterable[int], expected: int) -> list[bytes]:
    """What ports answer to a message of Spark's protocol from somebody who has shown nothing: so many as are expected,
    and what else comes soon after."""
    body = b"hello"
    message = struct.pack(">bqi", 3, 7, len(body)) + body
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)) for port in ports]
        for connection in silent:
            connection.sendall(struct.pack(">q", 8 + len(message)) + message)
        answers = list[bytes]()
        while heard := select.select(silent, [], [], WAIT_SECONDS if len(answers) < expected else QUIET_SECONDS)[0]:
            answers += [connection.recv(4096) for connection in heard]
            silent = [connection for connection in silent if connection not in heard]
        return answers


def test_a_lone_record_arrives_in_the_middle_of_a_round(fleet: Fleet) -> None:
    """Each waits for nothing that comes after it; a round is ten minutes."""
    topic = "lone"
    fleet.send([topic], 1)
    wait_until(lambda: fleet.synced(fleet.replicas[0]), "the topic is there")
    consumer = Consumer({"bootstrap.servers": fleet.replicas[0].kafka, "group.id": "g", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(PREFIX + topic, 0, 1)])
    delays = [_one_delay(fleet, consumer, topic) for _ in range(5)]
    consumer.close()
    print("lone records, ms:", [round(1000 * delay) for delay in delays])
    assert max(delays) < ROUND_SECONDS / 2


def _one_delay(fleet: Fleet, consumer: Consumer, topic: str) -> float:
    began = time.monotonic()
    fleet.send([topic], 1)
    while True:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            return time.monotonic() - began
        assert time.monotonic() - began < WAIT_SECONDS, "the record does not arrive in the middle of the round"


def test_a_paused_link_sends_nothing_and_a_resumed_one_all(fleet: Fleet) -> None:
    """Both are felt in the middle of a round, without a new start of Spark."""
    link = ("-path", f"/mapr/sanfrancisco{STREAM}", "-replica", f"/mapr/newyork{STREAM}")
    fleet.source.cli("stream", "replica", "pause", *link)
    fleet.send(["paused"], 5)
    assert not fleet.synced(fleet.replicas[0])
    with pytest.raises(LookupError):
        read_all(fleet.replicas[0].kafka, ["paused"], prefix=PREFIX)
    fleet.source.cli("stream", "replica", "resume", *link)
    began = time.monotonic()
    wait_until(lambda: fleet.synced(fleet.replicas[0]), "the replica has all")
    print("resumed and caught up in, s:", round(time.monotonic() - began, 2))
    assert fleet.same(["paused"], fleet.replicas[0]) == []


def test_a_black_hole_among_three_destinations_holds_nobody_up(fleet: Fleet) -> None:
    """One destination takes connections and answers nothing; the others get all; it gets the rest when it is back."""
    newyork, tokyo, rotterdam = fleet.replicas
    _add(fleet, tokyo)
    _add(fleet, rotterdam)
    fleet.send(["three"], 100)
    wait_until(lambda: fleet.synced(*fleet.replicas), "three replicas have all")
    os.kill(tokyo.pid, signal.SIGSTOP)
    try:
        for number in range(5):
            fleet.send(["three"], 100, f"hole {number}")
            wait_until(lambda: fleet.synced(newyork, rotterdam), "the others have all")
    finally:
        os.kill(tokyo.pid, signal.SIGCONT)
    wait_until(lambda: fleet.synced(*fleet.replicas), "the third has caught up")
    for replica in fleet.replicas:
        assert fleet.same(["three"], replica) == []


def test_a_killed_python_worker_is_replaced(fleet: Fleet) -> None:
    """Spark tries the task again; nothing is lost, nothing doubled, and the query goes on in the same JVM."""
    replicator = fleet.source.replicator_pid()
    assert replicator is not None
    java = java_of(replicator)
    assert java is not None
    for number in range(2):
        kill_pid(wait_until(fleet.source.spark_worker_pids, "Spark's workers run")[-1])
        fleet.send(["killed"], 200, f"kill {number}")
        wait_until(lambda: fleet.synced(fleet.replicas[0]), "the replica has all")
    assert fleet.same(["killed"], fleet.replicas[0]) == []
    assert java_of(replicator) == java


def test_a_copy_that_ends_is_carried_by_the_same_query(fleet: Fleet) -> None:
    """copystream: offsets kept, no standing agreement, no link left."""
    fleet.source.cli("stream", "create", "-path", "/mapr/sanfrancisco/once")
    producer = Producer({"bootstrap.servers": fleet.source.kafka})
    for number in range(500):
        producer.produce(f"/once:t{number % 10}", str(number))
    assert producer.flush(WAIT_SECONDS) == 0
    fleet.source.cli("copystream", "-src", "/mapr/sanfrancisco/once", "-dst", "/mapr/newyork/once")
    topics = [f"t{number}" for number in range(10)]
    source = read_all(fleet.source.kafka, topics, prefix="/once:")
    assert len(source) == 500
    assert differences(source, read_all(fleet.replicas[0].kafka, topics, prefix="/once:")) == []
    wait_until(lambda: fleet.source.replica_status("/once") == [], "the link is gone")


def test_a_stopped_replicator_leaves_no_process(fleet: Fleet) -> None:
    """SIGTERM ends Spark, its JVM and all workers within seconds; `fairlead up` starts another."""
    replicator = fleet.source.replicator_pid()
    assert replicator is not None
    below = list(descendants(replicator))
    assert below
    os.kill(replicator, signal.SIGTERM)
    wait_until(lambda: not any(command_of(pid) for pid in (replicator, *below)), "all have ended")


def test_once_carries_what_is_there_and_ends(tmp_path: Path) -> None:
    """A batch job with the same source and sink: exit code 0 when all was applied, and no process is left."""
    with sites(tmp_path, "sanfrancisco") as (source,):
        source.stop()
        source.start("server")
        source.cli("cluster", "add", "-http", source.url)
        for path in ("/one", "/two"):
            source.cli("stream", "create", "-path", path)
        producer = Producer({"bootstrap.servers": source.kafka})
        for number in range(300):
            producer.produce(f"/one:t{number % 7}", str(number))
        assert producer.flush(WAIT_SECONDS) == 0
        source.cli("stream", "replica", "add", "-path", "/one", "-replica", "/two")
        source.cli("stream", "upstream", "add", "-path", "/two", "-upstream", "/one")
        command = [sys.executable, "-m", "fairlead.replication", "--server", source.url, "--once"]
        command += ["--data", str(source.data)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=STARTED_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        assert source.in_sync("/one")
        topics = [f"t{number}" for number in range(7)]
        copy = read_all(source.kafka, topics, prefix="/two:")
        assert differences(read_all(source.kafka, topics, prefix="/one:"), copy) == []


def test_rounds_that_turn_lose_nothing(tmp_path: Path) -> None:
    """Rounds of two seconds under a steady load, inside one cluster: every record once, at its offset."""
    with sites(tmp_path, "sanfrancisco", settings={"round_seconds": "2"}) as (source,):
        source.cli("stream", "create", "-path", "/one")
        source.cli("stream", "replica", "autosetup", "-path", "/one", "-replica", "/two")
        wait_until(source.spark_worker_pids, "Spark's workers run")
        producer = Producer({"bootstrap.servers": source.kafka, "linger.ms": 5})
        began = time.monotonic()
        for number in range(2000):
            producer.produce(f"/one:t{number % 20}", str(number))
            producer.poll(max(0.0, began + number / 200 - time.monotonic()))
        assert producer.flush(WAIT_SECONDS) == 0
        wait_until(lambda: source.in_sync("/one"), "the replica has all")
        topics = [f"t{number}" for number in range(20)]
        copy = read_all(source.kafka, topics, prefix="/two:")
        assert len(copy) == 2000
        assert differences(read_all(source.kafka, topics, prefix="/one:"), copy) == []
