"""How a process of a worker finds the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from websockets.asyncio.client import ClientConnection

from fairlead.model.errors import FairleadError
from fairlead.spark.control import RECONNECT_SECONDS, open_websocket


@asynccontextmanager
async def called(
    address: str, path: str, secret_file: str, over: asyncio.Event
) -> AsyncIterator[ClientConnection | None]:
    """A connection to the coordinator, however long it takes; None: `over` was set before there was one.

    One that has ended its mirror, while another mirror of its process goes on, is waited for: nobody else is disturbed.

    Raises:
        Unreachable: the connection was lost.
    """
    async with AsyncExitStack() as stack:
        socket: ClientConnection | None = None
        while socket is None and not over.is_set():
            try:
                socket = await stack.enter_async_context(open_websocket(address, path, secret_file))
            except FairleadError:
                with suppress(TimeoutError):
                    async with asyncio.timeout(RECONNECT_SECONDS):
                        await over.wait()
        yield socket
