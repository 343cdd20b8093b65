"""Regular expressions of users, which must match a whole name.

RE2, which pyarrow brings, takes time by the length of the names alone, whatever the expression; Python's own could
stand for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def whole_matches(expression: str, names: pa.Array | Sequence[str]) -> pa.BooleanArray:
    """Which of these names the expression matches from end to end. Raises: pyarrow.ArrowInvalid."""
    texts = names if isinstance(names, pa.Array) else pa.array(names, pa.string())
    return pc.match_substring_regex(texts, rf"\A(?:{expression})\z")
