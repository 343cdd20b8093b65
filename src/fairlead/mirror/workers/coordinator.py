"""The process of the mirror, as workers know it: gives partitions to them by lanes, and hears how far each is.

It listens on loopback, and whoever connects must show its secret, which lies in a file that only its user may read. The
secrets of property files go over these connections alone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from itertools import count
from typing import Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from fairlead.mirror.carrying.engine import Run, Way
from fairlead.mirror.lanes import stream_of
from fairlead.mirror.work import Work
from fairlead.mirror.workers.line import Line
from fairlead.mirror.workers.messages import (
    READER_HEARS,
    READER_PATH,
    READER_SAYS,
    SINK_HEARS,
    SINK_PATH,
    SINK_SAYS,
    Broken,
    Bye,
    Confirm,
    Confirmed,
    Credit,
    Down,
    Enter,
    Entered,
    Failed,
    Hello,
    Look,
    Looked,
    Pause,
    Progress,
    Reached,
    Remove,
    Setup,
    Take,
    Worry,
)
from fairlead.mirror.workers.pairs import Pair, Slot
from fairlead.mirror.workers.remote import RemoteCarrier, RemoteStanding
from fairlead.model.errors import BadRequest, Fenced, InvalidValue
from fairlead.process.control_secret import HEADER

NOBODY: Final = "the workers, which begin"
LOOK_SECONDS: Final = 5.0
"""So long is it waited for what a sink says of itself; one that stands still does not hold up who asks."""


class Coordinator:
    """Of `workers` workers."""

    def __init__(self, workers: int, secret: str) -> None:
        self.workers = workers
        self.work = Work()
        """What fails here ends the mirror."""
        self._setup: asyncio.Future[Setup] = asyncio.get_running_loop().create_future()
        self._run: Run
        self._secret = secret
        self._server: Server | None = None
        self._carriers: dict[int, RemoteCarrier] = {}
        self._standings: list[set[RemoteStanding]] = [set() for _ in range(workers)]
        """By worker: what is to be carried."""
        self._slots = [Slot(self._held, self._lost) for _ in range(workers)]
        self._paused: set[int] = set()
        """Sources of which nothing is handed on."""
        self._numbers = count(1)
        self._by_number: dict[int, RemoteStanding] = {}
        self._changed = asyncio.Event()

    async def open(self) -> str:
        """Listen; the address for workers."""
        self._server = await serve(
            self._connected,
            "127.0.0.1",
            0,
            process_request=self._check,
            compression=None,
            max_size=None,
            ping_interval=20.0,
        )
        port = next(iter(self._server.sockets)).getsockname()[1]
        return f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        """Workers that are left end with their connections."""
        await self.work.cancel()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def set_up(self, setup: Setup, run: Run) -> None:
        """From now on workers can begin."""
        self._run = run
        self._setup.set_result(setup)

    def carrier(self, way: Way) -> RemoteCarrier:
        """Of a source of the set-up."""
        sources = self._setup.result().sources
        (source,) = (number for number, opening in enumerate(sources) if opening.label == way.label)
        carrier = self._carriers[source] = RemoteCarrier(source, way, self)
        return carrier

    # ------------------------------------------------------------ from carriers

    def give(self, standing: RemoteStanding) -> None:
        worker = self._worker(standing)
        self._standings[worker].add(standing)
        holder = self._slots[worker].holder
        if holder is not None:
            self._give_to(holder, standing)

    def take_back(self, standing: RemoteStanding) -> None:
        worker = self._worker(standing)
        if standing not in self._standings[worker]:
            return
        self._standings[worker].discard(standing)
        holder = self._slots[worker].holder
        if holder is not None and holder.reader is not None and standing.number is not None:
            holder.reader.send(Remove(standing.number))

    def pause(self, source: int, paused: bool) -> None:
        if (source in self._paused) is paused:
            return
        self._paused ^= {source}
        for slot in self._slots:
            if slot.holder is not None and slot.holder.sink is not None:
                slot.holder.sink.send(Pause(source, paused))

    def waits(self, source: int) -> str | None:
        slots = [slot for slot, standings in zip(self._slots, self._standings, strict=True) if standings]
        if any(slot.holder is None for slot in slots):
            return NOBODY
        lines = [line for slot in slots if slot.holder for line in (slot.holder.sink, slot.holder.reader) if line]
        away = next((line.down[source] for line in lines if line.down.get(source)), None)
        if away is None and (there := next((line.down[None] for line in lines if line.down.get(None)), None)):
            away = f"the destination: {there}"
        return away

    async def look(self, source: int) -> bool:
        """Have all sinks say how far partitions of that source are whose records the key deals; whether all have."""
        holders = [slot.holder for slot in self._slots if slot.holder is not None]
        sinks = [holder.sink for holder in holders if holder.sink is not None]
        numbers = [(sink, next(self._numbers)) for sink in sinks]
        answers = [sink.ask(number, Look(number, source)) for sink, number in numbers]
        if answers:
            await asyncio.wait(answers, timeout=LOOK_SECONDS)
        return len(sinks) == len(holders) and all(each.done() and not each.cancelled() for each in answers)

    async def drain(self) -> None:
        """End all tasks in order, and wait until they have."""
        for slot in self._slots:
            if not slot.over:
                slot.end()
        while any(slot.holder is not None for slot in self._slots):
            self._changed.clear()
            await self._changed.wait()

    def _worker(self, standing: RemoteStanding) -> int:
        return stream_of(standing.part, self.workers)

    # ------------------------------------------------------------ who holds what

    def _held(self, pair: Pair) -> None:
        worker = next(number for number, slot in enumerate(self._slots) if slot.holder is pair)
        for source in self._paused:
            if pair.sink is not None:
                pair.sink.send(Pause(source, True))
        for standing in self._standings[worker]:
            self._give_to(pair, standing)

    def _give_to(self, pair: Pair, standing: RemoteStanding) -> None:
        if standing.troubled or pair.reader is None:
            return
        number = next(self._numbers)
        standing.held(number)
        self._by_number[number] = standing
        pair.numbers.append(number)
        pair.reader.send(Take(number, standing.carrier.source, standing.load))

    def _lost(self, pair: Pair) -> None:
        for number in pair.numbers:
            standing = self._by_number.pop(number)
            if standing.number == number:
                for_good = self._slots[self._worker(standing)].over
                standing.nobody_has_it(in_order=not pair.broken, for_good=for_good)

    # ------------------------------------------------------------ connections

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get(HEADER) != self._secret or request.path not in (READER_PATH, SINK_PATH):
            return connection.respond(HTTPStatus.FORBIDDEN, "show the secret of the mirror\n")
        return None

    async def _connected(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        reads = socket.request.path == READER_PATH
        line = Line(socket, READER_SAYS, READER_HEARS) if reads else Line(socket, SINK_SAYS, SINK_HEARS)
        writing = asyncio.create_task(line.write())
        try:
            hello = await line.receive()
            if not isinstance(hello, Hello) or not 0 <= hello.worker < self.workers:
                raise InvalidValue(f"a worker says {hello}")
            line.send(await asyncio.shield(self._setup))
            slot = self._slots[hello.worker]
            pair = slot.reader_came(hello.attempt, line) if reads else slot.sink_came(hello.attempt, line)
            try:
                while True:
                    self._heard(pair, line, await line.receive())
            finally:
                line.ended()
                slot.gone(hello.attempt, line)
                self._changed.set()
        except ConnectionClosed:
            pass
        except Exception as error:
            self.work.spawn(_raise(error))
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing

    def _heard(self, pair: Pair, line: Line, message: object) -> None:
        if isinstance(message, Progress):
            self._progress(pair, message)
        elif isinstance(message, Down):
            line.down[message.source] = message.why
        elif isinstance(message, Enter):
            self.work.spawn(self._enter(line, message))
        elif isinstance(message, Worry):
            standing = self._by_number.get(message.number)
            if standing is not None and standing.number == message.number and standing.carried:
                self.work.spawn(standing.carrier.settle(standing, message))
        elif isinstance(message, Looked):
            self._looked(message)
            line.answered(message.number)
        elif isinstance(message, Confirm):
            self.work.spawn(self._confirm(line, message))
        elif isinstance(message, Failed):
            self._run.failed(message.why, message.transactions)
        elif isinstance(message, Broken):
            self.work.spawn(_raise(BadRequest(message.why)))
        elif isinstance(message, Bye):
            line.said_bye = True

    def _progress(self, pair: Pair, progress: Progress) -> None:
        reached: dict[int, Reached] = {}
        for each in progress.parts:
            standing = self._by_number.get(each.number)
            if standing is not None and standing.number == each.number:
                standing.told(each)
                reached[each.number] = Reached(each.position.offset, each.position.epoch)
                if each.back:
                    standing.carrier.back(standing)
        if reached and pair.reader is not None:
            pair.reader.send(Credit(reached))
        self._any_carrier.count(progress)

    def _looked(self, looked: Looked) -> None:
        for each in looked.parts:
            standing = self._by_number.get(each.number)
            if standing is not None and standing.number == each.number:
                standing.frontier, standing.ends = each.frontier, dict(each.ends)

    @property
    def _any_carrier(self) -> RemoteCarrier:
        """All of a mirror have one destination and one tally."""
        return next(iter(self._carriers.values()))

    async def _enter(self, line: Line, enter: Enter) -> None:
        await self._any_carrier.way.destination.enter(enter.producer_id, enter.origin)
        line.send(Entered(enter.producer_id))

    async def _confirm(self, line: Line, confirm: Confirm) -> None:
        try:
            await self._run.permit()
        except Fenced as error:
            line.send(Confirmed(confirm.number, str(error)))
            raise
        line.send(Confirmed(confirm.number, None))


async def _raise(error: Exception) -> None:
    raise error
