"""What all questions of neighbours that lack records have in common: who may ask, and how many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from fairlead.cluster.cluster import Cluster
from fairlead.model.errors import Busy, Missing, StorageUnavailable
from fairlead.wire.messages import body_from_json, check_protocol
from fairlead.wire.waits import COMMAND_SECONDS

T = TypeVar("T")

_TRIES: Final = 3

WANTED_MAX: Final = 500
"""Partitions in one question."""
ANSWERS_MAX: Final = 4
"""Under way at a time."""
READ_MS: Final = 1000
"""What is read by then is answered: the asker takes a gateway that says nothing for dead."""


def while_merged(name: str, read: Callable[[], T]) -> T:
    """What `read` reads of a topic of that name, whose objects may be merged meanwhile. Blocking.

    Raises:
        StorageUnavailable: they are, each time. What `read` raises.
    """
    for _ in range(_TRIES):
        with suppress(Missing):
            return read()
    raise StorageUnavailable(f"topic {name}: its objects are merged again and again; try again")


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

    def __init__(self, content: bytes | str, kind: str, room: Room) -> None:
        super().__init__(content, media_type=kind)
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                await super().__call__(scope, receive, send)
        finally:
            self._room.leave()


async def serve(
    request: Request,
    kind: type[T],
    answer: Callable[[Cluster, T], Awaitable[bytes | str]],
    media_type: str = "application/json",
) -> Response:
    """The answer to a question of that kind."""
    cluster: Cluster = request.app.state.cluster
    room: Room = request.app.state.pull_room
    body = await request.body()
    check_protocol(body)
    asked = body_from_json(body, kind)
    room.take()
    try:
        return _Held(await answer(cluster, asked), media_type, room)
    except BaseException:
        room.leave()
        raise
