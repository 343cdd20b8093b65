"""Much more than a server holds is written once at full speed, with a time-to-live and merging: does it stay the same?

Records go to 100 topics in four parts without a pause; a consumer follows ten of the topics at their tails, checks
each record and must not fall behind the time-to-live. In the end every topic ends where its records do.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.case import Case, CheckFailed, Figures, Point
from benchmarks.load.launch import Client, start
from benchmarks.systems import fairlead, io_bytes, rss_bytes
from benchmarks.systems.common import LATEST
from benchmarks.systems.fairlead import Fairlead
from benchmarks.systems.processes import Looks

TOPICS = 100
CHECKED = 10
BATCH_RECORDS = 100
QUARTERS = 4
LOOK_SECONDS = 0.5


def measure(folder: Path, point: Point) -> Figures:
    """Settings that are not the defaults shorten what else takes longer than the run: see the point."""
    settings = point.settings
    share = settings["records"] // QUARTERS
    with fairlead(folder, settings=settings["server"]) as system, ExitStack() as stack:
        system.create_topics(TOPICS)
        path = f"/mapr/{system.site.name}/bench"
        system.site.cli("stream", "edit", "-path", path, "-ttl", str(settings["ttl_seconds"]))
        reader = _reader(system, settings)
        writers = [_writer(system, settings, number, share) for number in range(QUARTERS)]
        for client in (reader, *writers):
            stack.callback(client.close)
            client.wait_ready()
        watch = stack.enter_context(Looks(partial(_look, system, folder), LOOK_SECONDS))
        written = io_bytes(system.pids).written
        reader.open_gate()
        edges, found = [time.monotonic()], []
        for writer in writers:
            writer.open_gate()
            found.append(writer.figures())
            edges.append(time.monotonic())
        written = io_bytes(system.pids).written - written
        reader.figures(settings["ttl_seconds"])
        _check_ends(system, settings["records"])
        return _figures(found, _quarters(watch.samples[:], edges), written)


def _reader(system: Fairlead, settings: Any) -> Client:
    return start(
        "consumer",
        {
            "bootstrap": system.bootstrap,
            "topics": [system.topic(number) for number in range(CHECKED)],
            "records": settings["records"] // TOPICS * CHECKED,
            "record_bytes": settings["record_bytes"],
            "check": True,
            "deadline_seconds": 1200,
        },
    )


def _writer(system: Fairlead, settings: Any, quarter: int, records: int) -> Client:
    return start(
        "raw_produce",
        {
            "bootstrap": system.bootstrap,
            "topics": [system.topic(number) for number in range(TOPICS)],
            "record_bytes": settings["record_bytes"],
            "records": records,
            "batch_records": BATCH_RECORDS,
            "topics_per_request": 10,
            "first_sequence": quarter * records // TOPICS,
            "encode_ahead": False,
        },
    )


def _check_ends(system: Fairlead, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    asked = {TopicPartition(system.topic(number), 0): LATEST for number in range(TOPICS)}
    end = sum(future.result().offset for future in admin.list_offsets(asked).values())
    if end != records:
        raise CheckFailed(f"the topics end at {end} records in all, not {records}")


class Look(NamedTuple):
    """One look at the server."""

    at: float
    memory_bytes: int
    files: int
    disk_bytes: int


def _look(system: Fairlead, folder: Path) -> Look:
    count, size = _files(folder)
    return Look(time.monotonic(), rss_bytes(system.pids), count, size)


def _quarters(looks: Sequence[Look], edges: Sequence[float]) -> list[list[Look]]:
    """The looks of each part of the run; one that was too short for any has the last before its end."""
    return [
        [look for look in looks if begin <= look.at < end] or [look for look in looks if look.at < end][-1:]
        for begin, end in pairwise(edges)
    ]


def _files(folder: Path) -> tuple[int, int]:
    """How many there are, and their bytes on disk."""
    count = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue
            count += 1
    return count, size


def _figures(found: Sequence[dict[str, Any]], quarters: Sequence[Sequence[Look]], written: int) -> Figures:
    speeds = [each["bytes"] / each["seconds"] / 1e6 for each in found]
    total = sum(each["bytes"] for each in found)

    def ratio(last: int, first: int, value: Callable[[Sequence[Look]], float]) -> float:
        return value(quarters[last]) / value(quarters[first])

    looks = [look for quarter in quarters for look in quarter]
    return {
        "MB/s": total / sum(each["seconds"] for each in found) / 1e6,
        **{f"MB/s quarter {number}": speed for number, speed in enumerate(speeds, 1)},
        "last/first quarter": speeds[-1] / speeds[0],
        "memory MB": max(look.memory_bytes for look in looks) / 1e6,
        "memory last/second quarter": ratio(-1, 1, lambda part: statistics.median(look.memory_bytes for look in part)),
        "files": max(look.files for look in looks),
        "files last/second quarter": ratio(-1, 1, lambda part: max(look.files for look in part)),
        "disk MB": max(look.disk_bytes for look in looks) / 1e6,
        "write amplification": written / total,
    }


# The time-to-live is shorter than a quarter, and the memory for the newest batches full within the first one: from the
# second on everything that comes pushes something out.
def _point(name: str, records: int, ttl_seconds: int) -> Point:
    server = {"delete_grace_seconds": 10, "checkpoint_interval_seconds": 30, "merge_interval_seconds": 5}
    settings = {"records": records, "record_bytes": 1000, "ttl_seconds": ttl_seconds, "server": server}
    return Point(name, settings)


CASE = Case(
    "soak",
    {"fairlead": measure},
    points=(_point("24GB", 24_000_000, 10),),
    quick=(_point("200MB", 200_000, 60),),
    rounds=1,
    limit_seconds=1200,
)
