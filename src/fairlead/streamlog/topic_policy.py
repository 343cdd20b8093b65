"""What a topic's own settings ask of its log. A row may be a stranger's: what cannot be read counts as not set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
DELETE: Final = "delete"


def items_of(text: str) -> list[str]:
    """The items of a list as Kafka writes them: with commas between, spaces around them do not count."""
    return [item for part in text.split(",") if (item := part.strip())]


def cleanup_policies(configs: Mapping[str, str]) -> list[str]:
    """What becomes of a topic's old records: `delete`, `compact` or both."""
    return items_of(configs.get(CLEANUP_POLICY, DELETE)) or [DELETE]


def number(configs: Mapping[str, str], name: str) -> int | None:
    """The value of a setting that is a whole number; None if it is not set."""
    text = configs.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return None
