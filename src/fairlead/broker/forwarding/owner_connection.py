"""One ordered connection to the gateway of an owner: requests out, answers in, as many under way as there are.

It fails once, and all that is under way with it: nobody can know what the owner has taken. Nothing is kept but what
waits to be sent, which are views of the client's own requests, and little of that is handed to the socket at a time.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, cast

from fairlead.model.errors import FairleadError, Unanswered, Unreachable, another
from fairlead.model.length_prefixed import LengthPrefixed
from fairlead.protocol.produce import API_KEY
from fairlead.protocol.wire import Malformed
from fairlead.wire.connection import WRITE_BYTES
from fairlead.wire.forward import PRODUCE_VERSION

_READ_BYTES: Final = 16 * 1024
_ANSWER_BYTES_MAX: Final = 8_000_000
"""500 batches, each refused with the longest line that there is."""
_LENGTH: Final = struct.Struct(">i")
_ANSWER_HEADER: Final = struct.Struct(">ib")
"""Correlation id, no tags."""
_REQUEST_HEADER: Final = struct.Struct(">hhihb")
"""API key, version, correlation id, null for the client id, no tags."""

Open = Callable[[Callable[[asyncio.Transport, bytes], None]], Coroutine[Any, Any, None]]
"""Opens a connection to the owner and gives it to the one who asks. Raises: Unreachable."""


class _Asked(NamedTuple):
    correlation_id: int
    answer: asyncio.Future[memoryview]


class OwnerConnection(asyncio.BufferedProtocol):
    """Begins to open when it is made."""

    def __init__(self, open: Open, answer_seconds: float) -> None:
        self.ended = False
        """It takes nothing more."""
        self._answer_seconds = answer_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._writable = False
        self._unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0
        self._asked: deque[_Asked] = deque()
        self._last_id = 0
        self._cutter = LengthPrefixed(memoryview(bytearray(_READ_BYTES)), _LENGTH.size, _size_of)
        self._moved_at = 0.0
        """When the owner last answered or took something."""
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._on_ended: Callable[[OwnerConnection], object] | None = None
        self._opening = self._loop.create_task(self._open(open), name="forward")

    async def _open(self, open: Open) -> None:
        try:
            await open(self._take_over)
        except FairleadError as error:
            # It may have been taken over in the moment in which the wait for it ended: then what waited was sent.
            self._end(error if self._transport is None else Unanswered(str(error)))

    def _take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        self._transport = transport
        # uvloop chooses between its two ways of reading when reading begins.
        transport.pause_reading()
        transport.set_protocol(self)
        transport.set_write_buffer_limits(high=0)
        transport.resume_reading()
        if early:
            self._end(Unanswered("the owner's gateway spoke before it was asked"))
            return
        self.resume_writing()

    # ------------------------------------------------------------ out

    def ask(self, body: Sequence[bytes | memoryview]) -> asyncio.Future[memoryview]:
        """Send a Produce request. The future has the body of its answer, or the error: Unreachable if nothing was
        sent, else Unanswered."""
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        self._last_id = (self._last_id + 1) % 2**31
        if not self._asked:
            self._moved_at = self._loop.time()
        self._asked.append(_Asked(self._last_id, answer))
        header = _REQUEST_HEADER.pack(API_KEY, PRODUCE_VERSION, self._last_id, -1, 0)
        length = len(header) + sum(map(len, body))
        for part in (_LENGTH.pack(length) + header, *body):
            self._unsent.append(memoryview(part))
        self.unsent_bytes += _LENGTH.size + length
        self._watch()
        self._send()
        return answer

    def _send(self) -> None:
        while self._unsent and self._writable and self._transport is not None:
            chunk: list[memoryview] = []
            room = WRITE_BYTES
            while self._unsent and room:
                view = self._unsent.popleft()
                if len(view) > room:
                    self._unsent.appendleft(view[room:])
                    view = view[:room]
                room -= len(view)
                chunk.append(view)
            self.unsent_bytes -= WRITE_BYTES - room
            self._transport.write(chunk[0] if len(chunk) == 1 else b"".join(chunk))

    def pause_writing(self) -> None:
        """asyncio's."""
        self._writable = False

    def resume_writing(self) -> None:
        """asyncio's."""
        self._writable = True
        self._moved_at = self._loop.time()
        self._send()

    # ------------------------------------------------------------ in

    def get_buffer(self, sizehint: int) -> memoryview:
        """asyncio's."""
        return self._cutter.space()

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio's."""
        answers: list[memoryview] = []
        try:
            self._cutter.filled(nbytes, answers)
            for answer in answers:
                self._take(answer)
        except Malformed as error:
            self._end(Unanswered(f"the owner's gateway answered wrongly: {error}"))
        if self._closing and not self._asked:
            self._end(Unanswered("closed"))

    def _take(self, answer: memoryview) -> None:
        correlation_id, tags = _ANSWER_HEADER.unpack_from(answer)
        if not self._asked or (correlation_id, tags) != (self._asked[0].correlation_id, 0):
            raise Malformed("an answer to nothing that was asked")
        self._moved_at = self._loop.time()
        asked = self._asked.popleft()
        if not asked.answer.done():
            asked.answer.set_result(answer[_ANSWER_HEADER.size :])

    # ------------------------------------------------------------ ends

    def eof_received(self) -> bool:
        """asyncio's."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's."""
        self._end(Unanswered(f"the connection to the owner broke: {exc or 'it was closed'}"))

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._answer_seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._asked:
            return
        rest = self._moved_at + self._answer_seconds - self._loop.time()
        if rest > 0:
            self._timer = self._loop.call_later(rest, self._check)
            return
        what = f"the owner has not answered for {self._answer_seconds:g} s"
        self._end(Unreachable(what) if self._transport is None else Unanswered(what))

    def _end(self, error: FairleadError) -> None:
        """All that is under way fails with this error."""
        if self.ended:
            return
        self.ended = True
        self._opening.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._unsent.clear()
        self.unsent_bytes = 0
        while self._asked:
            answer = self._asked.popleft().answer
            if not answer.done():
                answer.set_exception(another(error))
        if self._on_ended is not None:
            self._on_ended(self)

    def close(self) -> None:
        """Drop what is under way."""
        self._end(Unanswered("closed"))

    def finish(self, on_ended: Callable[[OwnerConnection], object]) -> None:
        """End once all that was asked is answered, or nothing moves."""
        if not self._asked:
            self.close()
        self._closing, self._on_ended = True, on_ended
        if self.ended:
            on_ended(self)


def _size_of(view: memoryview, at: int) -> int:
    (length,) = _LENGTH.unpack_from(view, at)
    if not _ANSWER_HEADER.size <= length <= _ANSWER_BYTES_MAX:
        raise Malformed(f"an answer of {length:,} bytes")
    return cast(int, length)
