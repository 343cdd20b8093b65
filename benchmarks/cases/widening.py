"""A link's filter is widened to very many topics that have been silent for long: how long their past takes to come.

Two servers, a replicator at the source. The silent topics are written first, ten records each, and then some others
until the log has its size. The link brings one topic; then its filter takes in the silent ones, and the others stay
out. What the replicator's Python processes read by system calls meanwhile shows that the log is read once: columns of
all of it, and the batches of the silent topics. It is checked that every record of these is at the replica, and no
other topic.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer
from tests.support.sites import command_of
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.replicas import GB, Arrivals, check, numbered
from benchmarks.load import launch
from benchmarks.load.content import topic_names
from benchmarks.systems import asked_bytes, pair_fairlead
from benchmarks.systems.common import STREAM, create_topics
from benchmarks.systems.fairlead import FairleadPair

RECORD_BYTES = 1000
EACH = 10
"""Records of a silent topic."""
BUSY, BUSY_BATCH = 10, 100
"""Other topics, and records of a batch of theirs."""
FIRST, SILENT = "first", "t[0-9]+"
_WAIT_SECONDS = 200


def measure(folder: Path, point: Point) -> Figures:
    """Fill, link, widen, count, check."""
    topics = point.settings["topics"]
    with pair_fairlead(folder) as pair:
        here, there = (f"/mapr/{each.site.name}{STREAM}" for each in (pair.source, pair.replica))
        written = _fill(pair, topics, point.settings["log bytes"])
        pair.source.site.cli("stream", "replica", "autosetup", "-path", here, "-replica", there, "-topics", FIRST)
        wait_until(pair.in_sync, "the first topic is at the replica", _WAIT_SECONDS)
        pair.source.drop_caches()
        read, began = asked_bytes(_readers(pair)), time.monotonic()
        wider = f"{FIRST}|{SILENT}"
        pair.source.site.cli("stream", "replica", "edit", "-path", here, "-replica", there, "-topics", wider)
        with closing(Arrivals(pair.replica.bootstrap, pair.replica_topic, topics)) as arrivals:
            wait_until(lambda: arrivals.count() == topics * EACH, "the silent topics have come", _WAIT_SECONDS, 0.1)
        came = time.monotonic() - began
        wait_until(lambda: _is_one_link(pair), "the link goes on with all", _WAIT_SECONDS, 0.1)
        whole = time.monotonic() - began
        read = asked_bytes(_readers(pair)) - read
        check(pair, topics, topics * EACH, RECORD_BYTES)
        _check_others(pair, topics)
    return {
        "widening s": whole,
        "all there s": came,
        "topics/s": topics / whole,
        "read/log": read / written,
        "log GB": written / GB,
    }


def _fill(pair: FairleadPair, topics: int, log_bytes: int) -> int:
    """The silent topics, then the others, then the one that the link brings at once; how many bytes of records."""
    pair.source.create_topics(topics)
    busy = {"format": f"{STREAM}:busy{{:02d}}", "count": BUSY}
    create_topics(pair.source.bootstrap, [f"{STREAM}:{FIRST}", *topic_names(busy)])
    _produce(pair, numbered(pair.source.topic, topics), topics * EACH, batch_records=EACH)
    rounds = max((log_bytes - topics * EACH * RECORD_BYTES) // (BUSY * BUSY_BATCH * RECORD_BYTES), 1)
    _produce(pair, busy, rounds * BUSY * BUSY_BATCH, batch_records=BUSY_BATCH)
    producer = Producer({"bootstrap.servers": pair.source.bootstrap, "log_level": 2})
    producer.produce(f"{STREAM}:{FIRST}", b"1")
    if producer.flush(60):
        raise CheckFailed("the first topic was not written")
    return (topics * EACH + rounds * BUSY * BUSY_BATCH) * RECORD_BYTES


def _readers(pair: FairleadPair) -> list[int]:
    """The replicator's processes, but for its virtual machine."""
    return [pid for pid in pair.carrier_pids if not command_of(pid).split(" ")[0].endswith("java")]


def _produce(pair: FairleadPair, names: dict[str, Any], records: int, batch_records: int) -> None:
    load = {"bootstrap": pair.source.bootstrap, "topics": names, "records": records, "record_bytes": RECORD_BYTES}
    launch.run(
        "raw_produce", {**load, "batch_records": batch_records, "topics_per_request": 500, "encode_ahead": False}
    )


def _is_one_link(pair: FairleadPair) -> bool:
    """No side copy is under way, and nothing waits."""
    (row,) = pair.source.site.replica_status(STREAM)
    return bool(row["isUptodate"] and not row["comingIn"])


def _check_others(pair: FairleadPair, topics: int) -> None:
    """No topic came that stays out."""
    answer = httpx.get(f"{pair.replica.site.url}/rest/stream/topic/list", params={"path": STREAM}, timeout=60).json()
    if answer["total"] != topics + 1:
        raise CheckFailed(f"{answer['total']} topics are at the replica; {topics + 1} were to be")


def _point(name: str, topics: int, log_bytes: int, *, once: bool = False) -> Point:
    return Point(name, {"topics": topics, "log bytes": log_bytes}, once=once)


CASE = Case(
    "widening",
    {HOME: measure},
    points=[
        _point("10000-topics-1GB", 10_000, 1_000_000_000),
        _point("10000-topics-5GB", 10_000, 5_000_000_000, once=True),
    ],
    quick=[_point("300-topics", 300, 20_000_000)],
)
