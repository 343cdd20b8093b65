"""The destination's apply socket: who may send, what is answered, what is refused."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.rig import Site
from tests.support.apply_peer import ApplyPeer, PeerClosed, connect_apply, packed
from tests.support.rows import said_of
from tests.support.waiting import WAIT_SECONDS, until

from fairlead.cluster.stream import Stream
from fairlead.model.conversation import from_json
from fairlead.model.limits import FRAME_BYTES_MAX
from fairlead.model.names import StreamPath, slice_of
from fairlead.protocol.batch import build_batch
from fairlead.streamlog.frames.codec import encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.payloads import TopicPayload, encode
from fairlead.streamlog.rows import NO_COMMIT, NO_EPOCH, NO_OFFSET, Kind, Row
from fairlead.streamlog.values import GrantRun
from fairlead.streamlog.writing import reserve
from fairlead.wire.apply import Applied, ApplyHello, Error, Ok, Refused, SlicesAt
from fairlead.wire.link_protocol import PROTOCOL, StreamPlace
from fairlead.wire.messages import APPLY_HEARS, to_json

LINK = b"l" * 16
EPOCH = b"e" * 16
SOURCE = StreamPlace("sf", "/ships", b"s" * 16)
TOPIC = FrameTopic(b"i" * 16, "a")
NUMBER = slice_of("a")
SLICE = slice_of("a")
FIRST_RUN = GrantRun(1, 1)
OPEN: list[ApplyPeer] = []
"""Connections of the running test."""


@pytest.fixture
async def ny(tmp_path: Path) -> AsyncIterator[Site]:
    """The destination's cluster, whose stream accepts the source."""
    async with Site("ny", tmp_path) as site:
        await site.stream("/ships")
        await site.links.add_upstream("/ships", StreamPath("/ships", "sf"))
        yield site
        while OPEN:
            await OPEN.pop().close()


def topic_row(commit: int) -> Row:
    """Makes topic `a` with one partition, owned by the source."""
    payload = encode(TopicPayload("a", TOPIC.incarnation, 1, SOURCE.stream, 0, 1))
    fixed = (NO_OFFSET, NO_OFFSET, NO_EPOCH, NO_OFFSET, NO_EPOCH, SOURCE.stream, None, NO_COMMIT)
    return Row(Kind.TOPIC, NUMBER, -1, *fixed, 1, -1, 0, 0, 0, commit, 0, payload)


def batch_row(commit: int, offset: int) -> Row:
    """One record at `offset`."""
    batch = build_batch([(None, b"x")], base_offset=offset)
    before = -1 if offset == 0 else 0
    fixed = (offset, offset, 0, offset, before, SOURCE.stream, None, NO_COMMIT)
    return Row(Kind.BATCH, NUMBER, 0, *fixed, 1, 0, *said_of(batch), commit, 0, batch)


def frame(from_commit: int, to_commit: int, *rows: Row, run: GrantRun = FIRST_RUN) -> Frame:
    """A frame of topic `a`'s slice."""
    return Frame(
        link=LINK,
        run=run,
        source=SOURCE.stream,
        shard=0,
        slices=1 << SLICE,
        from_commit=from_commit,
        to_commit=to_commit,
        epoch_id=EPOCH,
        topics={NUMBER: TOPIC},
        rows=rows,
    )


def frames(count: int, run: GrantRun = FIRST_RUN) -> list[Frame]:
    """The first makes the topic, each brings one record."""
    first = frame(0, 1, topic_row(0), batch_row(0, 0), run=run)
    return [first, *(frame(n, n + 1, batch_row(n, n), run=run) for n in range(1, count))]


class Sink:
    """A connection of a sink."""

    def __init__(self, socket: ApplyPeer) -> None:
        self.socket = socket
        self.heard: list[Any] = []

    async def send(self, *sent: Frame) -> None:
        """Send frames one after the other, without waiting."""
        for each in sent:
            await self.socket.send(encode_frame(each))

    async def send_raw(self, data: bytes) -> None:
        """Send any bytes."""
        await self.socket.send_raw(data)

    async def hear(self) -> Any:
        """The next answer."""
        message = from_json(await asyncio.wait_for(self.socket.recv(), WAIT_SECONDS), APPLY_HEARS)
        self.heard.append(message)
        return message

    async def through(self, count: int) -> Applied:
        """Hear until so many frames are answered."""
        while True:
            message = await self.hear()
            if isinstance(message, Applied) and message.through >= count:
                return message


async def hello(site: Site, stream: Stream, **changes: Any) -> Sink:
    """Connect and say hello."""
    socket = await connect_apply(site.url)
    OPEN.append(socket)
    said = ApplyHello(PROTOCOL, LINK, GrantRun(1, 1), SOURCE, stream.id, 0)
    await socket.send(to_json(replace(said, **changes)))
    return Sink(socket)


async def open_sink(site: Site, **changes: Any) -> Sink:
    """A connection that was accepted."""
    sink = await hello(site, site.cluster.stream("/ships"), **changes)
    assert isinstance(await sink.hear(), Ok)
    return sink


async def test_frames_are_answered_cumulatively_and_applied_in_order(ny: Site) -> None:
    """Fifty frames are sent without waiting; the last answer counts all of them and names the position."""
    sink = await open_sink(ny)
    await sink.send(*frames(50))
    last = await sink.through(50)
    assert last == Applied(50, (SlicesAt(1 << SLICE, 50),), 50, 0, 0)
    assert ny.end("/ships", "a") == 50
    assert len(sink.heard) < 50
    assert ny.cluster.stream("/ships").shards[0].announced.end < 50
    await sink.socket.close()


async def test_frames_that_come_twice_change_nothing(ny: Site) -> None:
    """They are answered and counted as duplicates."""
    for expected in (0, 3):
        sink = await open_sink(ny)
        await sink.send(*frames(3))
        assert (await sink.through(3)).duplicates == expected
        await sink.socket.close()
    assert ny.end("/ships", "a") == 3


async def test_a_frame_that_skips_is_refused_with_the_position_and_so_are_later_ones(ny: Site) -> None:
    """One answer says where to begin again; frames behind it are not applied either."""
    sink = await open_sink(ny)
    first, second, third, fourth = frames(4)
    await sink.send(first, third, fourth)
    await sink.through(3)
    await sink.send(second)
    last = await sink.through(4)
    refused = [message for message in sink.heard if isinstance(message, Refused)]
    assert refused == [Refused(2, 1 << SLICE, 1, "from")]
    assert last.records == 1
    assert ny.end("/ships", "a") == 1
    await sink.socket.close()


async def test_a_refused_slice_goes_on_under_a_newer_run(ny: Site) -> None:
    """The grant that follows may use the same connection."""
    sink = await open_sink(ny)
    first, _, third = frames(3)
    await sink.send(first, third)
    await sink.through(2)
    await sink.send(*frames(3, GrantRun(1, 2))[1:])
    await sink.through(4)
    assert ny.end("/ships", "a") == 3
    await sink.socket.close()


async def test_a_zombie_of_an_older_run_is_refused(ny: Site) -> None:
    """A newer grant has been seen for the slice: what the older one still sends changes nothing."""
    new, old = await open_sink(ny, run=GrantRun(2, 1)), await open_sink(ny)
    await new.send(*frames(2, GrantRun(2, 1)))
    await new.through(2)
    await old.send(frame(2, 3, batch_row(2, 2)))
    assert await old.hear() == Refused(1, 1 << SLICE, 2, "run")
    assert ny.end("/ships", "a") == 2
    await new.socket.close()
    await old.socket.close()


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"protocol": 99}, "invalid_value", "version 99 of the link protocol, this gateway 5"),
        ({"destination": b"?" * 16}, "unknown_stream", "no stream with id"),
        (
            {"source": StreamPlace("sf", "/other", b"o" * 16)},
            "not_agreed",
            "run: fairlead stream upstream add -path /mapr/ny/ships -upstream /mapr/sf/other",
        ),
    ],
)
async def test_a_hello_is_refused_with_its_reason(ny: Site, changes: dict[str, Any], code: str, words: str) -> None:
    """Another version, a stream that is not there, a source that the replica does not name."""
    sink = await hello(ny, ny.cluster.stream("/ships"), **changes)
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert answer.code == code
    assert words in answer.message
    with pytest.raises(PeerClosed):
        await sink.hear()


async def test_a_frame_of_another_shard_than_the_hellos_is_refused(ny: Site) -> None:
    """Positions and refusals are told without a shard: they are of the connection's."""
    sink = await hello(ny, ny.cluster.stream("/ships"), shard=1)
    assert isinstance(await sink.hear(), Ok)
    await sink.socket.send(encode_frame(frames(1)[0]))
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert (answer.code, "shard 0 on the connection" in answer.message) == ("invalid_value", True)


async def test_something_that_is_no_hello_is_refused(ny: Site) -> None:
    """The answer says what is wrong with it."""
    socket = await connect_apply(ny.url)
    OPEN.append(socket)
    await socket.send("good morning")
    answer = await Sink(socket).hear()
    assert isinstance(answer, Error)
    assert "not JSON" in answer.message


async def test_bytes_that_are_no_frame_end_the_connection(ny: Site) -> None:
    """What was applied before stays; the sink begins again from the recorded position."""
    sink = await open_sink(ny)
    await sink.send(*frames(1))
    await sink.through(1)
    await sink.socket.send(b"\x00" * 50)
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert answer.code == "corrupt_batch"
    assert ny.end("/ships", "a") == 1


async def test_a_frame_of_another_link_ends_the_connection(ny: Site) -> None:
    """The agreement was checked for one link only."""
    sink = await open_sink(ny)
    await sink.send(replace(frames(1)[0], link=b"?" * 16))
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert "a frame of link" in answer.message


async def test_an_agreement_that_ends_closes_the_connection(ny: Site) -> None:
    """Removing the upstream is felt at once, not at the next frame."""
    sink = await open_sink(ny)
    await ny.links.remove_upstream("/ships", StreamPath("/ships", "sf"))
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert answer.code == "not_agreed"


async def test_a_full_disk_is_no_gap(ny: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames with batches are refused as a whole while space is short, and taken later."""
    monkeypatch.setattr(reserve, "CHECK_MS", 0)
    sink = await open_sink(ny)
    with monkeypatch.context() as full:
        full.setattr(type(ny.cluster.storage), "free_bytes", lambda _: -1)  # the site has no reserve
        await sink.send(*frames(1))
        answer = await sink.hear()
    assert isinstance(answer, Error)
    assert answer.code == "storage_full"
    assert ny.end("/ships", "a") == -1
    again = await open_sink(ny)
    await again.send(*frames(1))
    await again.through(1)
    assert ny.end("/ships", "a") == 1
    await again.socket.close()


async def test_a_hello_and_frames_in_pieces_of_one_byte(ny: Site) -> None:
    """Where the pieces end means nothing."""
    socket = await connect_apply(ny.url)
    OPEN.append(socket)
    said = to_json(ApplyHello(PROTOCOL, LINK, FIRST_RUN, SOURCE, ny.cluster.stream("/ships").id, 0))
    for byte in packed(said):
        await socket.send_raw(bytes([byte]))
    sink = Sink(socket)
    assert isinstance(await sink.hear(), Ok)
    for byte in b"".join(packed(encode_frame(each)) for each in frames(2)):
        await socket.send_raw(bytes([byte]))
    await sink.through(2)
    assert ny.end("/ships", "a") == 2


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (struct.pack("<IB", 64 * 1024 + 1, 0), "a message of 65,537 bytes; at most 65,536"),
        (struct.pack("<IB", 10, 1), "a message of kind 1, which is not expected here"),
        (struct.pack("<IB", 10, 7), "a message of kind 7, which is not expected here"),
    ],
)
async def test_who_has_not_said_hello_gets_no_memory(ny: Site, said: bytes, words: str) -> None:
    """The header alone is refused: a long text, a frame, something unknown."""
    socket = await connect_apply(ny.url)
    OPEN.append(socket)
    await socket.send_raw(said)
    answer = await Sink(socket).hear()
    assert isinstance(answer, Error)
    assert answer.code == "invalid_value"
    assert words in answer.message
    with pytest.raises(PeerClosed):
        await socket.recv()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (struct.pack("<IB", FRAME_BYTES_MAX + 1, 1), "at most 67,108,864 are taken here"),
        (packed("{}"), "a message of kind 0"),
    ],
)
async def test_after_the_hello_only_frames_are_taken(ny: Site, said: bytes, words: str) -> None:
    """No text, and no frame beyond the limit; what came before is applied and its answer was not lost."""
    sink = await open_sink(ny)
    await sink.send(*frames(1))
    await sink.through(1)
    await sink.socket.send_raw(said)
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert words in answer.message
    assert ny.end("/ships", "a") == 1


async def test_a_sink_that_goes_in_the_middle_of_a_frame_leaves_nothing_behind(ny: Site) -> None:
    """What was whole is applied, the rest forgotten."""
    sink = await open_sink(ny)
    first, second = frames(2)
    await sink.send_raw(packed(encode_frame(first)) + packed(encode_frame(second))[:-1])
    await sink.through(1)
    gateway = ny.apply
    assert len(gateway.sessions) == 1
    await sink.socket.close()
    await until(lambda: not gateway.sessions)
    assert ny.end("/ships", "a") == 1


async def test_an_error_is_heard_by_a_sink_that_goes_on_sending(ny: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway reads and drops what is under way: a reset would overtake its words."""
    monkeypatch.setattr("fairlead.wire.connection.LINGER_SECONDS", WAIT_SECONDS)
    sink = await open_sink(ny)
    await sink.socket.send(bytes(50))
    for _ in range(20):
        await sink.socket.send(bytes(1_000_000))
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert answer.code == "corrupt_batch"
    with pytest.raises(PeerClosed):
        await sink.hear()


async def test_who_says_nothing_is_let_go(ny: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that begins with no hello ends after a while."""
    monkeypatch.setattr("fairlead.gateway.apply.socket.HELLO_SECONDS", 0.1)
    socket = await connect_apply(ny.url)
    OPEN.append(socket)
    with pytest.raises(PeerClosed):
        await asyncio.wait_for(socket.recv(), WAIT_SECONDS)


async def test_a_server_that_stops_ends_its_connections(tmp_path: Path) -> None:
    """With its reason, while there is somebody to say it."""
    async with Site("ny", tmp_path) as site:
        await site.stream("/ships")
        await site.links.add_upstream("/ships", StreamPath("/ships", "sf"))
        sink = await open_sink(site)
        await sink.send(*frames(1))
        await sink.through(1)
    answer = await sink.hear()
    assert isinstance(answer, Error)
    assert answer.code == "closed"
    with pytest.raises(PeerClosed):
        await sink.hear()
    await OPEN.pop().close()
