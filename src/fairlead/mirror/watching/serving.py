"""The listener by which a mirror is watched."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from fairlead.listening.addresses import bind, check_exposure
from fairlead.listening.guard import Guard
from fairlead.listening.http import HttpListener, url_of
from fairlead.mirror.watching.looking import LOOK_SECONDS, Looking
from fairlead.mirror.watching.routes import build_app
from fairlead.mirror.watching.status import Watched
from fairlead.model.addresses import Address
from fairlead.model.clock import Clock

_MIRROR_IS_OPEN: Final = "a mirror has no users: anyone could see its topics and pause it"


@asynccontextmanager
async def watched(
    flows: Sequence[Watched], address: Address, clock: Clock, say: Callable[[str], None], *, insecure: bool
) -> AsyncIterator[None]:
    """The flows can be watched there until the block ends.

    Raises:
        NotAllowed: others than this machine could reach it, and that was not asked for.
        BadRequest: the port is taken, or there is no such host.
    """
    check_exposure(address, insecure, _MIRROR_IS_OPEN)
    (listening,) = bind(address, "HTTP", every_family=False)
    looking = Looking(clock)
    guard = Guard(clock, [address.host, socket.gethostname()])
    listener = HttpListener(build_app(flows, looking, clock, guard))
    await listener.start(listening)
    say(f"page, metrics, pause and resume: {url_of(listening, address, None)}/")
    looks = asyncio.create_task(_keep_looking(looking, flows))
    looks.add_done_callback(partial(_tell_end, say))
    try:
        yield
    finally:
        looks.cancel()
        await asyncio.gather(looks, return_exceptions=True)
        await listener.stop()


def _tell_end(say: Callable[[str], None], looks: asyncio.Task[None]) -> None:
    """They end with the mirror; else with a fault of the program."""
    if not looks.cancelled() and (error := looks.exception()) is not None:
        say(f"page and metrics: how far the sources are is looked at no more: {error!r}")


async def _keep_looking(looking: Looking, flows: Sequence[Watched]) -> None:
    while True:
        await looking.look([flow.mirror for flow in flows if flow.mirror is not None and not flow.ended])
        await asyncio.sleep(LOOK_SECONDS)
