"""Regular expressions of users, which must match a whole name.

RE2, which pyarrow brings, takes time by the length of the names alone, whatever the expression; Python's own could
stand for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def whole_matches(expression: str, names: Sequence[str]) -> list[bool]:
    """Which of these names the expression matches from end to end.

    Raises:
        pyarrow.ArrowInvalid: it is none, also such as `a)|(b`, which is one between brackets alone.
    """
    pc.match_substring_regex(_array([""]), expression)
    found: list[bool] = pc.match_substring_regex(_array(names), rf"\A(?:{expression})\z").to_pylist()
    return found


def _array(names: Sequence[str]) -> pa.LargeStringArray:
    """Of its parts: `pyarrow.array` imports pandas, which takes a fifth of a second and 30 MB, and nothing else of a
    server needs it."""
    texts = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
