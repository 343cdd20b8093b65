"""The transactions of one lane with the batches of one origin, one after the other.

A transaction takes what comes for 200 ms, or up to 16 MB. Then its batches are waited for, the positions behind them
are written, and it is committed; meanwhile portions wait for the next. If one takes longer than the destination allows,
the next ones are smaller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from fairlead.mirror.books.book import Position, position_record
from fairlead.mirror.books.plain import batches_of
from fairlead.mirror.exactly.portions import Portion
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Transactional
from fairlead.model.clock import Clock
from fairlead.model.errors import BadRequest

TRANSACTION_SECONDS: Final = 0.2
TRANSACTION_BYTES: Final = 16 * 1024 * 1024
IDLE_SECONDS: Final = 1.0
"""So long may positions wait that have moved over nothing that is mirrored."""
_BYTES_LEAST: Final = 64 * 1024
_SLOW: Final = 0.5
"""Share of the time that a transaction may take, from which on it was too large."""
_QUICK: Final = 0.1


class Strand:
    """Portions of a lane whose batches have one origin; `run` is cancelled to stop it."""

    def __init__(
        self,
        origin: str,
        sender: Transactional,
        topic: str,
        lane: int,
        clock: Clock,
        heard: Callable[[Mapping[Part, Position]], None],
    ) -> None:
        """`topic` is that of the positions; `heard` is told which of them are committed."""
        self.origin = origin
        self.sender = sender
        self.opened = False
        """The transactional id is this process's."""
        self.commits = 0
        self.bytes_max = TRANSACTION_BYTES
        self._topic = topic
        self._lane = lane
        self._clock = clock
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Portion] = deque()
        self._urgent = 0
        """Of those that wait, so many must not wait long."""
        self._since = 0.0
        """When the first of those came."""
        self._taken: list[Portion] = []
        """Of the transaction that is open."""
        self._began: float | None = None
        self._news = asyncio.Event()

    def put(self, portion: Portion) -> None:
        """Carry one more portion."""
        if not self._queue:
            self._since = self._loop.time()
        self._queue.append(portion)
        self._urgent += not portion.waits
        self._news.set()

    def drop(self) -> None:
        """Forget all portions: none of them has taken effect."""
        portions = [*self._taken, *self._queue]
        self._taken.clear()
        self._queue.clear()
        self._urgent = 0
        self._began = None
        for portion in portions:
            portion.dropped()

    async def run(self) -> None:
        """Transactions, until it is cancelled.

        Raises:
            Aborted, Fenced: the one that was open has failed.
            BadRequest: positions cannot be written.
        """
        while True:
            await self._something_to_do()
            await self._transact()

    @property
    def age_seconds(self) -> float:
        """Of the transaction that is open, or has failed."""
        return 0.0 if self._began is None else self._loop.time() - self._began

    @property
    def too_slow(self) -> bool:
        """Whether that took about as long as it may."""
        return self.age_seconds >= _SLOW * self.sender.timeout_seconds

    def shrink(self) -> None:
        """Let transactions be smaller from now on."""
        self.bytes_max = max(self.bytes_max // 4, _BYTES_LEAST)

    # ------------------------------------------------------------ one transaction

    async def _something_to_do(self) -> None:
        while not self._urgent:
            rest = self._since + IDLE_SECONDS - self._loop.time() if self._queue else None
            if rest is not None and rest <= 0:
                return
            await self._more(rest)

    async def _transact(self) -> None:
        began = self._began = self._loop.time()
        size = 0
        while True:
            size = self._send_what_waits(size)
            rest = began + TRANSACTION_SECONDS - self._loop.time()
            if rest <= 0 or size >= self.bytes_max:
                break
            await self._more(rest)
        await self.sender.flush()
        positions = {portion.part: portion.position() for portion in self._taken}
        await self._write(positions)
        await self.sender.commit()
        self._heard(positions)
        if self.age_seconds < _QUICK * self.sender.timeout_seconds:
            self.bytes_max = min(self.bytes_max * 2, TRANSACTION_BYTES)
        self._began = None
        self.commits += 1
        taken, self._taken = self._taken, []
        for portion in taken:
            portion.committed()

    def _send_what_waits(self, size: int) -> int:
        """Send portions until there are `bytes_max` of them; how many bytes there are now."""
        while self._queue and (size < self.bytes_max or not self._queue[0].size_bytes):
            portion = self._queue.popleft()
            self._urgent -= not portion.waits
            self._since = self._loop.time()
            self._taken.append(portion)
            size += portion.size_bytes
            for send in portion.depart():
                done = self.sender.send(send.topic, send.partition, send.outgoing)
                done.add_done_callback(partial(portion.answered, send))
        return size

    async def _write(self, positions: Mapping[Part, Position]) -> None:
        """Write the positions, as part of the transaction."""
        records = [position_record(part, position) for part, position in positions.items()]
        sent = [self.sender.send(self._topic, self._lane, each) for each in batches_of(records, self._clock.wall_ms())]
        await asyncio.wait(sent)
        for done in sent:
            if isinstance(error := done.exception(), BadRequest):
                raise error

    async def _more(self, seconds: float | None) -> None:
        """Wait until something comes, at most so long."""
        self._news.clear()
        waiting = self._news.wait()
        try:
            await asyncio.wait_for(waiting, seconds)
        except TimeoutError:
            return
