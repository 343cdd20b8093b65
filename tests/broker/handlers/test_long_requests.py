"""Requests of very many items: handled in turns with everybody else's, answered once, refused if they are too many."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking
from tests.support.batches import bomb
from tests.support.waiting import in_time

from fairlead.broker import pacing
from fairlead.broker.handlers.cluster import describe_log_dirs, describe_quorum, elect_leaders
from fairlead.broker.handlers.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from fairlead.broker.handlers.groups import (
    delete_groups,
    describe_groups,
    find_coordinator,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from fairlead.broker.handlers.records import describe_producers, fetch, list_offsets, offset_for_leader_epoch, produce
from fairlead.broker.handlers.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)
from fairlead.model.limits import ANSWER_BYTES_MAX, PARTITIONS_PER_TOPIC_MAX, REQUEST_ITEMS_MAX
from fairlead.protocol.wire import Malformed, TooManyItems

MANY = 300
NAMES = [f"n{number}" for number in range(MANY)]
NO_TIME = timedelta(0)


def of_each(**fields: Any) -> list[dict[str, Any]]:
    """A topic with two partitions for every name; in one, `fields` are those of a partition."""
    return [{"name": name, "topic": name, "partitions": [fields] * 2} for name in NAMES]


OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
RESOURCES: list[dict[str, Any]] = [
    {"resource_type": 2, "resource_name": name, "configs": [], "configuration_keys": None} for name in NAMES
]
FETCHED = {
    "partition": 0,
    "current_leader_epoch": -1,
    "fetch_offset": 0,
    "last_fetched_epoch": -1,
    "partition_max_bytes": 1,
}
FETCH = {
    "max_wait": NO_TIME,
    "min_bytes": 0,
    "max_bytes": 9,
    "isolation_level": 0,
    "session_id": 0,
    "session_epoch": -1,
}
MEMBER = {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None}
TOPICS = {"timeout": NO_TIME, "validate_only": True}
CREATED = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
BATCHES = [{"index": 0, "records": bomb(1)}, {"index": 9, "records": b"x"}]
LONG: list[tuple[Any, int, dict[str, Any]]] = [
    (
        produce,
        9,
        {"acks": -1, "timeout": NO_TIME, "topic_data": [{"name": n, "partition_data": BATCHES} for n in NAMES * 4]},
    ),
    (fetch, 12, {**FETCH, "topics": of_each(**FETCHED), "rack_id": ""}),
    (
        list_offsets,
        7,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": of_each(partition_index=0, current_leader_epoch=-1, timestamp=-1),
        },
    ),
    (
        metadata,
        9,
        {
            "topics": [{"name": name} for name in NAMES],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        },
    ),
    (offset_commit, 7, {**MEMBER, "topics": of_each(**OFFSET)}),
    (
        offset_fetch,
        7,
        {"group_id": "g", "topics": [{"name": n, "partition_indexes": [0, 1]} for n in NAMES], "require_stable": False},
    ),
    (offset_fetch, 8, {"groups": [{"group_id": name, "topics": None} for name in NAMES], "require_stable": False}),
    (find_coordinator, 4, {"key_type": 0, "coordinator_keys": NAMES}),
    (leave_group, 4, {"group_id": "g", "members": [{"member_id": n, "group_instance_id": None} for n in NAMES]}),
    (describe_groups, 5, {"groups": NAMES, "include_authorized_operations": False}),
    (create_topics, 7, {**TOPICS, "topics": [{"name": name, **CREATED} for name in NAMES]}),
    (delete_topics, 5, {"timeout": NO_TIME, "topic_names": NAMES}),
    (
        offset_for_leader_epoch,
        4,
        {"replica_id": -1, "topics": of_each(partition=0, current_leader_epoch=-1, leader_epoch=0)},
    ),
    (describe_configs, 4, {"resources": RESOURCES, "include_synonyms": False, "include_documentation": False}),
    (alter_configs, 2, {"resources": RESOURCES, "validate_only": False}),
    (create_partitions, 3, {**TOPICS, "topics": [{"name": n, "count": 2, "assignments": None} for n in NAMES]}),
    (delete_groups, 2, {"groups_names": NAMES}),
    (
        elect_leaders,
        2,
        {
            "election_type": 0,
            "topic_partitions": [{"topic": n, "partitions": [0, 1]} for n in NAMES],
            "timeout": NO_TIME,
        },
    ),
    (describe_log_dirs, 4, {"topics": [{"topic": n, "partitions": [0]} for n in NAMES]}),
    (describe_producers, 0, {"topics": [{"name": n, "partition_indexes": [0, 1]} for n in NAMES]}),
    (describe_quorum, 2, {"topics": [{"topic_name": n, "partitions": [{"partition_index": 0}]} for n in NAMES]}),
    (incremental_alter_configs, 1, {"resources": RESOURCES, "validate_only": False}),
]


def always_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a slice later, so that work pauses wherever it may."""
    ticks = count()
    monkeypatch.setattr(pacing, "perf_counter", lambda: float(next(ticks)))


async def rounds_of_the_loop(asker: Asker, api: Any, version: int, fields: dict[str, Any]) -> int:
    """How often everybody else has had their turn when the answer is there."""
    asking = asyncio.ensure_future(asker.ask(api.API_KEY, version, **fields))
    rounds = 0
    while not asking.done():
        await asyncio.sleep(0)
        rounds += 1
    asking.result()
    return rounds


@pytest.mark.parametrize(("api", "version", "fields"), LONG, ids=lambda value: getattr(value, "__name__", ""))
async def test_others_have_their_turn_between_any_two_items(
    api: Any, version: int, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three million groups or resources in one request held the loop for 39 to 53 s."""
    always_late(monkeypatch)
    async with asking() as asker:
        assert await rounds_of_the_loop(asker, api, version, fields) >= MANY


async def test_others_have_their_turn_between_any_two_groups_and_cursors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ListGroups, ListConfigResources and DescribeLogDirs, of a group whose offsets are all asked for or deleted."""
    async with asking() as asker:
        names = [{"name": f"t{number}", **CREATED} for number in range(MANY)]
        await asker.ask(create_topics.API_KEY, 7, timeout=NO_TIME, validate_only=False, topics=names)
        topics = [{"name": topic["name"], "partitions": [OFFSET]} for topic in names]
        await asker.ask(offset_commit.API_KEY, 7, **MEMBER, topics=topics)
        for name in NAMES:
            await asker.ask(offset_commit.API_KEY, 7, **MEMBER | {"group_id": name}, topics=topics[:1])
        always_late(monkeypatch)
        deleted = [{"name": topic["name"], "partitions": [{"partition_index": 0}]} for topic in names]
        for api, version, fields in (
            (list_groups, 5, {"states_filter": [], "types_filter": []}),
            (list_config_resources, 1, {"resource_types": []}),
            (describe_log_dirs, 4, {"topics": None}),
            (offset_fetch, 7, {"group_id": "g", "topics": None, "require_stable": False}),
            (offset_delete, 0, {"group_id": "g", "topics": deleted}),
        ):
            assert await rounds_of_the_loop(asker, api, version, fields) >= MANY
        left = await asker.ask(offset_fetch.API_KEY, 7, group_id="g", topics=None, require_stable=False)
        assert left.topics == ()


async def test_each_round_of_the_loop_has_one_slice_however_many_requests_are_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a produce, which takes several rounds, waits for all of them in each."""
    always_late(monkeypatch)
    worked = 0
    worked_max = 0

    def work(_: int) -> None:
        nonlocal worked
        worked += 1

    requests = [asyncio.ensure_future(pacing.in_turns(work, range(20))) for _ in range(10)]
    await asyncio.sleep(0)
    async with in_time():
        while not all(request.done() for request in requests):
            worked = 0
            await asyncio.sleep(0)
            worked_max = max(worked_max, worked)
    assert worked_max == 1


async def test_what_is_named_twice_is_answered_once() -> None:
    """Metadata of 60 KB asked for 1,065 MB: twelve thousand times a topic of 4,096 partitions."""
    async with asking() as asker:
        large = {"name": "large", **CREATED, "num_partitions": PARTITIONS_PER_TOPIC_MAX}
        await asker.ask(create_topics.API_KEY, 7, timeout=NO_TIME, validate_only=False, topics=[large])
        asked = [{"name": "large"}] * 12_000
        flags = dict.fromkeys(("allow_auto_topic_creation", "include_cluster_authorized_operations"), False)
        answer = await asker.ask(metadata.API_KEY, 9, topics=asked, **flags, include_topic_authorized_operations=False)
        assert [len(topic.partitions) for topic in answer.topics] == [PARTITIONS_PER_TOPIC_MAX]
        (group,) = (
            await asker.ask(describe_groups.API_KEY, 5, groups=["g"] * 99, include_authorized_operations=False)
        ).groups
        assert group.group_id == "g"
        resources = [{"resource_type": 2, "resource_name": "a", "configuration_keys": None}] * 99
        options = {"include_synonyms": True, "include_documentation": False}
        (result,) = (await asker.ask(describe_configs.API_KEY, 4, resources=resources, **options)).results
        assert result.resource_name == "a"
        groups = [{"group_id": "g", "topics": None}] * 99
        (fetched,) = (await asker.ask(offset_fetch.API_KEY, 8, groups=groups, require_stable=False)).groups
        assert fetched.group_id == "g"
        keys = ["g"] * 99
        assert len((await asker.ask(find_coordinator.API_KEY, 4, key_type=0, coordinator_keys=keys)).coordinators) == 1
        topics = [{"name": "large"}] * 12_000
        page = await asker.ask(
            describe_topic_partitions.API_KEY, 0, topics=topics, response_partition_limit=2**31 - 1, cursor=None
        )
        assert sum(len(topic.partitions) for topic in page.topics) == describe_topic_partitions.PAGE_PARTITIONS_MAX
        assert len((await asker.ask(delete_groups.API_KEY, 2, groups_names=keys)).results) == 1


async def test_more_items_than_a_request_may_have_are_refused() -> None:
    """With INVALID_REQUEST where one code can stand for all, else the connection ends."""
    names = ["n"] * (REQUEST_ITEMS_MAX + 1)
    topics = [{"name": name, "partition_indexes": []} for name in names]
    async with asking() as asker:
        answer = await asker.ask(offset_fetch.API_KEY, 7, group_id="g", topics=topics, require_stable=False)
        assert answer.error_code == ErrorCode.invalid_request
        answer = await asker.ask(
            fetch.API_KEY, 12, **FETCH, topics=[{"topic": n, "partitions": []} for n in names], rack_id=""
        )
        assert answer.error_code == ErrorCode.invalid_request
        for api, version, fields in (
            (describe_groups, 5, {"groups": names, "include_authorized_operations": False}),
            (find_coordinator, 4, {"key_type": 0, "coordinator_keys": names}),
            (
                produce,
                9,
                {"acks": -1, "timeout": NO_TIME, "topic_data": [{"name": n, "partition_data": []} for n in names]},
            ),
        ):
            with pytest.raises(TooManyItems, match="100,000"):
                await asker.ask(api.API_KEY, version, **fields)


async def test_a_topic_is_not_named_with_more_partitions_than_one_may_have() -> None:
    """A topic's partitions are read and checked in one turn."""
    batches = [{"index": 0, "records": None}] * (PARTITIONS_PER_TOPIC_MAX + 1)
    async with asking() as asker:
        topics: Any = [{"topic": "a", "partitions": [FETCHED] * (PARTITIONS_PER_TOPIC_MAX + 1)}]
        with pytest.raises(Malformed, match="4097 partitions"):
            await asker.ask(fetch.API_KEY, 12, **FETCH, topics=topics, rack_id="")
        topics = [{"name": "a", "partition_data": batches}]
        with pytest.raises(Malformed, match="4097 partitions"):
            await asker.ask(produce.API_KEY, 9, acks=-1, timeout=NO_TIME, topic_data=topics)


async def test_partitions_that_are_refused_count_too() -> None:
    """Each has an answer of its own, which is many times its bytes in the request."""
    nothing = [{"index": 0, "records": None}] * PARTITIONS_PER_TOPIC_MAX
    topics = [{"name": "none", "partition_data": nothing}] * (REQUEST_ITEMS_MAX // PARTITIONS_PER_TOPIC_MAX + 1)
    async with asking() as asker:
        with pytest.raises(TooManyItems, match="100,000 partitions"):
            await asker.ask(produce.API_KEY, 9, acks=-1, timeout=NO_TIME, topic_data=topics)


async def test_an_answer_ends_where_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after is refused by its own code, so that a client may ask for fewer."""
    assert ANSWER_BYTES_MAX < 2**31
    for module in (metadata, describe_configs):
        monkeypatch.setattr(module, "ANSWER_BYTES_MAX", 100)
    async with asking() as asker:
        names = ["a", "/ships:a", "b"]
        flags = dict.fromkeys(("allow_auto_topic_creation", "include_cluster_authorized_operations"), False)
        topics = [{"name": name} for name in names]
        answer = await asker.ask(metadata.API_KEY, 9, topics=topics, **flags, include_topic_authorized_operations=False)
        assert [topic.error_code for topic in answer.topics][1:] == [ErrorCode.none, ErrorCode.invalid_request]
        resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in names[:2]]
        options = {"include_synonyms": True, "include_documentation": False}
        found = await asker.ask(describe_configs.API_KEY, 4, resources=resources, **options)
        assert [result.error_code for result in found.results] == [ErrorCode.none, ErrorCode.invalid_request]
