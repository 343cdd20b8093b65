"""Which byte ranges of an object lie side by side, so that they are read or handed on as one piece.

`fetch` has its own loop for the few batches of an answer, which it finds one by one: the arrays here would take longer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def runs(
    starts: NDArray[np.int64], ends: NDArray[np.int64], *, hole_bytes: int = 0, apart: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Places at which runs of the ranges [start, end) begin, followed by the number of ranges.

    A range belongs to the run of the one before if it begins where that one ended, or at most `hole_bytes` behind it,
    unless `apart` separates these two neighbours. At least one range is given.
    """
    hole = starts[1:] - ends[:-1]
    breaks = (hole < 0) | (hole > hole_bytes)
    if apart is not None:
        breaks |= apart
    return np.concatenate(([0], np.flatnonzero(breaks) + 1, [len(starts)]))
