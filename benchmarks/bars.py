"""What Fairlead has to reach, as data: the one place where bars are."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from benchmarks.case import HOME

KAFKA = ("kafka", "kafka-tuned")
AT_LEAST_ONCE = ("at-least-once",)
"""The same mirror without transactions."""
MIRRORMAKER = ("mirrormaker", "mirrormaker-tuned")


@dataclass(frozen=True)
class Bar:
    """A bound on one figure of Fairlead, or on its ratio to a peer or to another point."""

    case: str
    points: str
    """A pattern of point names."""
    figure: str
    is_met: Literal["at least", "at most", "reported"]
    bound: float = 0.0
    peers: tuple[str, ...] = ()
    """The bound is on Fairlead's figure divided by that of each of these that was measured."""
    beside: str = ""
    """The bound is on the figure divided by Fairlead's own at this point."""
    every_round: bool = False
    """The worst round counts, and not the median."""
    about: str = ""
    """What the figure's name leaves open."""

    def covers(self, case: str, point: str) -> bool:
        """Whether it says something about a point."""
        return self.case == case and fnmatchcase(point, self.points)

    @property
    def others(self) -> str:
        """All that it may be compared with."""
        return f"{HOME} at {self.beside}" if self.beside else " or ".join(self.peers)

    def holds(self, value: float) -> bool:
        """Whether a value is on the right side."""
        return value <= self.bound if self.is_met == "at most" else value >= self.bound or self.is_met == "reported"

    @property
    def text(self) -> str:
        """Such as `≤ 250`, or `≥ 4` and a sign for times; of what, is in the peer's column."""
        if self.is_met == "reported":
            return "reported"
        unit = " ×" if self.peers or self.beside else ""
        return f"{'≤' if self.is_met == 'at most' else '≥'} {self.bound:,.10g}{unit}"


def _least(case: str, points: str, figure: str, bound: float, **more: object) -> Bar:
    return Bar(case, points, figure, "at least", bound, **more)  # type: ignore[arg-type]


def _most(case: str, points: str, figure: str, bound: float, **more: object) -> Bar:
    return Bar(case, points, figure, "at most", bound, **more)  # type: ignore[arg-type]


def _reported(case: str, points: str, figure: str, **more: object) -> Bar:
    return Bar(case, points, figure, "reported", **more)  # type: ignore[arg-type]


MILLION = "1000000-topics*"
JAVA = "with the Java client's defaults; Fairlead with fdatasync, Kafka without"

BARS: tuple[Bar, ...] = (
    _least("produce", "*", "MB/s", 1.0, peers=KAFKA, about="Fairlead with fdatasync, Kafka without"),
    _least("consume", "*", "MB/s", 1.0, peers=KAFKA),
    _most("latency", "*", "p99 ms", 1.0, peers=("kafka-flush",), about="Kafka with flush.messages=1"),
    _most("latency", "*", "p99 ms", 2.0, peers=("kafka",), about="Kafka without a flush"),
    _least("java_produce", "*partition*", "MB/s", 1.0, peers=("kafka",), about=JAVA),
    _least("java_produce", "*partition*", "MB/s", 2.0, peers=("kafka-flush",), about="Kafka with flush.messages=1"),
    _least("java_produce", "*producers*", "MB/s", 1.0, peers=("kafka",), about=JAVA),
    _least("java_produce", "single-*", "MB/s", 1.0, peers=("kafka",), about="a record a request"),
    _least("java_produce", "big-*", "MB/s", 1.1, peers=("kafka",), about="batches of 1 MB"),
    _least("java_consume", "*", "MB/s", 1.2, peers=("kafka",), about="with the Java client's defaults"),
    _most("java_latency", "*", "p99 ms", 1.0, peers=("kafka-flush",), about="Kafka with flush.messages=1"),
    _least("backlog", "*", "MB/s", 4.0, peers=MIRRORMAKER),
    _most("backlog", "*", "cpu s/GB", 0.4, peers=MIRRORMAKER),
    _least("backlog_topics", "*", "MB/s", 4.0, peers=MIRRORMAKER),
    _least("mirror", "none", "MB/s", 3.0, peers=MIRRORMAKER, about="between two Kafkas; MirrorMaker 2 tuned"),
    _least("mirror", "lz4", "MB/s", 6.0, peers=MIRRORMAKER, about="between two Kafkas; MirrorMaker 2 tuned"),
    _least("mirror", "none-16KB", "MB/s", 3.0, peers=MIRRORMAKER, about="between two Kafkas; MirrorMaker 2 tuned"),
    _least("mirror", "100B-*", "MB/s", 3.0, peers=MIRRORMAKER, about="between two Kafkas; MirrorMaker 2 tuned"),
    _least(
        "mirror", "by-key-none", "MB/s", 2.0, peers=MIRRORMAKER, about="MirrorMaker 2 tuned, which keeps partitions"
    ),
    _least("mirror", "by-key-lz4", "MB/s", 1.8, peers=MIRRORMAKER, about="MirrorMaker 2 tuned, which keeps partitions"),
    _most("mirror_steady", "*", "p99 ms", 1.0, peers=MIRRORMAKER, about="between two Kafkas; MirrorMaker 2 tuned"),
    _most("mirror_steady", "*", "p50 ms", 40),
    _least("mirror_exactly_once", "none", "MB/s", 0.7, peers=AT_LEAST_ONCE),
    _least("mirror_exactly_once", "lz4", "MB/s", 0.7, peers=AT_LEAST_ONCE),
    _most("mirror_exactly_once", "5000-per-second", "p50 ms", 400),
    _least("mirror", "*", "MB/s", 0.85, peers=("local",), about="Spark's tasks beside `--engine local`"),
    _most("mirror", "*", "cpu s/GB", 0.3, peers=MIRRORMAKER, about="all processes"),
    _most("mirror", "*", "carrier cpu s/GB", 0.15, peers=MIRRORMAKER, about="the mirror alone"),
    _least(
        "upstream", "*", "MB/s", 4.0, peers=MIRRORMAKER, about="from a Kafka, which MirrorMaker 2 copies to another"
    ),
    _most("upstream", "*", "cpu s/GB", 0.25, peers=MIRRORMAKER, about="all processes"),
    _most("steady", "*", "p50 ms", 60),
    _most("steady", "*", "p99 ms", 250),
    _most("steady", "*", "p99.9 ms", 1000),
    _most("steady", "*", "max ms", 2000, every_round=True),
    _most("steady", "*", "p50 ms", 1.0, peers=MIRRORMAKER),
    _most("steady", "*", "p99 ms", 1.0, peers=MIRRORMAKER),
    _most("mesh", "three-sites", "p99 ms", 0.5, peers=MIRRORMAKER, about="of the worst of six ways"),
    _most("mesh", "three-sites", "p99 ms", 3, beside="one-way", about="of the worst of six ways"),
    _most("topics", MILLION, "memory MB", 2500),
    _most("topics", MILLION, "restart s", 15, about="to the first produce"),
    _most("topics", MILLION, "idle cpu %", 2, about="of one core"),
    _least("topics", MILLION, "produce records/s", 1.0, beside="10-topics", about="to 1,000 of the topics"),
    _least("topics", MILLION, "replicated topics", 1_000_000),
    _most("topics", MILLION, "idle link B/s", 1000),
    _most("topics", MILLION, "metadata delay ms", 50, about="of others, while one asks for all topics"),
    _least("topics", "100000-topics*", "spread records/s", 20_000, about="over all topics"),
    _reported(
        "singles", "10000-topics*", "records/s", peers=("kafka",), about="one a request; Kafka without fdatasync"
    ),
    _reported("singles", "10000-topics*", "p99 ms", peers=("kafka",), about="one a request; Kafka without fdatasync"),
    _reported("singles", "100000-topics*", "records/s"),
    _reported("singles", "100000-topics*", "p99 ms"),
    _most("transfer", "*-topics", "transfer/creation", 1.0, about="time a topic; created by one request"),
    _most("transfer", "*-topics", "max/p99 before", 5, about="of producers of other topics"),
    _reported("transfer", "*", "transfer topics/s"),
    _reported("takeover", "*", "takeover topics/s"),
    _reported("takeover", "*MB", "brought MB/s"),
    _reported("takeover", "*", "taker cores"),
    _most("forwarding", "*ms", "p50/allowed", 1.0, about="allowed: the round trip and 2 × the owner's own"),
    _most("forwarding", "*ms", "p99/allowed", 1.0, about="allowed: the round trip and 2 × the owner's own"),
    _reported("forwarding", "*", "p50 ms"),
    _reported("forwarding", "*", "p99 ms"),
    _most("failover", "*", "failover/reconnect", 2, about="the same client, while both sites live"),
    _reported("failover", "*", "failover ms"),
    _most("cursors", "*", "cursor rows/s", 10, about="1,000 commit requests/s, each of the same ten partitions"),
    _most("cursors", "*", "p99 told/untold", 1.1, about="of produce; whether the link takes cursors"),
    _reported("cursors", "*", "p99 told/alone"),
    _reported("cursors", "*", "p99 ms"),
    _reported("widening", "*", "widening s"),
    _reported("widening", "*", "read/log"),
    _least("soak", "*", "last/first quarter", 0.9, about="throughput"),
    _most("soak", "*", "memory last/second quarter", 1.1),
    _most("soak", "*", "files last/second quarter", 1.2),
    _reported("soak", "*", "memory MB"),
    _reported("soak", "*", "files"),
    _reported("soak", "*", "write amplification"),
    _least("connections", "1000-idle*", "served", 1000),
    _least("connections", "200-busy*", "served", 200),
    _reported("connections", "*", "KB/connection"),
    _most("hostile", "*", "p99 ratio", 3, about="of an honest producer, with and without"),
    _reported("hostile", "*", "memory MB"),
    _least("decode", "100B*", "records/s", 10e6, about="of one core"),
    _least("decode", "1KB*", "GB/s", 2, about="of one core"),
    _least("spark_read", "*", "spark records/s", 1.5, peers=("kafka",), about="Spark's own Kafka connector"),
    _least("spark_write", "*", "spark records/s", 2.0, peers=("kafka",), about="Spark's own Kafka sink"),
    _least(
        *("spark_write", "*", "spark records/s", 1.0),
        peers=("kafka-sink-on-fairlead",),
        about="Spark's own Kafka sink on Fairlead's listener",
    ),
    _reported("shipping", "*", "records/s"),
    _reported("shipping", "*", "alert p99 ms"),
    _most("replicator", "rest*", "rest cpu %", 3, about="of one core"),
    _most("replicator", "rest*", "memory MB", 1200),
    _most("replicator", "rest*", "MB/further destination", 50),
    _most("replicator", "turn*", "turn ms", 400),
)
