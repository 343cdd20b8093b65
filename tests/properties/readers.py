"""What runs between two sites: the source server's port, the readers of a Spark task, and the gateway's session.

All of it is what runs in production, on a loop without time and threads; only sockets and Spark are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.diverged import copy_tails
from fairlead.cluster.stream import Stream
from fairlead.cluster.topic_filter import LinkTopics
from fairlead.cluster.values import StreamSettings
from fairlead.gateway.apply.room import ApplyRoom
from fairlead.gateway.apply.session import ApplyCounts, ApplySession
from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.replication.credit import CreditPool, CreditWindow
from fairlead.replication.reader.grant_reader import FrameLimits, GrantReader
from fairlead.replication.reader.log_view import LogView
from fairlead.replication.reader.repair_reader import RepairReader
from fairlead.spark.packets import Packet
from fairlead.storage.interface import Storage
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.apply import Applied, ApplyHello, Refused
from fairlead.wire.control import (
    Announce,
    Grant,
    ListObjects,
    Locate,
    Located,
    Passing,
    PassingWanted,
    ReaderHello,
    ReadReport,
    RepairGrant,
    Topics,
    TopicsWanted,
)

CREDIT_BYTES = 1 << 30
FRAMES_MAX = 1 << 30


class HasShard(Protocol):
    """A site, whose shard is another after each opening."""

    @property
    def shard(self) -> Shard: ...

    @property
    def stream_id(self) -> bytes: ...

    @property
    def path(self) -> str: ...


class Unread:
    """Lines of a server's log that nobody reads."""

    def tail_copied(self, topic: str, partition: int, into: str, records: int) -> None:
        """As `OwnerLog.tail_copied`."""


@dataclass(frozen=True, slots=True)
class OneStream:
    """A site as a cluster and its stream."""

    site: HasShard

    @property
    def id(self) -> bytes:
        return self.site.stream_id

    @property
    def global_path(self) -> str:
        return self.site.path

    @property
    def owner_log(self) -> Unread:
        return Unread()

    def stream_by_id(self, stream: bytes) -> OneStream | None:
        return self if stream == self.site.stream_id else None

    def topics(self) -> Iterable[Topic]:
        return self.site.shard.state.topics()

    @property
    def settings(self) -> StreamSettings:
        return StreamSettings()

    def by_incarnation(self, incarnation: bytes) -> tuple[Shard, Topic] | None:
        found = self.site.shard.state.by_incarnation(incarnation)
        return None if found is None else (self.site.shard, found)

    def find_topic(self, name: str) -> Topic | None:
        return self.site.shard.state.by_name(name)

    def shard_for(self, name: str) -> Shard:
        return self.site.shard

    @property
    def shards(self) -> Sequence[Shard]:
        return [self.site.shard]

    @contextmanager
    def placing(self, link: bytes | None = None) -> Iterator[Callable[[bytes, str], int]]:
        """There is one shard."""
        yield lambda incarnation, name: 0

    def note_superseded(self, link: bytes, records: int) -> None:
        """Nobody asks how many."""


class ReadFrames:
    """What the reader of one grant hands on, and what its destination has answered of it."""

    def __init__(self, frames_max: int = FRAMES_MAX) -> None:
        self.credit = CreditWindow(CreditPool(2 * CREDIT_BYTES, CREDIT_BYTES, 2 * frames_max, frames_max))
        self.scanned_to: Callable[[], int] = lambda: 0
        self.ends: Callable[[], Mapping[int, int]] = dict
        """By slice, where the last frame that was handed on ends."""
        self.taken = 0
        """How many came with the last call of `take`."""
        self._at_once = frames_max == FRAMES_MAX
        self._frames: list[Packet] = []
        self._handed = (0, 0)

    def take(self) -> list[Packet]:
        """What came since the last call."""
        taken, self._frames = self._frames, []
        self.taken = len(taken)
        return taken

    def answer(self) -> None:
        """The destination has answered all."""
        self.credit.answered(*self._handed)

    async def hand_on(self, frame: Packet) -> None:
        """Takes a frame; answered at once where any number of them may wait."""
        self._frames.append(frame)
        self._handed = (self._handed[0] + 1, self._handed[1] + frame.size_bytes)
        if self._at_once:
            self.answer()


class Conversation:
    """A reader task's control connection with a source: what it knows outlives a grant."""

    def __init__(self, source: HasShard, delay_seconds: Callable[[], float]) -> None:
        """What the source says comes `delay_seconds` later."""
        self._delay_seconds = delay_seconds
        self._port = ConnectedReader(cast(Cluster, OneStream(source)), ReaderHello("w", 1))
        self._view = LogView(source.stream_id, 0, self._say)
        self._key = (source.stream_id, 0)
        self._reports: dict[int, ReadReport] = {}

    @property
    def heard(self) -> int:
        """What the source has said of its log goes up to this commit, cuts too."""
        return self._view.end

    async def read(
        self,
        grant: Grant,
        storage: Storage,
        limits: FrameLimits,
        found: ReadFrames,
        passing: LinkTopics | None = None,
    ) -> None:
        """Read a grant to its end, if it has one; `found` has what was handed on, also where this fails. `passing`:
        which topics it brings, if it is filtered.

        Raises:
            FairleadError: the storage failed; the connection ends and the grant with it.
        """
        self._port.grant(grant, passing)
        reader = GrantReader(grant, self._view, storage, found.credit, self._say, found.hand_on, limits)
        found.scanned_to = lambda: reader.scanned_to
        found.ends = lambda: self._ends(reader)
        try:
            await reader.run()
        finally:
            self._port.release(self._key)

    def _ends(self, reader: GrantReader) -> Mapping[int, int]:
        report = reader.report()
        if report is not None:
            self._reports[report.grant] = report
        return self._reports[reader.grant.grant].emitted

    def moved(self) -> None:
        """The source has announced commits."""
        self._port.moved(self._key)

    async def repair(self, grant: RepairGrant, storage: Storage, limits: FrameLimits, found: ReadFrames) -> None:
        """The same for a repair."""
        self._port.repair(grant)
        reader = RepairReader(grant, self._view, storage, found.credit, self._say, found.hand_on, limits)
        await reader.run()

    def forget(self, before: int) -> None:
        """No grant reads below this commit any more."""
        self._view.forget(before)

    async def _say(self, message: object) -> None:
        if isinstance(message, ReadReport):
            self._reports[message.grant] = message
        elif isinstance(message, ListObjects):
            self._port.list_again(message)
        elif isinstance(message, TopicsWanted):
            self._port.name_topics(message)
        elif isinstance(message, PassingWanted):
            self._port.name_passing(message)
        elif isinstance(message, Locate):
            await self._port.locate(message)

    async def hear(self) -> None:
        """What the source says, as long as the connection stands."""
        while True:
            messages = await self._port.outgoing()
            await asyncio.sleep(self._delay_seconds())
            for message in messages:
                if isinstance(message, Announce):
                    self._view.announce(message)
                elif isinstance(message, Topics):
                    self._view.topics(message)
                elif isinstance(message, Passing):
                    self._view.passing(message)
                elif isinstance(message, Located):
                    self._view.located(message)


async def copy_kept(site: HasShard) -> None:
    """What cuts of a site's log keep goes into the diverged topics.

    Raises:
        FairleadError: the storage failed.
    """
    await copy_tails(cast(Stream, OneStream(site)), site.shard)


async def apply(
    destination: HasShard, hello: ApplyHello, frames: Sequence[bytes], piece_rows: int, admission: Admission
) -> list[Refused | Applied]:
    """Frames on one connection to a gateway, one after the other, and what it answers.

    Raises:
        FairleadError: the connection failed.
    """
    stream = cast(Stream, OneStream(destination))
    session = ApplySession(stream, hello, CREDIT_BYTES, ApplyCounts(), ApplyRoom(CREDIT_BYTES), piece_rows)
    session.admission = admission
    for data in frames:
        await session.submit(data)
    await session.close()
    return await session.answers()
