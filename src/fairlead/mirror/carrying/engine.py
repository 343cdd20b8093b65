"""Who carries partitions from their sources to the destination, as sources know them: in this process, or on Spark.

A source says which partitions are to be carried and from where on, and decides what becomes of one that cannot be
fetched from where it stands. An engine fetches, rewrites and sends, and tells how far each partition is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from fairlead.mirror.books.book import Position
from fairlead.mirror.books.origins import Origins
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.exactly.lanes import Lanes
from fairlead.mirror.lanes import Part
from fairlead.mirror.ports import Answer, Feed, Sender
from fairlead.mirror.report import Tally


class Load(NamedTuple):
    """A partition that is to be carried; all that a process must know of it."""

    part: Part
    to: str
    route: Route
    limits: Limits
    begin: Position
    end: int
    """Where it ended when it was asked last."""
    recorded: int = -1
    """The offset of its position in the books; -1: it has none. Who writes positions itself carries it only if it finds
    the same."""


class Producers(Protocol):
    """The destination, as far as a carrier knows it."""

    async def open_sender(self, origin: str) -> None: ...

    def sender(self, origin: str) -> Sender: ...

    @property
    def lanes(self) -> Lanes | None:
        """What is sent goes through these, if each record is to arrive once."""
        ...

    async def enter(self, producer_id: int, origin: str) -> None:
        """Say in the registry that what that producer sends was first written in the cluster `origin`."""
        ...


class Fetched(Protocol):
    """A source, as far as a carrier knows it."""

    @property
    def id(self) -> str: ...

    def feed(self) -> Feed: ...


@dataclass(frozen=True, slots=True)
class Way:
    """From where to where a carrier carries, and who hears of it."""

    label: str
    """Of the source."""
    source: Fetched
    origins: Origins
    destination: Producers
    tally: Tally
    moved: Callable[[Standing], None]
    """Hears of each partition that has moved or was stopped."""
    worry: Callable[[Standing, int, Answer], Awaitable[None]]
    """Decides what becomes of a partition that cannot be fetched from the offset where it stands."""


class Carrier(Protocol):
    """Carries partitions of one source. What passes by itself it waits for."""

    @property
    def down(self) -> str | None:
        """What it waits for, if anything of the source is away."""
        ...

    async def open(self) -> None:
        """Begin. Raises: BadRequest, TryAgain."""
        ...

    def take(self, load: Load) -> Standing:
        """Carry one more partition."""
        ...

    def again(self, standing: Standing, offset: int) -> None:
        """Go on with a partition at another offset."""
        ...

    def remove(self, standing: Standing) -> None:
        """Fetch it no more; what is under way goes on."""
        ...

    def resume(self, standing: Standing) -> None:
        """Fetch one again that was removed, from where it stands."""
        ...

    def pause(self, paused: bool) -> None:
        """Hand nothing on until it is told to go on; what is under way is acknowledged."""
        ...

    async def look(self) -> bool:
        """Find out how far partitions are whose records the key deals (`Standing.frontier`, `ends`); whether it was, of
        all of them."""
        ...

    async def leave(self, standing: Standing) -> None:
        """Remove it, and wait until it says how far it has come and what is under way."""
        ...

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What is to run for as long as it carries. Raises: BadRequest: the registry of the source cannot be read."""
        ...

    async def drain(self) -> None:
        """Wait until what is under way is acknowledged; its work has ended."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Run:
    """The run of a mirror, as an engine knows it."""

    destination_id: str
    """Id of the cluster."""
    permit: Callable[[], Awaitable[None]]
    """Raises: Fenced: another process runs the mirror."""
    failed: Callable[[str, int], None]
    """Hears what has gone wrong, and how many transactions have failed with that."""


class Engine(Protocol):
    """Makes the carriers of a mirror."""

    @property
    def sends_here(self) -> bool:
        """Whether this process sends what is carried; then it alone has transactions, and writes all positions."""
        ...

    async def open(self, run: Run) -> None:
        """Before anything is carried. Raises: BadRequest: it cannot begin."""
        ...

    def carrier(self, way: Way) -> Carrier: ...

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What is to run for as long as the mirror does."""
        ...

    async def close(self) -> None: ...
