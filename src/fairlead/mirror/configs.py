"""Which settings a topic gets at the destination: those that were set for the source's topic, but for what belongs to a
place, as MirrorMaker 2 has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from fairlead.model.expressions import whole_matches

CONFIGS_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas|leader\.replication\.throttled\.replicas"
    r"|message\.timestamp\.difference\.max\.ms|message\.timestamp\.type|unclean\.leader\.election\.enable"
    r"|min\.insync\.replicas"
)
"""What belongs to a place: MirrorMaker 2's list. A time type would stamp records anew."""
_NEVER: Final = re.compile(
    r"message\.timestamp\.(?:before|after)\.max\.ms"
    r"|remote\..*|local\.retention\..*|message\.format\.version|confluent\..*|fairlead\..*"
)
"""What a mirror sets by itself, or only some clusters know."""
TIMESTAMP_AFTER: Final = "message.timestamp.after.max.ms"
_ANY_TIME: Final = str(2**63 - 1)

BOOK_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
"""Of the topics by which a mirror keeps its books. Only a segment that is closed is compacted."""
MESSAGE_BYTES_MAX: Final = "max.message.bytes"


class Setting(NamedTuple):
    """A setting of a topic."""

    value: str
    own: bool
    """It was set for the topic itself."""
    of_broker: bool = False
    """It stands in a broker's file, or cannot be set for a topic."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Which settings of a source's topic its copy has too."""

    exclude: str = CONFIGS_EXCLUDE
    """Expression for whole names of settings that are left out."""
    defaults_of_source: bool = False
    """Also those that are not set for the topic, as they are at the source; else they are the destination's."""

    def excludes(self, name: str) -> bool:
        """Whether a setting is left out, whatever it is."""
        return _NEVER.fullmatch(name) is not None or _matches(self.exclude, name)

    def of(self, source: Mapping[str, Setting]) -> dict[str, str]:
        """Those that the copy gets."""
        return {name: each.value for name, each in source.items() if self._goes(each) and not self.excludes(name)}

    def _goes(self, setting: Setting) -> bool:
        return setting.own or (self.defaults_of_source and not setting.of_broker)


@cache
def _matches(expression: str, name: str) -> bool:
    return whole_matches(expression, [name]) == [True]


def configs_for(source: Mapping[str, Setting], copied: Copied) -> dict[str, str]:
    """The settings for a topic that is made.

    A record whose time lies ahead of the destination's clock was taken by the source; since Kafka 4 a destination
    refuses it by default.
    """
    return {TIMESTAMP_AFTER: _ANY_TIME, **copied.of(source)}
