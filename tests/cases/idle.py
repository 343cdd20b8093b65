"""What two clusters do while nobody uses them: the commits they write and the processor time they take."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from confluent_kafka import Producer

from fairlead.storage import names
from fairlead.storage.local import ReadOnlyLocalStorage
from tests.support.records import differences, read_all
from tests.support.sites import GONE, Site, descendants
from tests.support.waiting import WAIT_SECONDS, wait_until

STREAM = "/ships"
PREFIX = STREAM + ":"
QUIET_SECONDS = 10
"""So long without a commit after the last record, and the idling begins."""


@dataclass(frozen=True, slots=True)
class IdlePair:
    """Two clusters, since when they idle, and what they had written by then."""

    sites: tuple[Site, Site]
    since: float
    commits: frozenset[str]
    ends: tuple[int, ...]
    cpu_seconds: float


def linked_both_ways(one: Site, other: Site) -> IdlePair:
    """Make the stream and both links, carry a record each way, and wait until all is quiet."""
    paths = [f"/mapr/{site.name}{STREAM}" for site in (one, other)]
    one.cli("stream", "create", "-path", paths[0])
    one.cli("stream", "replica", "autosetup", "-path", paths[0], "-replica", paths[1])
    one.cli("stream", "upstream", "add", "-path", paths[0], "-upstream", paths[1])
    one.cli("stream", "replica", "add", "-path", paths[1], "-replica", paths[0])
    for site, path in zip((one, other), paths, strict=True):
        site.cli("stream", "topic", "create", "-path", path, "-topic", f"from-{site.name}")
    both = (one, other)
    for site in both:
        send(site, "first")
    carried(both)
    _wait_for_quiet(both)
    return IdlePair(both, time.monotonic(), commits(both), ends(both), cpu_seconds(both))


def send(site: Site, value: str) -> None:
    """One record into the topic that this site owns."""
    producer = Producer({"bootstrap.servers": site.kafka})
    producer.produce(f"{PREFIX}from-{site.name}", value)
    assert producer.flush(WAIT_SECONDS) == 0


def carried(both: tuple[Site, Site]) -> None:
    """Wait until both links have nothing more to send, and check that both clusters hold the same."""
    wait_until(lambda: all(site.in_sync(STREAM) for site in both), "both are up to date")
    topics = [f"from-{site.name}" for site in both]
    first, second = (read_all(site.kafka, topics, prefix=PREFIX) for site in both)
    assert first
    assert differences(first, second) == []


def commits(both: tuple[Site, Site]) -> frozenset[str]:
    """Names of all commits of all logs, the clusters' own included."""
    found = ((site.name, name) for site in both for name in ReadOnlyLocalStorage(site.data).list(""))
    return frozenset(f"{site}/{name}" for site, name in found if names.parse_commit(name) is not None)


def ends(both: tuple[Site, Site]) -> tuple[int, ...]:
    """Where the logs of the stream end, also when their commits are merged."""
    rows = [row for site in both for row in site.replica_status(STREAM)]
    return tuple(position["end"] for row in rows for position in row["positions"])


def cpu_seconds(both: tuple[Site, Site]) -> float:
    """Processor time that the clusters have used, with their replicators, Spark and all that runs now."""
    pids = [pid for site in both for pid in (site.pid, *descendants(site.pid))]
    return sum(map(_cpu_ticks, pids)) / os.sysconf("SC_CLK_TCK")


def _cpu_ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except GONE:
        return 0
    return int(fields[11]) + int(fields[12])


def _wait_for_quiet(both: tuple[Site, Site]) -> None:
    seen, since = commits(both), time.monotonic()

    def quiet() -> bool:
        nonlocal seen, since
        now = commits(both)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > QUIET_SECONDS

    wait_until(quiet, "no commit is written any more")
