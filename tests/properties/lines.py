"""What there is of one link: frames on their way, its connection, the task that reads for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.properties.readers import Conversation, ReadFrames

from fairlead.spark.packets import Packet


class InFlight(NamedTuple):
    """A frame on its way, and where the frames of its grant ended then, by slice."""

    frame: Packet
    ends: Mapping[int, int]


class Standing(NamedTuple):
    """A grant without an end, and the task that reads it."""

    talk: Conversation
    task: asyncio.Task[None]
    found: ReadFrames


@dataclass
class Line:
    """What there is of one link at the moment."""

    life: int = 0
    """How often it was removed and made again."""
    rescan: int = 0
    created: int = 0
    """Commit of the source that was the next one when the link was made."""
    begin: int = 0
    """Batches of commits below it are not sent."""
    run: int = 1
    cut: bool = False
    frames: list[InFlight] = field(default_factory=list)
    conversation: tuple[Conversation, asyncio.Task[None]] | None = None
    standing: Standing | None = None
    until: int | None = None
    """Nothing is sent from this commit on: topics come in, or it is the side copy by which they do."""
    widened: int = 0
    """The side copy by which topics came in last."""
