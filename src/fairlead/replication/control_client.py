"""Control connections of the replicator, to its own server's /control/…"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.model.conversation import Kinds
from fairlead.spark.control import Control, open_websocket
from fairlead.wire.messages import to_json


@asynccontextmanager
async def open_control(server_url: str, path: str, hears: Kinds, secret_file: str = "") -> AsyncIterator[Control]:
    """A control connection. The file is read each time, since a server that starts again has another secret.

    Raises:
        Unreachable: it cannot be opened, or broke while it was used.
        InvalidValue: the file holds no secret.
    """
    async with open_websocket(server_url, path, secret_file) as socket:
        yield Control(socket, hears, to_json)
