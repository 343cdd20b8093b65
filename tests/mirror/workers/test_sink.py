"""What a sink says when it ends in order."""

from __future__ import annotations

import asyncio
from functools import partial

from tests.support.waiting import in_time
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from fairlead.mirror.workers.messages import SINK_HEARS, SINK_SAYS, Down
from fairlead.model.conversation import from_json, to_json
from fairlead.spark.control import Control


async def test_what_is_being_said_arrives_though_who_says_it_is_cut_off() -> None:
    """A report takes what has moved, and is not made again: only the wait for room may be cut off, behind its text."""
    listens, heard = asyncio.Event(), list[str | None]()

    async def hear(socket: ServerConnection) -> None:
        await listens.wait()
        async for text in socket:
            message = from_json(text, SINK_SAYS)
            assert isinstance(message, Down)
            heard.append(message.why)

    async with in_time(), serve(hear, "127.0.0.1", 0, compression=None, max_size=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}", compression=None) as socket:
            control = Control(socket, SINK_HEARS, partial(to_json, kinds=SINK_SAYS))
            said, waits = list[str](), False
            while not waits:
                said.append(f"{len(said)} " + "." * 1_000_000)
                saying = asyncio.create_task(control.send(Down(0, said[-1])))
                await asyncio.sleep(0)
                waits = not saying.done()
            saying.cancel()
            await asyncio.wait([saying])
            assert saying.cancelled()
            said.append("the end")
            ending = asyncio.create_task(control.send(Down(0, said[-1])))
            listens.set()
            await ending
            await socket.close()
            await socket.wait_closed()
        server.close()
        await server.wait_closed()
    assert heard == said
