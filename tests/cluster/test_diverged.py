"""A stream copies what cuts have kept into diverged topics, whichever shards the two are in."""

from __future__ import annotations

from collections import Counter
from itertools import count
from unittest.mock import Mock
from uuid import UUID, uuid5

import pytest
from tests.cluster.opening import Open
from tests.streamlog.world import batch_of, values_at
from tests.support.batches import produced_to

from fairlead.cluster.diverged import copy_tails
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import StreamSettings
from fairlead.model.errors import Damaged, TryAgain
from fairlead.model.names import shard_of
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog.requests import diverged
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.topics import put_topic
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


async def test_the_log_is_read_once_for_all_tails(
    open_cluster: Open, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A takeover cuts tens of thousands of partitions: each time the log is looked through costs as much as all of
    them."""
    cluster = await open_cluster("harbour")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=1))
    (shard,) = stream.shards
    topic = await stream.create_topic("anna", 30)
    keep = uuid5(UUID(bytes=topic.incarnation), "0 9").bytes
    for partition in range(30):
        await produced_to(shard, topic.number, partition, batch_of(b"%d" % partition))
    for partition in range(30):
        await shard.submit(lambda draft, at=partition: cut(draft, topic.number, at, 0, "takeover", 9, keep))  # type: ignore[misc]
    asked: Counter[str] = Counter()
    look = Mock(wraps=diverged.tails)
    monkeypatch.setattr(diverged, "tails", look)
    storage.faults.hook = lambda call, name: asked.update([name] if call in {"get", "get_range"} else [])
    await copy_tails(stream, shard)
    storage.faults.hook = None
    assert look.call_count == 1
    assert len(asked) >= 30
    assert max(asked.values()) == 1
    _, copy = stream.topic("anna.diverged.harbour.0")
    assert [values_at(shard, copy.number, each) for each in range(30)] == [{0: b"%d" % each} for each in range(30)]
    assert not shard.state.kept_partitions


async def test_a_shard_that_is_damaged_stops_no_other_one_that_copies_into_it(
    open_cluster: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is that of the one tail; those behind it are copied, and the tail itself once all is well again."""
    cluster = await open_cluster("harbour")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=2))
    healthy, damaged = stream.shards
    names = (f"ship-{each}" for each in count())
    mine = (name for name in names if shard_of(name, 2) == 0)
    into = {target: next(n for n in mine if shard_of(f"{n}.diverged.harbour.0", 2) == target) for target in (1, 0)}
    topics = {target: await tailed(stream, into[target]) for target in (1, 0)}
    with monkeypatch.context() as patch:
        patch.setattr(damaged, "submit", _refusing)
        with pytest.raises(TryAgain, match=rf"cut off topic {into[1]}, partition 0: commit/7: it is broken"):
            await copy_tails(stream, healthy)
    assert healthy.state.kept_partitions == {(topics[1].number, 0)}
    shard, copy = stream.topic(f"{into[0]}.diverged.harbour.0")
    assert values_at(shard, copy.number) == {0: into[0].encode()}
    await copy_tails(stream, healthy)
    shard, copy = stream.topic(f"{into[1]}.diverged.harbour.0")
    assert (shard, values_at(shard, copy.number)) == (damaged, {0: into[1].encode()})


async def _refusing(*_: object) -> None:
    raise Damaged("commit/7", "it is broken")


async def test_nothing_is_copied_behind_a_batch_that_could_not_be(
    open_cluster: Open, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be missing in the copy for ever: what is below the copy's end counts as copied."""
    monkeypatch.setattr(diverged, "COPIED_BYTES", 1)
    cluster = await open_cluster("harbour")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=1))
    (shard,) = stream.shards
    topic = await stream.create_topic("anna", 1)
    for value in (b"0", b"1", b"2"):
        await produced_to(shard, topic.number, 0, batch_of(value))
    keep = uuid5(UUID(bytes=topic.incarnation), "0 9").bytes
    await shard.submit(lambda draft: cut(draft, topic.number, 0, 0, "takeover", 9, keep))
    storage.fail(Fault.FULL, nth=2)
    with pytest.raises(TryAgain, match="topic anna, partition 0"):
        await copy_tails(stream, shard)
    _, copy = stream.topic("anna.diverged.harbour.0")
    assert values_at(shard, copy.number) == {0: b"0"}
    await copy_tails(stream, shard)
    assert values_at(shard, copy.number) == {0: b"0", 1: b"1", 2: b"2"}
    assert shard.state.gaps() == []


async def test_a_copy_is_not_finished_while_a_partition_of_it_is_to_be_copied(
    open_cluster: Open, storage: MemoryStorage
) -> None:
    """Of two partitions the second could not be copied yet. If it began where the tail's last epoch does, what its tail
    has of the epoch before would count as copied."""
    cluster = await open_cluster("harbour")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=1))
    (shard,) = stream.shards
    topic = await stream.create_topic("anna", 2)
    later = topic._replace(epoch=3, version=topic.version + 1, since=((1, ((0, 0),)),) * 2)
    for value in (b"old", b"new"):
        for partition in range(2):
            await produced_to(shard, topic.number, partition, batch_of(value))
        await shard.submit(lambda draft: put_topic(draft, later, stream.id, None))
    keep = uuid5(UUID(bytes=topic.incarnation), "3 9").bytes
    for partition in range(2):
        await shard.submit(lambda draft, at=partition: cut(draft, topic.number, at, 0, "takeover", 9, keep))  # type: ignore[misc]
    storage.fail(Fault.FULL, nth=2)
    with pytest.raises(TryAgain, match="topic anna, partition 1"):
        await copy_tails(stream, shard)
    assert shard.state.kept_partitions == {(topic.number, 1)}
    await copy_tails(stream, shard)
    _, copy = stream.topic("anna.diverged.harbour.3")
    assert [values_at(shard, copy.number, each) for each in range(2)] == [{0: b"old", 1: b"new"}] * 2
    assert not shard.state.kept_partitions
