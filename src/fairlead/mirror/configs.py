"""Which settings a topic gets at the destination, once a mirror makes it: those that were set for the source's topic,
but for what belongs to a place, as MirrorMaker 2 has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

NOT_COPIED: Final = re.compile(
    r"(?:follower|leader)\.replication\.throttled\.replicas"
    r"|message\.timestamp\.(?:type|difference\.max\.ms|before\.max\.ms|after\.max\.ms)"
    r"|unclean\.leader\.election\.enable|min\.insync\.replicas"
    r"|remote\..*|local\.retention\..*|message\.format\.version|confluent\..*|fairlead\..*"
)
"""MirrorMaker 2's list, and settings that only some clusters know. A time type would stamp records anew."""
TIMESTAMP_AFTER: Final = "message.timestamp.after.max.ms"
_ANY_TIME: Final = str(2**63 - 1)

BOOK_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
"""Of the topics by which a mirror keeps its books. Only a segment that is closed is compacted."""
MESSAGE_BYTES_MAX: Final = "max.message.bytes"


def configs_for(source: Mapping[str, tuple[str, bool]]) -> dict[str, str]:
    """The settings for a topic that is made.

    A record whose time lies ahead of the destination's clock was taken by the source; since Kafka 4 a destination
    refuses it by default.
    """
    copied = {name: value for name, (value, own) in source.items() if own and not NOT_COPIED.fullmatch(name)}
    return {TIMESTAMP_AFTER: _ANY_TIME, **copied}
