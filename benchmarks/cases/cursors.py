"""What committed offsets that go over a link cost: rows on the link, and the p99 of producers beside them.

Two servers, a replicator at the source and a link. Records go to ten topics at a steady rate, each time by a fresh
producer, in turns: alone; while a group commits the partitions of all ten a thousand times a second and the link takes
no cursors; and while it takes them. A ratio compares medians of the turns. In the end the replica knows the group's
last commit, and has all records.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
from tests.support.waiting import wait_until

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.common import check, topics
from benchmarks.cases.replicas import replicate_first
from benchmarks.load.launch import Client, go, start
from benchmarks.systems import pair_fairlead
from benchmarks.systems.common import STREAM
from benchmarks.systems.fairlead import FairleadPair

TOPICS = 10
GROUP = "dashboard"
_WAIT_SECONDS = 60


class Turns:
    """Loads of one pair, one after the other."""

    def __init__(self, pair: FairleadPair, point: Point) -> None:
        self._pair = pair
        self._settings = point.settings
        self._names = topics(pair.source, TOPICS)
        self.producers = 1
        """Number of the next producer; 0 made all warm."""
        self.offset = 0
        """Where the group is."""
        self.commits_p99_ms: list[float] = []
        self.commits_per_second: list[float] = []
        self.rows_per_second: list[float] = []
        self._commits_seconds = 0.0

    @property
    def seconds(self) -> int:
        """Of a load."""
        return int(self._settings["seconds"] + self._settings["warm_seconds"])

    def alone(self) -> float:
        """Producers alone; their p99 in ms."""
        return _p99_ms(go([self._producer()])[0])

    def untold(self) -> float:
        """The same while the group commits, and the link is told nothing of that."""
        self._tell("none")
        return self._beside_commits()

    def told(self) -> float:
        """The same while the link is told."""
        self._tell("all")
        before = _told(self._pair)
        found = self._beside_commits()
        # The first rows are told at the beginning of the time in which those after them are.
        self.rows_per_second.append((_told(self._pair) - before - TOPICS) / self._commits_seconds)
        return found

    def _beside_commits(self) -> float:
        load = {"bootstrap": self._pair.source.bootstrap, "topics": self._names, "group": GROUP}
        timing = {"rate": self._settings["commits"], "seconds": self.seconds, "first": self.offset + 1}
        produced, committed = go([self._producer(), start("commits", {**load, **timing})])
        self.offset, self._commits_seconds = committed["offset"], committed["seconds"]
        self.commits_p99_ms.append(committed["answered"]["p99_ms"])
        self.commits_per_second.append(committed["achieved_rate"])
        return _p99_ms(produced)

    def _producer(self) -> Client:
        rate, number = self._settings["rate"], self.producers
        self.producers += 1
        load = {"bootstrap": self._pair.source.bootstrap, "topics": self._names, "producer": number, "rate": rate}
        timing = {"seconds": self.seconds, "warm_records": rate * self._settings["warm_seconds"]}
        return start("open_loop", {**load, **timing, "record_bytes": self._settings["record_bytes"]})

    def _tell(self, groups: str) -> None:
        """The link takes cursors of these groups; what that alone sends has come."""
        here, there = (f"/mapr/{each.site.name}{STREAM}" for each in (self._pair.source, self._pair.replica))
        self._pair.source.site.cli("stream", "replica", "edit", "-path", here, "-replica", there, "-cursors", groups)
        wait_until(partial(_is_quiet, self._pair), "what the link is told at once has come", _WAIT_SECONDS)


def measure(folder: Path, point: Point) -> Figures:
    """Turns, then what has come."""
    with pair_fairlead(folder) as pair:
        replicate_first(pair, TOPICS, 0, point.settings["record_bytes"])
        turns = Turns(pair, point)
        kinds: list[Callable[[], float]] = [turns.alone, turns.untold, turns.told]
        found: list[list[float]] = [[], [], []]
        for number in range(point.settings["turns"]):
            for place in (0, 1, 2) if number % 2 == 0 else (2, 1, 0):
                found[place].append(kinds[place]())
        turns.told()
        wait_until(lambda: _knows(pair, turns.offset), "the replica knows the last commit", _WAIT_SECONDS)
        wait_until(pair.in_sync, "the replica has all", _WAIT_SECONDS)
        _check(pair, turns, point)
    alone, untold, told = map(statistics.median, found)
    return {
        "cursor rows/s": max(turns.rows_per_second),
        "p99 told/untold": told / untold,
        "p99 told/alone": told / alone,
        "p99 ms": told,
        "p99 ms untold": untold,
        "p99 ms alone": alone,
        "commit p99 ms": statistics.median(turns.commits_p99_ms),
        "commits/s": min(turns.commits_per_second),
    }


def _check(pair: FairleadPair, turns: Turns, point: Point) -> None:
    """All records are at the replica; those that made all warm are one of each topic."""
    each = point.settings["rate"] * turns.seconds
    settings = {"record_bytes": point.settings["record_bytes"], "producers": turns.producers}
    check(pair.replica, topics(pair.replica, TOPICS), settings, TOPICS + (turns.producers - 1) * each)


def _p99_ms(figures: dict[str, dict[str, float]]) -> float:
    return float(figures["acknowledged"]["p99_ms"])


def _metric(url: str, name: str) -> float:
    """Of the stream that is measured."""
    start = f'{name}{{stream="{STREAM}"}} '
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    return next(float(line.removeprefix(start)) for line in lines if line.startswith(start))


def _told(pair: FairleadPair) -> float:
    return _metric(pair.source.site.url, "fairlead_told_cursors_total")


def _is_quiet(pair: FairleadPair) -> bool:
    (row,) = pair.source.site.replica_status(STREAM)
    untold = _metric(pair.source.site.url, "fairlead_untold_cursors")
    return bool(untold == 0 and row["cursorsPendingSeconds"] == 0 and row["isUptodate"])


def _knows(pair: FairleadPair, offset: int) -> bool:
    """The replica says that offset of all ten partitions; no record has it yet."""
    params = {"path": STREAM, "group": GROUP}
    answer = httpx.get(f"{pair.replica.site.url}/rest/stream/failover/preview", params=params, timeout=30).json()
    if answer["status"] != "OK":
        raise CheckFailed(f"the replica knows no cursors: {answer}")
    return [row["committedoffset"] for row in answer["data"]] == [offset] * TOPICS


def _point(commits: int, turns: int, seconds: int, warm_seconds: int) -> Point:
    load = {"commits": commits, "rate": 500, "record_bytes": 1000}
    return Point(f"{commits}-commits", {**load, "turns": turns, "seconds": seconds, "warm_seconds": warm_seconds})


CASE = Case("cursors", {HOME: measure}, points=[_point(1000, 3, 10, 2)], quick=[_point(100, 1, 2, 1)])
