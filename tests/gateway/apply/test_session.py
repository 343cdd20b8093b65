"""One apply connection without a socket: its window, its parts for several shards, its failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.gateway.apply.test_socket import LINK, NUMBER, SLICE, SOURCE, TOPIC, batch_row, frame, frames, topic_row
from tests.streamlog.world import FakeClock, committed, opened

from fairlead.cluster.stream import Stream
from fairlead.gateway.apply.pieces import in_pieces, pieces, split
from fairlead.gateway.apply.room import ApplyRoom
from fairlead.gateway.apply.session import REFUSALS_WAITING_MAX, ApplyCounts, ApplySession
from fairlead.model.errors import Busy, FairleadError, InvalidValue, NotAgreed, StorageFull
from fairlead.model.names import shard_of
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog.applying.frame import FrameOutcome, apply_frame
from fairlead.streamlog.frames.codec import encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.payloads import TopicDeletedPayload, encode
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.values import GrantRun
from fairlead.wire.apply import Applied, ApplyHello, SlicesAt


class SlowShard:
    """A shard whose commits end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[FrameOutcome]] = []

    async def submit(self, request: Any, size_bytes: int = 0) -> FrameOutcome:
        answer: asyncio.Future[FrameOutcome] = asyncio.get_running_loop().create_future()
        self.waiting.append(answer)
        return await answer


class FakeStream:
    """A stream of slow shards."""

    def __init__(self, count: int = 1) -> None:
        self.path = "/ships"
        self.shards = [SlowShard() for _ in range(count)]
        self.placed = 0
        """Frames whose topics are held where they go."""

    @contextmanager
    def placing(self, link: bytes) -> Iterator[Callable[[bytes, str], int]]:
        self.placed += 1
        try:
            yield lambda incarnation, name: shard_of(name, len(self.shards))
        finally:
            self.placed -= 1

    def falls_into(self, shard: object) -> Callable[[str], bool]:
        return lambda name: True


def session(stream: FakeStream, window_bytes: int = 1_000_000, room: ApplyRoom | None = None) -> ApplySession:
    """A connection to a fake stream."""
    hello = ApplyHello(1, LINK, GrantRun(1, 1), SOURCE, b"d" * 16, 0)
    return ApplySession(cast(Stream, stream), hello, window_bytes, ApplyCounts(), room or ApplyRoom(1 << 30))


def outcome(position: int, appended: int = 0) -> FrameOutcome:
    """The only slice has come so far."""
    return FrameOutcome({SLICE: position}, appended)


async def settled() -> None:
    """Let everything that can run, run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_nothing_is_read_beyond_the_window() -> None:
    """The third frame is taken only when one of the first two has been applied."""
    stream = FakeStream()
    data = encode_frame(frames(1)[0])
    open_session = session(stream, len(data) + 1)
    await open_session.submit(data)
    second = asyncio.ensure_future(open_session.submit(data))
    await settled()
    assert not second.done()
    stream.shards[0].waiting[0].set_result(outcome(1, appended=1))
    await second
    assert await open_session.answers() == [Applied(1, ((open_session_at(1)),), 1, 0, 0)]
    stream.shards[0].waiting[1].set_result(outcome(1))
    await open_session.close()


def open_session_at(commit: int) -> Any:
    """The only slice's position."""
    return SlicesAt(frames(1)[0].slices, commit)


async def test_a_frame_is_answered_only_after_those_before_it() -> None:
    """Shards may be done in another order; `through` counts what is complete."""
    stream = FakeStream()
    open_session = session(stream)
    for each in frames(2):
        await open_session.submit(encode_frame(each))
    await settled()
    one, two = stream.shards[0].waiting
    two.set_result(outcome(2, appended=1))
    await settled()
    assert await open_session.answers() == []
    one.set_result(outcome(1, appended=1))
    (answer,) = await open_session.answers()
    assert isinstance(answer, Applied)
    assert answer.through == 2


async def test_the_position_is_the_lowest_of_the_shards() -> None:
    """What only one shard has recorded is not yet safe."""
    stream = FakeStream(2)
    open_session = session(stream)
    await open_session.submit(encode_frame(frames(1)[0]))
    await settled()
    for shard, position in zip(stream.shards, (7, 5), strict=True):
        shard.waiting[0].set_result(outcome(position))
    (answer,) = await open_session.answers()
    assert isinstance(answer, Applied)
    assert [at.commit for at in answer.slices] == [5]


async def test_a_failed_commit_ends_the_connection_and_frees_its_reader() -> None:
    """The one who waits for room is let go, and the answer is the reason."""
    stream = FakeStream()
    open_session = session(stream, 1)
    waiting = asyncio.ensure_future(open_session.submit(encode_frame(frames(1)[0])))
    await settled()
    stream.shards[0].waiting[0].set_exception(StorageFull("disk", 0, 1))
    await waiting
    with pytest.raises(StorageFull):
        await open_session.answers()


async def test_a_bug_ends_the_connection_and_frees_its_reader() -> None:
    """Else later frames would be applied and never answered: the sink would wait for ever."""
    stream = FakeStream()
    open_session = session(stream, 1)
    waiting = asyncio.ensure_future(open_session.submit(encode_frame(frames(1)[0])))
    await settled()
    stream.shards[0].waiting[0].set_exception(KeyError("x"))
    await waiting
    with pytest.raises(FairleadError, match=r"a bug \(KeyError: 'x'\)"):
        await open_session.answers()


async def test_refusals_that_nobody_reads_end_the_connection() -> None:
    """Small frames, each of a newer grant and far ahead of the position, would fill the memory."""
    stream = FakeStream()
    open_session = session(stream)
    for counter in range(REFUSALS_WAITING_MAX + 1):
        assert open_session.failure is None
        await open_session.submit(encode_frame(replace(frames(1)[0], run=GrantRun(1, counter))))
        await settled()
        stream.shards[0].waiting[-1].set_result(FrameOutcome({SLICE: 0}, refused_position=0, reason="from"))
        await settled()
    with pytest.raises(Busy, match="reads no answers"):
        await open_session.answers()


async def test_nothing_is_applied_once_the_connection_has_failed() -> None:
    """A source whose agreement has ended may read no answers, so that it is never told."""
    stream = FakeStream()
    open_session = session(stream)
    open_session.fail(NotAgreed("no more"))
    with pytest.raises(NotAgreed):
        await open_session.submit(encode_frame(frames(1)[0]))
    await settled()
    assert stream.shards[0].waiting == []


async def test_a_frame_names_no_more_topics_than_it_has_rows() -> None:
    """A list of a million, for nothing, would keep the loop from everybody else. A repair names its topic, if it has no
    rows either."""
    open_session = session(FakeStream())
    topics = {number: FrameTopic(bytes([number]) * 16, "a") for number in range(2)}
    with pytest.raises(InvalidValue, match="a frame of 0 rows names 2 topics"):
        await open_session.submit(encode_frame(replace(frame(0, 1), topics=topics)))
    await open_session.submit(encode_frame(frame(0, 1)))


async def test_a_frame_of_which_a_part_failed_holds_its_topics_until_the_others_are_done() -> None:
    """They may make a topic yet: a frame that another link brings meanwhile would make it in another shard too."""
    stream = FakeStream(2)
    open_session = session(stream)
    await open_session.submit(encode_frame(frames(1)[0]))
    await settled()
    (failed,), (late,) = (shard.waiting for shard in stream.shards)
    failed.set_exception(StorageFull("disk", 0, 1))
    await settled()
    assert stream.placed == 1
    late.set_result(outcome(1))
    with pytest.raises(StorageFull):
        await open_session.answers()
    await open_session.close()
    assert stream.placed == 0


def by_name(incarnation: bytes, name: str) -> int:
    return shard_of(name, 3)


def test_each_shard_gets_the_rows_of_its_topics() -> None:
    """Every shard gets a part, for the position; a repair goes only where its topic lives."""
    names = ["a", "b", "c", "d", "e", "f"]
    topics = {number: FrameTopic(bytes([number]) * 16, name) for number, name in enumerate(names)}
    rows = [batch_row(0, 0)._replace(topic=number) for number in topics]
    whole = Frame(LINK, GrantRun(1, 1), SOURCE.stream, 0, 0, 0, 1, b"e" * 16, topics, rows)
    parts = dict(split(whole, 3, by_name))
    assert sorted(parts) == [0, 1, 2]
    for shard, part in parts.items():
        assert [names[row.topic] for row in part.rows] == [name for name in names if shard_of(name, 3) == shard]
        assert (part.from_commit, part.to_commit) == (0, 1)
    repair = Frame(
        LINK, GrantRun(1, 1), SOURCE.stream, 0, 0, 0, 1, b"e" * 16, topics, rows[1:2], Repair(1, 0, 1, last=True)
    )
    assert [shard for shard, _ in split(repair, 3, by_name)] == [shard_of("b", 3)]


def test_a_frame_of_many_rows_is_applied_in_pieces_and_the_last_moves_the_position() -> None:
    """Data before position; a repair ends with its last piece."""
    rows = [batch_row(n, n) for n in range(5)]
    whole = frame(0, 5, *rows)
    found = pieces(whole, 2)
    assert [(piece.from_commit, piece.to_commit) for piece in found] == [(0, 0), (0, 0), (0, 5)]
    assert [row for piece in found for row in piece.rows] == rows
    repair = replace(whole, repair=Repair(1, 0, 5, last=True))
    assert [piece.repair.last for piece in pieces(repair, 2) if piece.repair] == [False, False, True]


def test_a_frame_of_one_shard_is_not_copied() -> None:
    """The usual case costs nothing."""
    whole = frame(0, 1)
    assert split(whole, 1, by_name)[0][1] is whole


def test_a_frame_of_which_one_piece_failed_moves_no_position() -> None:
    """The disk is full for one commit, and has room for the next: what the first piece brought is not passed over."""
    storage = MemoryStorage()
    log = opened(storage)
    committed(log, lambda draft: apply_frame(draft, frame(0, 1, topic_row(0))))
    first, last = in_pieces(frame(1, 3, batch_row(1, 0), _tombstone_of_another(2)), 1)
    storage.fail(Fault.FULL)
    with pytest.raises(StorageFull):
        committed(log, first)
    with pytest.raises(FairleadError):
        committed(log, last)[0].result()
    position = log.announced.state.position((LINK, 0, SLICE))
    assert position is not None
    assert position.commit == 1


def test_a_frame_of_which_one_piece_was_refused_moves_no_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the reserve batches are refused and control rows are not; the control rows are of the same frame."""
    storage, clock = MemoryStorage(), FakeClock()
    log = opened(storage, clock=clock)
    committed(log, lambda draft: apply_frame(draft, frame(0, 1, topic_row(0))))
    first, last = in_pieces(frame(1, 3, batch_row(1, 0), _tombstone_of_another(2)), 1)
    monkeypatch.setattr(storage, "free_bytes", lambda: 0)
    clock.pass_ms(10_000)
    answers = committed(log, first, last)
    assert [type(answer.error) for answer in answers] == [StorageFull, StorageFull]
    position = log.announced.state.position((LINK, 0, SLICE))
    assert position is not None
    assert position.commit == 1


def test_what_follows_a_piece_that_is_not_taken_yet_is_not_taken_either() -> None:
    """The frame begins behind the position; between its pieces another connection brings what lies in between. The last
    piece alone would fit then, and its position would pass over what the first one had."""
    log = opened(MemoryStorage())
    committed(log, lambda draft: apply_frame(draft, frame(0, 1, topic_row(0))))
    first, last = in_pieces(frame(2, 4, batch_row(2, 1), batch_row(3, 2)), 1)
    between = frame(1, 2, batch_row(1, 0))
    outcomes = [committed(log, each)[0].result() for each in (first, lambda d: apply_frame(d, between), last)]
    assert [outcome.refused_position for outcome in outcomes] == [1, None, 1]
    position = log.announced.state.position((LINK, 0, SLICE))
    assert position is not None
    assert position.commit == 2
    assert log.announced.state.partition(NUMBER, 0).end == 1


def test_pieces_of_one_frame_share_a_commit_or_follow_one_another() -> None:
    """Also where a piece brings nothing new, and so no commit."""
    log = opened(MemoryStorage())
    for _ in range(2):
        pieces_of = in_pieces(frame(0, 3, topic_row(0), batch_row(1, 0), batch_row(2, 1)), 1)
        committed(log, pieces_of[0])
        answers = committed(log, *pieces_of[1:])
        assert [answer.error for answer in answers] == [None, None]
    position = log.announced.state.position((LINK, 0, SLICE))
    assert position is not None
    assert position.commit == 3
    assert log.announced.state.partition(NUMBER, 0).end == 2


def _tombstone_of_another(commit: int) -> Row:
    """A control row, which is applied whether there is room for batches or not."""
    payload = encode(TopicDeletedPayload(TOPIC.name, b"z" * 16, True))
    return topic_row(commit)._replace(kind=Kind.TOPIC_DELETED, batch=payload)
