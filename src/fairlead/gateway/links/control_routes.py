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

from fairlead.gateway.links.catch_up import CatchUp
from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.gateway.links.grants.outbox import Outbox
from fairlead.gateway.links.replicator_life import ReplicatorLife
from fairlead.gateway.links.runner import LinkRunner
from fairlead.gateway.links.task_reports import TaskReports
from fairlead.model.conversation import Kinds, from_json
from fairlead.model.errors import InvalidValue
from fairlead.wire.control import (
    Done,
    Failed,
    KafkaReport,
    LeftWanted,
    LinksActive,
    ListObjects,
    Locate,
    PassingWanted,
    Progress,
    ReaderHello,
    ReadReport,
    ReplicatorState,
    SinkHello,
    SlicesRefused,
    TopicsWanted,
)
from fairlead.wire.first_of import first_of
from fairlead.wire.messages import READER_SAYS, REPLICATOR_SAYS, SINK_SAYS, to_json
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
    try:
        connected = tasks.new_reader(hello)
    except InvalidValue as error:
        await _end(socket, error)
        return
    try:
        tasks.reader_joined(connected)
        ended = await _converse(socket, connected, READER_SAYS, lambda message: _from_reader(tasks, connected, message))
    finally:
        tasks.reader_left(connected)
    await _end(socket, ended)


async def _from_reader(tasks: TaskReports, connected: ConnectedReader, message: object) -> None:
    match message:
        case ReadReport():
            tasks.read(connected, message)
        case ListObjects():
            connected.list_again(message)
        case TopicsWanted():
            connected.name_topics(message)
        case PassingWanted():
            connected.name_passing(message)
        case Locate():
            connected.heard()
            await connected.locate(message)
        case Done():
            tasks.done(connected, message)
        case KafkaReport():
            tasks.kafka(connected, message)
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
        ended = await _converse(socket, outbox, SINK_SAYS, lambda message: _from_sink(tasks, outbox, message))
    finally:
        tasks.sink_left(outbox)
    await _end(socket, ended)


async def _from_sink(tasks: TaskReports, sink: Outbox, message: object) -> None:
    match message:
        case Progress():
            tasks.progress(sink, message)
        case Failed():
            tasks.sink_failed(message)
        case SlicesRefused():
            tasks.sink_refused(message)
        case _:
            raise InvalidValue("a second hello")


@router.websocket("/control/replicator")
async def replicator(socket: WebSocket) -> None:
    """Tells the replicator how many links want to move data, and hears how it is; both now and at each change. Answers
    what a catch-up has left."""
    runner: LinkRunner = socket.app.state.links.runner
    life: ReplicatorLife = socket.app.state.links.replicator
    catch_up: CatchUp = socket.app.state.links.catch_up
    await socket.accept()
    process = b""

    async def heard(message: object) -> None:
        nonlocal process
        if isinstance(message, LeftWanted):
            outbox.put(await catch_up.left(message))
            return
        assert isinstance(message, ReplicatorState)
        process = message.process
        life.said(message)

    outbox = Outbox()

    def tell() -> None:
        outbox.put(LinksActive(runner.active, runner.waiting))

    unwatch = runner.watch(tell)
    tell()
    try:
        ended = await _converse(socket, outbox, REPLICATOR_SAYS, heard)
    finally:
        unwatch()
        life.gone(process)
    await _end(socket, ended)


async def _hello(socket: WebSocket, kinds: Kinds, kind: type[Any]) -> Any:
    """Accept, and return the first message; None if it is no hello and the connection was closed."""
    await socket.accept()
    try:
        message = from_json(await asyncio.wait_for(socket.receive_text(), HELLO_SECONDS), kinds)
    except InvalidValue as error:
        await _end(socket, error)
        return None
    except (TimeoutError, WebSocketDisconnect, KeyError):
        await _end(socket, None)
        return None
    if not isinstance(message, kind):
        await _end(socket, InvalidValue("the first message is not a hello"))
        return None
    return message


async def _converse(
    socket: WebSocket,
    outbox: Outbox | ConnectedReader,
    kinds: Kinds,
    heard: Callable[[object], Coroutine[Any, Any, None]],
) -> InvalidValue | None:
    """Until the other side leaves, or is given up: then the reason."""
    try:
        await first_of(_say(socket, outbox), _hear(socket, kinds, heard), outbox.until_lost())
    except InvalidValue as error:
        return error
    except (WebSocketDisconnect, KeyError, RuntimeError):
        pass
    return None


async def _say(socket: WebSocket, outbox: Outbox | ConnectedReader) -> None:
    while True:
        for message in await outbox.outgoing():
            await socket.send_text(to_json(message))


async def _hear(socket: WebSocket, kinds: Kinds, heard: Callable[[object], Coroutine[Any, Any, None]]) -> None:
    while True:
        await heard(from_json(await socket.receive_text(), kinds))


async def _end(socket: WebSocket, error: InvalidValue | None) -> None:
    """Close, if the other side has not."""
    if error is not None:
        log.warning("control connection ended", path=socket.url.path, error=str(error))
    with suppress(RuntimeError, WebSocketDisconnect):
        if error is None:
            await socket.close()
        else:
            await socket.close(POLICY_VIOLATION, str(error)[:120])
