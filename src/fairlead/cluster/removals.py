"""The objects of deleted streams are removed in the background.

An entry GONE says which. It goes when they are gone for good: what a power failure brought back later, nobody would
know, and a single record would keep its pack for ever.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

import structlog

from fairlead.cluster.keys import GONE
from fairlead.model.errors import FairleadError
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.streamlog.writing.entries import delete_entry
from fairlead.streamlog.writing.shard import Shard

log = structlog.get_logger()

AGAIN_SECONDS: Final = 60.0
"""After this time a removal that failed is tried again."""


class Removals:
    """All that are under way in a cluster."""

    def __init__(self, storage: Storage, meta: Shard, executor: Executor) -> None:
        self._storage = storage
        self._meta = meta
        self._executor = executor
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    def begin(self, stream_id: bytes) -> None:
        """Remove what is left of a stream of which an entry says that it is gone."""
        task = asyncio.get_running_loop().create_task(self._remove(stream_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Finish what is being removed; what failed is left to the next start."""
        self._closing.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _remove(self, stream_id: bytes) -> None:
        while not await self._removed(stream_id):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), AGAIN_SECONDS)
                return

    async def _removed(self, stream_id: bytes) -> bool:
        """Try it once."""
        prefix = names.stream_prefix(stream_id) + "/"
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._storage.remove_all, prefix)
            await self._meta.submit(lambda draft: delete_entry(draft, GONE.key(stream_id)))
        except FairleadError as error:
            log.warning("a deleted stream is not removed yet", prefix=prefix, error=str(error))
            return False
        return True
