"""How a boolean is written on the command line and in a call of REST."""

from __future__ import annotations

from typing import Final

TRUE: Final = frozenset({"true", "1", "yes", "on"})
FALSE: Final = frozenset({"false", "0", "no", "off"})
