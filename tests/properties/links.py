"""The links between four sites: what reads a source's log, makes frames and applies them is what runs in production
(`readers`); the frames in flight come in any order, more than once, damaged or never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from zlib import crc32

from tests.properties.model import IDS, LINKS, Link, Site
from tests.properties.readers import Conversation, ReadFrames, apply
from tests.properties.sites import NAMES, World
from tests.support.stepped import Stalled

from fairlead.model.errors import FairleadError
from fairlead.model.names import slice_of
from fairlead.protocol.batch import CRC_AT
from fairlead.replication.carried.referred import pieces_of
from fairlead.replication.carried.rows import LinkFrame, parse_address
from fairlead.replication.reader.grant_reader import FrameLimits
from fairlead.storage.memory import Crashed
from fairlead.streamlog.frames.codec import decode_frame, encode_frame
from fairlead.streamlog.numbers import slices_of_mask
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import GrantRun
from fairlead.wire.messages import Applied, Grant, RepairGrant, RepairPartition, StreamPlace

SLICES_USED = sorted({slice_of(name) for name in NAMES})
PIECE_ROWS = 2
"""Frames of more rows are applied in several pieces, and these in several commits."""
FRAME_BYTES = (400, 4_000_000)
REFER_BYTES = (300, 256 * 1024)
POSITION_BYTES = (0, 64_000_000)

DELAYS = (0.0, 0.0, 0.05)
"""Seconds of the stepped loop, from a source to its reader."""
UNANSWERED_FRAMES = 2
"""A standing grant waits when so many are on the way."""
READ_SECONDS = 10
"""Of the stepped loop: a grant that was told of commits has read them by then."""


class InFlight(NamedTuple):
    """A frame on its way, and where the frames of its grant ended then, by slice."""

    frame: LinkFrame
    ends: Mapping[int, int]


class Standing(NamedTuple):
    """A grant without an end, and the task that reads it."""

    talk: Conversation
    task: asyncio.Task[None]
    found: ReadFrames


class Links:
    """All links of a world. Every public method is one action."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sites = world.sites
        self._conversations: dict[Link, tuple[Conversation, asyncio.Task[None]]] = {}
        self._standing: dict[Link, Standing] = {}
        self._frames: dict[Link, list[InFlight]] = {link: [] for link in LINKS}
        self._runs = dict.fromkeys(LINKS, 1)
        self._grants = 0
        world.on_opened = self._lose_connections

    @property
    def standing(self) -> list[Link]:
        """Those with a grant that goes on."""
        return list(self._standing)

    def _lose_connections(self, site: Site) -> None:
        for link in LINKS:
            if link[0] == site.name:
                self.lose_connection(link)

    def send(self, link: Link, slices: Sequence[int], back: int, length: int | None, *, new_run: bool) -> None:
        """A task reads what it is granted; the frames are in flight from now on, though it may fail in the middle.

        It begins `back` commits before the recorded position, or, where that is negative, after the newest frame in
        flight, which a task with a window of frames does.
        """
        source = self._sites[link[0]]
        if new_run:
            self._runs[link] += 1
        starts = {each: self._start(link, each, back) for each in slices}
        end = (
            source.log.announced.end if length is None else min(source.log.announced.end, max(starts.values()) + length)
        )
        starts = {each: start for each, start in starts.items() if start <= end}
        if not starts:
            return
        grant, found = self._grant(link, starts, end), ReadFrames()
        self._read(link, lambda talk: talk.read(grant, source.storage, self._limits(), found))
        self._take(link, found)

    def _grant(self, link: Link, starts: dict[int, int], until: int | None) -> Grant:
        self._grants += 1
        source = self._sites[link[0]]
        return Grant(
            grant=self._grants,
            link=LINKS[link],
            run=GrantRun(1, self._runs[link]),
            source=place_of(link[0]),
            shard=0,
            destination=place_of(link[1]),
            forward="all",
            data_root=link[0],
            prefix="x",
            slices=starts,
            epochs=source.log.announced.epochs,
            end=source.log.announced.end,
            until=until,
            created=0,
        )

    def _take(self, link: Link, found: ReadFrames) -> None:
        """What a reader has handed on is in flight."""
        frames = found.take()
        self._world.note("sent", link, [crc32(frame.data) for frame in frames])
        self._frames[link] += [InFlight(frame, found.ends()) for frame in frames]

    def stand(self, link: Link) -> None:
        """A grant of all slices from their recorded positions on that is read as commits are announced, until the next
        one."""
        source = self._sites[link[0]]
        self._end_standing(link)
        self._runs[link] += 1
        starts = {each: self._start(link, each, 0) for each in SLICES_USED}
        grant, found = self._grant(link, starts, None), ReadFrames(UNANSWERED_FRAMES)
        talk = self._conversation(link)
        task = self._world.loop.create_task(talk.read(grant, source.storage, self._limits(), found))
        self._standing[link] = Standing(talk, task, found)
        self.announce(link)

    def lose_connection(self, link: Link) -> None:
        """Of a reader; what it knew goes with it."""
        self._end_standing(link)
        if link in self._conversations:
            self._world.loop.end([self._conversations.pop(link)[1]])

    def announce(self, link: Link) -> None:
        """The standing grant of a link hears of what its source has announced, and reads it."""
        if link not in self._standing:
            return
        source, standing = self._sites[link[0]], self._standing[link]

        async def read() -> None:
            if self._world.random.random() < 0.5:
                standing.found.answer()
            standing.talk.moved()
            await asyncio.wait([standing.task], timeout=READ_SECONDS)
            if standing.task.done():
                await standing.task
            assert standing.found.scanned_to() == source.log.announced.end or not standing.found.credit.settled

        self._read(link, lambda _: read())
        self._take(link, standing.found)
        if self._world.random.random() < 0.5:
            standing.talk.forget(standing.found.scanned_to())

    def _end_standing(self, link: Link) -> None:
        if link in self._standing:
            self._world.loop.end([self._standing.pop(link).task])

    def _conversation(self, link: Link) -> Conversation:
        if link not in self._conversations:
            talk = Conversation(self._sites[link[0]], lambda: self._world.random.choice(DELAYS))
            self._conversations[link] = talk, self._world.loop.create_task(talk.hear())
        return self._conversations[link][0]

    def _start(self, link: Link, slice_: int, back: int) -> int:
        position = self._sites[link[1]].log.announced.state.position((LINKS[link], 0, slice_))
        at = 0 if position is None else position.commit
        if back < 0:
            return max([at, *(each.ends.get(slice_, 0) for each in self._frames[link])])
        return max(0, at - back)

    def _limits(self) -> FrameLimits:
        choose = self._world.random.choice
        return FrameLimits(choose(FRAME_BYTES), choose(POSITION_BYTES), choose(REFER_BYTES))

    def _read(self, link: Link, work: Callable[[Conversation], Coroutine[Any, Any, None]]) -> None:
        """What fails ends the conversation, and with it the grant; what the task meets may stop the source's log."""
        source = self._sites[link[0]]
        try:
            self._world.loop.run(work(self._conversation(link)))
        except (Crashed, Stalled):
            assert source.storage.faults.dead, "a reader waits for what never comes"
            self._world.reopen(source.name, power_fails=False)
        except FairleadError as error:
            self._world.note("read failed", link, repr(error))
            self.lose_connection(link)
            self._world.reopen_stopped(source)
        self._world.check_tasks()

    def deliver(self, link: Link, which: int, count: int = 1, *, keep: bool, damage: bool) -> None:
        """Frames in flight arrive on one connection; they may arrive again, and a row of one may be damaged."""
        if not self._frames[link]:
            return
        which %= len(self._frames[link])
        frames = self._frames[link][which : which + count]
        if not keep:
            del self._frames[link][which : which + count]
        self._apply(link, [each.frame for each in frames], damage=damage)

    def _apply(self, link: Link, frames: Sequence[LinkFrame], *, damage: bool = False) -> None:
        """The sink reads what is referred to, as it sends; if that is gone the frames are dropped."""
        source, destination = (self._sites[name] for name in link)
        try:
            data = [self._bytes_of(source, frame) for frame in frames]
        except (Crashed, FairleadError) as error:
            self._world.note("dropped", link, repr(error))
            if source.storage.faults.dead:
                self._world.reopen(source.name, power_fails=False)
            return
        if damage:
            data = [*data[:-1], self._damaged(data[-1])]
        hello = parse_address(frames[-1].address).hello
        answers = self._world.lived(destination, apply(destination, hello, data, PIECE_ROWS))
        for answer in answers or ():
            if isinstance(answer, Applied):
                self._check_answer(link, answer)

    def _bytes_of(self, source: Site, frame: LinkFrame) -> bytes:
        pieces = self._world.loop.run(pieces_of(frame, lambda root: source.storage))
        return b"".join(pieces)

    def _check_answer(self, link: Link, answer: Applied) -> None:
        """No position is told that is not in the log."""
        positions = self._sites[link[1]].log.announced.state.positions(LINKS[link])
        for told in answer.slices:
            lowest = min(positions[told.shard, each].commit for each in slices_of_mask(told.slices))
            assert told.commit <= lowest, f"{link}: {told} is not recorded"

    def _damaged(self, data: bytes) -> bytes:
        """A frame whose checksum is right, with a row that was harmed before it was made."""
        frame = decode_frame(data)
        rows = list(frame.rows)
        batches = [place for place, row in enumerate(rows) if row.kind == Kind.BATCH]
        if batches:
            place = self._world.random.choice(batches)
            batch = bytearray(rows[place].batch)
            batch[-1] ^= 1
            batch[CRC_AT] ^= 1
            rows[place] = rows[place]._replace(batch=bytes(batch))
        return encode_frame(replace(frame, rows=rows))

    def repair(self, link: Link, *, lose: bool) -> None:
        """Bring partitions that are behind; `lose` loses all frames but the last, which is then empty."""
        source, destination = (self._sites[name] for name in link)
        self._runs[link] += 1
        for note in destination.log.announced.state.behind(LINKS[link]):
            topic = source.log.announced.state.by_incarnation(note.incarnation)
            if topic is None or note.conflict or note.partition >= topic.partitions:
                continue
            wanted = RepairPartition(topic.number, note.partition, note.end, note.reason)
            self._grants += 1
            grant = RepairGrant(
                grant=self._grants,
                link=LINKS[link],
                run=GrantRun(1, self._runs[link]),
                source=place_of(link[0]),
                shard=0,
                destination=place_of(link[1]),
                forward="all",
                data_root=link[0],
                prefix="x",
                partitions=(wanted,),
                epochs=source.log.announced.epochs,
                end=source.log.announced.end,
                created=0,
            )
            found = ReadFrames()
            self._read(link, lambda talk, g=grant, f=found: talk.repair(g, source.storage, self._limits(), f))  # type: ignore[misc]
            frames = found.take()
            self._world.note("repair", link, wanted, [crc32(frame.data) for frame in frames])
            if frames:
                self._apply(link, frames[-1:] if lose else frames)

    def settle(self) -> None:
        """Faults end, links go on: every replica comes to where A stands."""
        for site in self._sites.values():
            site.storage.faults.clear()
        for _ in range(3):
            for link in LINKS:
                self._runs[link] += 1
                self._frames[link].clear()
                self.send(link, SLICES_USED, 0, None, new_run=False)
                self.deliver(link, 0, len(self._frames[link]), keep=False, damage=False)
                self.repair(link, lose=False)
        self._world.check()
        self._world.model.check_equal()


def place_of(name: str) -> StreamPlace:
    """A site's stream."""
    return StreamPlace(name, "/s", IDS[name])
