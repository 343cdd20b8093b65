"""Text of others as it is shown: in a terminal, in a log line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

UNSEEN: Final = "\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb"
"""Characters that command a terminal, turn the direction of what follows, or are not seen, as a part of a pattern."""
_UNSEEN: Final = re.compile(f"[{UNSEEN}]")
_UNSEEN_BUT_BREAKS: Final = re.compile(f"(?![\n\t])[{UNSEEN}]")


def shown(text: str, *, breaks: bool = False) -> str:
    """The same with such characters written out, `\\x1b`; `breaks`: lines and tabs stay."""
    return (_UNSEEN_BUT_BREAKS if breaks else _UNSEEN).sub(_written, text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def few(names: Sequence[str], most: int = 5) -> str:
    """`a, b and 3 more`: the first of them, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
