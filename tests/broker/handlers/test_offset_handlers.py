import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking, topic_id, versions
from tests.broker.handlers.test_group_handlers import LEAVE, SYNC, joined
from tests.support.waiting import in_time

COMMIT, FETCH, OFFSET_DELETE = 8, 9, 47


def partition(index: int, offset: int, metadata: str | None = "note") -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": 3,
        "committed_metadata": metadata,
    }


async def commit(
    asker: Asker, topics: list[dict[str, Any]], version: int = 9, generation: int = -1, member: str = ""
) -> list[ErrorCode]:
    answer = await asker.ask(
        COMMIT, version, group_id="g", generation_id_or_member_epoch=generation, member_id=member, topics=topics
    )
    return [found.error_code for topic in answer.topics for found in topic.partitions]


async def synced(asker: Asker) -> Any:
    """A member that has its assignment, all alone."""
    member = await joined(asker)
    given = [{"member_id": member.member_id, "assignment": b"all"}]
    identity = {"generation_id": member.generation_id, "member_id": member.member_id}
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    await asker.ask(SYNC, 5, group_id="g", **identity, **protocol, assignments=given)
    return member


async def fetch(asker: Asker, topics: list[dict[str, Any]] | None, version: int = 9) -> Any:
    group = {"group_id": "g", "topics": topics}
    answer = await asker.ask(FETCH, version, **group, groups=[group], require_stable=False)
    return answer.groups[0] if version >= 8 else answer


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_what_is_committed_is_fetched(version: int) -> None:
    """Offset, metadata and, since version 6, the leader epoch; by id since version 10."""
    async with asking() as asker:
        home = asker.cluster.stream("/default")
        named = {"name": "a", "topic_id": UUID(bytes=topic_id(home, "a"))}
        assert await commit(asker, [{**named, "partitions": [partition(1, 5)]}], version) == [ErrorCode.none]
        (topic,) = (await fetch(asker, [{"name": "a", "partition_indexes": [0, 1]}])).topics
        assert [(p.committed_offset, p.metadata, p.error_code) for p in topic.partitions] == [
            (-1, "", ErrorCode.none),
            (5, "note", ErrorCode.none),
        ]
        assert topic.partitions[1].committed_leader_epoch == (3 if version >= 6 else -1)


@pytest.mark.parametrize("version", versions(FETCH))
async def test_cursors_are_fetched_in_every_version(version: int) -> None:
    """Of named partitions, and since version 2 of all streams by the names that this listener shows."""
    async with asking() as asker:
        for name in ("a", "/ships:a"):
            assert await commit(asker, [{"name": name, "partitions": [partition(0, 5)]}]) == [ErrorCode.none]
        ids = {name: UUID(bytes=topic_id(asker.listener.find(name).stream, "a")) for name in ("a", "/ships:a")}
        wanted = [{"name": name, "topic_id": ids[name], "partition_indexes": [0]} for name in ids]
        for topics in (wanted, None) if version >= 2 else (wanted,):
            found = (await fetch(asker, topics, version)).topics
            shown = {topic.topic_id if version >= 10 else topic.name for topic in found}
            assert shown == set(ids.values() if version >= 10 else ids)
            assert [p.committed_offset for topic in found for p in topic.partitions] == [5, 5]


async def test_listeners_share_cursors() -> None:
    """What was committed through the stream's own listener is there under the long name."""
    async with asking() as asker:
        ships = asker.on_stream("/ships")
        await commit(ships, [{"name": "a", "partitions": [partition(0, 7)]}])
        (topic,) = (await fetch(asker, None)).topics
        assert (topic.name, topic.partitions[0].committed_offset) == ("/ships:a", 7)
        (topic,) = (await fetch(ships, None)).topics
        assert topic.name == "a"


@pytest.mark.parametrize(("name", "index"), [("nothing", 0), ("/nowhere:a", 0), ("a/b", 0), ("a", 2), ("a", -1)])
async def test_a_commit_to_what_does_not_exist_is_refused(name: str, index: int) -> None:
    """Topic, stream or partition; the others of the request are committed."""
    async with asking() as asker:
        topics = [
            {"name": name, "partitions": [partition(index, 5)]},
            {"name": "/ships:a", "partitions": [partition(0, 5)]},
        ]
        assert await commit(asker, topics) == [ErrorCode.unknown_topic_or_partition, ErrorCode.none]


async def test_unknown_ids_are_named_as_such() -> None:
    """KIP-848: the client asks for metadata again."""
    async with asking() as asker:
        unknown = {"topic_id": uuid4(), "partitions": [partition(0, 1)], "partition_indexes": [0]}
        assert await commit(asker, [unknown], 10) == [ErrorCode.unknown_topic_id]
        found = await fetch(asker, [unknown], 10)
        assert found.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_id


async def test_too_much_metadata_and_negative_offsets_are_refused() -> None:
    """4,096 bytes are Kafka's limit too."""
    async with asking() as asker:
        topics = [{"name": "a", "partitions": [partition(0, 1, "x" * 4097), partition(1, -5)]}]
        assert await commit(asker, topics) == [ErrorCode.offset_metadata_too_large, ErrorCode.offset_out_of_range]


async def test_an_active_group_takes_commits_of_its_members_only() -> None:
    """Every partition has the group's refusal."""
    async with asking() as asker:
        member = await joined(asker)
        topics = [{"name": "a", "partitions": [partition(0, 1), partition(1, 1)]}]
        assert await commit(asker, topics) == [ErrorCode.unknown_member_id] * 2
        assert await commit(asker, topics, 9, 7, member.member_id) == [ErrorCode.illegal_generation] * 2


async def test_a_commit_that_waits_takes_nothing_back_from_the_next_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member commits in two streams, and the log of the first cannot be written for longer than its session lasts. By
    then another member has its partitions, and has committed what it read there."""
    async with asking() as asker:
        shard, _ = asker.cluster.stream("/default").topic("a")
        slow, went_on, submit = asyncio.Event(), asyncio.Event(), shard.submit

        async def later(*request: Any) -> Any:
            slow.set()
            await went_on.wait()
            return await submit(*request)

        first = await synced(asker)
        both = [{"name": name, "partitions": [partition(0, 100)]} for name in ("a", "/ships:a")]
        with monkeypatch.context() as patch:
            patch.setattr(shard, "submit", lambda *request: asyncio.ensure_future(later(*request)))
            waiting = asyncio.create_task(commit(asker, both, 9, first.generation_id, first.member_id))
            async with in_time():
                await slow.wait()
        await asker.ask(LEAVE, 5, group_id="g", members=[{"member_id": first.member_id}])
        second = await synced(asker.another_connection())
        newer = [{"name": "/ships:a", "partitions": [partition(0, 200)]}]
        assert await commit(asker, newer, 9, second.generation_id, second.member_id) == [ErrorCode.none]
        went_on.set()
        assert await waiting == [ErrorCode.none, ErrorCode.unknown_member_id]
        (topic,) = (await fetch(asker, [{"name": "/ships:a", "partition_indexes": [0]}])).topics
        assert topic.partitions[0].committed_offset == 200


async def test_a_commit_that_changes_nothing_writes_nothing() -> None:
    """The log of the stream does not grow."""
    async with asking() as asker:
        topics = [{"name": "a", "partitions": [partition(0, 5)]}]
        await commit(asker, topics)
        shard, _ = asker.cluster.stream("/default").topic("a")
        before = shard.announced.end
        assert await commit(asker, topics) == [ErrorCode.none]
        assert shard.announced.end == before


async def test_an_unknown_topic_has_no_commit() -> None:
    """As in Kafka, asking by name for what does not exist is no error."""
    async with asking() as asker:
        found = await fetch(asker, [{"name": "nothing", "partition_indexes": [0]}])
        assert (found.topics[0].partitions[0].committed_offset, found.error_code) == (-1, ErrorCode.none)


async def test_cursors_of_topics_in_use_are_not_deleted() -> None:
    """KIP-496: only of topics that no member subscribes to."""
    async with asking() as asker:
        await commit(asker, [{"name": name, "partitions": [partition(0, 5)]} for name in ("a", "/ships:a")])
        await joined(asker)  # it subscribes to `a`
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("a", "/ships:a", "nothing")]
        answer = await asker.ask(OFFSET_DELETE, 0, group_id="g", topics=topics)
        assert [topic.partitions[0].error_code for topic in answer.topics] == [
            ErrorCode.group_subscribed_to_topic,
            ErrorCode.none,
            ErrorCode.unknown_topic_or_partition,
        ]
        assert [topic.name for topic in (await fetch(asker, None)).topics] == ["a"]


async def test_cursors_of_no_group_cannot_be_deleted() -> None:
    """GROUP_ID_NOT_FOUND."""
    async with asking() as asker:
        answer = await asker.ask(OFFSET_DELETE, 0, group_id="g", topics=[])
        assert answer.error_code is ErrorCode.group_id_not_found
