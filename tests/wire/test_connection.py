"""The connection under /gateway/apply over real sockets, on both event loops: leaving HTTP, waiting, ending."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
import uvicorn
import uvloop
from fastapi import FastAPI
from tests.support import http_calls
from tests.support.apply_peer import ANSWER, REQUEST, PeerClosed, connect_apply, packed
from tests.support.waiting import WAIT_SECONDS, a_quiet_while, in_time, until

from fairlead.gateway.apply import http_protocol as apply_protocol
from fairlead.gateway.apply import socket as apply_socket
from fairlead.listening.guard import Guard
from fairlead.model.clock import SystemClock
from fairlead.model.errors import InvalidValue, Unreachable
from fairlead.replication.sink.dial import open_apply_wire
from fairlead.wire.connection import READ_AHEAD_BYTES, ApplyStream, Disconnected
from fairlead.wire.framing import FRAMES
from fairlead.wire.upgrade import check_answer

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
Serve = Callable[[ApplyStream], Awaitable[None]]
Loop = Callable[[], asyncio.AbstractEventLoop]


class _Server(uvicorn.Server):
    capture_signals = nullcontext  # type: ignore[assignment]


@asynccontextmanager
async def listener(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, uvicorn.Server]]:
    """An HTTP listener whose apply connections are served by `serve`."""

    async def served(stream: ApplyStream, gateway: Any) -> None:
        await serve(stream)

    monkeypatch.setattr(apply_protocol, "serve", served)
    app = FastAPI()
    app.include_router(apply_socket.router)
    app.state.apply = None
    app.state.guard = Guard(SystemClock())
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", http=apply_protocol.HttpProtocol, ws="none")
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", server
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, WAIT_SECONDS)


def run(loop: Loop, work: Awaitable[None]) -> None:
    """Run a test on this event loop."""

    async def limited() -> None:
        async with in_time():
            await work

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(limited())


@LOOPS
def test_frames_of_every_size_arrive_and_may_follow_the_request_at_once(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes behind the request are not lost; frames are sent in parts; the answers come back."""
    sizes = [0, 1, 100, 65_531, 65_536, 300_000, 5_000_000, *[50] * 3000]

    async def serve(stream: ApplyStream) -> None:
        stream.expect({**FRAMES, 0: 100})
        for _ in range(len(sizes)):
            message = await stream.receive()
            total = sum(memoryview(message.payload)[:1].tolist())
            await stream.send_text(f'{{"size": {len(message.payload)}, "first": {total}}}')

    async def work() -> None:
        async with listener(serve, monkeypatch) as (url, _):
            early = await connect_apply(url, REQUEST + packed("hello"))
            assert await early.recv() == '{"size": 5, "first": 104}'
            await early.close()
            async with open_apply_wire(url, 5) as wire:
                monkeypatch.setattr("fairlead.replication.sink.dial.from_json", lambda text, kinds: text)
                sending = asyncio.ensure_future(_send_all(wire, sizes))
                for size in sizes:
                    first = b"7" if size else b"0"
                    assert await wire.receive() == b'{"size": %d, "first": %s}' % (size, first)
                await sending
                assert wire.acknowledged_bytes > 0

    run(loop, work())


async def _send_all(wire: Any, sizes: list[int]) -> None:
    for size in sizes:
        third = size // 3
        await wire.send_frames([[b"\7" * third, bytearray(b"\7" * third), memoryview(b"\7" * (size - 2 * third))]])


@LOOPS
def test_nothing_is_read_while_messages_wait_to_be_taken(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender is held up by the kernel; when messages are taken again, all arrive."""
    streams: list[ApplyStream] = []
    go = asyncio.Event()

    async def serve(stream: ApplyStream) -> None:
        stream.expect(FRAMES)
        streams.append(stream)
        await go.wait()
        for number in range(100):
            assert bytes(memoryview((await stream.receive()).payload)[:1]) == bytes([number])
        await stream.send_text("done")

    async def work() -> None:
        async with listener(serve, monkeypatch) as (url, _):
            peer = await connect_apply(url)
            sending = asyncio.ensure_future(_send_numbered(peer))
            await a_quiet_while()
            assert not sending.done()
            assert streams[0].waiting_bytes <= READ_AHEAD_BYTES + 500_000
            go.set()
            assert await peer.recv() == "done"
            await sending
            await peer.close()

    run(loop, work())


async def _send_numbered(peer: Any) -> None:
    for number in range(100):
        await peer.send(bytes([number]) * 500_000)


@LOOPS
def test_a_listener_that_stops_ends_the_connections(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn knows them: it closes them and waits for what serves them."""
    ended: list[Exception] = []

    async def serve(stream: ApplyStream) -> None:
        try:
            await stream.receive()
        except Disconnected as error:
            ended.append(error)

    async def work() -> None:
        async with listener(serve, monkeypatch) as (url, server):
            peer = await connect_apply(url)
            assert len(server.server_state.connections) == len(server.server_state.tasks) == 1
        assert [str(error) for error in ended] == ["the server is stopping"]
        assert not server.server_state.connections
        with pytest.raises(PeerClosed):
            await peer.recv()
        await peer.close()

    run(loop, work())


@LOOPS
def test_small_messages_leave_at_once_in_both_directions(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm is off; and a machine that is gone is found out by the kernel."""
    seen: list[int] = []

    async def serve(stream: ApplyStream) -> None:
        seen.append(_no_delay(stream))
        await stream.send_text("{}")

    async def work() -> None:
        async with listener(serve, monkeypatch) as (url, _), open_apply_wire(url, 5) as wire:
            stream = wire._stream  # noqa: SLF001 - its socket is asked
            await stream.receive()
            seen.append(_no_delay(stream))

    run(loop, work())
    assert all(seen)
    assert len(seen) == 2


def _no_delay(stream: ApplyStream) -> int:
    assert stream.socket is not None
    assert stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@LOOPS
@pytest.mark.parametrize("said", [1, 5_000_000])
def test_the_last_word_is_heard_by_who_goes_on_sending(loop: Loop, said: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two messages, in the middle of one, and with messages that were never taken."""

    async def serve(stream: ApplyStream) -> None:
        stream.expect(FRAMES)
        await stream.receive()
        await asyncio.sleep(0.05)  # the peer sends more meanwhile; nobody here reads it
        await stream.finish("no")

    async def work() -> None:
        async with listener(serve, monkeypatch) as (url, server):
            peer = await connect_apply(url)
            for _ in range(5):
                await peer.send(bytes(said))
            await peer.send_raw(packed(bytes(3_000_000))[:-10])
            assert await peer.recv() == "no"
            await peer.send_raw(bytes(10))
            with pytest.raises(PeerClosed):
                await peer.recv()
            await peer.close()
            await until(lambda: not server.server_state.tasks)

    run(loop, work())


@LOOPS
def test_who_does_not_listen_to_the_last_word_is_cut_off(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given a while, and no more."""
    monkeypatch.setattr("fairlead.wire.connection.LINGER_SECONDS", 0.1)

    async def serve(stream: ApplyStream) -> None:
        await stream.finish("no")

    async def work() -> None:
        async with listener(serve, monkeypatch) as (url, server):
            peer = await connect_apply(url)
            await until(lambda: not server.server_state.connections)
            await peer.close()

    run(loop, work())


@LOOPS
def test_an_end_in_the_middle_of_a_message_is_named(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole ones before it are given first."""
    heard: list[object] = []

    async def serve(stream: ApplyStream) -> None:
        stream.expect(FRAMES)
        try:
            while True:
                heard.append(bytes((await stream.receive()).payload))
        except Disconnected as error:
            heard.append(str(error))

    async def work() -> None:
        async with listener(serve, monkeypatch) as (url, server):
            for cut in (3, 100_000):
                peer = await connect_apply(url)
                await peer.send_raw(packed(b"1") + packed(bytes(200_000))[:cut])
                await peer.close()
            await until(lambda: not server.server_state.tasks)

    run(loop, work())
    assert heard == [b"1", "the connection was closed in the middle of a message"] * 2


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Upgrade": "fairlead-apply"},
        {"Connection": "Upgrade", "Upgrade": "other"},
        {"Connection": "Upgrade", "Upgrade": "fairlead-apply", "Content-Length": "0"},
    ],
)
async def test_who_does_not_ask_to_leave_http_is_told_how(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """426 with the name of the protocol, and the listener goes on."""

    async def serve(stream: ApplyStream) -> None:
        raise AssertionError("it was upgraded")

    async with listener(serve, monkeypatch) as (url, _), http_calls.client() as http:
        for _ in range(2):
            answer = await http.get(url + "/gateway/apply", headers=headers)
            assert answer.status_code == 426
            assert answer.headers["upgrade"] == "fairlead-apply"
            assert "leaves HTTP" in answer.text
        with pytest.raises(Unreachable, match=r"no gateway of Fairlead.*404 Not Found"):
            async with open_apply_wire(url + "/elsewhere", 5):
                pass


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: fairlead-apply",
        b"HTTP/1.0 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: fairlead-apply",
        b"HTTP/1.1 101 Switching Protocols",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: fairlead-apply",
        b"HTTP/1.1 101 Switching Protocols\r\nnonsense\r\nConnection: Upgrade\r\nUpgrade: fairlead-apply",
        b"\xff\xfe",
    ],
)
def test_only_the_expected_answer_switches(answer: bytes) -> None:
    """Another status, another protocol, no HTTP at all."""
    check_answer(ANSWER.removesuffix(b"\r\n\r\n"))
    check_answer(b"HTTP/1.1 101 x\r\nserver: a\r\nupgrade: Fairlead-Apply\r\nconnection: keep-alive, Upgrade")
    with pytest.raises(InvalidValue):
        check_answer(answer)
