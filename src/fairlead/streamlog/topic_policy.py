"""What a topic's own settings ask of its log. A row may be a stranger's: what cannot be read counts as not set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
DELETE: Final = "delete"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"

_LONGEST: Final = 2**62
"""More than this, in milliseconds or bytes, is as good as this, and arrays of 64 bits hold it."""
_OF_LIFE: Final = frozenset({CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES})


def items_of(text: str) -> list[str]:
    """The items of a list as Kafka writes them: with commas between, spaces around them do not count."""
    return [item for part in text.split(",") if (item := part.strip())]


def cleanup_policies(configs: Mapping[str, str]) -> list[str]:
    """What becomes of a topic's old records: `delete`, `compact` or both."""
    return items_of(configs.get(CLEANUP_POLICY, DELETE)) or [DELETE]


class Life(NamedTuple):
    """How long a topic's own settings let its records live."""

    expires: bool
    """Records expire at all: the topic is not compacted only."""
    ms: int | None
    """Milliseconds; None: as long as the stream says."""
    bytes: int | None
    """Of each partition so much stays at least; None: any."""


def life_of(configs: Mapping[str, str]) -> Life | None:
    """What the settings say of the records' life; None: nothing."""
    if not _OF_LIFE & configs.keys():
        return None
    return _life(*(configs.get(name) for name in (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES)))


@lru_cache(1000)
def _life(policy: str | None, ms: str | None, size: str | None) -> Life | None:
    """The topics of an application are mostly set alike."""
    given = {CLEANUP_POLICY: policy, RETENTION_MS: ms, RETENTION_BYTES: size}
    configs = {name: text for name, text in given.items() if text is not None}
    if DELETE not in cleanup_policies(configs):
        return Life(False, None, None)
    limits = (number(configs, name) for name in (RETENTION_MS, RETENTION_BYTES))
    found = Life(True, *(min(limit, _LONGEST) if limit is not None and limit >= 0 else None for limit in limits))
    return None if found == Life(True, None, None) else found


def number(configs: Mapping[str, str], name: str) -> int | None:
    """The value of a setting that is a whole number; None if it is not set."""
    text = configs.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return None
