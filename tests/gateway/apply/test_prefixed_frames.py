"""One topic that comes by two links with different prefixes, to a replica of several shards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from tests.gateway.apply.test_socket import SOURCE, TOPIC, batch_row, frames
from tests.gateway.rig import Site
from tests.streamlog.world import values_at

from fairlead.cluster.stream import Stream
from fairlead.gateway.apply.room import ApplyRoom
from fairlead.gateway.apply.session import ApplyCounts, ApplySession
from fairlead.model.names import shard_of
from fairlead.streamlog.applying.admission import ANYBODY
from fairlead.streamlog.frames.codec import encode_frame
from fairlead.streamlog.frames.frame import Frame, Repair
from fairlead.wire.apply import ApplyHello
from fairlead.wire.link_protocol import PROTOCOL

SHARDS = 8


class Link:
    """A link with a prefix, by which the frames of the topic `a` come."""

    def __init__(self, stream: Stream, id: bytes, prefix: str) -> None:
        self.id, self.prefix = id, prefix
        self._stream = stream

    def session(self) -> ApplySession:
        """A connection of it."""
        said = ApplyHello(PROTOCOL, self.id, frames(1)[0].run, SOURCE, self._stream.id, 0, topic_prefix=self.prefix)
        session = ApplySession(self._stream, said, 1 << 20, ApplyCounts(), ApplyRoom(1 << 20))
        session.admission = replace(ANYBODY, prefix=self.prefix)
        return session

    def bytes_of(self, frame: Frame) -> bytes:
        """The frame, as the link brings it."""
        return encode_frame(replace(frame, link=self.id))


def prefix_in(shard: int) -> str:
    """A prefix that sends `a` into that shard."""
    return next(prefix for n in count() if shard_of((prefix := f"p{n}_") + TOPIC.name, SHARDS) == shard)


@pytest.mark.parametrize("together", [True, False])
async def test_incarnation_by_two_links_into_two_shards(tmp_path: Path, together: bool) -> None:
    """In the same instant, or one after the other: the topic is made once, in one shard, by the name that the first
    link gives it. A client finds it there, and each record is there once."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        links = [Link(stream, id * 16, prefix_in(shard)) for id, shard in ((b"1", 3), (b"2", 7))]
        sessions = [link.session() for link in links]
        for frame in frames(3):
            for link, session in zip(links, sessions, strict=True):
                await session.submit(link.bytes_of(frame))
                if not together:
                    await session.close()
        await asyncio.gather(*(session.close() for session in sessions))
        (topic,) = stream.topics()
        assert topic.name == links[0].prefix + TOPIC.name
        shard, found = stream.topic(topic.name)
        assert found == topic
        assert values_at(shard, topic.number) == dict.fromkeys(range(3), b"x")
        assert not any(each.state.behind(link.id) for each in stream.shards for link in links)


@pytest.mark.parametrize("given", ["by hand", "by hand, for the other name", "freed"])
async def test_a_topic_that_waits_for_its_name_is_made_in_no_other_shard(tmp_path: Path, given: str) -> None:
    """Another link would give it a name there: it waits too, as the first name may become free at any time. Once it has
    a name, both links bring it to the same place."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        await ny.write("/ships", TOPIC.name, b"mine")
        home = shard_of(TOPIC.name, SHARDS)
        first, second = Link(stream, b"1" * 16, ""), Link(stream, b"2" * 16, prefix_in((home + 1) % SHARDS))
        *some, last = frames(3)
        for link in (first, second):
            await _bring(link, some)
        assert [topic.name for topic in stream.topics()] == [TOPIC.name]
        assert [shard.state.behind(second.id) != [] for shard in stream.shards].index(True) == home
        if given == "freed":
            await stream.delete_topic(TOPIC.name)
        else:
            waiting = TOPIC.name if given == "by hand" else second.prefix + TOPIC.name
            await stream.take_topic_as(waiting, next(names_of(home)))
        for link in (first, second):
            await _bring(link, [last])
        (topic,) = (each for each in stream.topics() if each.incarnation == TOPIC.incarnation)
        assert stream.topic(topic.name) == (stream.shards[home], topic)
        for link in (first, second):
            notes = [note for shard in stream.shards for note in shard.state.behind(link.id)]
            assert [note.conflict for note in notes] == [False]


async def test_what_was_noted_before_another_link_made_the_topic_elsewhere_ends_by_a_repair(
    tmp_path: Path,
) -> None:
    """By the second link a record comes before the topic is known, so that it is noted in the shard of the name that
    the topic has there; the first link makes it in another one. The repair brings it there, and nothing is noted any
    more, or it would be repaired for ever."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        first, second = (Link(stream, id * 16, prefix_in(shard)) for id, shard in ((b"1", 3), (b"2", 7)))
        made, *_ = frames(1)
        await _bring(second, [replace(made, rows=made.rows[1:])])
        assert [bool(shard.state.behind(second.id)) for shard in stream.shards].index(True) == 7
        await _bring(first, [made])
        repair = Repair(made.rows[0].topic, 0, read_to=0, last=True, end=1)
        await _bring(second, [replace(made, to_commit=0, rows=[], repair=repair)])
        assert stream.shards[7].state.behind(second.id), "something of the partition may have come after that"
        await _bring(second, [replace(made, repair=replace(repair, read_to=1))])
        assert not any(shard.state.behind(second.id) for shard in stream.shards)
        (topic,) = stream.topics()
        assert values_at(stream.topic(topic.name)[0], topic.number) == {0: b"x"}


def names_of(shard: int) -> Iterator[str]:
    """Names of that shard."""
    return (name for n in count() if shard_of(name := f"n{n}", SHARDS) == shard)


async def _bring(link: Link, some: Sequence[Frame]) -> None:
    session = link.session()
    for frame in some:
        await session.submit(link.bytes_of(frame))
    await session.close()


async def test_a_topic_behind_a_prefix_is_found_again_after_a_restart(tmp_path: Path) -> None:
    """Nothing of where it is made is remembered but the topic itself; its next records come to it."""
    prefix = prefix_in((shard_of(TOPIC.name, SHARDS) + 1) % SHARDS)
    first, *rest = frames(3)
    for some in ([first], rest):
        async with Site("ny", tmp_path) as ny:
            streams = ny.cluster.streams()
            stream = next((each for each in streams if each.path == "/ships"), None)
            stream = stream or await ny.stream("/ships", SHARDS)
            link = Link(stream, b"1" * 16, prefix)
            session = link.session()
            for frame in some:
                await session.submit(link.bytes_of(frame))
            await session.close()
            shard, topic = stream.topic(prefix + TOPIC.name)
            assert (topic.incarnation, topic.home) == (TOPIC.incarnation, TOPIC.name)
    assert values_at(shard, topic.number) == dict.fromkeys(range(3), b"x")


async def test_nothing_is_kept_of_a_topic_that_no_frame_made(tmp_path: Path) -> None:
    """But the notes on its partitions, in the log: what repairs them goes there too, whatever its name is by then."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        link = Link(stream, b"1" * 16, "")
        unknown = replace(frames(1)[0], rows=[batch_row(0, 0)._replace(partition=3)])
        session = link.session()
        await session.submit(link.bytes_of(unknown))
        await session.close()
        assert (stream.arriving, stream.topic_count) == (0, 0)
        (noted,) = (shard for shard in stream.shards if shard.state.behind(link.id))
        elsewhere = prefix_in((stream.shards.index(noted) + 1) % SHARDS) + TOPIC.name
        with stream.placing(link.id) as place_of:
            assert stream.shards[place_of(TOPIC.incarnation, elsewhere)] is noted
        with stream.placing(b"2" * 16) as place_of:
            assert stream.shards[place_of(TOPIC.incarnation, elsewhere)] is not noted
