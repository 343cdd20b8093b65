"""How long tests that choose by chance go on, and what they choose.

`FAIRLEAD_TEST_ROUNDS` says how many rounds each of them plays (`make crash`); a usual run of all tests plays few.
`FAIRLEAD_TEST_SEED` repeats what was chosen in a run.
"""

from __future__ import annotations

import os
import random

_ROUNDS = os.environ.get("FAIRLEAD_TEST_ROUNDS")
_SEED = os.environ.get("FAIRLEAD_TEST_SEED")


def rounds(usually: int) -> int:
    return int(_ROUNDS or usually)


def seed(usually: int | None = None) -> int:
    """Without a usual one another each time."""
    return int(_SEED or (random.randrange(2**31) if usually is None else usually))
