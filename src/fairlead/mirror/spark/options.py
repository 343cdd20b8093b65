"""Options of the format `fairlead.mirror`, as text through Spark and as values in the tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

PLACES: Final = "places"
ROUND_SECONDS: Final = "round_seconds"
LIFE: Final = "life"


class Place(NamedTuple):
    """What one task is to be."""

    address: str
    """Of the coordinator."""
    secret_file: str
    worker: int
    """Which of its workers."""


@dataclass(frozen=True, slots=True)
class MirrorTasks:
    """All tasks of a query."""

    places: tuple[Place, ...]
    round_seconds: float
    life: int = 0
    """Which query of this process it is: Spark counts attempts at tasks anew with each JVM."""

    def to_texts(self) -> dict[str, str]:
        """For `DataStreamReader.options`."""
        return {PLACES: json.dumps(self.places), ROUND_SECONDS: str(self.round_seconds), LIFE: str(self.life)}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> MirrorTasks:
        """The inverse; other options are left alone, as Spark adds its own."""
        found: Sequence[tuple[str, str, int]] = json.loads(texts[PLACES])
        return cls(tuple(Place(*each) for each in found), float(texts[ROUND_SECONDS]), int(texts[LIFE]))
