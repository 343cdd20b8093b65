"""Topics taken over by a cluster that lacks a part of them, which a neighbour has.

Two servers and a replicator at the source. The link is paused before the records are written, so the replica has the
topics and none of the records; then it takes all of them over in one command, and brings the records by itself, without
the replicator. (`-force`, since the neighbour that has them is also the owner, and lives.) The time is the job's own.
What limits it is said by the processor time of both servers in that time: a taker near one core is limited by its
interpreter, one far below by the disk or the way between the two. It is checked that the records are there, at the new
owner.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from tests.support.sites import Site
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.common import check
from benchmarks.load.launch import run
from benchmarks.systems import cpu_seconds, pair_fairlead
from benchmarks.systems.common import STREAM
from benchmarks.systems.fairlead import FairleadPair

RECORD_BYTES = 1_000
_WAIT_SECONDS = 300


def measure(folder: Path, point: Point) -> Figures:
    """Write where the replica does not see it, take over, check."""
    count, records = point.settings["topics"], point.settings["records"]
    with pair_fairlead(folder) as pair:
        names = {"format": f"{STREAM}:t{{:06d}}", "count": count}
        pair.source.create_topics(count)
        pair.link(STREAM)
        wait_until(pair.in_sync, "the replica has the topics", _WAIT_SECONDS)
        source, replica = pair.source.site, pair.replica.site
        line = ("-path", f"/mapr/{source.name}{STREAM}", "-replica", f"/mapr/{replica.name}{STREAM}")
        source.cli("stream", "replica", "pause", *line)
        if records:
            _write(pair, names, records)
        before = [cpu_seconds(side.pids) for side in (pair.source, pair.replica)]
        job = _take_over(replica, source.name)
        took = max(job["endedat"] - job["createdat"], 1) / 1000
        used = [cpu_seconds(side.pids) - at for side, at in zip((pair.source, pair.replica), before, strict=True)]
        if (job["state"], job["changed"], job["brought"]) != ("done", count, records):
            raise CheckFailed(f"not all was brought and taken over: {job}")
        if records:
            check(pair.replica, names, {"record_bytes": RECORD_BYTES}, records)
    return {
        "takeover topics/s": count / took,
        "takeover s": took,
        "brought MB/s": records * RECORD_BYTES / took / 1e6,
        "taker cores": used[1] / took,
        "neighbour cores": used[0] / took,
    }


def _write(pair: FairleadPair, names: dict[str, Any], records: int) -> None:
    """The same number to each topic, in one batch."""
    load = {"bootstrap": pair.source.bootstrap, "topics": names, "record_bytes": RECORD_BYTES, "records": records}
    run("raw_produce", {**load, "batch_records": records // names["count"], "topics_per_request": 100}, _WAIT_SECONDS)


def _take_over(replica: Site, owner: str) -> dict[str, Any]:
    """By one command."""
    line = ("-path", f"/mapr/{replica.name}{STREAM}", "-from", owner, "-force", "--yes", "--json")
    replica.cli("stream", "topic", "takeover", *line)
    job: dict[str, Any] = httpx.get(f"{replica.url}/rest/job/list", timeout=30).json()["data"][-1]
    return job


def _point(count: int, records: int) -> Point:
    return Point(f"{count}-topics-{records * RECORD_BYTES // 1_000_000}MB", {"topics": count, "records": records})


CASE = Case(
    "takeover",
    {HOME: measure},
    points=[_point(10_000, 100_000), _point(10_000, 0)],
    quick=[_point(500, 5_000)],
)
