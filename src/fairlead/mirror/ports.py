"""What a mirror asks of a Kafka cluster. `clusters.py` is the one that speaks Kafka; tests have one in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from fairlead.kafka.values import Acl
from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.configs import Setting
from fairlead.model.errors import FairleadError

EARLIEST: Final = -2
LATEST: Final = -1
"""The end for readers of committed records: the last stable offset."""
LOG_END: Final = -1001
"""The end for those who read all."""

LEADERS_SECONDS: Final = 10.0
"""So long is it waited for leaders on which the others do not depend."""
MOMENT_SECONDS: Final = 2.0
"""The same, where somebody asks again soon."""

CLUSTERS_OWN: Final = -1
"""As many replicas as is usual in the cluster."""


class Place(NamedTuple):
    """A partition of a topic, by its name."""

    topic: str
    partition: int


class Topic(NamedTuple):
    """What a cluster says of a topic."""

    name: str
    topic_id: bytes
    """16 bytes; zeros of a cluster that has no topic ids."""
    partitions: int
    internal: bool


class Group(NamedTuple):
    """A consumer group, as its cluster lists it."""

    node: int
    """The broker that keeps it."""
    protocol: str
    """`consumer` for those that subscribe to topics; "" for one that never had members."""
    state: str
    """`Empty`, `Stable`, …; "" where the cluster does not say."""
    kind: str
    """`classic`, `consumer`, `share`, …; "" where the cluster does not say."""


class Commit(NamedTuple):
    """What a group has committed of a partition."""

    offset: int
    metadata: str = ""


class Trouble(StrEnum):
    """Why a partition cannot be fetched from where it stands. What passes by itself is not told."""

    OUT_OF_RANGE = "out of range"
    """The position is below the log's start or above its end."""
    TRUNCATED = "truncated"
    """The log went on otherwise below the position."""
    UNKNOWN_TOPIC = "unknown topic"
    """The topic was deleted; maybe one of that name was made again."""
    REFUSED = "refused"


class Answer(NamedTuple):
    """What was fetched of one partition."""

    place: Place
    records: memoryview
    """Batches as they lie in the source's log; the last one may be cut."""
    aborted: Sequence[tuple[int, int]]
    """Producer id and first offset of each aborted transaction in `records`."""
    end: int
    """The last stable offset."""
    trouble: Trouble | None = None
    detail: str = ""
    diverged_at: int = -1
    """With TRUNCATED: where the log went on otherwise."""


class Feed(Protocol):
    """Fetches a set of partitions for as long as it is asked. What passes by itself, such as a leader that moves or a
    source that is away, it waits for."""

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        ...

    def assign(self, place: Place, topic_id: bytes, offset: int, epoch: int) -> None: ...

    def pause(self, place: Place) -> None: ...

    def resume(self, place: Place) -> None: ...

    def remove(self, place: Place) -> None: ...

    async def next(self) -> Sequence[Answer]:
        """What came; afterwards it goes on behind the last whole batch of each answer."""
        ...

    async def close(self) -> None: ...


class Sender(Protocol):
    """An idempotent producer. What passes by itself it tries again for ever, in order."""

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        ...

    def send(
        self, topic: str, partition: int, outgoing: Outgoing, *, in_order: bool = False
    ) -> asyncio.Future[int | None]:
        """Queue a batch. The future has its offset once it is durable (None: it is there, at an offset that nobody
        knows), or the error by which the destination refused it for good. One that is to be `in_order` fails by
        NotTried where another such one of its partition that was sent before it is refused."""
        ...

    async def close(self) -> None: ...


class Transactional(Protocol):
    """A producer of transactions, the only one of its transactional id once it is open. What passes by itself it waits
    for."""

    @property
    def timeout_seconds(self) -> float:
        """So long may a transaction be open."""
        ...

    @property
    def down(self) -> str | None:
        """What it waits for, if anything is away."""
        ...

    async def open(self) -> None:
        """Begin, or begin anew: what is open under the transactional id is ended without effect, and whoever had it
        before is fenced.

        Raises:
            NotAllowed, InvalidValue, TryAgain
        """
        ...

    def send(self, topic: str, partition: int, outgoing: Outgoing) -> asyncio.Future[int | None]:
        """Queue a batch of the transaction. The future has its offset, or why it was refused, which fails the
        transaction; `Aborted` or `Fenced` where that has failed."""
        ...

    async def flush(self) -> None:
        """Wait until all that was sent is answered."""
        ...

    async def commit(self) -> None:
        """Let all that was sent take effect. Raises: Aborted, Fenced: it has failed."""
        ...

    async def close(self) -> None: ...


class Cluster(Protocol):
    """A Kafka cluster. Raises: TryAgain where it does not answer."""

    @property
    def id(self) -> str: ...

    async def topics(self, names: Iterable[str] | None) -> Mapping[str, Topic]:
        """All topics, or those of the named that there are."""
        ...

    async def offsets(self, places: Iterable[Place], at: int) -> Mapping[Place, int]:
        """EARLIEST, LATEST, LOG_END, or where the first record is not older than `at` ms (LATEST, if none is)."""
        ...

    async def told_offsets(
        self, places: Iterable[Place], at: int, seconds: float = LEADERS_SECONDS
    ) -> Mapping[Place, int | FairleadError]:
        """The same but for times, of each, or why its leader has not told it within `seconds`."""
        ...

    async def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, Setting] | FairleadError]:
        """The settings of topics, or why they are not told."""
        ...

    async def alter_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> Mapping[str, FairleadError]:
        """Set settings of topics, or with None let them have their defaults again; why topics were refused that."""
        ...

    async def acls(self) -> Sequence[Acl]:
        """Who may do what with topics that are named.

        Raises:
            SwitchedOff: the cluster has no authorizer.
            NotAllowed
        """
        ...

    async def create_acls(self, acls: Sequence[Acl]) -> Mapping[Acl, FairleadError]:
        """Add to them; which were refused, and why."""
        ...

    async def create(
        self, topic: str, partitions: int, configs: Mapping[str, str], replication: int = CLUSTERS_OWN
    ) -> bool:
        """Make a topic with so many replicas; one that is there stays as it is. Whether it was made; also False where
        an attempt did it whose answer was lost."""
        ...

    async def grow(self, topic: str, partitions: int) -> None: ...

    async def committed(self, group: str, places: Iterable[Place]) -> Mapping[Place, int]: ...

    async def commit(self, group: str, offsets: Mapping[Place, tuple[int, int]]) -> None:
        """Commit (offset, leader epoch) for a group without members. Raises: NotAllowed: it has members; UnknownTopic:
        of a topic that there is not, once the others are committed."""
        ...

    async def groups(self) -> Mapping[str, Group]:
        """All consumer groups. Raises: NotAllowed."""
        ...

    async def commits_of(self, groups: Mapping[str, Group]) -> Mapping[str, Mapping[Place, Commit] | FairleadError]:
        """All that each of them has committed, or why we may not know."""
        ...

    async def commit_for(self, group: str, commits: Mapping[Place, Commit]) -> None:
        """Commit for a group without members. Raises: NotAllowed: it has members."""
        ...

    def feed(self, *, committed: bool = True) -> Feed: ...

    async def sender(self, on_id: Callable[[int], Awaitable[None]] | None) -> Sender:
        """A producer; `on_id` is awaited with each producer id before the first batch goes out with it."""
        ...

    async def has_transactions(self) -> bool: ...

    def transactional(self, transactional_id: str, on_id: Callable[[int], Awaitable[None]] | None) -> Transactional:
        """A producer of transactions, which is to be opened; `on_id` as for `sender`."""
        ...

    async def close(self) -> None: ...
