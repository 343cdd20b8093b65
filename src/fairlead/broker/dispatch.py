"""API key and version → the handler, and its answer → bytes.

The table is the explicit list in `apis.py`; what is not in it is not offered by ApiVersions, and closes the
connection that asks for it, as Kafka does. ApiVersions alone answers a version that is too new, in the form of
version 0 (KIP-511).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import structlog
from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.pacing import Rests
from fairlead.protocol.messages import (
    api_name,
    known_versions,
    read_request,
    request_header_flexible,
    response_header_flexible,
    write_failure,
    write_response,
)
from fairlead.protocol.wire import Malformed, Reader, TooManyItems

log = structlog.get_logger(__name__)

_HEADER = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""

API_VERSIONS = 18
PRODUCE = 0

_LONG_BYTES = 32_000
_LONG_ITEMS = 1000
"""Reading this many bytes, or packing this many parts, takes some 10 ms."""

Part = bytes | bytearray | memoryview
T = TypeVar("T")


class Packed(NamedTuple):
    """An answer's body in pieces, already of the version in use; sent in order without being joined."""

    parts: Sequence[Part]


AnswerFields = Mapping[str, Any] | Packed | None


class PendingAnswer(NamedTuple, Generic[T]):
    """A request whose work was handed over when it came. Its answer is made once these futures are done, however they
    ended; None if there is none."""

    futures: Sequence[asyncio.Future[Any]]
    finish: Callable[[], T | None]


Submitted = PendingAnswer[Packed] | Coroutine[Any, Any, "Packed | None"]
"""What a handler gives; a coroutine if handing over so much takes several turns."""
Begun = PendingAnswer[list[Part]]
"""The same on its way out: the answer has its length and header in front, and is in pieces."""
Handled = Begun | Coroutine[Any, Any, list[Part] | None]
"""What becomes of a request: it was submitted, or the coroutine handles it."""
Handle = Callable[[RequestContext, Any], Awaitable[AnswerFields]]
Submit = Callable[[RequestContext, memoryview], Submitted]


class Header(NamedTuple):
    """The beginning of every request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str


@dataclass(frozen=True, slots=True)
class Api:
    """One API that is served."""

    key: int
    name: str
    versions: range
    raw: bool
    handle: Handle | None
    submit: Submit | None
    """Instead of `handle`, for an API whose requests run beside one another and take effect in their order."""


def api_of(module: ModuleType) -> Api:
    """The API that a handler module serves: the versions it names, of those that kio knows."""
    key: int = module.API_KEY
    known = known_versions(key)
    wanted: range = getattr(module, "VERSIONS", known)
    versions = range(max(known.start, wanted.start), min(known.stop, wanted.stop))
    return Api(
        key,
        api_name(key),
        versions,
        getattr(module, "RAW", False),
        getattr(module, "handle", None),
        getattr(module, "submit", None),
    )


def table_of(modules: Sequence[ModuleType]) -> dict[int, Api]:
    """The APIs of handler modules by key."""
    apis = {api.key: api for api in map(api_of, modules)}
    assert len(apis) == len(modules), "two handlers have one API key"
    return apis


def read_header(frame: memoryview, table: Mapping[int, Api]) -> tuple[Header, memoryview]:
    """The header of a request, and its body.

    Raises:
        Malformed: not a request, or of an API or version that is not served.
    """
    reader = Reader(frame)
    key, version, correlation_id, client_id_bytes = reader.numbers(_HEADER)
    api = table.get(key)
    if api is None:
        raise Malformed(f"API {key} ({api_name(key)}) is not served")
    if version not in api.versions and key != API_VERSIONS:
        raise Malformed(f"{api.name} v{version} is not served, only v{api.versions[0]} to v{api.versions[-1]}")
    client_id = reader.text(client_id_bytes) if client_id_bytes >= 0 else ""
    header = Header(key, version, correlation_id, client_id)
    if version in api.versions:
        reader.flexible = request_header_flexible(key, version)
        reader.skip_tags()
    return header, reader.buffer[reader.position :]


def begin(api: Api, ctx: RequestContext, correlation_id: int, body: memoryview) -> Handled:
    """Submit one request, or have it handled; see `answer`."""
    if api.submit is None:
        return answer(api, ctx, correlation_id, body)
    try:
        submitted = api.submit(ctx, body)
    except Exception as error:
        return failed(error)
    flexible = response_header_flexible(api.key, ctx.version)
    if isinstance(submitted, PendingAnswer):
        return PendingAnswer(submitted.futures, partial(_framed_answer, submitted.finish, correlation_id, flexible))
    return _framed_later(submitted, correlation_id, flexible)


def failed(error: Exception) -> Begun:
    """A request that fails in its turn: those before it get their answers."""
    return PendingAnswer((), partial(_raise, error))


def _raise(error: Exception) -> NoReturn:
    raise error


async def _framed_later(
    submitted: Coroutine[Any, Any, Packed | None], correlation_id: int, flexible: bool
) -> list[Part] | None:
    made = await submitted
    return None if made is None else framed(made.parts, correlation_id, flexible)


def _framed_answer(finish: Callable[[], Packed | None], correlation_id: int, flexible: bool) -> list[Part] | None:
    made = finish()
    return None if made is None else framed(made.parts, correlation_id, flexible)


async def answer(api: Api, ctx: RequestContext, correlation_id: int, body: memoryview) -> list[Part] | None:
    """Handle one request: the whole answer with its length and header in front, in pieces; None if there is none.

    Raises:
        Malformed: the body cannot be read. Whatever else leaves the handler is a fault and closes the connection.
    """
    assert api.handle is not None
    try:
        request: Any = body if api.raw else await _read(api, ctx, body)
        made = await api.handle(ctx, request)
    except TooManyItems as error:
        made = _refused(api, ctx, error)
    if made is None:
        return None
    parts: Sequence[Part] = made.parts if isinstance(made, Packed) else [await _write(api, ctx, made)]
    return framed(parts, correlation_id, response_header_flexible(api.key, ctx.version))


def _refused(api: Api, ctx: RequestContext, error: TooManyItems) -> Packed:
    """INVALID_REQUEST for a whole request that is too large; where an answer has no place for that, its connection ends
    with a line in the log: an answer for each item would be what the limit is to prevent."""
    body = write_failure(api.key, ctx.version, ErrorCode.invalid_request)
    if body is None:
        raise error
    log.warning("a request was refused", client=ctx.connection.id, api=api.name, why=str(error))
    return Packed([body])


async def _read(api: Api, ctx: RequestContext, body: memoryview) -> Any:
    """kio's request; a long one is read in a thread, so that nobody waits for another's hundred thousand partitions."""
    if len(body) < _LONG_BYTES:
        return read_request(api.key, ctx.version, body)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(ctx.packers, read_request, api.key, ctx.version, body, Rests())


async def _write(api: Api, ctx: RequestContext, made: Mapping[str, Any]) -> bytes:
    """The answer's bytes; a long one is packed in a thread."""
    if not _is_long(made):
        return write_response(api.key, ctx.version, made)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(ctx.packers, write_response, api.key, ctx.version, made, Rests())


def _is_long(made: Mapping[str, Any]) -> bool:
    """Whether an answer has many parts: those of its lists, and of the lists in these. Counted no further than that."""
    count = 0
    for items in _lists(made):
        count += len(items)
        for item in items:
            if count >= _LONG_ITEMS:
                return True
            if isinstance(item, Mapping):
                count += sum(map(len, _lists(item)))
    return count >= _LONG_ITEMS


def _lists(made: Mapping[str, Any]) -> list[Sequence[Any]]:
    return [value for value in made.values() if isinstance(value, list | tuple)]


def framed(parts: Sequence[Part], correlation_id: int, flexible: bool) -> list[Part]:
    """An answer's pieces with length and header in front."""
    header = correlation_id.to_bytes(4, "big", signed=True) + (b"\x00" if flexible else b"")
    length = len(header) + sum(map(len, parts))
    return [length.to_bytes(4, "big") + header, *parts]
