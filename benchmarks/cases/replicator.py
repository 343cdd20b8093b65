"""What the replicator costs when nothing happens, how long a round's turn holds records up, and what Spark adds.

`carrier` asks the plain copier too, which is the replicator's reader and sink without Spark (decision 0003).
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MB, Arrivals, carry, check, numbered, replicate_first, used
from benchmarks.cases.steady import listen
from benchmarks.load import launch
from benchmarks.systems import own_bytes, pair_fairlead, rss_bytes
from benchmarks.systems.common import STREAM
from benchmarks.systems.fairlead import PLAIN, FairleadPair

TOPICS = 10
COPY_TOPICS = 100
RECORD_BYTES = 1000
DESTINATIONS = 2
TURN_RATE = 500
_SETTLE_SECONDS = 5
_LOOK_SECONDS = 0.005
Settings = dict[str, Any]
MakePair = Callable[..., AbstractContextManager[FairleadPair]]


def rest(pair: FairleadPair, settings: Settings) -> Figures:
    """Processor time and memory of the whole replicator when all is in sync; then with more destinations.

    The time is longer than a round, so that one has turned: some of Spark's processes begin with that.
    """
    replicate_first(pair, TOPICS, 0)
    _settle(pair)
    cpu = used(lambda: pair.carrier_pids, settings["seconds"])
    memory, processes = rss_bytes(pair.carrier_pids), len(pair.carrier_pids)
    before = own_bytes(pair.carrier_pids)
    for number in range(DESTINATIONS):
        pair.link(STREAM, f"{STREAM}{number}")
    _settle(pair)
    after = own_bytes(pair.carrier_pids)
    return {
        "rest cpu %": cpu,
        "memory MB": memory / MB,
        "processes": processes,
        "MB/further destination": (after - before) / MB / DESTINATIONS,
    }


def _settle(pair: FairleadPair) -> None:
    wait_until(pair.in_sync, "every replica has everything", 120)
    time.sleep(_SETTLE_SECONDS)


def turn(pair: FairleadPair, settings: Settings) -> Figures:
    """How long nothing arrives at the replica when a round ends and the next begins, under a steady load.

    See `turns_of`: the median of all turns counts, so that an ordinary stall or two do not.
    """
    replicate_first(pair, TOPICS, 1)
    client = launch.start(
        "open_loop",
        {
            "bootstrap": pair.source.bootstrap,
            "topics": numbered(pair.source.topic, TOPICS),
            "rate": TURN_RATE,
            "seconds": settings["seconds"],
        },
    )
    records = TOPICS + int(TURN_RATE * settings["seconds"])
    with closing(client), closing(Arrivals(pair.replica.bootstrap, pair.replica_topic, TOPICS)) as arrivals:
        client.wait_ready()
        client.open_gate()
        turns = turns_of(_moments(arrivals, records, settings["seconds"] + 30), settings["round seconds"])
        client.figures(60)
    return {"turn ms": 1000 * statistics.median(turns), "longest turn ms": 1000 * max(turns), "turns": len(turns)}


def turns_of(moments: Sequence[float], round_seconds: float) -> list[float]:
    """Of the moments at which records arrived, the longest gap that begins in each whole stretch of a round's length.

    A round and its turn take a little longer than a stretch, so no stretch has two turns, and nearly each has one.
    """
    stretches = int((moments[-1] - moments[0]) / round_seconds)
    longest = [0.0] * (stretches + 1)
    for before, after in pairwise(moments):
        stretch = int((before - moments[0]) / round_seconds)
        longest[stretch] = max(longest[stretch], after - before)
    return longest[:stretches]


def _moments(arrivals: Arrivals, records: int, limit_seconds: float) -> list[float]:
    """When there was more at the replica than before, until all is there."""
    found = arrivals.count()
    moments: list[float] = []
    deadline = time.monotonic() + limit_seconds
    while found < records:
        time.sleep(_LOOK_SECONDS)
        before, found = found, arrivals.count()
        now = time.monotonic()
        if found > before:
            moments.append(now)
        if now > deadline:
            raise TimeoutError(f"{found} of {records} records arrived in {limit_seconds:g} s")
    return moments


def carrier(pair: FairleadPair, settings: Settings) -> Figures:
    """Copy a backlog, then lone records, then a steady rate."""
    records = int(settings["records"])
    pair.source.create_topics(COPY_TOPICS)
    arguments = {"records": records, "record_bytes": RECORD_BYTES, "producer": 0}
    there = numbered(pair.source.topic, COPY_TOPICS)
    launch.run("producer", {"bootstrap": pair.source.bootstrap, "topics": there, **arguments})
    os.sync()
    copied = carry(pair, COPY_TOPICS, records, RECORD_BYTES)
    check(pair, COPY_TOPICS, records, RECORD_BYTES)
    lone, steady = (listen(pair, rate, settings["seconds"], 2, number) for number, rate in enumerate((1, 1000), 1))
    return {
        **{f"copy {name}": value for name, value in copied.items()},
        **{f"lone {name}": lone[name] for name in ("p50 ms", "max ms")},
        **{f"1000/s {name}": steady[name] for name in ("p50 ms", "p99 ms", "max ms")},
        "memory after copy MB": rss_bytes(pair.carrier_pids) / MB,
        "processes": len(pair.carrier_pids),
    }


_PARTS = {"rest": rest, "turn": turn, "carrier": carrier}


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """One pair for one of the parts."""
    rounds = point.settings.get("round seconds")
    with make_pair(folder, settings={"round_seconds": rounds} if rounds else None) as pair:
        return _PARTS[point.settings["part"]](pair, dict(point.settings))


CASE = Case(
    name="replicator",
    systems={HOME: partial(measure, pair_fairlead), "plain": partial(measure, partial(pair_fairlead, carrier=PLAIN))},
    points=[
        Point("rest", {"part": "rest", "seconds": 75}, (HOME,)),
        Point("turn", {"part": "turn", "seconds": 40, "round seconds": 2}, (HOME,)),
        Point("carrier", {"part": "carrier", "seconds": 10, "records": 300_000}),
    ],
    quick=[Point("turn", {"part": "turn", "seconds": 5, "round seconds": 1})],
)
