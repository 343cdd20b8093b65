"""Consumers without epochs over a cut: their groups rebalance, and their cursors end where the histories part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.group_logs.test_group_log import KEY, SHIPS, Server, serving
from tests.broker.groups.stage import REQUEST
from tests.broker.handlers.asking import Asker, asking
from tests.support.batches import produce, produced_to
from tests.support.waiting import WAIT_SECONDS, until

from fairlead.broker.groups.values import GroupKey, GroupState, Identity, JoinAnswer, SyncRequest
from fairlead.cluster.stream import CommittedOffset, Stream
from fairlead.protocol.batch import build_batch
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.topics import put_topic
from fairlead.streamlog.writing.draft import Draft

COMMIT, FETCH_CURSORS, FETCH = 8, 9, 1
D = 10
"""Where the histories part."""
STOOD = 15
"""Where the group reads in the tail that is cut."""


def subscribed(*topics: str) -> dict[str, Any]:
    """What a consumer says with its join."""
    named = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    said = b"\x00\x03" + len(topics).to_bytes(4, "big") + named
    return {"protocols": (("range", said),)}


READS_A = subscribed("a")


async def write(stream: Stream, count: int, name: str = "a") -> None:
    shard, topic = stream.topic(name)
    for _ in range(count):
        await produced_to(shard, topic.number, 0, build_batch([(None, b"v")]))


async def cut_at(stream: Stream, offset: int, *, name: str = "a", epoch: int = 5, newer: int = 0) -> None:
    """The topic goes on from an offset on in another epoch, which others began; so many records come with it."""
    shard, topic = stream.topic(name)

    def request(draft: Draft) -> None:
        owned = draft.state.topic(topic.number)
        assert owned is not None
        since = ((offset, draft.state.partition(topic.number, 0).cut_at(offset).history), (0, ()))
        put_topic(draft, owned._replace(epoch=epoch, version=owned.version + 1, since=since), owned.owner, None)
        cut(draft, topic.number, 0, offset, "takeover", epoch, None)
        for _ in range(newer):
            produce(draft, topic.number, 0, build_batch([(None, b"newer")]))

    await shard.submit(request)


async def commit(server: Server | Asker, member: JoinAnswer | None, offset: int, epoch: int = -1) -> ErrorCode:
    """A commit of a member, or of somebody who is in no group."""
    asker = server if isinstance(server, Asker) else Asker(server.cluster, server.groups)
    part = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": "",
    }
    answer = await asker.ask(
        COMMIT,
        9,
        group_id="g",
        generation_id_or_member_epoch=-1 if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        topics=[{"name": "a", "partitions": [part]}],
    )
    (topic,) = answer.topics
    code: ErrorCode = topic.partitions[0].error_code
    return code


async def told(server: Server | Asker) -> tuple[int, int]:
    """(offset, epoch) from which on a new generation reads."""
    asker = server if isinstance(server, Asker) else Asker(server.cluster, server.groups)
    topics = [{"name": "a", "partition_indexes": [0]}]
    answer = await asker.ask(FETCH_CURSORS, 7, group_id="g", topics=topics, require_stable=False)
    (part,) = answer.topics[0].partitions
    return part.committed_offset, part.committed_leader_epoch


async def rejoined(server: Server, key: GroupKey, member: JoinAnswer) -> JoinAnswer:
    """The member as it goes on in the next generation."""
    joined = await server.groups.join(key, replace(REQUEST, identity=Identity(member.member_id), **READS_A))
    identity = Identity(joined.member_id)
    await server.groups.sync(key, SyncRequest(identity, joined.generation, assignments={joined.member_id: b"all"}))
    return joined


async def prepares(server: Server, key: GroupKey = KEY) -> None:
    await until(lambda: server.groups.describe(key).state is GroupState.PREPARING)


async def test_a_group_goes_back_to_where_its_log_was_cut() -> None:
    """It stands at 15, others are written from 10 on: it reads them all, also when their end is beyond 15 by then. What
    its last generation commits on the way out counts up to the cut; what the next one commits counts as it is."""
    async with serving() as server:
        home = server.cluster.stream("/default")
        await write(home, 20)
        member = await server.member(KEY, **READS_A)
        assert await commit(server, member, STOOD) is ErrorCode.none
        assert await told(server) == (STOOD, 0)
        await cut_at(home, D)
        await write(home, 20)
        await prepares(server)
        assert server.beat(KEY, member) is ErrorCode.rebalance_in_progress
        assert await told(server) == (D, 5)
        assert await commit(server, member, STOOD + 1) is ErrorCode.none
        assert await told(server) == (D, 5)
        member = await rejoined(server, KEY, member)
        assert server.beat(KEY, member) is ErrorCode.none
        assert await commit(server, member, STOOD + 1) is ErrorCode.none
        assert await told(server) == (STOOD + 1, 5)


async def test_only_groups_that_read_the_topic_rebalance() -> None:
    """Whatever they call it, and through whichever listener; a group whose members do not say what they read, as those
    of Connect, reads no topic by itself. After a cut of one topic a commit for another counts as it is."""
    async with serving() as server:
        home, ships = server.cluster.stream("/default"), server.cluster.stream("/ships")
        for stream in (home, ships):
            await write(stream, 20)
        other, worker = GroupKey("", "other"), GroupKey("", "worker")
        reads_both = await server.member(KEY, **subscribed("nothing", "/ships:a", "a/b"))
        await server.member(SHIPS, **READS_A)
        reads_home = await server.member(other, **READS_A)
        await server.member(worker, protocol_type="connect", protocols=(("default", b"?"),))
        await cut_at(ships, D)
        for key in (KEY, SHIPS):
            await prepares(server, key)
        assert server.beat(other, reads_home) is ErrorCode.none
        assert server.groups.describe(worker).state is GroupState.STABLE
        assert await commit(server, reads_both, STOOD) is ErrorCode.none
        assert server.beat(KEY, reads_both) is ErrorCode.rebalance_in_progress
        assert await told(server) == (STOOD, 0)


async def test_a_cut_that_comes_before_its_server_is_killed_is_found_at_the_next_start() -> None:
    """The members survive the kill, and would go on where they stood. After the next kill they do go on."""
    async with serving() as before:
        home = before.cluster.stream("/default")
        await write(home, 20)
        member, other = await before.member(KEY, **READS_A), GroupKey("", "other")
        bystander = await before.member(other, **subscribed("b"))
        await commit(before, member, STOOD)
        before.cuts.close()
        await cut_at(home, D)
        left = before.left()
    async with serving(left) as after:
        assert await commit(after, member, STOOD + 1) is ErrorCode.none  # before anybody has looked
        assert await told(after) == (D, 5)
        await prepares(after)
        assert after.beat(KEY, member) is ErrorCode.rebalance_in_progress
        assert after.beat(other, bystander) is ErrorCode.none
        member = await rejoined(after, KEY, member)
        await write(after.cluster.stream("/default"), 20)
        left = after.left()
    async with serving(left) as again:
        assert await commit(again, member, STOOD + 2) is ErrorCode.none
        await until(lambda: again.cuts.idle)
        assert again.beat(KEY, member) is ErrorCode.none
        assert await told(again) == (STOOD + 2, 5)


async def test_a_commit_that_meets_the_cut_on_its_way_counts_up_to_it() -> None:
    """The generation is checked, the commit waits in the queue behind the frame that cuts."""
    async with serving() as server:
        home = server.cluster.stream("/default")
        await write(home, 20)
        member = await server.member(KEY, **READS_A)
        known = server.groups.known_cuts(KEY)
        assert known == {}
        await cut_at(home, D)
        await write(home, 20)
        assert await home.commit_cursors("g", [CommittedOffset("a", 0, STOOD)], ()) == [None]
        assert await told(server) == (D, 5)
        assert member.error is ErrorCode.none


@pytest.mark.parametrize(
    ("epoch", "found"), [(-1, (STOOD, 5)), (0, (D, 5)), (4, (D, 5)), (5, (STOOD, 5)), (6, (STOOD, 6))]
)
async def test_a_commit_that_names_an_epoch_is_taken_by_its_word(epoch: int, found: tuple[int, int]) -> None:
    """Java and librdkafka say which record they have read last, also when they commit without being members. Who says
    nothing means the one that stands there now."""
    async with asking() as asker:
        home = asker.cluster.stream("/default")
        await write(home, 20)
        await cut_at(home, D)
        await write(home, 20)
        assert await commit(asker, None, STOOD, epoch) is ErrorCode.none
        assert await told(asker) == found
        assert [cursor.offset for *_, cursor in home.cursors("g")] == [found[0]]


async def test_a_cursor_ahead_of_the_log_is_served_as_it_was_committed() -> None:
    """As in Kafka: somebody may set it before the records come."""
    async with asking() as asker:
        assert await commit(asker, None, 42) is ErrorCode.none
        assert await told(asker) == (42, -1)


async def fetched(asker: Asker, offset: int, epoch: int = -1, wait_seconds: float = 0) -> ErrorCode:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000, "current_leader_epoch": epoch}
    answer = await asker.ask(
        FETCH,
        11,
        replica_id=-1,
        max_wait=timedelta(seconds=wait_seconds),
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_epoch=-1,
        topics=[{"topic": "a", "partitions": [part]}],
        forgotten_topics_data=[],
    )
    code: ErrorCode = answer.responses[0].partitions[0].error_code
    return code


async def test_a_consumer_behind_a_cut_waits_for_its_group() -> None:
    """A client without epochs that stands where nothing is now does not begin anew by its `auto.offset.reset`, as long
    as groups are still to be told: it asks for metadata and tries again. Then it hears that the offset is out of range.
    One with epochs is sent to where they part at once, and so is nobody who never stood there."""
    async with serving() as server:
        home = server.cluster.stream("/default")
        asker = Asker(server.cluster, server.groups, cuts=server.cuts)
        await write(home, 20)
        member = await server.member(KEY, **READS_A)
        await commit(server, member, STOOD)
        await cut_at(home, D)
        assert await fetched(asker, STOOD) is ErrorCode.not_leader_or_follower
        await prepares(server)
        assert await fetched(asker, STOOD) is ErrorCode.not_leader_or_follower
        assert await fetched(asker, STOOD, epoch=0) is ErrorCode.fenced_leader_epoch
        assert await fetched(asker, STOOD, epoch=5) is ErrorCode.offset_out_of_range
        assert await fetched(asker, D) is ErrorCode.none
        await rejoined(server, KEY, member)
        assert await fetched(asker, STOOD) is ErrorCode.offset_out_of_range


@pytest.mark.parametrize("newer", [0, 20])
async def test_who_waits_for_records_is_fenced_by_a_change_of_epoch(newer: int) -> None:
    """A Fetch that began in the epoch before is not given what stands at its offset now, nor told that nothing does."""
    async with asking() as asker:
        home = asker.cluster.stream("/default")
        await write(home, STOOD)
        waiting = asyncio.ensure_future(fetched(asker, STOOD, epoch=0, wait_seconds=WAIT_SECONDS))
        shard, _ = home.topic("a")
        await until(lambda: shard.watched)
        await cut_at(home, D, newer=newer)
        assert await waiting is ErrorCode.fenced_leader_epoch


async def test_what_is_read_from_disk_meanwhile_is_fenced_too() -> None:
    """The records are read on a thread, and may be the newer ones by then."""
    async with asking(cache_bytes=1) as asker:
        home = asker.cluster.stream("/default")
        await write(home, 20)
        asker.readers = later = Later()
        reading = asyncio.ensure_future(fetched(asker, STOOD, epoch=0))
        await until(lambda: later.waiting)
        await cut_at(home, D, newer=20)
        later.go_on()
        assert await reading is ErrorCode.fenced_leader_epoch


class Later(Executor):
    """Does its work when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.waiting.append(lambda: done.set_result(fn(*args, **kwargs)))
        return done

    def go_on(self) -> None:
        for work in self.waiting:
            work()


async def test_streams_that_are_made_later_are_watched() -> None:
    """And a deleted one is not looked for."""
    async with serving() as server:
        later = await server.cluster.create_stream("/later", server.cluster.stream("/ships").settings)
        await later.create_topic("a", 2)
        await write(later, 20)
        reads_later = await server.member(KEY, **subscribed("/later:a", "/ships:a"))
        await server.cluster.delete_stream("/ships")
        await cut_at(later, D)
        await prepares(server)
        assert server.beat(KEY, reads_later) is ErrorCode.rebalance_in_progress
