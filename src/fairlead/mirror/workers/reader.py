"""The reader of a worker: partitions that the coordinator gives → rows for the sink.

It knows nothing from one task to the next. When it loses the coordinator it ends with that error, so that Spark starts
another task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from fairlead.mirror.work import Work
from fairlead.mirror.workers.calling import called
from fairlead.mirror.workers.messages import (
    READER_HEARS,
    READER_PATH,
    READER_SAYS,
    Bye,
    Credit,
    Down,
    End,
    Hello,
    Remove,
    Setup,
    Take,
)
from fairlead.mirror.workers.opening import Opens
from fairlead.mirror.workers.rows import Row, packet_of
from fairlead.mirror.workers.scout import Scout
from fairlead.model.conversation import to_json
from fairlead.spark.control import Control
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet

DOWN_SECONDS: Final = 0.5
"""Between two looks whether what is waited for has changed."""


class Reader:
    """Of one task."""

    def __init__(self, address: str, secret_file: str, hello: Hello, opens: Opens, handover: Handover[Packet]) -> None:
        self._address = address
        self._secret_file = secret_file
        self._hello = hello
        self._opens = opens
        self._handover = handover
        self._scouts: dict[int, Scout] = {}
        self._of_number: dict[int, Scout] = {}
        self._setup: Setup | None = None
        self._work = Work()

    def finish(self) -> None:
        """Read no more, in order."""
        self._work.end()

    async def run(self) -> None:
        """Until it is told to end. Raises: Unreachable: the coordinator is gone; what a scout raised."""
        try:
            async with called(self._address, READER_PATH, self._secret_file, self._work.over) as socket:
                if socket is None:
                    return
                control = Control(socket, READER_HEARS, partial(to_json, kinds=READER_SAYS))
                await control.send(self._hello)
                self._work.spawn(self._hear(control))
                self._work.spawn(self._tell(control))
                await self._work.until_over()
                await control.send(Bye())
        finally:
            await self._work.cancel()
            self._handover.close()

    async def _hear(self, control: Control) -> None:
        while True:
            message = await control.receive()
            if isinstance(message, Setup):
                self._setup = message
            elif isinstance(message, Take):
                scout = self._scout(message.source)
                self._of_number[message.number] = scout
                scout.take(message.number, message.load)
            elif isinstance(message, Remove):
                found = self._of_number.pop(message.number, None)
                if found is not None:
                    found.remove(message.number)
            elif isinstance(message, Credit):
                self._credit(message)
            else:
                assert isinstance(message, End)
                self.finish()

    def _credit(self, credit: Credit) -> None:
        for number, reached in credit.reached.items():
            scout = self._of_number.get(number)
            if scout is not None:
                scout.credit(number, reached.offset, reached.epoch)

    def _scout(self, source: int) -> Scout:
        scout = self._scouts.get(source)
        if scout is None:
            assert self._setup is not None
            opening = self._setup.sources[source]
            scout = self._scouts[source] = Scout(source, partial(self._opens.source, opening), self._put)
            self._work.spawn(scout.run())
        return scout

    async def _put(self, row: Row) -> None:
        packet = packet_of(row)
        await self._handover.put(packet, memoryview(packet.data).nbytes)

    async def _tell(self, control: Control) -> None:
        told: Mapping[int, str | None] = {}
        while True:
            down = {source: scout.down for source, scout in self._scouts.items()}
            for source, why in down.items():
                if told.get(source) != why:
                    await control.send(Down(source, why))
            told = down
            await asyncio.sleep(DOWN_SECONDS)
