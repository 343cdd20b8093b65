"""Consumer groups in the logs of streams: what a server that was killed leaves for the next one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import REQUEST
from tests.streamlog.world import rows_of

from fairlead.broker.group_logs.cuts import CutWatch
from fairlead.broker.group_logs.group_log import GroupLog
from fairlead.broker.groups import coordinator
from fairlead.broker.groups.coordinator import Coordinator
from fairlead.broker.groups.values import GroupKey, GroupState, Identity, JoinAnswer, SyncRequest
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import CommittedOffset
from fairlead.cluster.values import StreamSettings
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.settings import Settings
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.streamlog.writing.entries import put_entry

KEY = GroupKey("", "g")
SHIPS = GroupKey("/ships", "g")


class Server:
    """A cluster and its groups, without sockets."""

    def __init__(self, cluster: Cluster, storage: MemoryStorage) -> None:
        self.cluster = cluster
        self.storage = storage
        self.store = GroupLog(cluster)
        self.groups = Coordinator(cluster.settings, cluster.randomness, self.store)
        cluster.consumers.ask(self.groups.nonempty_since)
        self.cuts = CutWatch(cluster, self.groups)
        self.groups.resume()
        self.cuts.look()

    def left(self) -> MemoryStorage:
        """What is on disk if the server is killed now."""
        copy = MemoryStorage()
        copy.replace(self.storage.snapshot())
        return copy

    async def member(self, key: GroupKey, assignment: bytes = b"all", **changes: Any) -> JoinAnswer:
        """A lone member of a stable group."""
        joined = await self.groups.join(key, replace(REQUEST, **changes))
        identity = Identity(joined.member_id, changes.get("identity", Identity("")).instance_id)
        synced = await self.groups.sync(
            key, SyncRequest(identity, joined.generation, assignments={joined.member_id: assignment})
        )
        assert (joined.error, synced.error) == (ErrorCode.none, ErrorCode.none)
        return joined

    def beat(self, key: GroupKey, member: JoinAnswer) -> ErrorCode:
        return self.groups.heartbeat(key, Identity(member.member_id), member.generation)

    async def commit(self, path: str, group: str, offset: int) -> None:
        outcomes = await self.cluster.stream(path).commit_cursors(group, [CommittedOffset("a", 0, offset)])
        assert outcomes == [None]

    async def written(self) -> None:
        """All that was submitted before is durable."""
        for stream in self.cluster.streams():
            await stream.shards[0].submit(lambda draft: None)

    def entries(self, path: str) -> list[str]:
        return [key for key in self.cluster.stream(path).shards[0].state.entries if key.startswith("group/")]


@asynccontextmanager
async def serving(storage: MemoryStorage | None = None, **settings: Any) -> AsyncIterator[Server]:
    """A server on a storage, or on a new one with the streams /default and /ships and a topic `a` in each."""
    storage, fresh = storage or MemoryStorage(), storage is None
    with ThreadPoolExecutor(4) as executor:
        cluster = await Cluster.open(
            storage,
            name="site",
            settings=replace(Settings(), initial_rebalance_delay_ms=0, **settings),
            clock=SystemClock(),
            randomness=SystemRandomness(),
            executor=executor,
        )
        server = Server(cluster, storage)
        try:
            if fresh:
                await cluster.create_stream("/ships", StreamSettings())
                for stream in cluster.streams():
                    await stream.create_topic("a", 2)
            yield server
        finally:
            server.cuts.close()
            server.groups.close()
            await cluster.close()


async def test_groups_of_both_listeners_go_on_after_a_kill() -> None:
    """Each in its own place: the main listener's group may read topics of any stream."""
    async with serving() as before:
        member = await before.member(KEY)
        other = await before.member(SHIPS, identity=Identity("", "static"))
        left = before.left()
    async with serving(left) as after:
        assert after.beat(KEY, member) is ErrorCode.none
        assert after.groups.check_commit(KEY, Identity(member.member_id), member.generation) is ErrorCode.none
        assert after.groups.describe(KEY).members[0].assignment == b"all"
        assert after.groups.describe(SHIPS).members[0].identity == Identity(other.member_id, "static")
        assert after.groups.size_bytes > before.groups.size_bytes > 0


async def test_a_group_of_the_default_streams_own_listener_is_not_the_main_ones() -> None:
    """Both lie in the default stream's log."""
    async with serving() as before:
        own = GroupKey("/default", "g")
        main, member = await before.member(KEY), await before.member(own)
        left = before.left()
    async with serving(left) as after:
        assert after.groups.heartbeat(own, Identity(main.member_id), 1) is ErrorCode.unknown_member_id
        assert (after.beat(KEY, main), after.beat(own, member)) == (ErrorCode.none, ErrorCode.none)


async def test_a_rebalance_writes_one_local_commit_and_a_heartbeat_none() -> None:
    """It wakes no link, as it never leaves the cluster."""
    async with serving() as server:
        shard = server.cluster.stream("/default").shards[0]
        before, told_of = shard.announced.end, shard.announced.news_end
        member = await server.member(KEY)
        assert (shard.announced.end, shard.announced.news_end) == (before + 1, told_of)
        for _ in range(10):
            assert server.beat(KEY, member) is ErrorCode.none
        assert shard.announced.end == before + 1


async def test_what_comes_while_a_group_is_written_is_written_once() -> None:
    """A static member that comes again and again with short requests would have a large group written each time."""
    async with serving() as server:
        shard = server.cluster.stream("/default").shards[0]
        await server.member(KEY, identity=Identity("", "static"), protocols=(("range", bytes(200_000)),))
        before = shard.announced.end
        again = replace(REQUEST, identity=Identity("", "static"), protocols=(("range", b""),))
        answers = await asyncio.gather(*(server.groups.join(KEY, again) for _ in range(50)))
        assert {answer.error for answer in answers} == {ErrorCode.none}
        assert len(rows_of(shard, before)) <= 2
        left = server.left()
    async with serving(left) as after:
        assert after.groups.describe(KEY).members[0].identity == Identity(answers[-1].member_id, "static")


async def test_a_group_that_is_deleted_while_it_is_written_is_gone() -> None:
    """And one that comes back then is there."""
    async with serving() as server:
        for left_again in (False, True):
            member = await server.member(KEY)
            server.groups.leave(KEY, Identity(member.member_id))
            forgotten = asyncio.ensure_future(server.groups.forget(KEY))
            await asyncio.sleep(0)
            if left_again:
                await server.member(KEY)
            assert await forgotten
            assert len(server.entries("/default")) == left_again


async def test_a_record_larger_than_a_row_stands_in_several() -> None:
    """And in as many as it needs when the group becomes smaller: nothing is left of the larger one."""
    noise = random.Random(7).randbytes(900_000)
    async with serving() as before:
        member = await before.member(KEY, assignment=noise, protocols=(("range", noise[::-1]),))
        assert len(before.entries("/default")) > 1
        left = before.left()
    async with serving(left) as after:
        assert after.groups.describe(KEY).members[0].assignment == noise
        assert after.groups.size_bytes > 2 * len(noise)
        after.groups.leave(KEY, Identity(member.member_id))
        await after.written()
        assert len(after.entries("/default")) == 1
        assert after.groups.size_bytes < 10_000


async def test_an_empty_group_is_known_until_it_is_deleted() -> None:
    """With its type, over a restart too; its next generation goes on counting."""
    async with serving() as before:
        member = await before.member(KEY)
        before.groups.leave(KEY, Identity(member.member_id))
        await before.written()
        left = before.left()
    async with serving(left) as after:
        assert [(g.group, g.state, g.protocol_type) for g in after.groups.known("")] == [
            ("g", GroupState.EMPTY, "consumer")
        ]
        assert after.groups.known("/ships") == []
        assert (await after.member(KEY)).generation == member.generation + 2
        assert len(after.groups.known("")) == 1
        assert not await after.groups.forget(KEY)
        after.groups.leave(KEY, after.groups.describe(KEY).members[0].identity)
        assert await after.groups.forget(KEY)
        assert (after.groups.describe(KEY).state, after.entries("/default")) == (GroupState.DEAD, [])
        assert after.groups.size_bytes == 0


async def test_the_group_that_has_been_empty_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or groups of random names would fill the log."""
    monkeypatch.setattr(coordinator, "EMPTY_GROUPS_MAX", 2)
    async with serving() as server:
        for name in ("one", "two", "three", "two"):
            member = await server.member(GroupKey("", name))
            server.groups.leave(GroupKey("", name), Identity(member.member_id))
        await server.written()
        assert [group.group for group in server.groups.known("")] == ["three", "two"]
        assert sorted(server.entries("/default")) == ["group/main/0/three", "group/main/0/two"]


async def test_the_groups_of_a_deleted_stream_go_with_it() -> None:
    """A stream that takes its path has none of them."""
    async with serving() as server:
        member = await server.member(SHIPS)
        await server.member(KEY)
        await server.cluster.delete_stream("/ships")
        server.groups.forget_namespaces({"", "/default"})
        await server.cluster.create_stream("/ships", StreamSettings())
        assert server.beat(SHIPS, member) is ErrorCode.unknown_member_id
        assert (server.groups.known("/ships"), server.entries("/ships")) == ([], [])
        assert len(server.groups) == 1


async def test_a_group_goes_on_while_its_log_cannot_be_written() -> None:
    """Consumers can still read what is there; after a restart they join again."""
    async with serving() as server:
        member = await server.member(KEY)
        server.storage.fail(Fault.FULL)
        joined = await server.groups.join(KEY, replace(REQUEST, identity=Identity(member.member_id)))
        synced = await server.groups.sync(
            KEY, SyncRequest(Identity(joined.member_id), joined.generation, assignments={joined.member_id: b"more"})
        )
        assert (synced.error, synced.assignment) == (ErrorCode.none, b"more")
        left = server.left()
    async with serving(left) as after:
        assert after.beat(KEY, joined) is ErrorCode.illegal_generation
        assert (await after.member(KEY, identity=Identity(joined.member_id))).generation == joined.generation


async def test_members_have_been_there_since_the_first_one_joined_on_any_listener() -> None:
    """A commit number for each shard, from which on what comes finds members; it survives with them and ends with the
    last. A shard where the group had no cursor has nothing from before."""
    async with serving() as before:
        ships, default = before.cluster.stream("/ships"), before.cluster.stream("/default")
        assert before.groups.nonempty_since("g", ships.id, 0) is None
        await before.commit("/ships", "g", 1)
        first = await before.member(SHIPS)
        since = ships.shards[0].announced.end - 1  # its own record came after
        assert before.groups.nonempty_since("g", ships.id, 0) == since
        assert before.groups.nonempty_since("g", default.id, 0) == 0
        await before.commit("/ships", "g", 2)
        second = await before.member(KEY)
        before.groups.leave(SHIPS, Identity(first.member_id))
        await before.written()
        assert before.groups.nonempty_since("g", ships.id, 0) == since
        left = before.left()
    async with serving(left) as after:
        ships = after.cluster.stream("/ships")
        assert after.groups.nonempty_since("g", ships.id, 0) == since
        after.groups.leave(KEY, Identity(second.member_id))
        assert after.groups.nonempty_since("g", ships.id, 0) is None
        await after.member(KEY)
        assert (after.groups.nonempty_since("g", ships.id, 0) or 0) > since


async def test_a_record_of_a_newer_program_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Its members join again, and the record is the new one's then."""
    async with serving() as before:
        shard = before.cluster.stream("/default").shards[0]
        await shard.submit(lambda draft: put_entry(draft, "group/main/0/g", {"v": 2, "parts": 1, "text": "?"}))
        left = before.left()
    async with serving(left) as after:
        assert after.groups.describe(KEY).state is GroupState.DEAD
        assert after.entries("/default") == ["group/main/0/g"]
        await after.member(KEY)
        await asyncio.sleep(0)
        assert len(after.entries("/default")) == 1
