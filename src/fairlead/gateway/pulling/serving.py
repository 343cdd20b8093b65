"""What all questions of neighbours that lack records have in common: who may ask, and how many at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from fairlead.cluster.cluster import Cluster
from fairlead.model.envelope import error_envelope, http_status
from fairlead.model.errors import Busy, FairleadError
from fairlead.wire.messages import body_from_json, check_protocol
from fairlead.wire.waits import COMMAND_SECONDS

T = TypeVar("T")

WANTED_MAX: Final = 500
"""Partitions in one question."""
ANSWERS_MAX: Final = 4
"""Under way at a time."""
READ_MS: Final = 1000
"""What is read by then is answered: the asker takes a gateway that says nothing for dead."""
JSON: Final = "application/json"


class Room:
    """How many answers of a server are under way: each holds its bytes until the asker has taken them."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self) -> None:
        """Raises: Busy."""
        if self._taken >= ANSWERS_MAX:
            raise Busy(f"{ANSWERS_MAX} answers to other clusters that lack records are under way; try again")
        self._taken += 1

    def leave(self) -> None:
        """One is sent, or given up."""
        self._taken -= 1


class _Held(Response):
    """Leaves the room once it is sent."""

    def __init__(self, content: bytes | str, status: int, kind: str, room: Room) -> None:
        super().__init__(content, status, media_type=kind)
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                await super().__call__(scope, receive, send)
        finally:
            self._room.leave()


async def serve(
    request: Request, kind: type[T], answer: Callable[[Cluster, T], Awaitable[bytes | str]], media_type: str = JSON
) -> Response:
    """The answer to a question of that kind, or the envelope of an error."""
    cluster: Cluster = request.app.state.cluster
    room: Room = request.app.state.pull_room
    try:
        body = await request.body()
        check_protocol(body)
        asked = body_from_json(body, kind)
        room.take()
    except FairleadError as error:
        return Response(_envelope(error, cluster), http_status(error), media_type=JSON)
    try:
        return _Held(await answer(cluster, asked), 200, media_type, room)
    except FairleadError as error:
        return _Held(_envelope(error, cluster), http_status(error), JSON, room)
    except BaseException:
        room.leave()
        raise


def _envelope(error: FairleadError, cluster: Cluster) -> str:
    return json.dumps(error_envelope(error, cluster.clock.wall_ms()))
