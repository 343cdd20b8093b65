"""What is known of one Kafka cluster whose topics a stream keeps, and how long is waited for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from fairlead.kafka import TopicMetadata

GONE_SECONDS: Final = 60.0
"""A topic must be away so long, whichever broker is asked, before it counts as deleted."""

GONE_BROKERS: Final = 2
"""So many brokers, if there are as many, must say so too."""


@dataclass(frozen=True, slots=True)
class KafkaTiming:
    """How long is waited for what; tests lower it."""

    look_s: float = 5.0
    """Between two looks at Kafka's topics, ends and groups."""
    again_s: float = 1.0
    """Before partitions are given anew of which something was refused; twice as long each time that no record came
    since."""
    configs_s: float = 60.0
    """Between two looks at the settings of all topics."""
    gone_s: float = GONE_SECONDS
    leaders_s: float = 2.0
    """For partitions whose leaders move or are away, in one look."""
    answer_s: float = 10.0
    """Kafka is taken for lost after this, when topics are taken over."""


@dataclass(slots=True)
class Counts:
    """What has come since this server started."""

    frames: int = 0
    records: int = 0
    size_bytes: int = 0
    duplicates: int = 0
    cursors: int = 0


@dataclass(slots=True)
class Known:
    """What was last heard of Kafka."""

    topics: dict[bytes, TopicMetadata] = field(default_factory=dict)
    """By id, those that are kept."""
    ends: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """Where partitions end for a reader of committed records, by id of the topic and number."""
    held_back: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """How many offsets lie beyond that, of partitions in which a transaction is open."""
    silent: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """Partitions that did not say so at the last look, and why."""
    gone: dict[bytes, int] = field(default_factory=dict)
    """Topics that are here and not in Kafka, and since when, by the monotonic clock."""
    stopped: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """Partitions that are read no further, and why."""
    parted: set[tuple[bytes, int]] = field(default_factory=set)
    """Those of them whose log Kafka has otherwise."""
    returned: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """Partitions that are not read, and why: a leader of before is back whose records would be dropped."""
    unread: dict[str, str] = field(default_factory=dict)
    """Groups that are kept and whose offsets are not known, and why."""
    diverged: tuple[str, ...] = ()
    """Topics of the replica that keep what Kafka's logs have no more."""
    heard_ms: int | None = None
    """When all that was last heard, by the monotonic clock."""

    @property
    def groups_unread(self) -> str:
        """That offsets of groups are not known, and why; empty if all are."""
        if not self.unread:
            return ""
        count, why = len(self.unread), min(self.unread.values())
        return f"what {count:,} groups have committed cannot be kept: {why} (-cursors can leave groups out)"
