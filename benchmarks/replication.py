"""What replication costs: copy throughput, latency at a steady rate, processor and memory, with and without Spark.

    python -m benchmarks.replication [--mb 300] [--seconds 20] [--carrier spark|plain|both]

Two clusters run on this machine as processes; records go in and come out through confluent-kafka. The plain carrier is
the same reader and sink without Spark (`plain_copier.py`). Prints one table; a line a measurement, units in its name.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.support.sites import Site, descendants, sites, wait_until

STREAM = "/ships"
TOPICS = 100
RECORD_BYTES = 1000
SETTLE_SECONDS = 40
"""Until a heap that the copy has made grow is given back."""
TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--carrier", choices=("spark", "plain", "both"), default="both")
    chosen = parser.parse_args()
    carriers = ("spark", "plain") if chosen.carrier == "both" else (chosen.carrier,)
    for carrier in carriers:
        for name, value in measure(carrier, chosen.mb, chosen.seconds).items():
            print(f"{carrier:6} {name:44} {value:12.1f}", flush=True)


def measure(carrier: str, backlog_mb: int, seconds: int) -> dict[str, float]:
    """All numbers of one carrier."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder, running(Path(folder), carrier) as pair:
        source, replica, pid = pair
        fill(source.kafka, backlog_mb)
        found |= copy(source, replica, pid, backlog_mb)
        time.sleep(SETTLE_SECONDS)
        found |= rest(pid, seconds)
        found |= latency(source.kafka, replica.kafka, seconds)
        found |= lone(source.kafka, replica.kafka)
    return found


@contextmanager
def running(folder: Path, carrier: str) -> Iterator[tuple[Site, Site, int]]:
    """Two clusters and what carries their link; the third is its pid. A first small link has warmed it up."""
    with sites(folder, "sanfrancisco", "newyork") as (source, replica):
        for site in (source, replica):
            site.stop()
            site.start("server")
        module = "fairlead.replication.replicator" if carrier == "spark" else "benchmarks.plain_copier"
        log = (folder / "carrier.log").open("ab")
        process = subprocess.Popen([sys.executable, "-m", module, "--server", source.url], stdout=log, stderr=log)
        try:
            link(source, "/warm")
            produce(source.kafka, "/warm:t", 10)
            wait_until(lambda: source.in_sync("/warm"), "the first link works", 120)
            source.cli("stream", "create", "-path", f"/mapr/sanfrancisco{STREAM}")
            yield source, replica, process.pid
        finally:
            process.terminate()
            process.wait(30)
            log.close()


def link(source: Site, path: str) -> None:
    """Make a stream, if it is not there, and its replica."""
    source.cli("stream", "create", "-path", f"/mapr/sanfrancisco{path}", check=False)
    names = ("-path", f"/mapr/sanfrancisco{path}", "-replica", f"/mapr/newyork{path}")
    source.cli("stream", "replica", "autosetup", *names)


def produce(bootstrap: str, topic: str, records: int) -> None:
    """A few records."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0


def fill(bootstrap: str, backlog_mb: int) -> None:
    """Records of 1,000 random bytes in many topics."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 262_144, "queue.buffering.max.messages": 50_000}
    )
    values = [os.urandom(RECORD_BYTES) for _ in range(100)]
    for number in range(backlog_mb * 1_000_000 // RECORD_BYTES):
        send(producer, f"{STREAM}:t{number % TOPICS}", values[number % len(values)])
    assert producer.flush(120) == 0


def send(producer: Producer, topic: str, value: bytes) -> None:
    """Produce, waiting when the client's queue is full."""
    while True:
        try:
            producer.produce(topic, value)
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return


def copy(source: Site, replica: Site, pid: int, backlog_mb: int) -> dict[str, float]:
    """From the command that makes the link until the replica has everything."""
    pids = {"carrier": pid, "source server": source.pid, "gateway": replica.pid}
    before = {who: cpu_seconds(each) for who, each in pids.items()}
    began = time.monotonic()
    link(source, STREAM)
    wait_until(lambda: source.in_sync(STREAM), "the backlog is copied", 300, 0.1)
    took = time.monotonic() - began
    found = {"copy, MB/s": backlog_mb / took, "copy, s with the command": took}
    return found | {
        f"copy, processor s of {who}": used_seconds(before[who], cpu_seconds(each)) for who, each in pids.items()
    }


def rest(pid: int, seconds: int) -> dict[str, float]:
    """Nothing happens for a while."""
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return {
        "at rest, % of one core": 100 * used_seconds(before, cpu_seconds(pid)) / seconds,
        "memory, MB (proportional)": memory_mb(pid),
        "processes": 1.0 + len(list(descendants(pid))),
    }


def latency(source: str, replica: str, seconds: int, per_second: int = 1000) -> dict[str, float]:
    """A steady rate over many topics: from produce to acknowledged at the source, and on to consumed at the replica."""
    count = per_second * seconds
    sent, acknowledged, arrived = ([0.0] * count for _ in range(3))
    stop = threading.Event()
    reader = threading.Thread(target=_receive, args=(replica, arrived, stop))
    reader.start()
    time.sleep(2)
    producer = Producer({"bootstrap.servers": source, "linger.ms": 5})

    def note(error: object, message: Message) -> None:
        assert error is None
        acknowledged[int(message.value())] = time.monotonic()

    began = time.monotonic()
    for number in range(count):
        wait = began + number / per_second - time.monotonic()
        if wait > 0:
            producer.poll(wait)
        sent[number] = time.monotonic()
        producer.produce(f"{STREAM}:t{number % TOPICS}", str(number), on_delivery=note)
        producer.poll(0)
    assert producer.flush(60) == 0
    wait_until(lambda: all(arrived), "all has arrived", 60)
    stop.set()
    reader.join()
    return {
        **_spread(f"{per_second}/s, produce to acknowledged", sent, acknowledged),
        **_spread(f"{per_second}/s, produce to consumed", sent, arrived),
        **_spread(f"{per_second}/s, acknowledged to consumed", acknowledged, arrived),
    }


def _spread(what: str, begins: list[float], ends: list[float]) -> dict[str, float]:
    ordered = sorted(1000 * (end - begin) for begin, end in zip(begins, ends, strict=True))
    return {f"{what}, {name} ms": ordered[int((len(ordered) - 1) * part)] for name, part in _PARTS.items()}


_PARTS = {"median": 0.5, "p99": 0.99, "max": 1.0}


def _receive(replica: str, arrived: list[float], stop: threading.Event) -> None:
    consumer = Consumer({"bootstrap.servers": replica, "group.id": "latency", "fetch.wait.max.ms": 100})
    places = [TopicPartition(f"{STREAM}:t{number}", 0) for number in range(TOPICS)]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, timeout=10)[1]
    consumer.assign(places)
    while not stop.is_set():
        for message in consumer.consume(1000, 0.01):
            if message.error() is None:
                arrived[int(message.value())] = time.monotonic()
    consumer.close()


def lone(source: str, replica: str) -> dict[str, float]:
    """One record a second in an otherwise idle stream."""
    consumer = Consumer({"bootstrap.servers": replica, "group.id": "lone", "fetch.wait.max.ms": 100})
    place = TopicPartition(f"{STREAM}:t0", 0)
    place.offset = consumer.get_watermark_offsets(place, timeout=10)[1]
    consumer.assign([place])
    consumer.poll(1)
    producer = Producer({"bootstrap.servers": source, "linger.ms": 0})
    delays = []
    for _ in range(10):
        time.sleep(1)
        began = time.monotonic()
        producer.produce(f"{STREAM}:t0", b"x")
        producer.poll(0)
        while (message := consumer.poll(0.5)) is None or message.error() is not None:
            producer.poll(0)
        delays.append(1000 * (time.monotonic() - began))
    producer.flush(10)
    consumer.close()
    return {"lone record, median ms": sorted(delays)[5], "lone record, max ms": max(delays)}


def cpu_seconds(pid: int) -> dict[int, float]:
    """Processor time of a process and of everything that it started, by pid."""
    found = {}
    for each in (pid, *descendants(pid)):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[each] = (int(fields[11]) + int(fields[12])) / TICK
    return found


def used_seconds(before: dict[int, float], after: dict[int, float]) -> float:
    """Processor time between two looks; what ended in between is not counted."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def memory_mb(pid: int) -> float:
    """Proportional set size of a process and what it started."""
    total = 0
    for each in (pid, *descendants(pid)):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1000


if __name__ == "__main__":
    main()
