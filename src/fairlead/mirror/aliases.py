"""What MirrorMaker 2 calls two clusters, and the names that follow from it: its replication policies.

Its default policy puts the source's alias before the name of a topic, `A.orders`, and knows by that name where a topic
came from. Its identity policy leaves names alone, but for topics of heartbeats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HEARTBEATS: Final = "heartbeats"


@dataclass(frozen=True, slots=True)
class Aliases:
    """Of one source and the destination."""

    source: str
    target: str
    separator: str = "."
    internal_separator: str = "."
    """In the names of MirrorMaker 2's own topics."""

    @property
    def prefix(self) -> str:
        """What the default policy puts before names."""
        return self.source + self.separator

    def remote(self, topic: str, prefix: str) -> str:
        """What a topic of the source is called at the destination, where others get that prefix."""
        return (self.prefix if self.is_heartbeats(topic) else prefix) + topic

    def is_heartbeats(self, topic: str) -> bool:
        """Whether it holds heartbeats, after any number of hops."""
        return re.fullmatch(self.heartbeats, topic) is not None

    @property
    def heartbeats(self) -> str:
        """Expression for whole names of topics with heartbeats."""
        return f"(?:.*{re.escape(self.separator)})?{HEARTBEATS}"

    def is_cycle(self, topic: str) -> bool:
        """Whether a topic of the source came from the destination, going by its name."""
        *hops, _ = _parts(topic, self.separator)
        return self.target in hops

    @property
    def internal(self) -> str:
        """Expression for whole names of topics that MirrorMaker 2 never mirrors (since Kafka 4.0, KIP-1074): Kafka's
        own and its own."""
        end, checkpoints = (re.escape(self._internal("", *words)) for words in ((), ("checkpoints",)))
        return rf"__.*|\..*|mm2.*{end}|.*{checkpoints}"

    @property
    def checkpoints_topic(self) -> str:
        """Where the destination keeps what groups of the source have committed."""
        return self._internal(self.source, "checkpoints")

    @property
    def offset_syncs_at_source(self) -> str:
        """Where the source keeps which offsets match."""
        return self._internal("mm2-offset-syncs", self.target)

    @property
    def offset_syncs_at_target(self) -> str:
        """Where the destination keeps which offsets match."""
        return self._internal("mm2-offset-syncs", self.source)

    def _internal(self, *words: str) -> str:
        return self.internal_separator.join((*words, "internal"))


def _parts(topic: str, separator: str) -> list[str]:
    """As Java's `split` has it: empty parts at the end do not count."""
    parts = topic.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
