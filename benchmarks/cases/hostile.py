"""What an honest producer notices of hostile clients: its p99 with and without each family of them, in one run.

The honest load is half of that of `latency`, by a new producer each time: quiet, then while `load/hostile.py` sends one
family, quiet again, and so on. A ratio compares a p99 with that of the quiet stretches before and behind. Memory is the
server's at its most. The hostile clients take their part of two cores as well, which is in the ratios.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.case import Case, CheckFailed, Point
from benchmarks.cases.common import Figures, Settings, check, on, topics
from benchmarks.load.hostile import FAMILIES
from benchmarks.load.launch import Client, go, start
from benchmarks.systems import Sampler, System, own_bytes

TOPICS = 5
LARGE = 4_096
"""Partitions of the topic that some families name."""


def measure(system: System, settings: Settings) -> Figures:
    """Quiet and loud in turns."""
    system.create_topics(TOPICS + 1)
    names = topics(system, TOPICS)
    bombed, large = system.topic(TOPICS), system.topic(TOPICS + 1)
    honest = itertools.count()
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    admin.create_topics([NewTopic(large, LARGE, 1)])[large].result()
    quiet: list[float] = []
    loud: dict[str, float] = {}
    with Sampler(lambda: system.pids, 0.5, own_bytes) as sampler:
        quiet.append(_alone_ms(system, names, settings, next(honest)))
        for family in FAMILIES:
            load = {"family": family, "seconds": _seconds(settings), "topic": bombed}
            attack = start("hostile", {"bootstrap": system.bootstrap, "large_topic": large, **load})
            figures, sent = go([_producer(system, names, settings, next(honest)), attack])
            loud[family] = _p99_ms(figures)
            if not sent["requests"]:
                raise CheckFailed(f"{family}: nothing was sent")
            quiet.append(_alone_ms(system, names, settings, next(honest)))
    runs = next(honest)
    check(system, names, {**settings, "producers": runs}, runs * settings["rate"] * _seconds(settings))
    ratios = {
        f"{family} p99 ratio": p99 / statistics.mean(quiet[place : place + 2])
        for place, (family, p99) in enumerate(loud.items())
    }
    milliseconds = {f"{family} p99 ms": p99 for family, p99 in loud.items()}
    return {
        "quiet p99 ms": statistics.median(quiet),
        **milliseconds,
        **ratios,
        "p99 ratio": max(ratios.values()),
        "memory MB": sampler.memory_bytes_max / 1e6,
    }


def _seconds(settings: Settings) -> int:
    return int(settings["warm_seconds"] + settings["seconds"])


def _producer(system: System, names: Sequence[str], settings: Settings, number: int) -> Client:
    rate = settings["rate"]
    load = {"bootstrap": system.bootstrap, "topics": names, "record_bytes": settings["record_bytes"]}
    warm = rate * settings["warm_seconds"]
    timing = {"rate": rate, "seconds": _seconds(settings), "warm_records": warm}
    return start("open_loop", {**load, **timing, "producer": number})


def _alone_ms(system: System, names: Sequence[str], settings: Settings, number: int) -> float:
    (figures,) = go([_producer(system, names, settings, number)])
    return _p99_ms(figures)


def _p99_ms(figures: dict[str, Any]) -> float:
    return float(figures["acknowledged"]["p99_ms"])


LOAD: dict[str, Any] = {"record_bytes": 1_000, "rate": 500, "warm_seconds": 2, "seconds": 10}

CASE = Case(
    "hostile",
    on(measure, "fairlead"),
    points=[Point("families", LOAD)],
    quick=[Point("families", {**LOAD, "warm_seconds": 1, "seconds": 2})],
)
