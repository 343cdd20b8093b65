"""Where partitions begin that workers carry, written by the process of the mirror before they have them.

Its transactional id fences whoever ran the mirror before. Whoever was taken over and goes on later opens the id anew;
so it is asked behind that, and before anything is sent, whether this process still runs the mirror: whoever took over
has said so before it opened the id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fairlead.mirror.books.book import Position, position_records
from fairlead.mirror.books.plain import batches_of
from fairlead.mirror.exactly.lane import Ground
from fairlead.mirror.lanes import Part
from fairlead.mirror.names import positions_topic
from fairlead.mirror.patience import PAUSE_SECONDS, insisting
from fairlead.model.errors import Aborted, BadRequest, Fenced


class Beginnings:
    """Of one mirror; nothing is written before it is open."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._topic = positions_topic(ground.name)
        self._sender = ground.cluster.transactional(f"fairlead-mirror.{ground.name}.begin", None)

    async def open(self) -> None:
        """Become the one that writes them.

        Raises:
            Fenced: another process runs the mirror.
            BadRequest: the transactional id is not ours to use.
            TryAgain
        """
        while True:
            try:
                await self._sender.open()
            except (Aborted, Fenced) as error:
                self._ground.told(f"where partitions begin: {error}", 0)
                await self._ground.permit()
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                await self._ground.permit()
                return

    async def write(self, positions: Mapping[Part, Position]) -> None:
        """All of them or none, and wait until that is committed. Raises: as `open`, but for TryAgain; BadRequest: the
        topic of positions does not take them."""
        while positions:
            try:
                await self._write(positions)
                return
            except (Aborted, Fenced) as error:
                self._ground.told(f"where partitions begin is written again: {error}", 1)
                await self._ground.permit()
                await asyncio.sleep(PAUSE_SECONDS)
                await insisting(self.open)

    async def _write(self, positions: Mapping[Part, Position]) -> None:
        sent = [
            self._sender.send(self._topic, lane, batch)
            for lane, records in position_records(positions).items()
            for batch in batches_of(records, self._ground.clock.wall_ms())
        ]
        await asyncio.wait(sent)
        for done in sent:
            if isinstance(error := done.exception(), BadRequest):
                raise error
        await self._sender.commit()

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        return self._sender.down

    async def close(self) -> None:
        """Drop what is not committed."""
        await self._sender.close()
