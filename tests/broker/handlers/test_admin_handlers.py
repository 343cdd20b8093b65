"""What tools ask about a cluster that one healthy node can answer honestly."""

from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, a_copy, asking, topic_id, versions

from fairlead.broker.handlers.configs import list_config_resources
from fairlead.broker.pieces import Pieces
from fairlead.broker.topics.authorized import CLUSTER, GROUP, Operation, of_topic
from fairlead.protocol.metadata import NOT_ASKED

METADATA, DESCRIBE_GROUPS, API_VERSIONS, ELECT_LEADERS = 3, 15, 18, 43
REASSIGNMENTS, QUOTAS, QUORUM, CLUSTER_KEY, RESOURCES, TOPIC_PARTITIONS = 46, 48, 55, 60, 74, 75
NO_TIME = timedelta(0)


def operations(bits: int) -> set[str]:
    return {operation.name for operation in Operation if bits >> operation & 1}


@pytest.mark.parametrize("version", versions(REASSIGNMENTS))
async def test_no_partition_is_being_moved(version: int) -> None:
    """Also if one is named."""
    async with asking() as asker:
        for topics in (None, [{"name": "a", "partition_indexes": [0]}]):
            answer = await asker.ask(REASSIGNMENTS, version, timeout=NO_TIME, topics=topics)
            assert (answer.error_code, answer.topics) == (ErrorCode.none, ())


@pytest.mark.parametrize("version", versions(QUOTAS))
async def test_nobody_has_a_quota(version: int) -> None:
    """An empty list, not the null that says that the answer failed."""
    async with asking() as asker:
        users = [{"entity_type": "user", "match_type": 2, "match": None}]
        answer = await asker.ask(QUOTAS, version, components=users, strict=False)
        assert (answer.error_code, answer.entries) == (ErrorCode.none, ())


@pytest.mark.parametrize("version", versions(QUORUM))
async def test_the_node_is_the_quorum(version: int) -> None:
    """Of `__cluster_metadata`, whose place the cluster's own log has; other partitions are unknown."""
    async with asking() as asker:
        asked = [{"partition_index": index} for index in (0, 1, 0)]
        topics = [{"topic_name": name, "partitions": asked} for name in ("__cluster_metadata", "a")]
        answer = await asker.ask(QUORUM, version, topics=topics)
        quorum, other = answer.topics[0].partitions
        assert (quorum.leader_id, [voter.replica_id for voter in quorum.current_voters]) == (1, [1])
        assert quorum.high_watermark == quorum.current_voters[0].log_end_offset > 0
        unknown = [other, *answer.topics[1].partitions]
        assert {found.error_code for found in unknown} == {ErrorCode.unknown_topic_or_partition}
        before = quorum.high_watermark
        await asker.cluster.edit_stream("/ships", autocreate=False)
        answer = await asker.ask(QUORUM, version, topics=topics[:1])
        assert answer.topics[0].partitions[0].high_watermark > before


@pytest.mark.parametrize("version", versions(ELECT_LEADERS))
async def test_no_leader_needs_to_be_elected(version: int) -> None:
    """Of all partitions only those are named that an election changed."""
    async with asking() as asker:

        async def elected(partitions: Any) -> dict[tuple[str, int], ErrorCode]:
            answer = await asker.ask(
                ELECT_LEADERS, version, election_type=0, topic_partitions=partitions, timeout=NO_TIME
            )
            assert getattr(answer, "error_code", ErrorCode.none) is ErrorCode.none
            results = [
                (topic.topic, result) for topic in answer.replica_election_results for result in topic.partition_result
            ]
            assert len(results) == len({(name, result.partition_id) for name, result in results})
            return {(name, result.partition_id): result.error_code for name, result in results}

        asked = [{"topic": "a", "partitions": [1, 2, 1]}, {"topic": "b", "partitions": [0]}]
        assert await elected(asked) == {
            ("a", 1): ErrorCode.election_not_needed,
            ("a", 2): ErrorCode.unknown_topic_or_partition,
            ("b", 0): ErrorCode.unknown_topic_or_partition,
        }
        assert await elected(None) == {}


async def test_topics_and_the_broker_have_settings() -> None:
    """Of the types that are asked for, all if none is; version 0 asks for client metrics, of which there are none."""
    async with asking() as asker:

        async def listed(*types: int) -> set[tuple[int, str]]:
            answer = await asker.ask(RESOURCES, 1, resource_types=types)
            assert answer.error_code is ErrorCode.none
            return {(found.resource_type, found.resource_name) for found in answer.config_resources}

        await asker.cluster.stream("/ships").create_topic("b", 1)
        assert await listed() == {(2, "a"), (4, "1")}
        assert await listed(2) == {(2, "a")}
        assert await listed(8, 16, 32) == set()
        unknown = await asker.ask(RESOURCES, 1, resource_types=[2, 99])
        assert (unknown.error_code, unknown.config_resources) == (ErrorCode.unsupported_version, ())
        metrics = await asker.ask(RESOURCES, 0)
        assert (metrics.error_code, metrics.config_resources) == (ErrorCode.none, ())
        ships = await asker.on_stream("/ships").ask(RESOURCES, 1, resource_types=[2])
        assert {found.resource_name for found in ships.config_resources} == {"a", "b"}


async def described(asker: Asker, names: Any, limit: int, cursor: Any = None) -> tuple[list[tuple[str, int]], Any]:
    """The partitions of a page, and what comes next."""
    topics = [{"name": name} for name in names]
    answer = await asker.ask(TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=limit, cursor=cursor)
    found = [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
    following = answer.next_cursor
    if following is None:
        return found, None
    return found, {"topic_name": following.topic_name, "partition_index": following.partition_index}


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("names", [[], ["c", "a", "b", "a"]])
async def test_pages_of_topics_follow_one_another(limit: int, names: list[str]) -> None:
    """By name, whatever the order of the request; with pages of any size each partition comes once."""
    async with asking() as asker:
        for name, partitions in (("c", 3), ("b", 5)):
            await asker.cluster.stream("/default").create_topic(name, partitions)
        pages, cursor, rounds = [], None, count(1)
        while next(rounds) < 20:
            page, cursor = await described(asker, names, limit, cursor)
            assert len(page) <= limit
            pages += page
            if cursor is None:
                break
        assert pages == [("a", 0), ("a", 1), *(("b", i) for i in range(5)), *(("c", i) for i in range(3))]


async def test_a_described_topic_has_what_metadata_says() -> None:
    """Id, leader, replicas; what is unknown has its own code, and takes its part of a page."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        answer = await asker.ask(
            TOPIC_PARTITIONS,
            0,
            topics=[{"name": "no"}, {"name": "a"}, {"name": "z"}],
            response_partition_limit=3,
            cursor=None,
        )
        known, unknown = answer.topics
        assert known.topic_id == UUID(bytes=topic_id(stream, "a"))
        assert [(p.leader_id, p.replica_nodes, p.isr_nodes) for p in known.partitions] == [(1, (1,), (1,))] * 2
        assert {"READ", "WRITE", "DELETE"} <= operations(known.topic_authorized_operations)
        assert (unknown.name, unknown.error_code) == ("no", ErrorCode.unknown_topic_or_partition)
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("z", 0)


async def test_a_page_is_no_longer_than_kafkas() -> None:
    """Whatever the client asks for; a cursor that cannot be is refused."""
    async with asking() as asker:
        await asker.cluster.stream("/default").create_topic("wide", 4096)
        page, cursor = await described(asker, ["wide"], 2**31 - 1)
        assert (len(page), cursor) == (2000, {"topic_name": "wide", "partition_index": 2000})
        page, cursor = await described(asker, ["wide"], -5)
        assert len(page) == 1
        for cursor in ({"topic_name": "a", "partition_index": 0}, {"topic_name": "wide", "partition_index": -1}):
            answer = await asker.ask(
                TOPIC_PARTITIONS, 0, topics=[{"name": "wide"}], response_partition_limit=9, cursor=cursor
            )
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.invalid_request]


async def test_the_only_feature_is_the_version_of_the_metadata() -> None:
    """kafka-ui reads there which Kafka it talks to; features that change what clients do are not offered."""
    async with asking() as asker:
        answer = await asker.ask(API_VERSIONS, 4, client_software_name="test", client_software_version="1")
        (supported,), (final,) = answer.supported_features, answer.finalized_features
        assert (supported.name, final.name) == ("metadata.version", "metadata.version")
        assert supported.min_version < final.max_version_level == supported.max_version
        assert answer.finalized_features_epoch >= 0


async def test_a_copy_that_passes_writes_on_may_be_written() -> None:
    """Tools show what a client may do; what changes a topic is done at its owner all the same."""
    async with asking() as asker:
        await a_copy(asker, "/default", "copied", "/ships")
        copied = asker.listener.find("copied")
        assert "WRITE" not in operations(of_topic(copied))
        await asker.cluster.edit_stream("/default", forward_writes=True)
        assert operations(of_topic(copied)) & {"READ", "WRITE", "DELETE"} == {"READ", "WRITE"}


async def test_authorized_operations_are_named_when_they_are_asked_for() -> None:
    """Of the cluster, of topics (of all topics too) and of groups; else there is the number that means "not asked"."""
    async with asking() as asker:
        for asked in (True, False):
            flags = {"include_cluster_authorized_operations": asked, "include_topic_authorized_operations": asked}
            for topics in (None, [{"name": "a", "topic_id": None}]):
                answer = await asker.ask(METADATA, 10, topics=topics, allow_auto_topic_creation=False, **flags)
                assert answer.cluster_authorized_operations == (CLUSTER if asked else NOT_ASKED)
                (topic,) = answer.topics
                named = topic.topic_authorized_operations
                assert operations(named) >= {"READ", "WRITE"} if asked else named == NOT_ASKED
            answer = await asker.ask(
                CLUSTER_KEY,
                2,
                include_cluster_authorized_operations=asked,
                endpoint_type=1,
                include_fenced_brokers=False,
            )
            assert answer.cluster_authorized_operations == (CLUSTER if asked else NOT_ASKED)
            (group,) = (await asker.ask(DESCRIBE_GROUPS, 5, groups=["g"], include_authorized_operations=asked)).groups
            assert group.authorized_operations == (GROUP if asked else NOT_ASKED)


async def test_a_topic_of_another_owner_is_only_read() -> None:
    """What is refused with POLICY_VIOLATION is not named."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        found = asker.listener.find("a")
        elsewhere = found._replace(topic=found.topic._replace(owner=b"x" * 16))
        assert stream.id == found.topic.owner
        assert operations(of_topic(found)) - operations(of_topic(elsewhere)) >= {"WRITE", "DELETE", "ALTER"}
        assert operations(of_topic(elsewhere)) == {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}


async def test_very_many_resources_are_few_pieces() -> None:
    """A million small parts are counted and joined in one turn each time; joined now and then, they are not."""
    pieces = Pieces()
    parts = [b"%06d" % number for number in range(50_000)]
    for part in parts:
        pieces.add(part)
    assert (pieces.count, pieces.size_bytes) == (50_000, 300_000)
    assert len(pieces.all()) <= 6
    assert b"".join(pieces.all()) == b"".join(parts)


async def test_resources_end_where_the_answer_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes ask for all topics."""
    monkeypatch.setattr(list_config_resources, "ANSWER_BYTES_MAX", 5)
    async with asking() as asker:
        answer = await asker.ask(RESOURCES, 1, resource_types=[])
        assert (answer.error_code, answer.config_resources) == (ErrorCode.invalid_request, ())
