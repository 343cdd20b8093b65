"""How long a record takes that is produced at a copy and passed on to the owner, whose cluster is a round trip away.

Two servers, a replicator at the owner, and a link from the copy to the owner through a proxy that sets the round trip.
The same load goes to the owner itself, then to the copy: open-loop, linger 0, one record after the other. What is
allowed is the round trip and twice what the owner takes by itself. It is checked that the owner has all records of
both, and that those of the copy came through the proxy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.common import check, together, topics
from benchmarks.load.delay import delayed
from benchmarks.load.launch import start
from benchmarks.systems import pair_fairlead
from benchmarks.systems.common import STREAM
from benchmarks.systems.fairlead import Fairlead, FairleadPair

OWN, PASSED_ON = producers = range(2)
"""The producer numbers that records carry."""
RECORD_BYTES = 1_000
TOPICS = 10
WARM_SECONDS = 1
"""The first record opens the connection."""


def measure(folder: Path, point: Point) -> Figures:
    """Load twice, check."""
    rate, seconds, round_trip_ms = (point.settings[name] for name in ("rate", "seconds", "round_trip_ms"))
    with pair_fairlead(folder) as pair:
        pair.link(STREAM)
        pair.source.create_topics(TOPICS)
        wait_until(lambda: _topic_count(pair.replica) == TOPICS, "the copy knows the topics")
        owner_port = int(pair.source.site.url.rpartition(":")[2])
        with delayed(owner_port, round_trip_ms / 1000) as way:
            _pass_on(pair, f"http://127.0.0.1:{way.port}")
            own = _loaded(pair.source, point, OWN)
            before = way.connections
            passed_on = _loaded(pair.replica, point, PASSED_ON)
            if way.connections == before:
                raise CheckFailed("the records did not come through the proxy")
        settings = {"record_bytes": RECORD_BYTES, "producers": len(producers)}
        check(pair.source, topics(pair.source, TOPICS), settings, len(producers) * rate * (seconds + WARM_SECONDS))
    allowed = {name: round_trip_ms + 2 * own[name] for name in ("p50_ms", "p99_ms")}
    return {
        "p50/allowed": passed_on["p50_ms"] / allowed["p50_ms"],
        "p99/allowed": passed_on["p99_ms"] / allowed["p99_ms"],
        "p50 ms": passed_on["p50_ms"],
        "p99 ms": passed_on["p99_ms"],
        "own p50 ms": own["p50_ms"],
        "own p99 ms": own["p99_ms"],
        "histogram": passed_on["histogram"],
    }


def _loaded(server: Fairlead, point: Point, producer: int) -> dict[str, Any]:
    """When records were acknowledged that clients of this server produced."""
    rate, seconds = point.settings["rate"], point.settings["seconds"] + WARM_SECONDS
    load = {"bootstrap": server.bootstrap, "topics": topics(server, TOPICS), "record_bytes": RECORD_BYTES}
    load |= {"rate": rate, "seconds": seconds, "warm_records": rate * WARM_SECONDS, "producer": producer}
    (found,), _ = together(server, [start("open_loop", load)])
    acknowledged: dict[str, Any] = found["acknowledged"]
    return acknowledged


def _pass_on(pair: FairleadPair, url: str) -> None:
    """The copy passes writes on, to this address alone; the owner accepts them."""
    source, replica = pair.source.site, pair.replica.site
    here, there = f"/mapr/{source.name}{STREAM}", f"/mapr/{replica.name}{STREAM}"
    source.cli("stream", "replica", "edit", "-path", here, "-replica", there, "-acceptwrites", "true")
    source.cli("stream", "upstream", "add", "-path", here, "-upstream", there)
    replica.cli("stream", "edit", "-path", there, "-forwardwrites", "true")
    replica.cli("stream", "upstream", "remove", "-path", there, "-upstream", here, "--yes")
    link = {"path": STREAM, "replica": here, "clusters": json.dumps({source.name: [url]})}
    answer = httpx.post(f"{replica.url}/rest/stream/replica/add", json=link, timeout=30).json()
    if answer["status"] != "OK":
        raise CheckFailed(f"the copy has no link to the owner: {answer}")
    wait_until(lambda: _bound(pair), "the link was answered")


def _bound(pair: FairleadPair) -> bool:
    (row,) = pair.replica.site.replica_status(STREAM)
    return bool(row["replicaState"] != "REPLICA_STATE_CREATE_SCHEDULE")


def _topic_count(server: Fairlead) -> int:
    params = {"path": STREAM}
    answer = httpx.get(f"{server.site.url}/rest/stream/info", params=params, timeout=30).json()
    return int(answer["data"][0]["numtopics"])


def _point(round_trip_ms: int, rate: int, seconds: int) -> Point:
    return Point(f"{round_trip_ms}ms", {"round_trip_ms": round_trip_ms, "rate": rate, "seconds": seconds})


CASE = Case(
    "forwarding",
    {HOME: measure},
    points=[_point(20, 500, 20), _point(50, 500, 20)],
    quick=[_point(20, 200, 3)],
)
