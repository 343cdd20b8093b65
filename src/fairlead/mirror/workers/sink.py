"""The sink of a worker: rows of the reader → batches at the destination, and reports of how far each partition is.

It carries as the mirror does in one process (`carrying/local.py`); only that what its feeds answer comes by rows. The
books are the coordinator's: it enters producer ids, writes positions and decides about trouble. Only where each record
is to arrive once, the sink writes positions, in its transactions. When the coordinator is lost, or withdraws, nothing
more is sent.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import Final

from fairlead.mirror.bytes.handled import handler_named
from fairlead.mirror.report import Tally
from fairlead.mirror.work import Work
from fairlead.mirror.workers.calling import called
from fairlead.mirror.workers.delivery import Delivery, Given
from fairlead.mirror.workers.messages import (
    SINK_HEARS,
    SINK_PATH,
    SINK_SAYS,
    Broken,
    Bye,
    Confirm,
    Confirmed,
    Down,
    Enter,
    Entered,
    Failed,
    Hello,
    Look,
    Looked,
    Pause,
    Progress,
    Setup,
    TopicCounts,
    Withdraw,
    Worry,
)
from fairlead.mirror.workers.opening import Opens
from fairlead.mirror.workers.rows import Open, row_of
from fairlead.mirror.workers.senders import Once, WorkerDestination
from fairlead.model.conversation import to_json
from fairlead.model.errors import BadRequest, Fenced, Unreachable
from fairlead.spark.control import Control
from fairlead.spark.packets import Packet

REPORT_SECONDS: Final = 0.05
"""Between two reports of what has moved."""
DOWN_SECONDS: Final = 0.5
"""Between two looks whether what is waited for has changed."""


class Sink:
    """Of one task. Everything is called on one loop."""

    def __init__(self, address: str, secret_file: str, hello: Hello, opens: Opens) -> None:
        self._address = address
        self._secret_file = secret_file
        self._hello = hello
        self._opens = opens
        self._tally = Tally()
        self._deliveries: dict[int, Delivery] = {}
        self._of_number: dict[int, Delivery] = {}
        self._early: list[Packet] = []
        """Those that came before the coordinator has answered."""
        self._setup: Setup | None = None
        self._destination: WorkerDestination | None = None
        self._given: Given | None = None
        self._entering: dict[int, asyncio.Event] = {}
        self._confirming: dict[int, asyncio.Future[str | None]] = {}
        self._numbers = count(1)
        self._control: Control | None = None
        self._moved = asyncio.Event()
        self._work = Work()
        self._grace_seconds = 0.0
        self._ended = asyncio.Event()

    def offer(self, *packets: Packet) -> None:
        """What comes out of Spark, in order."""
        if self._given is None:
            self._early += packets
            return
        for packet in packets:
            row = row_of(packet)
            if isinstance(row, Open):
                self._of_number[row.number] = self._delivery(row.source)
            self._of_number[row.number].take(row)

    async def finish(self, grace_seconds: float) -> None:
        """No more rows come: wait so long for acknowledgements, report, and end."""
        self._grace_seconds = grace_seconds
        self._work.end()
        await self._ended.wait()

    async def run(self) -> None:
        """Until `finish`, or until the coordinator withdraws.

        Raises:
            Unreachable: the coordinator is gone, or has withdrawn.
            FairleadError: a part of it failed.
        """
        try:
            async with called(self._address, SINK_PATH, self._secret_file, self._work.over) as socket:
                if socket is None:
                    return
                self._control = Control(socket, SINK_HEARS, partial(to_json, kinds=SINK_SAYS))
                await self._control.send(self._hello)
                for part in (self._hear(self._control), self._report(self._control), self._tell_down(self._control)):
                    self._work.spawn(part)
                try:
                    await self._work.until_over()
                    await self._end_in_order(self._control)
                finally:
                    # Before the connection ends: once it has, another worker may get the lanes.
                    await self._close()
        finally:
            self._ended.set()

    async def _end_in_order(self, control: Control) -> None:
        await self._work.cancel()
        parts = [asyncio.create_task(part) for part in (self._hear(control), self._drain())]
        await asyncio.wait(parts, timeout=self._grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await self._say_progress(control)
        for delivery in self._deliveries.values():
            await control.send(Looked(0, delivery.dealt()))
        await control.send(Bye())

    async def _drain(self) -> None:
        for delivery in self._deliveries.values():
            await delivery.drain()

    async def _close(self) -> None:
        await self._work.cancel()
        for delivery in self._deliveries.values():
            await delivery.close()
        if self._destination is not None:
            await self._destination.close()

    # ------------------------------------------------------------ what it hears

    async def _hear(self, control: Control) -> None:
        while True:
            message = await control.receive()
            if isinstance(message, Setup):
                self._set_up(message)
            elif isinstance(message, Look):
                delivery = self._deliveries.get(message.source)
                await control.send(Looked(message.number, () if delivery is None else delivery.dealt()))
            elif isinstance(message, Pause):
                self._delivery(message.source).pause(message.paused)
            elif isinstance(message, Entered):
                entered = self._entering.pop(message.producer_id, None)
                if entered is not None:  # of two questions the first answer counts
                    entered.set()
            elif isinstance(message, Confirmed):
                asked = self._confirming.pop(message.number)
                if not asked.done():  # who asked has ended
                    asked.set_result(message.fenced)
            else:
                assert isinstance(message, Withdraw)
                raise Unreachable("the coordinator has withdrawn this worker, whose other process is gone")

    def _set_up(self, setup: Setup) -> None:
        self._setup = setup
        opened = partial(self._opens.destination, setup.destination, setup.connections)
        once = None if setup.transactions is None else Once(setup.transactions, self._permit, self._failed)
        self._destination = WorkerDestination(opened, self._enter, once)
        if once is not None:
            self._work.spawn(self._watch(self._destination))
        handler = None if setup.handler is None else handler_named(setup.handler, setup.handler_args)
        self._given = Given(
            self._destination,
            setup.destination_id,
            self._tally,
            setup.queue_records,
            handler,
            self._moved.set,
            self._worry,
        )
        early, self._early = self._early, []
        self.offer(*early)

    def _delivery(self, source: int) -> Delivery:
        delivery = self._deliveries.get(source)
        if delivery is None:
            assert self._setup is not None
            assert self._given is not None
            opening = self._setup.sources[source]
            delivery = Delivery(opening.label, partial(self._opens.source, opening), self._given)
            self._deliveries[source] = delivery
            self._work.spawn(delivery.run())
        return delivery

    # ------------------------------------------------------------ what it says

    async def _enter(self, producer_id: int, origin: str) -> None:
        assert self._control is not None
        entered = self._entering.setdefault(producer_id, asyncio.Event())
        await self._control.send(Enter(producer_id, origin))
        await entered.wait()

    async def _permit(self) -> None:
        assert self._control is not None
        number = next(self._numbers)
        answer = self._confirming[number] = asyncio.get_running_loop().create_future()
        await self._control.send(Confirm(number))
        if (fenced := await answer) is not None:
            raise Fenced(fenced)

    def _failed(self, why: str, transactions: int) -> None:
        assert self._control is not None
        self._work.spawn(self._control.send(Failed(why, transactions)))

    async def _watch(self, destination: WorkerDestination) -> None:
        """Raises: why no transaction can go on; the coordinator knows it then."""
        assert self._control is not None
        try:
            await destination.watch()
        except BadRequest as error:
            await self._control.send(Broken(str(error)))
            raise

    async def _worry(self, worry: Worry) -> None:
        assert self._control is not None
        await self._say_progress(self._control)
        await self._control.send(worry)

    async def _report(self, control: Control) -> None:
        while True:
            await self._moved.wait()
            await self._say_progress(control)
            await asyncio.sleep(REPORT_SECONDS)

    async def _say_progress(self, control: Control) -> None:
        self._moved.clear()
        parts = tuple(each for delivery in self._deliveries.values() for each in delivery.progress())
        tally = self._tally
        topics = {
            name: TopicCounts(topic.records, topic.bytes, dict(topic.batches)) for name, topic in tally.topics.items()
        }
        progress = Progress(parts, topics, tally.aborted_records, tally.looped_records)
        tally.topics.clear()
        tally.aborted_records = tally.looped_records = 0
        # Nothing waits between what was taken and its text: whoever is cut off here has only waited for room behind it.
        await control.send(progress)

    async def _tell_down(self, control: Control) -> None:
        told: dict[int | None, str | None] = {}
        while True:
            down: dict[int | None, str | None] = {n: each.down for n, each in self._deliveries.items()}
            down[None] = None if self._destination is None else self._destination.down
            for what, why in down.items():
                if told.get(what) != why:
                    await control.send(Down(what, why))
            told = down
            await asyncio.sleep(DOWN_SECONDS)
