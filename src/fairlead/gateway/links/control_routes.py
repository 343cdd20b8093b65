"""The source server's control connections: /control/reader, /control/sink and, for the replicator, /control/replicator.

Each is a conversation of text messages (`messages.py`). A message that is not understood ends the connection with its
reason; the task comes back and says hello again. When a reader's connection ends, its grants end too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.gateway.links.grants.outbox import Outbox
from fairlead.gateway.links.replicator_life import ReplicatorLife
from fairlead.gateway.links.runner import LinkRunner
from fairlead.gateway.links.task_reports import TaskReports
from fairlead.model.errors import InvalidValue
from fairlead.wire.first_of import first_of
from fairlead.wire.messages import (
    READER_SAYS,
    REPLICATOR_SAYS,
    SINK_SAYS,
    Done,
    Failed,
    Kinds,
    LinksActive,
    ListObjects,
    Locate,
    Progress,
    ReaderHello,
    ReadReport,
    ReplicatorState,
    SinkHello,
    SliceRefused,
    TopicsWanted,
    from_json,
    to_json,
)
from fairlead.wire.waits import HELLO_SECONDS

log = structlog.get_logger()
router = APIRouter()

POLICY_VIOLATION = 1008


@router.websocket("/control/reader")
async def reader(socket: WebSocket) -> None:
    """Grants and announcements for one reader task."""
    tasks: TaskReports = socket.app.state.links.tasks
    hello = await _hello(socket, READER_SAYS, ReaderHello)
    if hello is None:
        return
    connected = ConnectedReader(socket.app.state.cluster, hello)
    try:
        tasks.reader_joined(connected)
        await _converse(
            socket, connected.outgoing, READER_SAYS, lambda message: _from_reader(tasks, connected, message)
        )
    finally:
        tasks.reader_left(connected)


async def _from_reader(tasks: TaskReports, connected: ConnectedReader, message: object) -> None:
    match message:
        case ReadReport():
            tasks.read(connected, message)
        case ListObjects():
            connected.list_again(message)
        case TopicsWanted():
            connected.name_topics(message)
        case Locate():
            await connected.locate(message)
        case Done():
            tasks.done(connected, message)
        case _:
            raise InvalidValue("a second hello")


@router.websocket("/control/sink")
async def sink(socket: WebSocket) -> None:
    """Progress and failures of one sink task; withdrawals for it."""
    tasks: TaskReports = socket.app.state.links.tasks
    if await _hello(socket, SINK_SAYS, SinkHello) is None:
        return
    outbox = Outbox()
    tasks.sink_joined(outbox)
    try:
        await _converse(socket, outbox.outgoing, SINK_SAYS, lambda message: _from_sink(tasks, message))
    finally:
        tasks.sink_left(outbox)


async def _from_sink(tasks: TaskReports, message: object) -> None:
    match message:
        case Progress():
            tasks.progress(message)
        case Failed():
            tasks.sink_failed(message)
        case SliceRefused():
            tasks.sink_refused(message)
        case _:
            raise InvalidValue("a second hello")


@router.websocket("/control/replicator")
async def replicator(socket: WebSocket) -> None:
    """Tells the replicator how many links want to move data, and hears how it is; both now and at each change."""
    runner: LinkRunner = socket.app.state.links.runner
    life: ReplicatorLife = socket.app.state.links.replicator
    await socket.accept()
    process = b""

    async def heard(message: object) -> None:
        nonlocal process
        assert isinstance(message, ReplicatorState)
        process = message.process
        life.said(message)

    outbox = Outbox()

    def tell() -> None:
        outbox.put(LinksActive(runner.active))

    unwatch = runner.watch(tell)
    tell()
    try:
        await _converse(socket, outbox.outgoing, REPLICATOR_SAYS, heard)
    finally:
        unwatch()
        life.gone(process)


async def _hello(socket: WebSocket, kinds: Kinds, kind: type[Any]) -> Any:
    """Accept, and return the first message; None if it is no hello and the connection was closed."""
    await socket.accept()
    try:
        message = from_json(await asyncio.wait_for(socket.receive_text(), HELLO_SECONDS), kinds)
    except InvalidValue as error:
        await _end(socket, error)
        return None
    except (TimeoutError, WebSocketDisconnect, KeyError):
        await _close(socket)
        return None
    if not isinstance(message, kind):
        await _end(socket, InvalidValue("the first message is not a hello"))
        return None
    return message


async def _converse(
    socket: WebSocket,
    outgoing: Callable[[], Coroutine[Any, Any, list[object]]],
    kinds: Kinds,
    heard: Callable[[object], Coroutine[Any, Any, None]],
) -> None:
    try:
        await first_of(_say(socket, outgoing), _hear(socket, kinds, heard))
    except InvalidValue as error:
        await _end(socket, error)
    except (WebSocketDisconnect, KeyError, RuntimeError):
        await _close(socket)


async def _say(socket: WebSocket, outgoing: Callable[[], Coroutine[Any, Any, list[object]]]) -> None:
    while True:
        for message in await outgoing():
            await socket.send_text(to_json(message))


async def _hear(socket: WebSocket, kinds: Kinds, heard: Callable[[object], Coroutine[Any, Any, None]]) -> None:
    while True:
        await heard(from_json(await socket.receive_text(), kinds))


async def _end(socket: WebSocket, error: InvalidValue) -> None:
    log.warning("control connection ended", path=socket.url.path, error=str(error))
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close(POLICY_VIOLATION, str(error)[:120])


async def _close(socket: WebSocket) -> None:
    """Close, if the other side has not."""
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close()
