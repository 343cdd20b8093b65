"""Topics of one Apache Kafka are mirrored to another: `fairlead mirror` with its defaults beside MirrorMaker 2, tuned.

1 KB records over 100 topics, in batches of some 1 MB (as they come, or with lz4), and in batches of 16 KB, which are
those of Java's producers by default; in these also 100 B records, over one topic and over 200. `by-key` takes topics of
one partition to topics of four, by the records' keys, which MirrorMaker 2 cannot: its peer is the copy as it is.
Some records go first, by whoever is measured, which is stopped then and goes on with what has come meanwhile: brokers
whose programs are compiled and whose partitions have been written. MirrorMaker 2 has the benefit of the doubt as in
`backlog`: only the time from the first record at the destination to the last counts. The small points are between two
Kafkas as well. `local` is the mirror with `--engine local`: one process instead of Spark's tasks.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.case import HOME, Case, Figures, Point
from benchmarks.cases.replicas import MakePair, copy_what_is_there
from benchmarks.systems import kafka, pair_mirrormaker
from benchmarks.systems.mirror import pair_mirror

TOPICS = 100
RECORD_BYTES = 1000
OF_JAVA = 16_384
KEYS = 1_000
PARTITIONS_BY_KEY = 4


def measure(make_pair: MakePair, folder: Path, point: Point) -> Figures:
    """Fill, mirror, check."""
    load = {key: point.settings[key] for key in ("compression", "batch_bytes", "keys")}
    return copy_what_is_there(make_pair, folder, point, "producer", point.settings["record bytes"], load)


def measure_mirror(folder: Path, point: Point, engine: str = "spark") -> Figures:
    """By `fairlead mirror`."""
    partitions = PARTITIONS_BY_KEY if point.settings["keys"] else 1
    opened = partial(pair_mirror, opened=kafka, options=("--engine", engine), replica_partitions=partitions)
    return measure(opened, folder, point)


def point(
    name: str,
    gigabytes: float,
    compression: str = "none",
    batch_bytes: int = 1_000_000,
    topics: int = TOPICS,
    record_bytes: int = RECORD_BYTES,
    keys: int = 0,
    warm_gigabytes: float = 0.5,
) -> Point:
    """So many records in batches of that size."""
    settings = {
        "topics": topics,
        "records": round(gigabytes * 1e9 / record_bytes),
        "warm records": round(warm_gigabytes * 1e9 / record_bytes),
        "record bytes": record_bytes,
        "compression": compression,
        "batch_bytes": batch_bytes,
        "keys": keys,
        "limit seconds": 250,
    }
    return Point(name, settings)


CASE = Case(
    name="mirror",
    systems={
        HOME: measure_mirror,
        "local": partial(measure_mirror, engine="local"),
        "mirrormaker-tuned": partial(measure, partial(pair_mirrormaker, tuned=True)),
    },
    points=[
        point("none", 2),
        point("lz4", 2, "lz4"),
        point("none-16KB", 1, batch_bytes=OF_JAVA),
        point("100B-1topic", 0.4, batch_bytes=OF_JAVA, topics=1, record_bytes=100, warm_gigabytes=0.2),
        point("100B-200topics", 0.4, batch_bytes=OF_JAVA, topics=200, record_bytes=100, warm_gigabytes=0.2),
        point("by-key-none", 2, keys=KEYS),
        point("by-key-lz4", 2, "lz4", keys=KEYS),
    ],
    quick=[
        point("lz4", 0.02, "lz4", warm_gigabytes=0.01),
        point("by-key-lz4", 0.02, "lz4", keys=KEYS, warm_gigabytes=0.01),
    ],
)
