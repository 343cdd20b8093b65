"""What must take effect together: some batches of one partition, and the position behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fairlead.mirror.books.book import Position
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.lanes import Part
from fairlead.model.errors import Aborted


class Send(NamedTuple):
    """A batch for a partition of the destination."""

    topic: str
    partition: int
    outgoing: Outgoing


class Portion(Protocol):
    """A strand takes those of a partition in their order."""

    part: Part
    waits: bool
    """It may wait for others: nothing is lost by that but time."""

    @property
    def size_bytes(self) -> int: ...

    def depart(self) -> Sequence[Send]:
        """Its batches, once: they are sent now."""
        ...

    def answered(self, send: Send, done: asyncio.Future[int | None]) -> None:
        """A batch was acknowledged, which counts only with the commit, or refused."""
        ...

    def position(self) -> Position:
        """The position behind it; asked for once all of its batches were acknowledged."""
        ...

    def committed(self) -> None:
        """It has taken effect."""
        ...

    def dropped(self) -> None:
        """It has not, and never will."""
        ...


class Beginning:
    """A position without batches: where a partition begins."""

    waits = False
    size_bytes = 0

    def __init__(self, part: Part, position: Position) -> None:
        self.part = part
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """`Aborted`, if the transaction failed."""
        self._position = position

    def depart(self) -> Sequence[Send]:
        return ()

    def answered(self, send: Send, done: asyncio.Future[int | None]) -> None:
        """There is none."""

    def position(self) -> Position:
        return self._position

    def committed(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def dropped(self) -> None:
        if not self.done.done():
            self.done.set_exception(Aborted(f"where {self.part} begins was not written"))
