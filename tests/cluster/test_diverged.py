"""A stream copies what cuts have kept into diverged topics, whichever shards the two are in."""

from __future__ import annotations

from uuid import UUID, uuid5

from tests.cluster.opening import Open
from tests.streamlog.world import batch_of, values_at
from tests.support.batches import produced_to

from fairlead.cluster.diverged import copy_tails
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import StreamSettings
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.values import Topic


async def tailed(stream: Stream, name: str) -> Topic:
    """A topic with a record that was cut off and is kept."""
    topic = await stream.create_topic(name, 1)
    shard = stream.shard_for(name)
    await produced_to(shard, topic.number, 0, batch_of(name.encode()))
    keep = uuid5(UUID(bytes=topic.incarnation), "0 9").bytes
    await shard.submit(lambda draft: cut(draft, topic.number, 0, 0, "takeover", 9, keep))
    return topic


async def test_tails_of_every_shard_are_copied(open_cluster: Open) -> None:
    """By name a diverged topic lies in a shard of its own; a restart in between changes nothing."""
    cluster = await open_cluster("harbour")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=4))
    names = [f"ship-{place}" for place in range(12)]
    for name in names:
        await tailed(stream, name)
    await copy_tails(stream, stream.shards[0])
    cluster = await open_cluster("harbour")
    stream = cluster.stream("/ships")
    moved = 0
    for shard in stream.shards:
        assert shard.copy_tails is not None
        await shard.copy_tails()
        assert shard.state.kept_from() == []
    for name in names:
        shard, topic = stream.topic(f"{name}.diverged.harbour.0")
        assert (topic.owner, topic.owner_at) == (stream.id, "/mapr/harbour/ships")
        assert values_at(shard, topic.number) == {0: name.encode()}
        moved += shard is not stream.shard_for(name)
    assert moved


async def test_a_taken_name_is_passed_over(open_cluster: Open) -> None:
    """The epoch of the new owner is in the next one."""
    cluster = await open_cluster("harbour")
    stream = await cluster.create_stream("/ships", StreamSettings())
    await stream.create_topic("anna.diverged.harbour.0", 1)
    await tailed(stream, "anna")
    for shard in stream.shards:
        await copy_tails(stream, shard)
    shard, topic = stream.topic("anna.diverged.harbour.0-9")
    assert values_at(shard, topic.number) == {0: b"anna"}
