"""The reader task against a source server on a real socket and objects in a real directory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.replication.fakes import DESTINATION, LINK, RUN, SOURCE, FakeControl, fake_control, running
from tests.support.waiting import WAIT_SECONDS, in_time

from fairlead.model.errors import CorruptBatch
from fairlead.replication.carried.addresses import parse_address
from fairlead.replication.carried.objects import open_directory
from fairlead.replication.reader import grant_reader
from fairlead.replication.reader.task import ReaderSettings, ReaderTask
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.storage.local import LocalStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.frames.codec import decode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.objects import format
from fairlead.streamlog.rows import NO_COMMIT, NO_TOPIC, NO_TOPIC_SENT, Kind, Row
from fairlead.streamlog.values import DeadFrom, EpochRange, LogObject
from fairlead.wire.control import (
    Announce,
    Credit,
    Done,
    Grant,
    ListObjects,
    Locate,
    Located,
    ReaderHello,
    ReadReport,
    RepairGrant,
    RepairPartition,
    TopicName,
    Topics,
    TopicsWanted,
    Withdraw,
)
from fairlead.wire.link_protocol import StreamPlace

EPOCH = b"E" * 16
THIRD = b"T" * 16
PREFIX = names.shard_prefix(SOURCE, 0)
ONCE = ReaderSettings(once=True, once_quiet_seconds=0.2, once_first_seconds=10 * WAIT_SECONDS)
"""It ends soon after all is answered, and waits for grants as long as a busy machine may need."""


def row(commit: int, topic: int, offset: int, data: bytes = b"batch", **changes: Any) -> Row:
    """A record batch of one record."""
    fixed = (offset, offset, 0, offset, 0, SOURCE, None, NO_COMMIT)
    plain = Row(Kind.BATCH, topic, 0, *fixed, 1, 1, 1, 0, 0, commit, 0, data)
    return plain._replace(**changes)


class Site:
    """A shard in a directory, and the server's side of the conversation about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = LocalStorage(folder)
        self.objects: list[LogObject] = []
        self.cuts: tuple[DeadFrom, ...] = ()
        """What a repair is told of."""
        self.names = {number: TopicName(number, bytes([number % 256]) * 16, f"t{number}") for number in range(64)}

    def commit(self, *rows: Row) -> LogObject:
        """Store a commit."""
        number = rows[0].commit
        placed = [found._replace(row=place) for place, found in enumerate(rows)]
        name = names.commit(PREFIX, 1, number)
        self.storage.put_if_absent(name, format.encode(placed, name=name))
        self.objects.append(LogObject(name, number, number + 1, segment=False))
        return self.objects[-1]

    def grant(self, slices: dict[int, int], **changes: Any) -> Grant:
        """A grant of the shard."""
        end = self.objects[-1].end if self.objects else 0
        plain = Grant(
            grant=1,
            link=LINK,
            run=RUN,
            source=StreamPlace("a", "/s", SOURCE),
            shard=0,
            destination=StreamPlace("b", "/s", DESTINATION, ("http://127.0.0.1:1",)),
            forward="all",
            data_root=str(self.folder),
            prefix=PREFIX,
            slices=slices,
            epochs=(EpochRange(1, EPOCH, 0, None),),
            end=end,
        )
        return replace(plain, **changes)

    def announce(self, objects: Sequence[LogObject], *, reset: bool = False) -> Announce:
        """Objects up to the end of the last one."""
        return Announce(SOURCE, 0, objects[-1].end if objects else 0, tuple(objects), reset)

    def server(self, *first: object) -> Callable[[Any], list[object]]:
        """What the server says: `first` after the hello, and answers."""

        def on_message(message: Any) -> list[object]:
            if isinstance(message, ReaderHello):
                return list(first)
            if isinstance(message, TopicsWanted):
                return [Topics(SOURCE, 0, tuple(self.names[n] for n in message.numbers if n in self.names))]
            if isinstance(message, ListObjects):
                return [self.announce([known for known in self.objects if known.end > message.from_commit], reset=True)]
            if isinstance(message, Locate):
                end = self.objects[-1].end
                objects = tuple(self.objects)
                place = (message.number, message.partition, message.offset)
                return [Located(message.source, message.shard, *place, objects, end, self.cuts)]
            return []

        return on_message


class Taken:
    """What a reader hands on."""

    def __init__(self, control: FakeControl, settings: ReaderSettings | None = None) -> None:
        self.handover: Handover[Packet] = Handover(1 << 20)
        self.task = ReaderTask(control.url, "w", settings or ReaderSettings(), self.handover)

    async def frames(self, count: int) -> list[Frame]:
        """The next `count` frames."""
        found: list[Any] = []
        for _ in range(count):
            taken = await asyncio.to_thread(self.handover.take_some, WAIT_SECONDS, 0)
            assert taken, f"only {len(found)} of {count} frames came"
            (frame,) = taken
            assert parse_address(frame.address).link == LINK
            found.append(decode_frame(bytes(frame.data)))
        return found

    async def nothing(self, seconds: float = 0.2) -> None:
        """No frame comes for a while."""
        assert await asyncio.to_thread(self.handover.take_some, seconds, 0) == []


async def test_rows_of_all_slices_come_as_one_frame(tmp_path: Path) -> None:
    """With names, incarnations, commits, the epoch's id and the end of the log."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0), row(0, 2, 0))
    site.commit(row(1, 1, 1))
    start = site.server(site.grant({1: 0, 2: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert [(found.topic, found.base_offset) for found in frame.rows] == [(1, 0), (2, 0), (1, 1)]
    assert (frame.slices, frame.from_commit, frame.to_commit, frame.end) == (6, 0, 2, 2)
    assert [topic.name for topic in frame.topics.values()] == ["t1", "t2"]
    assert frame.epoch_id == EPOCH
    assert (frame.link, frame.run, frame.source) == (LINK, RUN, SOURCE)


async def test_slices_behind_are_brought_up_in_frames_of_their_own(tmp_path: Path) -> None:
    """Then one frame has all."""
    site = Site(tmp_path)
    for number in range(3):
        site.commit(row(number, 1, number), row(number, 2, number))
    start = site.server(site.grant({1: 1, 2: 2, 3: 2}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            apart = await taken.frames(2)
            await control.say(site.announce([site.commit(row(3, 2, 3))]))
            (together,) = await taken.frames(1)
    found = [(frame.slices, frame.from_commit, frame.to_commit, len(frame.rows)) for frame in (*apart, together)]
    assert found == [(2, 1, 3, 2), (12, 2, 3, 1), (14, 3, 4, 1)]


async def test_frames_of_a_slice_touch(tmp_path: Path) -> None:
    """A frame begins where the one before ended, over stretches without a row of its slice."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (first,) = await taken.frames(1)
            later = [site.commit(row(1, 2, 0)), site.commit(row(2, 2, 1)), site.commit(row(3, 1, 1))]
            await control.say(site.announce(later))
            (second,) = await taken.frames(1)
    assert first.to_commit == second.from_commit == 1
    assert second.to_commit == 4


async def test_what_an_earlier_grant_found_empty_is_not_read_again(tmp_path: Path) -> None:
    """Reading begins where the grant says, with the objects from there on; the frame where the destination stands."""
    site = Site(tmp_path)
    site.commit(row(0, 2, 0))
    site.commit(row(1, 1, 0))
    start = site.server(site.grant({1: 0}, read_from={1: 1}), site.announce(site.objects[1:], reset=True))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert (frame.from_commit, frame.to_commit) == (0, 2)
    assert control.all(ListObjects) == []


async def test_a_position_far_behind_is_brought_up_by_an_empty_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of the server would have all of it read again."""
    monkeypatch.setattr(grant_reader, "POSITION_COMMITS", 1)
    site = Site(tmp_path)
    for number in range(4):
        site.commit(row(number, 2, number))
    start = site.server(site.grant({1: 0, 3: 2}, read_from={1: 3, 3: 3}), site.announce(site.objects[3:], reset=True))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            frames = await taken.frames(2)
            await taken.nothing()
    found = [(frame.slices, frame.from_commit, frame.to_commit, len(frame.rows)) for frame in frames]
    assert found == [(2, 0, 4, 0), (8, 2, 4, 0)]


async def test_nothing_is_read_beyond_the_announced_end(tmp_path: Path) -> None:
    """A commit that lies in the directory and was not announced does not exist."""
    site = Site(tmp_path)
    first = site.commit(row(0, 1, 0))
    site.commit(row(1, 1, 1))
    start = site.server(site.grant({1: 0}), site.announce([first]))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
            await taken.nothing()
    assert [found.commit for found in frame.rows] == [0]


async def test_rows_are_not_sent_where_they_came_from(tmp_path: Path) -> None:
    """Not to their origin, not back along their link, and local rows to nobody."""
    site = Site(tmp_path)
    site.commit(
        row(0, 1, 0, origin=DESTINATION),
        row(0, 1, 1, via=DESTINATION, origin=THIRD),
        row(0, 1, 2, via=THIRD, origin=THIRD),
        row(0, NO_TOPIC, 0, kind=Kind.POSITION),
        row(0, 1, 3),
    )
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert [found.base_offset for found in frame.rows] == [2, 3]


async def test_rows_of_no_topic_are_sent_with_their_slice(tmp_path: Path) -> None:
    """Their numbers mean no topic, so nobody is asked for their names; a later program may have written them."""
    site = Site(tmp_path)
    later = [row(0, NO_TOPIC_SENT + slice, 0, b'{"v":1,"k":"k"}', kind=100, partition=-1) for slice in (1, 2)]
    site.commit(*later)
    site.commit(row(1, 1, 3))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert [(found.kind, found.topic) for found in frame.rows] == [(100, NO_TOPIC_SENT + 1), (Kind.BATCH, 1)]
    assert list(frame.topics) == [1]


async def test_forward_own_sends_what_was_first_written_here(tmp_path: Path) -> None:
    """Rows that came by any link are left out."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0, via=THIRD, origin=THIRD), row(0, 1, 1))
    start = site.server(site.grant({1: 0}, forward="own"), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert [found.base_offset for found in frame.rows] == [1]


async def test_dead_rows_are_not_sent_once_the_reader_knows_of_the_cut(tmp_path: Path) -> None:
    """In whichever later commit it is. Rows that were read before are sent: the other end drops them as superseded."""
    site = Site(tmp_path)
    first = site.commit(row(0, 1, 0), row(0, 1, 1), row(0, 1, 2))
    told = site.announce([first])
    async with fake_control(site.server(site.grant({1: 0}), told)) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
            assert [found.base_offset for found in frame.rows] == [0, 1, 2], "nobody has told it of a cut"
            cut = Kind.TRUNCATE
            late = [site.commit(row(1, 1, 3)), site.commit(row(2, 1, 1, kind=cut, data=b"")), site.commit(row(3, 1, 1))]
            await control.say(replace(site.announce(late), cuts=((1, 0, 1, 2, 0),)))
            (frame,) = await taken.frames(1)
            assert [(found.commit, found.base_offset) for found in frame.rows] == [(3, 1)]


async def test_a_log_of_only_local_rows_sends_nothing_and_is_reported_read(tmp_path: Path) -> None:
    """Two idle clusters exchange no frames for their positions."""
    site = Site(tmp_path)
    site.commit(row(0, NO_TOPIC, 0, kind=Kind.POSITION))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            await control.until(lambda: any(r.slices == {1: 1} for r in control.all(ReadReport)))
            await taken.nothing(0.1)
    assert control.all(ReadReport)[-1].emitted == {}


async def test_an_empty_frame_moves_the_position_over_a_long_stretch(tmp_path: Path) -> None:
    """After `position_bytes` of the log without a row of a slice its position is moved."""
    site = Site(tmp_path)
    site.commit(row(0, 2, 0, bytes(5000)))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control, ReaderSettings(position_bytes=4000))
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert (frame.slices, frame.from_commit, frame.to_commit, list(frame.rows)) == (2, 0, 1, [])


async def test_a_missing_object_is_asked_for_again(tmp_path: Path) -> None:
    """The commit was merged away: the reader asks, gets the new names, and loses nothing."""
    site = Site(tmp_path)
    gone = LogObject(names.commit(PREFIX, 1, 0), 0, 1, segment=False)
    stale = Announce(SOURCE, 0, 1, (gone,))
    placed = [row(0, 1, 0)]
    name = names.segment(PREFIX, bytes(16))
    site.storage.put_if_absent(name, format.encode(placed, name=name, object_kind="segment"))
    site.objects.append(LogObject(name, 0, 1, segment=True))
    async with fake_control(site.server(site.grant({1: 0}), stale)) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert [found.base_offset for found in frame.rows] == [0]
    assert control.all(ListObjects) == [ListObjects(SOURCE, 0, 0)]


@pytest.mark.parametrize("kind", [Kind.TOPIC, Kind.TOPIC_DELETED])
async def test_a_row_that_cannot_be_read_holds_up_its_own_grant_only(tmp_path: Path, kind: Kind) -> None:
    """Its reader looks again now and then, as with any damage; the other grants of the task go on."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0, b"no payload", kind=kind), row(0, 2, 0))
    sound = site.grant({2: 0}, grant=2)
    start = site.server(site.grant({1: 0}), sound, site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (first,) = await taken.frames(1)
            await control.until(lambda: bool(control.all(ListObjects)))
            await control.say(site.announce([site.commit(row(1, 2, 1))]))
            (second,) = await taken.frames(1)
    assert [found.base_offset for frame in (first, second) for found in frame.rows] == [0, 1]
    assert len(control.all(ReaderHello)) == 1


async def test_what_stands_before_a_row_that_cannot_be_read_is_handed_on(tmp_path: Path) -> None:
    """It waited for ever behind what only an operator mends."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    site.commit(row(1, 1, 0, b"no payload", kind=Kind.TOPIC))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control, ReaderSettings(frame_bytes=1))
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
    assert [found.base_offset for found in frame.rows] == [0]


async def test_a_withdrawn_grant_reads_no_more(tmp_path: Path) -> None:
    """After a withdrawal new commits are not handed on."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            await taken.frames(1)
            await control.say(Withdraw(1, "paused"))
            await control.say(site.announce([site.commit(row(1, 1, 1))]))
            await taken.nothing()


async def test_a_reader_waits_for_its_destination(tmp_path: Path) -> None:
    """Beyond the credit nothing is read on; with the destination's answers it goes on."""
    site = Site(tmp_path)
    for number in range(300):
        site.commit(row(number, 1, number))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control, ReaderSettings(frame_bytes=1))
        async with running(taken.task.run()):
            first = await taken.frames(32)
            await taken.nothing()
            await control.say(Credit(1, 300, 1 << 30))
            await taken.frames(268)
    assert first[-1].to_commit == 32


async def test_a_grant_with_an_end_is_done_there(tmp_path: Path) -> None:
    """copystream: what is beyond the end is not read, and the server is told."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    site.commit(row(1, 1, 1))
    start = site.server(site.grant({1: 0, 2: 0}, until=1), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            (frame,) = await taken.frames(1)
            await control.until(lambda: control.all(Done) == [Done(1)])
    assert frame.to_commit == 1
    assert control.all(ReadReport)[-1].slices == {1: 1, 2: 1}


async def test_a_repair_brings_one_partition_and_says_so(tmp_path: Path) -> None:
    """Rows from the replica's end on, in frames that carry the repair, the last one marked; then the grant is done."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0), row(0, 2, 0))
    site.commit(row(1, 1, 1), row(1, 1, 2))
    plain = site.grant({1: 0})
    repair = RepairGrant(
        7, LINK, RUN, plain.source, 0, plain.destination, "all", plain.data_root, PREFIX,
        (RepairPartition(1, 0, 1),), plain.epochs, 2,
    )  # fmt: skip
    async with fake_control(site.server(repair)) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            rows, last = await taken.frames(2)
            await taken.nothing()
            assert control.all(Done) == [], "not before the destination has answered"
            await control.say(Credit(7, 2, 1 << 30))
            await control.until(lambda: control.all(Done) == [Done(7)])
    assert [found.base_offset for found in rows.rows] == [1, 2]
    assert rows.repair is not None
    assert (rows.repair.number, rows.repair.partition, rows.repair.read_to, rows.repair.last) == (1, 0, 2, False)
    assert last.repair is not None
    assert last.repair.last
    assert not last.rows


async def test_a_repair_brings_rows_of_every_origin_and_way(tmp_path: Path) -> None:
    """After a change of owner the replica may lack rows of others, and a restored origin its own."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0, origin=THIRD, via=THIRD), row(0, 1, 1, origin=DESTINATION), row(0, 1, 2))
    (rows, last) = await repaired(site)
    assert [found.base_offset for found in rows.rows] == [0, 1, 2]
    assert last.repair is not None
    assert last.repair.end == 3


async def test_repair_note_clears_over_a_cut(tmp_path: Path) -> None:
    """The repair names the end of the live rows: the replica never comes to that of the dead ones."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0), row(0, 1, 1), row(0, 1, 2), row(0, 1, 3))
    site.commit(row(1, 1, 1, kind=Kind.TRUNCATE, data=b""), row(1, 1, 1))
    site.cuts = ((1, 0, 1, 1, 0),)
    (rows, last) = await repaired(site)
    assert [(found.commit, found.base_offset) for found in rows.rows] == [(0, 0), (1, 1)]
    assert last.repair is not None
    assert last.repair.end == 2


async def repaired(site: Site) -> list[Frame]:
    """The frames of a repair of partition 0 of topic 1, from its beginning on."""
    plain = site.grant({1: 0})
    wanted = (RepairPartition(1, 0, 0),)
    end = site.objects[-1].end
    repair = RepairGrant(
        7, LINK, RUN, plain.source, 0, plain.destination, "own", plain.data_root, PREFIX, wanted, plain.epochs, end
    )
    async with fake_control(site.server(repair)) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            return await taken.frames(2)


async def test_rows_of_a_deleted_topic_are_left_out_and_its_tombstone_is_sent(tmp_path: Path) -> None:
    """The server no longer knows the number; the tombstone names the topic itself."""
    site = Site(tmp_path)
    site.names = {1: site.names[1]}
    tombstone = payloads.encode(payloads.TopicDeletedPayload("gone", THIRD))
    site.commit(row(0, 17, 0), row(0, 1, 0))
    site.commit(row(1, 17, 0, tombstone, kind=Kind.TOPIC_DELETED))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control, ReaderSettings(frame_bytes=1))
        async with running(taken.task.run()):
            first, second = await taken.frames(2)
    assert [found.topic for found in first.rows] == [1]
    assert second.topics[17].name == "gone"
    assert [found.kind for found in second.rows] == [Kind.TOPIC_DELETED]


async def test_a_lost_connection_begins_anew(tmp_path: Path) -> None:
    """The server went: grants are dropped, and those of the next connection are read."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        async with running(taken.task.run()):
            await taken.frames(1)
            await control.sockets[-1].close()
            await taken.frames(1)
            assert len(control.all(ReaderHello)) == 2


async def test_a_reader_that_fails_does_not_end_the_task(tmp_path: Path) -> None:
    """Whatever the error, the task connects again and is granted anew."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    errors = [CorruptBatch("of no kind that is expected")]

    def open_objects(root: str) -> Storage:
        if errors:
            raise errors.pop()
        return open_directory(root)

    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control)
        taken.task = ReaderTask(control.url, "w", ReaderSettings(), taken.handover, open_objects)
        async with running(taken.task.run()):
            await taken.frames(1)
    assert len(control.all(ReaderHello)) == 2


async def test_once_ends_when_everything_was_answered(tmp_path: Path) -> None:
    """With `once` the handover is closed after the destination's answer, not before."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control, ONCE)
        async with running(taken.task.run()) as task:
            await taken.frames(1)
            await asyncio.sleep(0.6)  # longer than it waits for quiet
            assert not task.done()
            await control.say(Credit(1, 1, 1 << 20))
            async with in_time():
                await task
    assert taken.handover.ended


async def test_once_waits_for_what_a_grant_names_and_no_announcement_has_yet(tmp_path: Path) -> None:
    """One that begins at the first commit of a log stood at the end of nothing until then."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    async with fake_control(site.server(site.grant({1: 0}))) as control:
        taken = Taken(control, ONCE)
        async with running(taken.task.run()) as task:
            await control.until(lambda: bool(control.all(ReadReport)))
            await asyncio.sleep(0.6)  # longer than it waits for quiet
            assert not task.done()
            await control.say(site.announce(site.objects))
            await taken.frames(1)
            await control.say(Credit(1, 1, 1 << 20))
            async with in_time():
                await task


async def test_once_waits_for_a_grant_that_was_taken_back_unfinished(tmp_path: Path) -> None:
    """Its destination was away for a moment: the server grants it again, and all is carried."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0))
    start = site.server(site.grant({1: 0}), site.announce(site.objects))
    async with fake_control(start) as control:
        taken = Taken(control, ONCE)
        async with running(taken.task.run()) as task:
            await taken.frames(1)
            await control.say(Withdraw(1, "unreachable"))
            await asyncio.sleep(0.6)  # longer than it waits for quiet
            assert not task.done()
            await control.say(site.grant({1: 0}, grant=2))
            await taken.frames(1)
            await control.say(Credit(2, 1, 1 << 20))
            async with in_time():
                await task
