"""How many partitions and groups there may be: what is above is refused by a code, in a request of many too."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking

from fairlead.broker.handlers.groups import offset_commit
from fairlead.broker.handlers.topics import create_partitions, create_topics, delete_topics, metadata

NO_TIME = timedelta(0)


async def created(asker: Asker, **partitions: int) -> list[ErrorCode]:
    topics = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for name, count in partitions.items()
    ]
    answer = await asker.ask(create_topics.API_KEY, 5, timeout=NO_TIME, validate_only=False, topics=topics)
    return [topic.error_code for topic in answer.topics]


async def grown(asker: Asker, name: str, count: int) -> Any:
    topics = [{"name": name, "count": count, "assignments": None}]
    answer = await asker.ask(create_partitions.API_KEY, 3, timeout=NO_TIME, validate_only=False, topics=topics)
    return answer.results[0].error_code


async def test_a_stream_has_so_many_partitions() -> None:
    """POLICY_VIOLATION; what is deleted makes room. The two of topic `a` count."""
    async with asking(partitions_per_stream_max=10) as asker:
        codes = await created(asker, b=4, c=5, d=4)
        assert codes == [ErrorCode.none, ErrorCode.policy_violation, ErrorCode.none]
        assert await created(asker, e=1) == [ErrorCode.policy_violation]
        assert await grown(asker, "b", 5) == ErrorCode.policy_violation
        await asker.ask(delete_topics.API_KEY, 5, timeout=NO_TIME, topic_names=["d"])
        assert await grown(asker, "b", 8) == ErrorCode.none
        assert (await created(asker, **{"/ships:f": 5})) == [ErrorCode.none]


async def test_a_cluster_has_so_many_partitions() -> None:
    """Of all its streams; asking for a topic makes none either."""
    async with asking(partitions_max=6) as asker:
        assert await created(asker, **{"b": 1, "/ships:b": 2}) == [ErrorCode.none, ErrorCode.policy_violation]
        assert await created(asker, **{"/ships:c": 1}) == [ErrorCode.none]
        flags = dict.fromkeys(("include_cluster_authorized_operations", "include_topic_authorized_operations"), False)
        asked = [{"name": "new"}]
        answer = await asker.ask(metadata.API_KEY, 9, topics=asked, allow_auto_topic_creation=True, **flags)
        assert answer.topics[0].error_code == ErrorCode.unknown_topic_or_partition


async def test_a_log_has_cursors_of_so_many_groups() -> None:
    """Those that are there go on."""
    offset = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    request = {"topics": [{"name": "a", "partitions": [offset]}], "member_id": "", "group_instance_id": None}
    async with asking(groups_max=2) as asker:
        codes = []
        for group in ("a", "b", "c", "a"):
            answer = await asker.ask(
                offset_commit.API_KEY, 7, group_id=group, generation_id_or_member_epoch=-1, **request
            )
            codes.append(answer.topics[0].partitions[0].error_code)
        assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.group_max_size_reached, ErrorCode.none]
