"""One connection to a broker: requests out, answers in, in the order of the requests.

Answers are received in place (`protocol/framing.py`) and handed out as views. A connection ends once, and all that is
under way with it: with `Unanswered`, since nobody can know what the broker has done.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, cast

from fairlead.kafka.connecting.tls import refusal_of
from fairlead.kafka.connecting.versions import API_VERSIONS, FIRST_ASKED, Versions
from fairlead.model.addresses import Address
from fairlead.model.errors import FairleadError, Unanswered, another
from fairlead.protocol.framing import answer_framing
from fairlead.protocol.messages import (
    Fields,
    api_name,
    read_response,
    request_header_flexible,
    response_header_flexible,
    write_request,
)
from fairlead.protocol.wire import Malformed, Reader, string

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""Five times what a consumer asks for by default (`fetch.max.bytes`): one batch may be larger than that."""
_UNSUPPORTED_VERSION: Final = 35
_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")
_CORRELATION_MAX = 2**31 - 1

Piece = bytes | memoryview


class _Asked(NamedTuple):
    correlation_id: int
    tags: bool
    """The header of its answer ends in tagged fields."""
    at: float
    answer: asyncio.Future[memoryview]


class _Request(NamedTuple):
    api_key: int
    version: int
    body: Sequence[Piece]
    answer: asyncio.Future[memoryview]


class Connection(asyncio.BufferedProtocol):
    """A connection that is open, or has ended. `who` names its broker in messages."""

    def __init__(self, address: Address, client_id: str, answer_seconds: float, scratch: memoryview) -> None:
        """`scratch` is what its loop's connections are read into; it holds nothing between two reads."""
        self.who = f"broker {address}"
        self.ended = asyncio.Event()
        self.versions = Versions({}, self.who)
        """Known once `ask_versions` was answered."""
        self._client_id = string(client_id, False)
        self._answer_seconds = answer_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._framing = answer_framing(scratch, ANSWER_BYTES_MAX)
        self._asked: deque[_Asked] = deque()
        self._held: list[_Request] | None = None
        """What waits, while somebody is `alone`."""
        self._last_id = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def open(self) -> bool:
        """Whether it takes requests."""
        return self._transport is not None and not self.ended.is_set()

    # ------------------------------------------------------------ out

    def send(self, api_key: int, version: int, body: Sequence[Piece]) -> asyncio.Future[memoryview]:
        """Send a request in pieces, which must not change until they are answered. The future has the answer's body,
        or `Unanswered`."""
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        if self._transport is None or self.ended.is_set():
            answer.set_exception(Unanswered(f"{self.who}: the connection has ended"))
            return answer
        request = _Request(api_key, version, body, answer)
        if self._held is None:
            self._write(request)
        else:
            self._held.append(request)
        return answer

    def _write(self, request: _Request) -> None:
        assert self._transport is not None
        api_key, version, body, answer = request
        self._last_id = self._last_id % _CORRELATION_MAX + 1
        header = _HEADER.pack(api_key, version, self._last_id) + self._client_id
        if request_header_flexible(api_key, version):
            header += b"\0"
        length = len(header) + sum(map(len, body))
        tags = response_header_flexible(api_key, version)
        self._asked.append(_Asked(self._last_id, tags, self._loop.time(), answer))
        self._watch()
        self._transport.writelines([_LENGTH.pack(length) + header, *body])

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """What others send waits until the block ends; `call_alone` does not."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held or [], None
            for request in held:
                if self.open:
                    self._write(request)
                elif not request.answer.done():
                    request.answer.set_exception(Unanswered(f"{self.who}: the connection has ended"))

    async def call_alone(self, api_key: int, fields: Fields) -> Any:
        """The same as `call`, for whoever is `alone`. Raises: as `call`."""
        version = self.versions.of(api_key)
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        if not self.open:
            raise Unanswered(f"{self.who}: the connection has ended")
        self._write(_Request(api_key, version, [write_request(api_key, version, fields)], answer))
        return self.read(api_key, version, await answer)

    async def call(self, api_key: int, fields: Fields) -> Any:
        """Ask what is not hot; the answer is kio's class of the highest version that both sides speak.

        Raises:
            BadRequest: the broker takes no version that is spoken here; Unanswered; Malformed.
        """
        return await self.call_version(api_key, self.versions.of(api_key), fields)

    async def call_version(self, api_key: int, version: int, fields: Fields) -> Any:
        """The same in a version.

        Raises:
            Unanswered, Malformed: the connection has ended.
        """
        body = await self.send(api_key, version, [write_request(api_key, version, fields)])
        return self.read(api_key, version, body)

    def read(self, api_key: int, version: int, body: memoryview) -> Any:
        """The answer in `body`.

        Raises:
            Malformed: it is none; the connection has ended.
        """
        try:
            return read_response(api_key, version, body)
        except Malformed as error:
            raise self.refuse(f"its answer to {api_name(api_key)} is none: {error}") from None

    async def ask_versions(self, software_version: str) -> None:
        """Learn what the broker takes; the first thing to ask.

        Raises:
            Unanswered, Malformed.
        """
        fields = {"client_software_name": "fairlead", "client_software_version": software_version}
        body = [write_request(API_VERSIONS, FIRST_ASKED, fields)]
        data = await self.send(API_VERSIONS, FIRST_ASKED, body)
        if Reader(data).int16() == _UNSUPPORTED_VERSION:  # written in version 0, KIP-511
            answer = await self.call_version(API_VERSIONS, 0, {})
        else:
            answer = self.read(API_VERSIONS, FIRST_ASKED, data)
        taken = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}
        features = {each.name: each.max_version_level for each in getattr(answer, "finalized_features", ())}
        self.versions = Versions(taken, self.who, features)

    # ------------------------------------------------------------ from the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes, though they do the same.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._framing.space()

    def buffer_updated(self, nbytes: int) -> None:
        answers: list[memoryview] = []
        try:
            self._framing.filled(nbytes, answers)
            for answer in answers:
                self._take(answer)
        except Malformed as error:
            self.refuse(str(error))

    def _take(self, answer: memoryview) -> None:
        (correlation_id,) = _CORRELATION.unpack_from(answer)
        if not self._asked or self._asked[0].correlation_id != correlation_id:
            raise Malformed(f"an answer ({correlation_id}) to nothing that was asked")
        asked = self._asked.popleft()
        start = _CORRELATION.size
        if asked.tags:
            reader = Reader(answer, True, start)
            reader.skip_tags()
            start = reader.position
        if not asked.answer.done():
            asked.answer.set_result(answer[start:])

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        broke = Unanswered(f"{self.who}: the connection broke: {exc or 'the broker closed it'}")
        self._end(refusal_of(exc, self.who) or broke)

    # ------------------------------------------------------------ ends

    def close(self) -> None:
        """End it; what is under way is dropped."""
        self._end(Unanswered(f"{self.who}: the connection was closed"))

    def refuse(self, why: str) -> Malformed:
        """End it since the broker's bytes make no sense; the error to raise."""
        error = Malformed(f"{self.who}: {why}")
        self._end(error)
        return error

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._answer_seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._asked:
            return
        rest = self._asked[0].at + self._answer_seconds - self._loop.time()
        if rest > 0:
            self._timer = self._loop.call_later(rest, self._check)
            return
        self._end(Unanswered(f"{self.who} has not answered for {self._answer_seconds:g} s (request.timeout.ms)"))

    def _end(self, error: FairleadError) -> None:
        if self.ended.is_set():
            return
        self.ended.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        while self._asked:
            answer = self._asked.popleft().answer
            if not answer.done():
                answer.set_exception(another(error))
