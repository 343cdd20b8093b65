"""What the cases of replication share: fill a source, watch its records arrive at the replica, check them."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.waiting import wait_until

from benchmarks.case import CheckFailed, Figures, Point
from benchmarks.load import launch
from benchmarks.load.raw import Connection
from benchmarks.systems import Pair, Stoppable, cpu_seconds, rss_bytes

GB = 1e9
MB = 1e6
MakePair = Callable[..., AbstractContextManager[Pair]]
_LIST_OFFSETS, _LIST_OFFSETS_VERSION = 2, 1
_LATEST = -1
_LOOK_SECONDS = 0.05
_ASKED = 100
"""So many of the topics, spread over all, are asked until these are whole: asking 2,000 takes the replica 22 ms."""


def numbered(name: Callable[[int], str], count: int) -> dict[str, Any]:
    """Topics 0 to `count` - 1 as the client programs take them."""
    return {"format": name(0).replace("000000", "{:06d}"), "count": count}


class Arrivals:
    """Counts the records of many topics, of so many partitions each, by where they end, with one request."""

    def __init__(self, bootstrap: str, name: Callable[[int], str], topics: int, partitions: int = 1) -> None:
        names = [name(number).encode() for number in range(topics)]
        self._partitions = partitions
        self._row = self._row_of(names)
        self._all = self._request_of(names)
        some = names[:: max(1, topics // _ASKED)]
        self._some, self._part = self._request_of(some), len(some) / topics
        self._had = dict.fromkeys((self._all, self._some), 0)
        self._connection = Connection(bootstrap, 60)

    def _request_of(self, names: Sequence[bytes]) -> bytes:
        places = b"".join(struct.pack(">iq", number, _LATEST) for number in range(self._partitions))
        asked = [struct.pack(f">h{len(each)}si", len(each), each, self._partitions) + places for each in names]
        head = struct.pack(">hhihii", _LIST_OFFSETS, _LIST_OFFSETS_VERSION, 0, -1, -1, len(names))
        request = head + b"".join(asked)
        return struct.pack(">i", len(request)) + request

    def _row_of(self, names: Sequence[bytes]) -> np.dtype[Any]:
        place = np.dtype([("partition", ">i4"), ("error", ">i2"), ("time", ">i8"), ("end", ">i8")])
        return np.dtype([("before", f"V{2 + len(names[0]) + 4}"), ("places", place, (self._partitions,))])

    def begin_here(self) -> None:
        """Count what comes from now on alone."""
        self._had = {request: self._had[request] + self._asked(request) for request in self._had}

    def count(self) -> int:
        """Records now; a topic that is not there yet has none."""
        return self._asked(self._all)

    def look(self, records: int) -> int:
        """The same once some topics have their part of so many; until then what these have, for that is quickly told:
        none, some or not all."""
        found = self._asked(self._some)
        return found if found < int(records * self._part) else self.count()

    def _asked(self, request: bytes) -> int:
        self._connection.send(request)
        places = np.frombuffer(self._connection.receive(0), self._row, offset=8)["places"]
        return int(places["end"][places["error"] == 0].sum()) - self._had[request]

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True)
class Look:
    """How things stand at one moment."""

    at: float
    records: int
    carrier_cpu: float
    servers_cpu: float

    @classmethod
    def take(cls, pair: Pair, records: int) -> Look:
        servers = [*pair.source.pids, *pair.replica.pids]
        return cls(time.monotonic(), records, cpu_seconds(pair.carrier_pids), cpu_seconds(servers))

    @property
    def cpu(self) -> float:
        return self.carrier_cpu + self.servers_cpu


def carry(
    pair: Pair, topics: int, records: int, record_bytes: int, limit_seconds: float = 400, goes_on: bool = False
) -> Figures:
    """Start replication and watch until all has arrived, or time is over: then `arrived part` is below 1. Where it
    `goes_on`, the replica has what was carried before.

    The rate, and the processor time per GB, are of the time from the last look that saw nothing to the one that saw
    all; what passed before, such as the start of a JVM, is told apart.
    """
    with (
        closing(Arrivals(pair.replica.bootstrap, pair.replica_topic, topics, _partitions(pair))) as arrivals,
        ThreadPoolExecutor(1) as thread,
    ):
        if goes_on:
            arrivals.begin_here()
        command = empty = Look.take(pair, arrivals.count())
        if command.records:
            raise CheckFailed(f"{command.records} records are at the replica before it is one")
        starting = thread.submit(pair.start_replication, topics)
        done = command
        while True:
            began = time.monotonic()
            found = arrivals.look(records)
            if found > done.records:
                done = Look.take(pair, found)
            over = began > command.at + limit_seconds
            if over or (found >= records and began > done.at + _settling_seconds(pair)):
                break
            if not found:
                empty = Look.take(pair, 0)
                _check(pair)
            time.sleep(_LOOK_SECONDS)
        starting.result()
        if over:
            done = Look.take(pair, arrivals.count())
        elif _settling_seconds(pair) > 0:
            done = replace(done, records=records)
    return _figures(pair, command, empty, done, records, record_bytes)


def _settling_seconds(pair: Pair) -> float:
    """How long nothing may have come until all has: the ends of transactions count as records where they lie, so the
    last record is there when nothing more comes. Where there are none, the count says it."""
    return float(getattr(pair, "settling_seconds", -1.0))


def _partitions(pair: Pair) -> int:
    """Of a topic at the replica: a mirror by key has others than the source's one."""
    return int(getattr(pair, "replica_partitions", 1))


def copy_what_is_there(
    make_pair: MakePair, folder: Path, point: Point, program: str, record_bytes: int, load: Mapping[str, Any]
) -> Figures:
    """A source that a load program has filled gets its replica; what has arrived whole is checked.

    `warm records` of the point are carried before, and are in no figure: both servers have done all that once then, and
    the carrier goes on with what came while it was stopped.
    """
    topics, records = int(point.settings["topics"]), int(point.settings["records"])
    warm, limit = int(point.settings.get("warm records", 0)), point.settings["limit seconds"]
    with make_pair(folder) as pair:
        pair.source.create_topics(topics)
        names = numbered(pair.source.topic, topics)
        filled = {"bootstrap": pair.source.bootstrap, "topics": names, "record_bytes": record_bytes, **load}
        if warm:
            launch.run(program, {**filled, "records": warm})
            carry(pair, topics, warm, record_bytes, limit)
            assert isinstance(pair, Stoppable)
            pair.stop_replication()
        launch.run(program, {**filled, "records": records, "first_sequence": warm // topics})
        os.sync()  # Kafka leaves it to the kernel: what it has yet to write is not to slow the copy
        figures = carry(pair, topics, records, record_bytes, limit, goes_on=warm > 0)
        if figures["arrived part"] == 1:
            check(pair, topics, warm + records, record_bytes, int(load.get("keys", 0)))
        return figures


def _check(pair: Pair) -> None:
    """MirrorMaker ends when it does not like its settings."""
    getattr(pair, "check", lambda: None)()


def _figures(pair: Pair, command: Look, empty: Look, done: Look, records: int, record_bytes: int) -> Figures:
    if not 0 < done.records <= records:
        raise CheckFailed(f"{done.records} of {records} records arrived")
    arrived = done.records * record_bytes
    return {
        "MB/s": arrived / MB / (done.at - empty.at),
        "MB/s with start": arrived / MB / (done.at - command.at),
        "first record s": empty.at - command.at,
        "cpu s/GB": (done.cpu - empty.cpu) / (arrived / GB),
        "carrier cpu s/GB": (done.carrier_cpu - empty.carrier_cpu) / (arrived / GB),
        "servers cpu s/GB": (done.servers_cpu - empty.servers_cpu) / (arrived / GB),
        "start cpu s": empty.cpu - command.cpu,
        "carrier memory MB": rss_bytes(pair.carrier_pids) / MB,
        "arrived part": done.records / records,
    }


def check(pair: Pair, topics: int, records: int, record_bytes: int, keys: int = 0) -> None:
    """Every record is at the replica once, with its content, in order; those of a key in one partition.

    Raises:
        CheckFailed: not so.
    """
    expected = {
        "bootstrap": pair.replica.bootstrap,
        "topics": numbered(pair.replica_topic, topics),
        "records": records,
        "record_bytes": record_bytes,
    }
    try:
        if keys:
            launch.run("keyed_consume", {**expected, "partitions": _partitions(pair), "keys": keys})
        else:
            launch.run("raw_consume", {**expected, "topics_per_request": 100})
    except launch.ClientFailed as wrong:
        raise CheckFailed(str(wrong)) from wrong


def replicate_first(pair: Pair, topics: int, producer: int, record_bytes: int = 200) -> None:
    """Start replication and have one record of a producer in each topic at the replica: all is warm."""
    pair.source.create_topics(topics)
    arguments = {"records": topics, "record_bytes": record_bytes, "producer": producer}
    topics_there = numbered(pair.source.topic, topics)
    launch.run("producer", {"bootstrap": pair.source.bootstrap, "topics": topics_there, **arguments})
    pair.start_replication(topics)
    with closing(Arrivals(pair.replica.bootstrap, pair.replica_topic, topics)) as arrivals:
        wait_until(lambda: arrivals.count() >= topics, "a record of each topic is at the replica", 120)


def used(pids: Callable[[], Iterable[int]], seconds: float) -> float:
    """Processor time of some processes in the next seconds, in percent of one core."""
    began, before = time.monotonic(), cpu_seconds(pids())
    time.sleep(seconds)
    return 100 * (cpu_seconds(pids()) - before) / (time.monotonic() - began)
