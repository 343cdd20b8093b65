"""Topics handed over to another cluster in one command, while others of the stream are written.

Two servers, a replicator at the source and links both ways. Records go to ten topics at a steady rate, each time by a
fresh client: while nothing else happens, while the topics are created by one request, and while they are handed over.
The time of the hand-over is the job's own, from its beginning to its end. It is checked that the other cluster owns
every topic then, and that the records of the ten are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.sites import Site
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.common import check
from benchmarks.load.launch import go, start
from benchmarks.systems import pair_fairlead
from benchmarks.systems.common import STREAM, create_topics
from benchmarks.systems.fairlead import FairleadPair

NAME = "container-{:06d}"
PATTERN = "container-[0-9]+"
WRITTEN = [f"{STREAM}:written-{number}" for number in range(10)]
RECORD_BYTES = 200
QUIET, CREATING, HANDING = producers = range(3)
"""The producer numbers that records carry."""
_HEAD_SECONDS = 1.0
"""The load runs alone for so long before anything else happens."""
_WAIT_SECONDS = 300


def measure(folder: Path, point: Point) -> Figures:
    """Load three times, count, check."""
    topics = point.settings["topics"]
    with pair_fairlead(folder) as pair:
        pair.link(STREAM)
        _link_back(pair)
        create_topics(pair.source.bootstrap, WRITTEN)
        quiet, _ = _under_load(pair, point, QUIET, lambda: None)
        created, creation_s = _under_load(pair, point, CREATING, lambda: _create(pair, topics))
        wait_until(lambda: pair.in_sync() and _ready(pair.replica.site), "the replica has all", _WAIT_SECONDS)
        handed, transfer_s = _under_load(pair, point, HANDING, lambda: _hand_over(pair, topics))
        began = time.monotonic()
        wait_until(lambda: _owned_by_replica(pair.replica.site, pair) == topics, "all is known there", _WAIT_SECONDS)
        known_s = time.monotonic() - began
        seconds, rate = point.settings["seconds"], point.settings["rate"]
        settings = {"record_bytes": RECORD_BYTES, "producers": len(producers)}
        check(pair.source, WRITTEN, settings, len(producers) * seconds * rate)
    return {
        "transfer topics/s": topics / transfer_s,
        "creation topics/s": topics / creation_s,
        "transfer/creation": transfer_s / creation_s,
        "max/p99 before": handed["max_ms"] / quiet["p99_ms"],
        "p99 ms before": quiet["p99_ms"],
        "p99 ms": handed["p99_ms"],
        "max ms": handed["max_ms"],
        "max ms while created": created["max_ms"],
        "known there s": known_s,
    }


def _under_load(
    pair: FairleadPair, point: Point, producer: int, action: Callable[[], float | None]
) -> tuple[dict[str, Any], float]:
    """Latencies of the load while `action` is done, and how long that said it took."""
    seconds = point.settings["seconds"]
    load = {"bootstrap": pair.source.bootstrap, "topics": WRITTEN, "record_bytes": RECORD_BYTES, "producer": producer}
    client = start("open_loop", {**load, "rate": point.settings["rate"], "seconds": seconds})
    with closing(client), ThreadPoolExecutor(1) as threads:
        client.wait_ready()
        running = threads.submit(go, [client], _WAIT_SECONDS)
        time.sleep(_HEAD_SECONDS)
        took = action() or 0.0
        if running.done():
            raise CheckFailed(f"the load of {seconds} s was over before what it was to accompany")
        (found,) = running.result()
    return found["acknowledged"], took


def _create(pair: FairleadPair, topics: int) -> float:
    """In one request."""
    admin = AdminClient({"bootstrap.servers": pair.source.bootstrap})
    wanted = [NewTopic(f"{STREAM}:{NAME.format(number)}", 1) for number in range(topics)]
    began = time.monotonic()
    for future in admin.create_topics(wanted, request_timeout=_WAIT_SECONDS).values():
        future.result()
    return time.monotonic() - began


def _hand_over(pair: FairleadPair, topics: int) -> float:
    """By one command; the seconds that the job took."""
    source, replica = pair.source.site, pair.replica.site
    line = ("-path", f"/mapr/{source.name}{STREAM}", "-topic", PATTERN, "-to", replica.name, "--yes", "--json")
    source.cli("stream", "topic", "transfer", *line)
    job = httpx.get(f"{source.url}/rest/job/list", timeout=30).json()["data"][-1]
    if (job["state"], job["changed"]) != ("done", topics):
        raise CheckFailed(f"not all was handed over: {job}")
    return float(max(job["endedat"] - job["createdat"], 1)) / 1000


def _link_back(pair: FairleadPair) -> None:
    source, replica = pair.source.site, pair.replica.site
    here, there = f"/mapr/{source.name}{STREAM}", f"/mapr/{replica.name}{STREAM}"
    source.cli("stream", "upstream", "add", "-path", here, "-upstream", there)
    source.cli("stream", "replica", "add", "-path", there, "-replica", here)


def _ready(site: Site) -> bool:
    """The only link of the site's stream has been answered."""
    (row,) = site.replica_status(STREAM)
    return bool(row["replicaState"] != "REPLICA_STATE_CREATE_SCHEDULE")


def _owned_by_replica(site: Site, pair: FairleadPair) -> int:
    """Topics that the replica's cluster owns, by what this site knows."""
    params = {"path": STREAM, "owner": pair.replica.site.name}
    return int(httpx.get(f"{site.url}/rest/stream/topic/list", params=params, timeout=60).json()["total"])


def _point(topics: int, rate: int, seconds: int) -> Point:
    return Point(f"{topics}-topics", {"topics": topics, "rate": rate, "seconds": seconds})


CASE = Case("transfer", {HOME: measure}, points=[_point(50_000, 2_000, 40)], quick=[_point(2_000, 200, 4)])
