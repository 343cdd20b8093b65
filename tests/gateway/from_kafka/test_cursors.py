"""What groups commit in Kafka, beside what they commit here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.gateway.desk import Desk, desks
from tests.support.kafka_rows import INCARNATION, batch_of_epoch, frame_of, row_of

from fairlead.cluster.stream import CommittedOffset, Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka import topics
from fairlead.gateway.from_kafka.cursors import Commits, kept_of, put_cursors, unread
from fairlead.kafka import OffsetAndEpoch, TopicMetadata, TopicPartition
from fairlead.kafka.values import PartitionMetadata
from fairlead.model.errors import NotAllowed, TryAgain, UnknownGroup
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.requests.cursors import put_published
from fairlead.streamlog.requests.ownership import take_over

SHIPS = TopicMetadata("ships", INCARNATION, False, (PartitionMetadata(0, 3),))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


async def kept_topic(desk: Desk) -> tuple[Stream, KafkaUpstream]:
    """A stream with the topic, and five records."""
    stream = await desk.cluster.create_stream("/x", desk.cluster.stream("/default").settings)
    upstream = KafkaUpstream(stream.id, "old", b"l" * 16, "/file", "the-one", "ships")
    await topics.put_topic(stream, upstream, SHIPS, {"cleanup.policy": "compact"})
    rows = [row_of(batch_of_epoch(3, 0, *[b"v"] * 5), after=(0, -1))]
    frame = replace(frame_of(rows), source=upstream.source)
    frame = replace(frame, rows=[row._replace(origin=upstream.source) for row in frame.rows])
    admission = topics.admission_of(stream, upstream)
    await stream.shards[0].submit(lambda draft: apply_frame(draft, frame, admission))
    return stream, upstream


async def heard(
    stream: Stream, upstream: KafkaUpstream, offset: int, *, epoch: int = 3, group: str = "g", metadata: str = ""
) -> int:
    """Kafka says that the group has committed this."""
    found = {"ships": stream.topic("ships")}
    commit = {TopicPartition("ships", 0): OffsetAndEpoch(offset, epoch, metadata)}
    return await put_cursors(stream, upstream, found, {group: commit})


def told(stream: Stream, group: str = "g") -> int | None:
    """What a client is told."""
    shard, topic = stream.topic("ships")
    cursor = stream.cursor(group, shard, topic, 0)
    return None if cursor is None else cursor.offset


async def test_a_group_s_newest_commit_counts_wherever_it_was_made(desk: Desk) -> None:
    """Kafka's, ours, Kafka's again; and what Kafka says twice changes nothing."""
    stream, upstream = await kept_topic(desk)
    assert (await heard(stream, upstream, 2), told(stream)) == (1, 2)
    assert (await heard(stream, upstream, 2), told(stream)) == (0, 2)
    await stream.commit_cursors("g", [CommittedOffset("ships", 0, 4)])
    assert (await heard(stream, upstream, 2), told(stream)) == (0, 4)
    assert (await heard(stream, upstream, 3), told(stream)) == (1, 3)
    assert (await heard(stream, upstream, 1, epoch=-1, group="old"), told(stream, "old")) == (1, 1)
    assert await heard(stream, upstream, 1, epoch=-1, group="old") == 0


async def elsewhere(stream: Stream, offset: int, version: int, origin: bytes = b"b" * 16) -> None:
    """A link brings this commit."""
    shard, topic = stream.topic("ships")
    cursor = Cursor(offset, 3, "", 0, version, origin)
    await shard.submit(lambda draft: put_published(draft, "g", topic.number, 0, cursor))


@pytest.mark.parametrize("is_first", [False, True])
async def test_what_kafka_said_before_is_no_newer_than_a_commit_of_another_site(desk: Desk, is_first: bool) -> None:
    """The group has moved to that site, and Kafka says for ever what it committed last there. Also where Kafka is heard
    for the first time after that. Once the group has moved back and commits in Kafka, that counts."""
    stream, upstream = await kept_topic(desk)
    if not is_first:
        assert (await heard(stream, upstream, 2), told(stream)) == (1, 2)
    await elsewhere(stream, 4, 2**32 + 1)
    for _ in range(2):
        assert (await heard(stream, upstream, 2), told(stream)) == (0, 4)
    assert (await heard(stream, upstream, 3), told(stream)) == (1, 3)
    await elsewhere(stream, 5, 2**33)
    assert (await heard(stream, upstream, 3), told(stream)) == (0, 5)


async def test_what_another_site_has_heard_of_the_same_kafka_is_heard_once(desk: Desk) -> None:
    """Two sites read one Kafka cluster and are linked: what one has written, the other knows as Kafka's word."""
    stream, upstream = await kept_topic(desk)
    assert await heard(stream, upstream, 1) == 1
    await elsewhere(stream, 2, 2, upstream.source)
    assert (await heard(stream, upstream, 2), told(stream)) == (0, 2)
    await elsewhere(stream, 4, 2**32 + 1)
    assert (await heard(stream, upstream, 2), told(stream)) == (0, 4)
    await elsewhere(stream, 1, 2**33, upstream.source)
    assert (await heard(stream, upstream, 2), told(stream)) == (1, 2)


async def test_only_groups_that_are_wanted_and_offsets_that_can_be(desk: Desk) -> None:
    """An expression must match the whole name. A commit beyond the records here is served once they have come."""
    for cursors, kept in (("none", []), ("all", ["g", "gg"]), ("g", ["g"]), ("g.+", ["gg"])):
        assert kept_of(cursors, ["g", "gg"]) == kept
    stream, upstream = await kept_topic(desk)
    for group, expected in (("", 0), ("h" * 3000, 0), ("h" * 2458, 0), ("h" * 2457, 1)):
        assert await heard(stream, upstream, 2, group=group) == expected
    assert await heard(stream, upstream, 9) == 1
    assert told(stream) == 5


async def test_a_commit_counts_though_more_is_written_beside_it_than_is_kept(desk: Desk) -> None:
    """`offset.metadata.max.bytes` of a broker may be more than it is here."""
    stream, upstream = await kept_topic(desk)
    long = "é" * 2047 + "xéx"
    for count in (1, 0):
        assert await heard(stream, upstream, 2, metadata=long) == count
    shard, topic = stream.topic("ships")
    cursor = stream.cursor("g", shard, topic, 0)
    assert cursor is not None
    assert (cursor.offset, cursor.metadata) == (2, "é" * 2047 + "x")


def test_what_a_group_has_committed_is_unread_where_that_will_not_pass() -> None:
    """A group that is gone has nothing committed; a name that cannot be kept counts once it has."""
    at: Commits = {"read": {}, "h" * 3000: {}, "k" * 3000: {TopicPartition("ships", 0): OffsetAndEpoch(1)}}
    errors = {"away": TryAgain("its broker is away"), "gone": UnknownGroup("it is gone"), "no": NotAllowed("not ours")}
    assert unread({**at, **errors}) == {"no": "not ours", "k" * 3000: "a group's name has more than 2,457 bytes"}


async def test_a_topic_that_was_taken_over_hears_no_more(desk: Desk) -> None:
    """Neither of commits nor of settings; its epoch is above all of Kafka's, and what clients have committed holds."""
    stream, upstream = await kept_topic(desk)
    shard, topic = stream.topic("ships")
    await heard(stream, upstream, 2)
    epoch_id = shard.epoch.id
    await shard.submit(lambda draft: take_over(draft, "ships", owner_at="/mapr/ny/x", writer_epoch_id=epoch_id))
    await heard(stream, upstream, 4)
    await topics.put_topic(stream, upstream, SHIPS, {})
    _, taken = stream.topic("ships")
    assert (told(stream), taken.owner, taken.is_of_kafka) == (2, stream.id, False)
    assert taken.configs == {"cleanup.policy": "compact"}
    assert taken.epoch > 3
    assert shard.state.partition(topic.number, 0).end_of_epoch(taken.epoch, 3) == (3, 5)


async def test_topics_follow_kafka_s(desk: Desk) -> None:
    """More partitions, other settings; one that was made again waits for its name; one that was deleted here after a
    takeover does not come back."""
    stream, upstream = await kept_topic(desk)
    more = SHIPS._replace(partitions=SHIPS.partitions * 3)
    for _ in range(2):
        await topics.put_topic(stream, upstream, more, {"retention.ms": "5"})
    _, topic = stream.topic("ships")
    assert (topic.partitions, dict(topic.configs), topic.version, topic.owner_at) == (
        3,
        {"retention.ms": "5"},
        1,
        "kafka://old",
    )
    again = SHIPS._replace(topic_id=b"n" * 16)
    await topics.put_topic(stream, upstream, again, {})
    (note,) = stream.shards[0].state.behind(upstream.link)
    assert (note.conflict, note.incarnation) == (True, b"n" * 16)
    await topics.delete_topic(stream, upstream, topic)
    assert stream.by_incarnation(INCARNATION) is None
    await topics.put_topic(stream, upstream, SHIPS, {})
    assert stream.by_incarnation(INCARNATION) is None


def test_a_kafka_cluster_has_the_same_id_everywhere() -> None:
    """Whatever it is called, and whichever stream keeps its topics; and no stream has it."""
    one = KafkaUpstream(b"a" * 16, "old", b"l" * 16, "/file", "the-one", ".*")
    assert one.source == replace(one, stream=b"b" * 16, name="other", link=b"m" * 16).source
    assert one.source != replace(one, kafka_cluster="another").source
    payload = topics.payload_of(one, SHIPS, {})
    assert payload == TopicPayload("ships", INCARNATION, 1, one.source, 0, 0, {}, "ships", "kafka://old")
