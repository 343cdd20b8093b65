"""The links between sites: what reads a source's log, makes frames and applies them is what runs in production
(`readers`); the frames in flight come in any order, more than once, damaged or never."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from zlib import crc32

from tests.properties.lines import InFlight, Line, Standing
from tests.properties.model import Site
from tests.properties.readers import Conversation, ReadFrames, apply, copy_kept
from tests.properties.shape import EVERYTHING, IDS, Link
from tests.properties.sites import World
from tests.support.stepped import Stalled

from fairlead.cluster.topic_filter import LinkTopics, TopicFilter
from fairlead.gateway.links.passing import passing_partitions
from fairlead.model.errors import FairleadError
from fairlead.model.names import SLICES
from fairlead.protocol.batch import CRC_AT
from fairlead.replication.carried.addresses import parse_address
from fairlead.replication.carried.referred import pieces_of
from fairlead.replication.reader.grant_reader import FrameLimits
from fairlead.spark.packets import Packet
from fairlead.storage.memory import Crashed
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.claims import hear
from fairlead.streamlog.applying.frame import forget_link
from fairlead.streamlog.applying.joining import join_links
from fairlead.streamlog.applying.outdated import note_heard, outdated_at
from fairlead.streamlog.frames.codec import decode_frame, encode_frame
from fairlead.streamlog.numbers import slices_of_mask
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.requests.diverged import tails
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import GrantRun, epoch_before
from fairlead.wire.apply import Applied, Refused
from fairlead.wire.control import Grant, RepairGrant, RepairPartition
from fairlead.wire.link_protocol import StreamPlace

PIECE_ROWS = 2
"""Frames of more rows are applied in several pieces, and these in several commits."""
MANY_ROWS = 20
TURNS = 12
"""Of the loop; about so many takes a frame."""
FRAME_BYTES = (400, 4_000_000)
REFER_BYTES = (300, 256 * 1024)
POSITION_BYTES = (0, 64_000_000)

T = TypeVar("T")
DELAYS = (0.0, 0.0, 0.05)
"""Seconds of the stepped loop, from a source to its reader."""
UNANSWERED_FRAMES = 2
"""A standing grant waits when so many are on the way."""
READ_SECONDS = 10
"""Of the stepped loop: a grant that was told of commits has read them by then."""


class Links:
    """All links of a world. Every public method is one action."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sites = world.sites
        self._lines = {link: Line(created=self._sites[link.source].log.announced.end) for link in world.shape.links}
        self._grants = 0
        self._sides = 0
        self.harmed: Collection[int] = (Kind.BATCH,)
        """Kinds of rows of which one may be damaged."""
        self.piece_rows: Sequence[int] = (PIECE_ROWS,)
        """Frames of more rows are applied in several pieces."""
        self.copies_meanwhile = False
        """Where frames arrive, tails are copied at the same time."""
        self.harm = 0.0
        """How often a frame is harmed that arrives where nobody has chosen so."""
        self.calm = False
        """Frames are cut as in production, no more at random."""
        self.answers = False
        """A source hears of owners only in answers to what it has sent of those before."""
        world.on_opened = lambda site: self._lose_connections(site, both_ways=False)
        world.on_rolled_back = lambda site: self._lose_connections(site, both_ways=True)

    @property
    def standing(self) -> list[Link]:
        """Those with a grant that goes on."""
        return [link for link, line in self._lines.items() if line.standing is not None]

    @property
    def busy(self) -> list[Link]:
        """Those with frames in flight."""
        return [link for link, line in self._lines.items() if line.frames and not line.cut]

    @property
    def whole(self) -> list[Link]:
        """Those whose ends reach each other."""
        return [link for link, line in self._lines.items() if not line.cut]

    @property
    def wire_ids(self) -> dict[Link, bytes]:
        """How each destination knows its links."""
        return {link: self.wire_id(link) for link in self._lines}

    def wire_id(self, link: Link) -> bytes:
        """How its destination knows it: a rescan, and a link that is made again, is another one."""
        line = self._lines[link]
        side = "side" if link.side else ""
        return hashlib.sha256(
            f"{link.source}{link.target}{side}{line.life}.{line.rescan}.{line.widened}".encode()
        ).digest()[:16]

    def frames_in_flight(self, link: Link) -> list[bytes]:
        """None of them may be referred to."""
        return [bytes(each.frame.data) for each in self._lines[link].frames]

    # The network, and people

    def _lose_connections(self, site: Site, *, both_ways: bool) -> None:
        for link, line in self._lines.items():
            if link.source == site.name or (both_ways and link.target == site.name):
                self.lose_connection(link)
            if both_ways and site.name in {link.source, link.target}:
                line.frames.clear()
                line.run += 1
            if both_ways and link.source == site.name:
                line.begin = min(line.begin, site.log.announced.end)

    def lose_connection(self, link: Link) -> None:
        """Of a reader; what it knew goes with it."""
        line = self._lines[link]
        self._end_standing(line)
        if line.conversation is not None:
            self._world.loop.end([line.conversation[1]])
            line.conversation = None

    def cut(self, link: Link) -> None:
        """The network between two sites: what is on its way is lost, and nothing comes until it heals."""
        self._world.note("cut", str(link))
        self._lines[link].cut = True
        self._lines[link].frames.clear()

    def heal(self, link: Link) -> None:
        """The network is whole again."""
        self._lines[link].cut = False

    def rescan(self, link: Link) -> None:
        """Somebody lets the link read its source's whole log again."""
        self._world.note("rescan", str(link))
        self.lose_connection(link)
        self._lines[link].rescan += 1
        if not link.side and self._side(link) in self._lines:
            self.rescan(self._side(link))

    def remake(self, link: Link, *, from_now: bool = False) -> None:
        """Somebody removes the link and makes it again; frames of the old one may still be on their way. `from_now`:
        what is there already does not go over it any more."""
        link = replace(link, side=False)
        self._world.note("remade", str(link))
        destination, line, old = self._sites[link.target], self._lines[link], self.wire_id(link)
        self.lose_connection(link)
        for _ in range(20):
            if isinstance(self._world.run(destination, lambda d: forget_link(d, old)), bool):
                break
        self._give_up(link)
        line.life += 1
        source = self._sites[link.source]
        line.created = source.log.announced.end
        line.begin = line.created if from_now else 0
        if from_now:
            self._world.model.leave_out(source)

    def refilter(self, link: Link, to: TopicFilter) -> None:
        """Somebody lets a link leave other topics out; if one may come that did not, a side copy begins."""
        self._world.note("refilter", str(link), to)
        before, side = self._filter(link).filter, self._side(link)
        self._give_up(link)
        if to.narrows(before):
            self.lose_connection(link)
            self._now_brings(link, LinkTopics(to))
            return
        self._sides += 1
        created, begin = self._sites[link.source].log.announced.end, self._lines[link].begin
        self._lines[side] = Line(life=self._sides, created=created, begin=begin)
        self._world.shape.filters.setdefault(side, []).append(LinkTopics(to, before))

    def _side(self, link: Link) -> Link:
        return replace(link, side=True)

    def _now_brings(self, link: Link, topics: LinkTopics) -> None:
        self._world.shape.filters.setdefault(link, [EVERYTHING]).append(topics)

    def _give_up(self, link: Link) -> None:
        """The side copy of a link, if it has one."""
        if self._side(link) in self._lines:
            self.lose_connection(self._side(link))
            del self._lines[self._side(link)]
            self._lines[link].until = None

    @property
    def widened(self) -> list[Link]:
        """Those into which topics come."""
        return [link for link in self._lines if self._side(link) in self._lines and not link.side]

    def with_sides(self) -> list[Link]:
        """All links, and the side copies that are under way."""
        return list(self._lines)

    def step(self, link: Link) -> None:
        """The next step of the side copy of a link, if it is time."""
        line, side = self._lines[link], self._side(link)
        copy, source = self._lines[side], self._sites[link.source]
        if line.until is None:
            self.lose_connection(link)  # nobody reads for it meanwhile
            line.until = copy.until = source.log.announced.end
            self.lose_connection(side)
        elif line.until > source.log.announced.end:
            self.refilter(link, self._filter(side).filter)  # the source was rolled back
        elif not line.cut and self.knows_history(link) and self.knows_history(side):
            self._end_side_copy(link, side, line.until)

    def _end_side_copy(self, link: Link, side: Link, until: int) -> None:
        """The destination says whether all is there, and then it is written down; there may be a crash between."""
        both = (self.wire_id(link), self.wire_id(side))
        line, copy = self._lines[link], self._lines[side]
        ends = [(until, epoch_before(self._sites[link.source].log.announced.epochs, until).id)]
        before, line.widened = line.widened, copy.life
        into, line.widened = self.wire_id(link), before
        told = self._world.run(self._sites[link.target], lambda d: join_links(d, both, into, ends) or True)  # type: ignore[func-returns-value]
        if told is not True or self._world.random.random() < 0.2:
            return
        for each in (link, side):
            self.lose_connection(each)
        late = [each.frame for each in (*line.frames, *copy.frames)]
        line.frames.clear()
        self._now_brings(link, LinkTopics(self._filter(side).filter))
        line.widened, line.until = copy.life, None
        line.run += 1
        del self._lines[side]
        if self._world.random.random() < 0.5:
            for wire_id in both:
                self._world.run(self._sites[link.target], lambda d, old=wire_id: forget_link(d, old))  # type: ignore[misc]
        for frame in late if self._world.random.random() < 0.5 else ():
            self._apply(link, [frame])

    def knows_history(self, link: Link) -> bool:
        """At contact: the source has all that the destination has applied. If it has not, it was rolled back, and the
        link stands still until somebody lets it read all again."""
        positions = self._sites[link.target].log.announced.state.positions(self.wire_id(link)).values()
        return all(self._sites[link.source].log.announced.knows(at.epoch_id, at.commit) for at in positions)

    # The source

    def send(self, link: Link, slices: Sequence[int], back: int, length: int | None, *, new_run: bool) -> None:
        """A task reads what it is granted; the frames are in flight from now on, though it may fail in the middle.

        It begins `back` commits before the recorded position, or, where that is negative, after the newest frame in
        flight, which a task with a window of frames does.
        """
        line, source = self._lines[link], self._sites[link.source]
        if new_run:
            line.run += 1
        if line.cut or not self.knows_history(link):
            return
        starts = {each: self._start(link, each, back) for each in slices}
        end = (
            source.log.announced.end if length is None else min(source.log.announced.end, max(starts.values()) + length)
        )
        if line.until is not None:
            end = min(end, line.until)
        starts = {each: start for each, start in starts.items() if start <= end}
        if not starts:
            return
        grant, found = self._grant(link, starts, end), ReadFrames()
        passing = self._filter(link) or None
        heard = grant.end if line.conversation is None else line.conversation[0].heard
        self._read(link, lambda talk: talk.read(grant, source.storage, self._limits(), found, passing))
        self._take(link, found)
        self._check_lives(source, line.frames[-found.taken :] if found.taken else [], heard)

    def _check_lives(self, source: Site, frames: Sequence[InFlight], heard: int) -> None:
        """What was cut below the commit up to which the reader had heard of cuts is not sent."""
        state = source.log.announced.state
        for each in frames:
            for row in decode_frame(each.frame.data).rows if not each.frame.referred else ():
                cuts = state.cuts_of(row.topic, row.partition) if row.kind == Kind.BATCH else ()
                later = [cut for cut in cuts if (row.commit, row.row) < (cut.commit, cut.row) and cut.commit < heard]
                dead = [cut for cut in later if row.base_offset >= cut.offset]
                assert not dead, f"{source.name} sends {row[:6]}, which is dead by {dead}"

    def _filter(self, link: Link) -> LinkTopics:
        return self._world.shape.filter_of(link)

    def _prefix(self, link: Link) -> str:
        return self._world.shape.prefixes_of(link)[-1]

    def _grant(self, link: Link, starts: dict[int, int], until: int | None) -> Grant:
        self._grants += 1
        source, line = self._sites[link.source], self._lines[link]
        return Grant(
            grant=self._grants,
            link=self.wire_id(link),
            run=GrantRun(1, line.run),
            source=place_of(link.source),
            shard=0,
            destination=place_of(link.target),
            forward=link.forward,
            data_root=link.source,
            prefix="x",
            slices=starts,
            epochs=source.log.announced.epochs,
            end=source.log.announced.end,
            topic_prefix=self._prefix(link),
            until=until,
            created=line.created,
            filtered=bool(self._filter(link)),
            record_end=line.until is not None and until == line.until,
            begin=line.begin,
        )

    def _take(self, link: Link, found: ReadFrames) -> None:
        """What a reader has handed on is in flight."""
        frames = found.take()
        self._world.note("sent", str(link), [crc32(frame.data) for frame in frames])
        self._lines[link].frames += [InFlight(frame, found.ends()) for frame in frames]

    def stand(self, link: Link) -> None:
        """A grant of all slices from their recorded positions on that is read as commits are announced, until the next
        one."""
        source, line = self._sites[link.source], self._lines[link]
        self._end_standing(line)
        if line.cut or not self.knows_history(link) or line.until is not None:
            return
        line.run += 1
        starts = {each: self._start(link, each, 0) for each in self._world.slices}
        grant, found = self._grant(link, starts, None), ReadFrames(UNANSWERED_FRAMES)
        talk = self._conversation(link)
        passing = self._filter(link) or None
        task = self._world.loop.create_task(talk.read(grant, source.storage, self._limits(), found, passing))
        line.standing = Standing(talk, task, found)
        self.announce(link)

    def announce(self, link: Link) -> None:
        """The standing grant of a link hears of what its source has announced, and reads it."""
        source, standing = self._sites[link.source], self._lines[link].standing
        if standing is None:
            return

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

    def _end_standing(self, line: Line) -> None:
        if line.standing is not None:
            self._world.loop.end([line.standing.task])
            line.standing = None

    def _conversation(self, link: Link) -> Conversation:
        line = self._lines[link]
        if line.conversation is None:
            talk = Conversation(self._sites[link.source], lambda: self._world.random.choice(DELAYS))
            line.conversation = talk, self._world.loop.create_task(talk.hear())
        return line.conversation[0]

    def _start(self, link: Link, slice_: int, back: int) -> int:
        position = self._sites[link.target].log.announced.state.position((self.wire_id(link), 0, slice_))
        at = 0 if position is None else position.commit
        if back < 0:
            return max([at, *(each.ends.get(slice_, 0) for each in self._lines[link].frames)])
        return max(0, at - back)

    def _limits(self) -> FrameLimits:
        if self.calm:
            return FrameLimits()
        choose = self._world.random.choice
        return FrameLimits(choose(FRAME_BYTES), choose(POSITION_BYTES), choose(REFER_BYTES))

    def _read(self, link: Link, work: Callable[[Conversation], Coroutine[Any, Any, None]]) -> None:
        """What fails ends the conversation, and with it the grant; what the task meets may stop the source's log."""
        source = self._sites[link.source]
        try:
            self._world.loop.run(work(self._conversation(link)))
        except (Crashed, Stalled):
            assert source.storage.faults.dead, "a reader waits for what never comes"
            self._world.reopen(source.name, power_fails=False)
        except FairleadError as error:
            self._world.note("read failed", str(link), repr(error))
            self.lose_connection(link)
            self._world.reopen_stopped(source)
        self._world.check_tasks()

    # The destination

    def deliver(self, link: Link, which: int, count: int = 1, *, keep: bool, damage: bool) -> None:
        """Frames in flight arrive on one connection; they may arrive again, and a row of one may be damaged."""
        flying = self._lines[link].frames
        if not flying or self._lines[link].cut:
            return
        which %= len(flying)
        frames = flying[which : which + count]
        if not keep:
            del flying[which : which + count]
        self._apply(link, [each.frame for each in frames], damage=damage)

    def held_back(self, link: Link) -> list[InFlight]:
        """All frames in flight, which come later."""
        late, self._lines[link].frames = self._lines[link].frames, []
        return late

    def let_come(self, link: Link, late: list[InFlight]) -> None:
        """These are in flight again."""
        self._lines[link].frames += late

    def lose(self, link: Link) -> None:
        """All frames in flight."""
        self._lines[link].frames.clear()

    def _apply(self, link: Link, frames: Sequence[Packet], *, damage: bool = False) -> None:
        """The sink reads what is referred to, as it sends; if that is gone the frames are dropped."""
        destination, work = self._sites[link.target], self._arriving(link, frames, damage=damage)
        if work is None:
            return
        if self.copies_meanwhile and tails(destination.log.announced.state) and self._world.random.random() < 0.5:
            work = _with_copies(destination, work)
        self._check_answers(link, frames, self._world.lived(destination, work))

    def meet(self, links: Sequence[Link], *, again: bool = False) -> None:
        """All that is new goes over these links, which have one destination, at the same moment. `again`: what the last
        of them brings comes twice, as when a task is followed by another one."""
        arriving: list[tuple[Link, list[Packet], Coroutine[Any, Any, list[Refused | Applied]]]] = []
        before, self.piece_rows = self.piece_rows, (MANY_ROWS,)
        for link in links:
            self.lose(link)
            self.send(link, self._world.slices, 0, None, new_run=True)
            frames = [each.frame for each in self._lines[link].frames]
            self.lose(link)
            frames *= 2 if again and link == links[-1] else 1
            work = self._arriving(link, frames, damage=False) if frames else None
            if work is not None:
                arriving.append((link, frames, work))
        self.piece_rows = before
        if arriving:
            destination = self._sites[links[0].target]
            answers = self._world.lived(destination, _together([work for _, _, work in arriving]))
            if isinstance(answers, list):
                for (link, frames, _), answer in zip(arriving, answers, strict=True):
                    self._check_answers(link, frames, answer)

    def _arriving(
        self, link: Link, frames: Sequence[Packet], *, damage: bool
    ) -> Coroutine[Any, Any, list[Refused | Applied]] | None:
        """What the destination does with frames that come on one connection; None if they are dropped."""
        source, destination = self._sites[link.source], self._sites[link.target]
        hello = parse_address(frames[-1].address).hello
        try:
            data = [
                self._bytes_of(source, frame)
                for frame in frames
                if parse_address(frame.address).hello.link == hello.link
            ]
        except (Crashed, FairleadError) as error:
            self._world.note("dropped", str(link), repr(error))
            if source.storage.faults.dead:
                self._world.reopen(source.name, power_fails=False)
            return None
        for each in data:
            sent = decode_frame(each)
            back = [row for row in sent.rows if IDS[link.target] in {row.origin, row.via}]
            assert sent.repair is not None or not back, f"{link}: rows go back"
            begin = self._lines[link].begin if hello.link == self.wire_id(link) else 0
            past = [row for row in sent.rows if row.kind == Kind.BATCH and row.commit < begin]
            assert not past, f"{link}: {past} were there before the link began"
            brought, told = self._world.model.given.may_have_brought, sent.topics.values()
            out = [each.name for each in told if not brought(link, each.incarnation, each.name)]
            assert not out, f"{link}: {out} are left out"
        if damage or (self.harm and not self.calm and self._world.random.random() < self.harm):
            data = [*data[:-1], self._damaged(data[-1])]
        admission = ANYBODY if link.peer == "own" else Admission(frozenset({IDS[link.source]}))
        aliases = link.target in self._world.shape.aliasing
        admission = replace(admission, aliases=aliases, prefix=hello.topic_prefix)
        rows = self.piece_rows[0] if len(self.piece_rows) == 1 else self._world.random.choice(self.piece_rows)
        return apply(destination, hello, data, rows, admission)

    def _check_answers(self, link: Link, frames: Sequence[Packet], answers: object) -> None:
        if isinstance(answers, list):
            wire_id = parse_address(frames[-1].address).hello.link
            for answer in answers:
                if isinstance(answer, Applied):
                    self._check_answer(wire_id, self._sites[link.target], answer)

    def _bytes_of(self, source: Site, frame: Packet) -> bytes:
        pieces = self._world.loop.run(pieces_of(frame, lambda root: source.storage))
        return b"".join(pieces)

    def _check_answer(self, wire_id: bytes, destination: Site, answer: Applied) -> None:
        """No position is told that is not in the log."""
        positions = destination.log.announced.state.positions(wire_id)
        for told in answer.slices:
            lowest = min(positions[0, each].commit for each in slices_of_mask(told.slices))
            assert told.commit <= lowest, f"{told} is not recorded"

    def _damaged(self, data: bytes) -> bytes:
        """A frame whose checksum is right, with a row that was harmed before it was made."""
        frame = decode_frame(data)
        rows = list(frame.rows)
        found = [place for place, row in enumerate(rows) if row.kind in self.harmed]
        if found:
            place = self._world.random.choice(found)
            batch = bytearray(rows[place].batch)
            batch[-1] ^= 1
            if rows[place].kind == Kind.BATCH:
                batch[CRC_AT] ^= 1
            rows[place] = rows[place]._replace(batch=bytes(batch))
        return encode_frame(replace(frame, rows=rows))

    def repair(self, link: Link, *, later: bool = False) -> None:
        """Bring partitions that are behind. `later`: the frames are in flight, where some may be lost or come late."""
        source, destination, line = self._sites[link.source], self._sites[link.target], self._lines[link]
        line.run += 1
        if line.cut or not self.knows_history(link):
            return
        noted = destination.log.announced.state.behind(self.wire_id(link))
        behind = [note for note in noted if not note.conflict]
        state, passing = source.log.announced.state, self._filter(link)
        for number, note in passing_partitions(state, passing, link.forward, behind):
            wanted = RepairPartition(number, note.partition, note.end, note.reason)
            self._grants += 1
            grant = RepairGrant(
                grant=self._grants,
                link=self.wire_id(link),
                run=GrantRun(1, line.run),
                source=place_of(link.source),
                shard=0,
                destination=place_of(link.target),
                forward=link.forward,
                data_root=link.source,
                prefix="x",
                partitions=(wanted,),
                epochs=source.log.announced.epochs,
                end=source.log.announced.end,
                topic_prefix=self._prefix(link),
                created=line.created,
                begin=line.begin,
            )
            found = ReadFrames()
            self._read(link, lambda talk, g=grant, f=found: talk.repair(g, source.storage, self._limits(), f))  # type: ignore[misc]
            frames = found.take()
            self._world.note("repair", str(link), wanted, [crc32(frame.data) for frame in frames])
            if later:
                line.frames += [InFlight(frame, {}) for frame in frames]
            elif frames:
                self._apply(link, frames)

    def hear(self, link: Link) -> None:
        """In its answer at contact a destination tells of owners that the source may not know, until it says that it
        has heard."""
        source, destination, told = self._sites[link.source], self._sites[link.target], self._told(link)
        if not told or link.peer != "own" or self._lines[link].cut:
            return
        heard = self._world.run(source, lambda d: hear(d, IDS[link.target], told, ANYBODY))
        if self.answers and isinstance(heard, int) and (self.calm or self._world.random.random() < 0.7):
            epochs = [(each.incarnation, each.epoch) for each in told]
            self._world.run(destination, lambda d: note_heard(d, source.stream_id, epochs))

    def _told(self, link: Link) -> list[TopicPayload]:
        source, state = self._sites[link.source], self._sites[link.target].log.announced.state
        if self.answers:
            return [payload_of(topic) for topic in outdated_at(state, source.stream_id)]
        both = ((state.by_incarnation(each.incarnation), each) for each in source.log.announced.state.topics())
        return [payload_of(known) for known, topic in both if known is not None and known.epoch > topic.epoch]

    def flow(self, link: Link) -> None:
        """All that is new goes over, and what is behind is brought."""
        self.hear(link)
        self._bring_all(link)

    def exchange(self, link: Link) -> None:
        """The same, but what the destination tells of owners comes with its answer."""
        self._bring_all(link)
        self.hear(link)

    def _bring_all(self, link: Link) -> None:
        self.bring(link)
        self.repair(link)

    def bring(self, link: Link, *, damage: bool = False) -> None:
        """All that is new goes over. With `damage` each frame comes by itself, and a row of each is harmed."""
        self.lose(link)
        slices = self._world.slices if self._lines[link].until is None else range(SLICES)
        self.send(link, slices, 0, None, new_run=True)
        for _ in range(len(self._lines[link].frames) if damage else 0):
            self.deliver(link, 0, 1, keep=False, damage=True)
        self.deliver(link, 0, len(self._lines[link].frames), keep=False, damage=False)


async def _together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    return await asyncio.gather(*works)


async def _with_copies(site: Site, work: Coroutine[Any, Any, T]) -> T:
    """The same, while tails are copied, which begins a little later."""
    applying = asyncio.ensure_future(work)
    for _ in range(site.log.announced.end % TURNS):
        await asyncio.sleep(0)
    await asyncio.gather(applying, copy_kept(site))
    return await applying


def place_of(name: str) -> StreamPlace:
    """A site's stream."""
    return StreamPlace(name, "/s", IDS[name])
