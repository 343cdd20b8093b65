"""The copier of a tail, or whatever else makes a topic that other sites may have, beside a frame that brings the same
topic by a name of another shard: it is made once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.test_diverged import tailed
from tests.gateway.apply.test_prefixed_frames import SHARDS, Link, names_of
from tests.gateway.apply.test_socket import NUMBER, frame, topic_row
from tests.gateway.rig import Site
from tests.streamlog.world import values_at

from fairlead.cluster.diverged import copy_tails
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka import topics
from fairlead.kafka import TopicMetadata
from fairlead.kafka.values import PartitionMetadata
from fairlead.model.names import shard_of
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.payloads import TopicPayload, encode
from fairlead.streamlog.requests.cuts import diverged_incarnation
from fairlead.streamlog.requests.diverged import PARENT
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard

LINK = b"1" * 16
TAIL = "anna.diverged.ny.0"
OWN = shard_of(TAIL, SHARDS)
"""The shard of the name that this site gives the diverged topic."""
AWAY = (OWN + 1) % SHARDS
"""That of the name by which a link brings it."""


class HeldUp:
    """The next part of a frame or of a tail that goes to a shard is not evaluated before `go` is set; `came` is, once
    it is there. What comes behind it passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shard: Shard) -> None:
        self.came, self.go = asyncio.Event(), asyncio.Event()
        submit = shard.submit

        async def later(*request: object) -> object:
            if len(request) == 2 and not self.came.is_set():  # with a size; upkeep has none
                self.came.set()
                await self.go.wait()
            return await submit(*request)  # type: ignore[arg-type]

        monkeypatch.setattr(shard, "submit", later)


async def cut_off(stream: Stream) -> bytes:
    """A topic with a record that was cut off and is kept; the incarnation of the diverged topic."""
    topic = await tailed(stream, "anna")
    return diverged_incarnation(topic.incarnation, 0, 9)


def brought(stream: Stream, tail: bytes, name: str) -> Frame:
    """Another holder of the tail sends the topic that it has made, which has that name there."""
    topic = TopicPayload(name, tail, 1, stream.id, 0, 1, ext={PARENT: stream.topic("anna")[1].incarnation.hex()})
    return replace(frame(0, 1, topic_row(0)._replace(batch=encode(topic))), topics={NUMBER: FrameTopic(tail, name)})


def made(stream: Stream, incarnation: bytes) -> list[tuple[int, Topic]]:
    """Where it is."""
    found = ((place, shard.state.by_incarnation(incarnation)) for place, shard in enumerate(stream.shards))
    return [(place, topic) for place, topic in found if topic is not None]


def is_copied_once(stream: Stream, tail: bytes, place: int) -> bool:
    """The diverged topic is in that shard alone, clients find it there, and it has what was cut off."""
    ((found, topic),) = made(stream, tail)
    shard = stream.shards[found]
    assert stream.find_topic(topic.name) == (shard, topic)
    assert values_at(shard, topic.number) == {0: b"anna"}
    assert not stream.shard_for("anna").state.kept_partitions
    return found == place


async def test_a_tail_goes_where_a_link_is_bringing_its_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name of another shard than that which this site would give it."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        tail = await cut_off(stream)
        link = Link(stream, LINK, "")
        held = HeldUp(monkeypatch, stream.shards[AWAY])
        session = link.session()
        await session.submit(link.bytes_of(brought(stream, tail, next(names_of(AWAY)))))
        await held.came.wait()
        await copy_tails(stream, stream.shard_for("anna"))
        held.go.set()
        await session.close()
        assert is_copied_once(stream, tail, AWAY)
        assert not any(shard.state.behind(LINK) for shard in stream.shards)


async def test_a_link_brings_a_topic_to_where_its_tail_is_being_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no possible name there until the copier has given it one; then the link is to bring it there."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        tail = await cut_off(stream)
        link = Link(stream, LINK, "")
        held = HeldUp(monkeypatch, stream.shards[OWN])
        copying = asyncio.ensure_future(copy_tails(stream, stream.shard_for("anna")))
        await held.came.wait()
        session = link.session()
        await session.submit(link.bytes_of(brought(stream, tail, next(names_of(AWAY)))))
        await session.close()
        held.go.set()
        await copying
        assert is_copied_once(stream, tail, OWN)
        assert stream.arriving == 0
        notes = [note for shard in stream.shards for note in shard.state.behind(LINK)]
        assert [note.conflict for note in notes] == [False]


async def test_a_tail_goes_where_its_topic_waits_for_a_name(tmp_path: Path) -> None:
    """Or it would be made there once more, in the commit in which that name becomes free."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        tail = await cut_off(stream)
        name = next(names_of(AWAY))
        await ny.write("/ships", name, b"another")
        link = Link(stream, LINK, "")
        session = link.session()
        await session.submit(link.bytes_of(brought(stream, tail, name)))
        await session.close()
        assert [note.conflict for note in stream.shards[AWAY].state.behind(LINK)] == [True]
        await copy_tails(stream, stream.shard_for("anna"))
        await stream.delete_topic(name)
        assert is_copied_once(stream, tail, AWAY)


async def test_a_topic_of_kafka_goes_where_a_link_is_bringing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that keeps the topics of the same Kafka cluster sends it behind a prefix."""
    async with Site("ny", tmp_path) as ny:
        stream = await ny.stream("/ships", SHARDS)
        link = Link(stream, LINK, "")
        upstream = KafkaUpstream(stream.id, "old", b"k" * 16, "/file", "the-one", "boats")
        boats = TopicMetadata(next(names_of(OWN)), b"b" * 16, False, (PartitionMetadata(0, 3),))
        name = next(names_of(AWAY))
        payload = TopicPayload(name, boats.topic_id, 1, upstream.source, 0, 0, home=boats.name)
        bringing = replace(
            frame(0, 1, topic_row(0)._replace(batch=encode(payload))), topics={NUMBER: FrameTopic(boats.topic_id, name)}
        )
        held = HeldUp(monkeypatch, stream.shards[AWAY])
        session = link.session()
        await session.submit(link.bytes_of(bringing))
        await held.came.wait()
        await topics.put_topic(stream, upstream, boats, {})
        held.go.set()
        await session.close()
        await topics.put_topic(stream, upstream, boats, {})
        ((place, topic),) = made(stream, boats.topic_id)
        assert (place, topic.name) == (AWAY, name)
        assert not any(note.conflict for shard in stream.shards for note in shard.state.behind(upstream.link))
