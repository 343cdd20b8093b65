"""uvicorn's HTTP protocol, which hands a connection over to links when it asks to leave HTTP on /gateway/apply.

Give it to uvicorn as `Config(http=HttpProtocol)`. All else is answered as ever; the path without the Upgrade gets 426
from `socket.router`.
"""

from __future__ import annotations

from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairlead.gateway.apply.socket import ApplyGateway, serve
from fairlead.wire.connection import ApplyStream
from fairlead.wire.framing import HELLO
from fairlead.wire.upgrade import ANSWER, APPLY_PATH, asks_to_upgrade


class HttpProtocol(H11Protocol):
    """One HTTP connection."""

    def _should_upgrade(self) -> bool:
        return self._leaves_http() or super()._should_upgrade()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """uvicorn's, for a request that is to be upgraded."""
        if self._leaves_http():
            self._hand_over()
        else:
            super().handle_websocket_upgrade(event)

    def _leaves_http(self) -> bool:
        scope = self.scope
        asked = (scope["method"], scope["http_version"], scope["raw_path"].decode("latin-1"))
        return asked == ("GET", "1.1", APPLY_PATH) and asks_to_upgrade(self.headers)

    def _hand_over(self) -> None:
        gateway: ApplyGateway = cast(Any, self.config.app).state.apply
        early, _ = self.conn.trailing_data
        stream = ApplyStream(HELLO)
        # uvicorn closes these when it stops, and waits for the tasks.
        self.connections.discard(self)
        self.connections.add(cast(Any, stream))
        self.transport.write(ANSWER)
        stream.take_over(self.transport, early, on_lost=cast(Any, self.connections).discard)
        task = self.loop.create_task(serve(stream, gateway), name="apply")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
