"""A lane at the destination: who carries it, where its partitions stand, and what happens when a transaction fails.

The lane's own transactional id guards it. In the lane's partition of the topic of positions stands of which origins it
has strands, written by transactions of the guard before a strand is opened for the first time. Whoever opens the lane
opens the guard first: nobody else can begin a strand of another origin any more. Then it opens the strand of each
origin that is read there, and reads again, until there is none that it has not opened. An open transaction hides only
what lies behind its first record, and its strand's origin lies before that: so no transaction is open then, and what is
read is all.

Before anything is sent through a strand, and before positions count as read, the guard writes once more. Who was taken
over meanwhile is fenced by that: it may have opened a strand after the other one had, and read too little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from fairlead.mirror.books.book import Position, origins_record, read_book
from fairlead.mirror.books.journal import Journal
from fairlead.mirror.books.plain import outgoing_of
from fairlead.mirror.exactly.strand import Strand
from fairlead.mirror.lanes import Part
from fairlead.mirror.names import positions_topic
from fairlead.mirror.patience import insisting
from fairlead.mirror.ports import Cluster
from fairlead.model.clock import Clock
from fairlead.model.errors import Aborted, BadRequest, Fenced

_PAUSE_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What the lanes of a mirror have in common."""

    cluster: Cluster
    """The destination."""
    name: str
    """Of the mirror."""
    clock: Clock
    enter: Callable[[int, str], Awaitable[None]]
    """Enters a producer id and its origin into the registry."""
    permit: Callable[[], Awaitable[None]]
    """Raises: Fenced: another process runs the mirror."""
    told: Callable[[str, int], None]
    """Hears what has gone wrong, and how many transactions have failed with that."""


class Carried(Protocol):
    """A partition that is carried in a lane."""

    part: Part

    def go_back(self, position: Position | None) -> None:
        """All that was under way is as if it never was; begin again there. None: the books say nothing of it. Raises:
        BadRequest: they have said something."""
        ...

    def give_up(self) -> None:
        """The same, and nothing more is carried."""
        ...


class Lane:
    """One of the sixteen; `run` is cancelled to stop it."""

    def __init__(self, ground: Ground, number: int) -> None:
        self.committed: dict[Part, Position] = {}
        """Where its partitions stand: as it was read when the lane was opened, and what was committed since."""
        self.barriers: dict[Part, tuple[int, str]] = {}
        """What begins at this offset of a partition was refused for good, and why."""
        self._ground = ground
        self._number = number
        self._id = f"fairlead-mirror.{ground.name}.{number}"
        self._topic = positions_topic(ground.name)
        self._guard = ground.cluster.transactional(self._id, None)
        self._strands: dict[str, Strand] = {}
        self._entered: frozenset[str] = frozenset()
        """Origins that stand in the lane's partition."""
        self._entering = asyncio.Lock()
        self._carried: dict[Part, Carried] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = False
        self._ended: asyncio.Queue[tuple[Strand, BaseException]] = asyncio.Queue()
        self._in_a_row = 0
        self._commits = 0
        """Of all strands, at the last failure."""

    async def open(self) -> Mapping[Part, Position]:
        """Become the one that carries the lane; where its partitions stand.

        Raises:
            NotAllowed: its transactional ids are not ours to use.
            BadRequest: its partition of the topic of positions is another program's, or takes no record.
            Fenced: another process runs the mirror.
            TryAgain
        """
        while True:
            try:
                return await self._open()
            except (Aborted, Fenced) as error:
                self._ground.told(f"lane {self._number}: {error}", 0)
                await self._ground.permit()
                await asyncio.sleep(_PAUSE_SECONDS_MAX / 5)

    async def _open(self) -> Mapping[Part, Position]:
        for strand in self._strands.values():
            strand.opened = False
        await self._guard.open()
        while True:
            records = await Journal(self._ground.cluster, self._topic, self._number, made=True).news()
            book = read_book(records, self._topic)
            fresh = [origin for origin in sorted(book.origins) if not self._strand(origin).opened]
            if not fresh:
                if book.origins:
                    await self._write(book.origins)
                self._entered = book.origins
                self.committed = dict(book.positions)
                return book.positions
            for origin in fresh:
                await self._open_strand(self._strand(origin))

    def strand(self, origin: str) -> Strand:
        """That of an origin; portions that are put there are carried as soon as it is open."""
        strand = self._strand(origin)
        if self._running and origin not in self._tasks:
            self._begin(strand)
        return strand

    def add(self, carried: Carried) -> None:
        """Tell it of what becomes of the lane, for good: what is fetched no more may have something under way."""
        self._carried[carried.part] = carried

    async def run(self) -> None:
        """Carry, and go back after each failure.

        Raises:
            Fenced: another process runs the mirror.
            BadRequest: it cannot go on.
        """
        try:
            while True:
                self._running = True
                for strand in self._strands.values():
                    self._begin(strand)
                strand, error = await self._ended.get()
                await self._halt()
                if not isinstance(error, (Aborted, Fenced)):
                    raise error
                self._tell(strand, error)
                await self._go_back()
        finally:
            await self._halt()
            self._drop()
            for carried in list(self._carried.values()):
                carried.give_up()

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        senders = [self._guard, *(strand.sender for strand in self._strands.values())]
        return next((sender.down for sender in senders if sender.down is not None), None)

    async def close(self) -> None:
        """Drop what is not committed."""
        for sender in (self._guard, *(strand.sender for strand in self._strands.values())):
            await sender.close()

    # ------------------------------------------------------------ strands

    def _strand(self, origin: str) -> Strand:
        found = self._strands.get(origin)
        if found is None:
            ground = self._ground

            async def enter(producer_id: int) -> None:
                await ground.enter(producer_id, origin)

            sender = ground.cluster.transactional(f"{self._id}.{origin}", enter)
            found = Strand(origin, sender, self._topic, self._number, ground.clock, self._heard)
            self._strands[origin] = found
        return found

    def _heard(self, positions: Mapping[Part, Position]) -> None:
        self.committed.update(positions)

    async def _open_strand(self, strand: Strand) -> None:
        await strand.sender.open()
        strand.opened = True

    def _begin(self, strand: Strand) -> None:
        task = asyncio.create_task(self._work(strand), name=f"mirror-{self._id}")
        self._tasks[strand.origin] = task

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._ended.put_nowait((strand, error))

        task.add_done_callback(ended)

    async def _work(self, strand: Strand) -> None:
        if not strand.opened:
            await insisting(lambda: self._enter(strand))
        await strand.run()

    async def _enter(self, strand: Strand) -> None:
        """Say that the lane has a strand of this origin, before it has one, and once it has."""
        async with self._entering:
            if strand.origin not in self._entered:
                wanted = self._entered | {strand.origin}
                await self._write(wanted)
                self._entered = wanted
        await self._open_strand(strand)
        async with self._entering:
            await self._write(self._entered)

    async def _write(self, origins: frozenset[str]) -> None:
        """Say which origins the lane has, in a transaction of the guard. Raises: BadRequest, Aborted, Fenced."""
        record = outgoing_of([origins_record(origins)], self._ground.clock.wall_ms())
        done = self._guard.send(self._topic, self._number, record)
        await asyncio.wait([done])
        error = done.exception()
        if isinstance(error, BadRequest):
            raise error
        await self._guard.commit()

    # ------------------------------------------------------------ failures

    def _tell(self, strand: Strand, error: BaseException) -> None:
        commits = sum(strand.commits for strand in self._strands.values())
        self._in_a_row = self._in_a_row + 1 if commits == self._commits else 1
        self._commits = commits
        why = str(error)
        if strand.too_slow:
            strand.shrink()
            why = (
                f"it was open for {strand.age_seconds:.0f} s, and the destination allows "
                f"{strand.sender.timeout_seconds:g} s (transaction.timeout.ms of the producer.config); smaller ones "
                f"follow, of {strand.bytes_max:,} bytes ({error})"
            )
        self._ground.told(f"lane {self._number}: a transaction has failed and is mirrored again: {why}", 1)

    async def _halt(self) -> None:
        self._running = False
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        while not self._ended.empty():
            self._ended.get_nowait()

    async def _go_back(self) -> None:
        """Begin again where the last transaction ended that was committed."""
        if self._in_a_row > 1:
            await asyncio.sleep(min(0.05 * 2**self._in_a_row, _PAUSE_SECONDS_MAX))
        await self._ground.permit()
        positions = await insisting(self.open)
        self._drop()
        for carried in list(self._carried.values()):
            carried.go_back(positions.get(carried.part))

    def _drop(self) -> None:
        for strand in self._strands.values():
            strand.drop()
