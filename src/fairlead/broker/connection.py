"""One client: requests in, answers out in the order of the requests.

As in Kafka a connection's requests are handled one after the other; only Produce requests that follow one another run
together, at most `PRODUCE_IN_FLIGHT_MAX` of them: each is submitted before the next one begins, and answered in order.
Reading stops while requests wait, writing waits for the client, and an idle connection owns no task. Bytes that are no
request end the connection with one line in the log.

What a client sent before it left, without wanting an answer, takes effect all the same: to a producer with acks=0 it is
done once the socket has it. The connection has ended once all of it is handed over, and counts until then.

Requests and the frames of links are cut out of their connections by one class. Their paces are two: a request counts
against its connection until its answer is sent, a frame (`wire/connection.py`) until somebody takes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, cast

import structlog

from fairlead.broker.context import ConnectionInfo, RequestContext
from fairlead.broker.dispatch import PRODUCE, Handled, Header, Part, PendingAnswer, failed
from fairlead.broker.memory import FREE_BYTES, STALLED_SECONDS, RequestMemory, Share
from fairlead.broker.pacing import Pace, turns
from fairlead.broker.traffic import Traffic
from fairlead.model.errors import FairleadError
from fairlead.protocol.framing import request_framing
from fairlead.protocol.produce import wants_no_answer
from fairlead.protocol.wire import Malformed

log = structlog.get_logger(__name__)

PRODUCE_IN_FLIGHT_MAX = 256
"""librdkafka puts one partition into each Produce request: with 16 of them, a producer to thousands of topics got 16
batches into a commit, and seconds of delay at 2,000 records a second. Their bytes are bounded all the same."""
_WAITING_MAX = 256
"""Whole requests that may wait before reading stops."""
_READ_BYTES = 1024 * 1024
"""Read of a large request before others get their turn: libuv reads on while there is something, 32 times, and each
megabyte takes some milliseconds to be copied."""
_PIECE_BYTES = 256 * 1024
"""Read of a large request that is no produce, in its turn among long work: a flood of 9 MB requests that are refused
when they are whole took gigabytes a second, and an honest producer waited for each."""
_WRITE_BYTES = 256 * 1024
"""Written before the client's pace is asked for."""
_WRITE_SLICE_SECONDS = 0.002
"""A client that takes its answer as fast as it is written never pauses the writing: 60 MB would go in one turn."""


class _Handling(NamedTuple):
    """A request that is handled or whose answer waits for its turn, and its bytes, which it holds."""

    begun: Handled
    frame: memoryview

    @property
    def is_ready(self) -> bool:
        """It was submitted and its answer can be made."""
        return isinstance(self.begun, PendingAnswer) and all(future.done() for future in self.begun.futures)


class Service(Protocol):
    """What a connection needs of the server."""

    request_bytes_max: int
    idle_seconds: float
    traffic: Traffic
    memory: RequestMemory

    def scratch(self) -> memoryview:
        """The buffer that all connections read into."""
        ...

    def admit(self, connection: Connection) -> float | None:
        """Count a new connection. After how many seconds it may be read; None if there are too many."""
        ...

    def forget(self, connection: Connection) -> None:
        """The connection has ended."""
        ...

    def begin(self, connection: Connection, frame: memoryview) -> tuple[Header, Handled]:
        """Read a request's header and begin it; see `dispatch.begin`.

        Raises:
            Malformed: not a request that is served.
        """
        ...


class Connection(asyncio.BufferedProtocol):
    """A client's connection."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._framing = request_framing(service.scratch(), service.request_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._turns = turns()
        self._transport: asyncio.Transport | None = None
        self._closing = False
        """It is we who end it."""
        self._waiting: deque[memoryview] = deque()
        self._held_bytes = 0
        """Of requests that wait or run."""
        self._answer_bytes = 0
        """Of answers that are being sent."""
        self._share = Share(service.memory, self._pace_reading, self._taken_too_long)
        self._early = False
        """It may not be read yet."""
        self._read_bytes = _READ_BYTES
        self._running: deque[_Handling] = deque()
        self._only_produce = True
        self._answering: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._paused_writing = False
        self._paused_reading = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._active_at = self._loop.time()
        self.ended = asyncio.Event()
        self.info: ConnectionInfo | None = None
        """What handlers are told of this connection; made by the service at its first request."""
        self.context: RequestContext | None = None
        """Of the last request, kept by the service: the next one has mostly the same."""
        self.client = ("?", 0)
        self.local = ("?", 0)

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes, though they do the same.
        self._transport = wire = cast(asyncio.Transport, transport)
        self.client = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        delay = self.service.admit(self)
        if delay is None:
            wire.abort()
            return
        if delay:
            self._put_off_reading(delay)
        wire.set_write_buffer_limits(high=2 * _WRITE_BYTES)
        self._watch_idleness(self.service.idle_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._waiting = deque(() if self._closing else filter(wants_no_answer, self._waiting))
        if self._answering is None:
            self._give_up()
            self._go_on_alone()
        elif self._closing or not any(wants_no_answer(running.frame) for running in self._running):
            self._answering.cancel()
            if not self._waiting:
                self._forget()
        else:
            self.resume_writing()  # an answer that waits to be taken waits no more

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._framing.space()[: self._read_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        self._active_at = self._loop.time()
        frames: list[memoryview] = []
        try:
            self._framing.filled(nbytes, frames)
        except Malformed as error:
            self._end(error)
            return
        if frames:
            self._waiting.extend(frames)
            self._held_bytes += sum(map(len, frames))
            self._share.moved()
        self.service.traffic.received_bytes += nbytes
        if nbytes >= _PIECE_BYTES:
            self._pace_large()
        self._start_what_may()

    def pause_writing(self) -> None:
        self._paused_writing = True

    def resume_writing(self) -> None:
        self._paused_writing = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    @property
    def answering(self) -> bool:
        """Answers are waited for, or written."""
        return self._answering is not None

    @property
    def buffered_bytes(self) -> int:
        """Bytes of answers that wait for the client to take them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # Requests.

    def close(self) -> None:
        """End the connection at once."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
            return
        self._waiting.clear()
        if self._answering is not None:
            self._answering.cancel()
        self._forget()

    def _start_what_may(self) -> None:
        while self._waiting and self._may_start(self._waiting[0]):
            self._start(self._waiting.popleft())
        self._pace_reading()
        if self._running and self._answering is None:
            self._answering = self._loop.create_task(self._answer())
            self._answering.add_done_callback(self._answering_ended)

    def _may_start(self, frame: memoryview) -> bool:
        if not self._running:
            return True
        return self._only_produce and _is_produce(frame) and len(self._running) < PRODUCE_IN_FLIGHT_MAX

    def _start(self, frame: memoryview) -> None:
        begun: Handled
        try:
            header, begun = self.service.begin(self, frame)
            self._only_produce = header.api_key == PRODUCE and isinstance(begun, PendingAnswer)
        except Malformed as error:
            begun, self._only_produce = failed(error), False
        self._running.append(_Handling(begun, frame))
        self._turns.waits += isinstance(begun, PendingAnswer)
        self.service.traffic.requests += 1

    def _pace_large(self) -> None:
        """Much was read at once. Others get their turn before more is."""
        partial = self._framing.partial
        if partial and not _is_produce(partial):
            self._read_bytes = _PIECE_BYTES
            self._early = True
            self._turns.next(self._read_from_now_on)
        else:
            self._read_bytes = _READ_BYTES
            self._put_off_reading(0)

    def _put_off_reading(self, delay_seconds: float) -> None:
        self._early = True
        self._pace_reading()
        self._loop.call_later(delay_seconds, self._read_from_now_on)

    def _read_from_now_on(self) -> None:
        self._early = False
        self._pace_reading()

    def _pace_reading(self) -> None:
        if self._transport is None:
            return
        room = self._share.resize(self._held_bytes + self._framing.partial_bytes + self._answer_bytes)
        full = len(self._waiting) >= _WAITING_MAX or self._held_bytes >= self.service.request_bytes_max
        full = full or not room or self._early
        if full == self._paused_reading:
            return
        self._paused_reading = full
        if full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    async def _answer(self) -> None:
        """Send the answers of what runs, in order, until nothing does."""
        try:
            while self._running:
                answers, failure = await self._next_answers()
                await self._send([part for parts in answers for part in parts or ()])
                self._answer_bytes = 0
                for _ in answers:
                    self._held_bytes -= len(self._end_first().frame)
                if failure is not None:
                    self._end(failure)
                    return
                self._active_at = self._loop.time()
                self._start_what_may()
            self._answering = None
        except Exception as error:
            self._end(error)

    async def _next_answers(self) -> tuple[list[list[Part] | None], Exception | None]:
        """The first answer, and those behind it that are there too: a commit answers many requests, and they share a
        packet. Before a failure, those that come before it."""
        first = self._running[0].begun
        if not isinstance(first, PendingAnswer):
            return [await first], None
        for future in first.futures:
            if not future.done():
                with suppress(Exception):  # `finish` asks for it
                    await future
        answers: list[list[Part] | None] = []
        for running in self._running:
            if not running.is_ready:
                break
            assert isinstance(running.begun, PendingAnswer)
            try:
                answers.append(running.begun.finish())
            except Exception as error:
                return answers, error
        return answers, None

    def _answering_ended(self, task: asyncio.Task[None]) -> None:
        if self._answering is task:
            self._answering = None
            self._give_up()
        if self._transport is None and self._answering is None:
            self._go_on_alone()

    def _go_on_alone(self) -> None:
        """The client is gone: begin what it wants no answer to, or, if there is none, end."""
        if self._waiting:
            self._start_what_may()
        else:
            self._forget()

    def _forget(self) -> None:
        if self.ended.is_set():
            return
        self._share.resize(0)
        self.service.forget(self)
        if self.info is not None:
            self.info.fetches.close()
            if self.info.forwards is not None:
                self.info.forwards.close()
        self.ended.set()

    def _end_first(self) -> _Handling:
        first = self._running.popleft()
        self._turns.waits -= isinstance(first.begun, PendingAnswer)
        return first

    def _give_up(self) -> None:
        """Drop what runs: the connection goes."""
        while self._running:
            begun = self._end_first().begun
            if not isinstance(begun, PendingAnswer):
                begun.close()
                continue
            for future in begun.futures:
                # The one that was waited for is cancelled already, with whoever waited.
                if not future.cancel() and not future.cancelled():
                    future.exception()  # nobody else asks, and asyncio would say so in the log

    async def _send(self, parts: Sequence[Part]) -> None:
        self._count(parts)
        pace = Pace(_WRITE_SLICE_SECONDS)
        for piece in _pieces(parts, self._answer_bytes):
            if self._transport is None:
                return
            self._transport.write(piece)
            self.service.traffic.sent_bytes += len(piece)
            if self._paused_writing:
                await self._wait_until_writable()
            await pace.turn()

    def _count(self, parts: Sequence[Part]) -> None:
        """Hold the memory of an answer until it is sent."""
        self._answer_bytes = sum(map(len, parts))
        if self._answer_bytes > FREE_BYTES and self._transport is not None:
            self._share.moved()
            held_bytes = self._held_bytes + self._framing.partial_bytes + self._answer_bytes
            self._share.resize(held_bytes, forced=True)

    async def _wait_until_writable(self) -> None:
        self._writable = self._loop.create_future()
        try:
            await asyncio.wait_for(self._writable, self.service.idle_seconds)
        except TimeoutError:
            raise Malformed("the client does not read its answers") from None

    # The end.

    @property
    def name(self) -> str:
        """The client, for the log."""
        return f"{self.client[0]}:{self.client[1]}"

    def _end(self, error: Exception) -> None:
        """Disconnect, and say why."""
        if self._closing or self.ended.is_set():
            return
        if isinstance(error, Malformed):
            log.warning("client disconnected", client=self.name, why=str(error))
        elif isinstance(error, FairleadError):
            log.warning("a request could not be answered; client disconnected", client=self.name, why=str(error))
        else:
            what = "a request failed for a reason that was not foreseen; client disconnected"
            log.error(what, client=self.name, exc_info=error)
        self.close()

    def _taken_too_long(self, far: bool) -> None:
        """Others wait for memory. Whoever does not send or take what it began to is given up; a request that we take
        long for is not its fault."""
        if self._transport is None:
            return
        sends = self._framing.partial_bytes > 0 and not self._paused_reading
        stalled = sends and self._loop.time() - self._active_at >= STALLED_SECONDS
        if stalled or (far and (sends or self._paused_writing)):
            self._end(Malformed("others wait for the memory that its request or answer holds, and it is too slow"))

    def _watch_idleness(self, delay_seconds: float) -> None:
        self._idle_timer = self._loop.call_later(delay_seconds, self._check_idleness)

    def _check_idleness(self) -> None:
        rest = self._active_at + self.service.idle_seconds - self._loop.time()
        if self._running:
            self._watch_idleness(self.service.idle_seconds)
        elif rest > 0:
            self._watch_idleness(rest)
        else:
            self.close()


def _is_produce(frame: memoryview) -> bool:
    return frame[0] == 0 and frame[1] == PRODUCE


def _pieces(parts: Sequence[Part], size_bytes: int) -> Iterator[Part]:
    """The parts in pieces near `_WRITE_BYTES`: small ones joined, large ones cut, both without needless copies."""
    if size_bytes < _WRITE_BYTES:
        if size_bytes:
            yield b"".join(parts)
        return
    small: list[Part] = []
    size = 0
    for part in parts:
        if len(part) >= _WRITE_BYTES:
            if small:
                yield b"".join(small)
                small, size = [], 0
            view = memoryview(part)
            yield from (view[start : start + _WRITE_BYTES] for start in range(0, len(view), _WRITE_BYTES))
            continue
        small.append(part)
        size += len(part)
        if size >= _WRITE_BYTES:
            yield b"".join(small)
            small, size = [], 0
    if small:
        yield small[0] if len(small) == 1 else b"".join(small)


def _address(name: Sequence[object] | str | None) -> tuple[str, int]:
    if isinstance(name, tuple) and len(name) >= 2:
        return str(name[0]), int(name[1])
    return "?", 0
