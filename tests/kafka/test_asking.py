"""Questions about groups and ACLs, to brokers that answer as no real one does on demand."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from fairlead.kafka import LATEST, Acl, OffsetAndEpoch, TopicPartition
from fairlead.kafka.connecting.versions import (
    CREATE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_PRODUCERS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
)
from fairlead.model.errors import NotAllowed, TryAgain, UnknownPartition, UnknownTopic, Unreachable
from tests.kafka.client import opened
from tests.kafka.fake_broker import FakeBroker, fake_broker, throttled

PLACE = TopicPartition("t", 0)


def of_group(group: str, offset: int, error: ErrorCode = ErrorCode.none) -> dict[str, Any]:
    """Its part of an answer to OffsetFetch."""
    part = {"partition_index": 0, "committed_offset": offset, "metadata": "m", "error_code": ErrorCode.none}
    none = {"partition_index": 1, "committed_offset": -1, "metadata": "", "error_code": ErrorCode.none}
    topics = [] if error else [{"name": "t", "partitions": [part, none]}]
    return {"group_id": group, "topics": topics, "error_code": error}


def listing(*groups: str) -> Any:
    said = {"protocol_type": "consumer", "group_state": "Stable", "group_type": "classic"}
    listed = [{"group_id": group} | said for group in groups]
    return lambda _: {"error_code": ErrorCode.none, "groups": listed}


def added(*results: dict[str, Any]) -> Any:
    return lambda _: {"results": list(results)}


def unavailable(_: Any) -> Any:
    return {"error_code": ErrorCode.coordinator_not_available, "node_id": -1, "host": "", "port": -1}


def pair(one: FakeBroker, other: FakeBroker) -> None:
    for broker in (one, other):
        broker.peers = [one, other]


async def test_groups_of_all_brokers_are_listed_and_each_is_asked_for_its_own() -> None:
    """Many groups in one request; one that may not be read leaves the others as they are."""
    async with fake_broker(0) as one, fake_broker(1) as other:
        pair(one, other)
        one.next(LIST_GROUPS, listing("a", "b"))
        other.next(LIST_GROUPS, listing("c"))
        refused = of_group("b", 0, ErrorCode.group_authorization_failed)
        one.next(OFFSET_FETCH, lambda _: {"groups": [of_group("a", 4), refused]})
        other.next(OFFSET_FETCH, lambda _: {"groups": [of_group("c", 7)]})
        async with opened(one.bootstrap) as cluster:
            groups = await cluster.groups()
            assert {name: each.node for name, each in groups.items()} == {"a": 0, "b": 0, "c": 1}
            found = await cluster.all_committed({name: each.node for name, each in groups.items()})
        assert found["a"] == {PLACE: OffsetAndEpoch(4, -1, "m")}
        assert list(found["c"]) == [PLACE]  # type: ignore[arg-type]
        assert isinstance(found["b"], NotAllowed)
        assert [len(broker.of(OFFSET_FETCH)) for broker in (one, other)] == [1, 1]


async def test_a_group_that_has_another_coordinator_meanwhile_is_sought() -> None:
    async with fake_broker(0) as one, fake_broker(1) as other:
        pair(one, other)
        one.next(OFFSET_FETCH, lambda _: {"groups": [of_group("a", 0, ErrorCode.not_coordinator)]})
        moved = {"error_code": ErrorCode.none, "node_id": 1, "host": "127.0.0.1", "port": other.port}
        one.next(FIND_COORDINATOR, lambda _: moved)
        other.next(OFFSET_FETCH, lambda _: {"groups": [of_group("a", 9)]})
        async with opened(one.bootstrap) as cluster:
            found = await cluster.all_committed({"a": 0})
        assert [at.offset for at in found["a"].values()] == [9]  # type: ignore[union-attr]


async def test_brokers_of_before_kafka_3_are_asked_for_one_group_at_a_time() -> None:
    """And say neither the state nor the kind of a group."""
    async with fake_broker(versions={OFFSET_FETCH: range(2, 8), LIST_GROUPS: range(4)}) as broker:
        broker.next(LIST_GROUPS, listing("a", "b"))
        broker.next(OFFSET_FETCH, lambda _: of_group("a", 1), lambda _: of_group("b", 2))
        async with opened(broker.bootstrap) as cluster:
            groups = await cluster.groups()
            assert {each.state for each in groups.values()} == {""}
            found = await cluster.all_committed({name: each.node for name, each in groups.items()})
        assert [commits[PLACE].offset for commits in found.values()] == [1, 2]  # type: ignore[index]


async def test_acls_of_topics_are_read_and_made() -> None:
    """One that is refused is an error that names its topic. An answer that leaves one out counts for none."""
    acl, other = (Acl(topic, "User:u", "*", 3, 3) for topic in ("t", "u"))
    described = {"principal": "User:u", "host": "*", "operation": 3, "permission_type": 3}
    resource = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "acls": [described]}
    refused = {"error_code": ErrorCode.security_disabled, "error_message": "No Authorizer is configured."}
    async with fake_broker() as broker:
        broker.next(DESCRIBE_ACLS, lambda _: {"error_code": ErrorCode.none, "resources": [resource]})
        done = {"error_code": ErrorCode.none}
        for results in ([done], [done], [refused, done]):
            broker.next(CREATE_ACLS, added(*results))
        async with opened(broker.bootstrap) as cluster:
            assert await cluster.acls() == [acl]
            assert await cluster.create_acls([acl]) == {}
            found = await cluster.create_acls([acl, other])
        assert list(found) == [acl]
        assert "topic t for User:u: SECURITY_DISABLED" in str(found[acl])
        made, _, _ = broker.of(CREATE_ACLS)
        (created,) = made.creations
        assert (created.resource_name, created.resource_pattern_type, created.operation) == ("t", 3, 3)


async def test_where_partitions_end_is_told_of_all_whose_leaders_answer() -> None:
    """One without a leader, one whose leader cannot be reached, and one that we may not see hold up no others, and each
    says why it is not known."""
    async with fake_broker(0) as one, fake_broker(1) as other:
        pair(one, other)
        for broker in (one, other):
            broker.add_topic("t", 4)[0].end = 10
            broker.leaders = {("t", 1): -1, ("t", 2): 1}
            broker.refused["secret"] = ErrorCode.topic_authorization_failed
        other.away = True
        async with opened(one.bootstrap, request_timeout_ms=10**6) as cluster:
            places = [TopicPartition("t", each) for each in range(5)]
            secret = TopicPartition("secret", 0)
            found = await cluster.told_offsets([*places[:4], secret], LATEST, committed=True, seconds=1)
            assert isinstance(found[secret], NotAllowed)
            with pytest.raises(NotAllowed, match="topic secret: TOPIC_AUTHORIZATION_FAILED"):
                await cluster.topics(["t", "secret"])
            assert found[places[0]] == OffsetAndEpoch(10, -1)
            assert found[places[3]] == OffsetAndEpoch(0, -1)
            assert isinstance(found[places[1]], TryAgain)
            assert str(found[places[1]]) == f"{places[1]} has no leader"
            assert isinstance(found[places[2]], Unreachable)
            with pytest.raises(UnknownPartition):
                await cluster.offsets(places, LATEST)


@pytest.mark.parametrize("error", [ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id])
async def test_a_leader_that_has_not_heard_of_its_partition_yet_is_asked_again(error: ErrorCode) -> None:
    """Metadata has just named the partition: a broker that has only just begun hears of its own a moment later."""

    def of_leader(code: ErrorCode, **fields: Any) -> dict[str, Any]:
        return {"partition_index": 0, "partition": 0, "error_code": code, "active_producers": []} | fields

    def answer(part: dict[str, Any]) -> Any:
        return lambda _: {"topics": [{"name": "t", "topic": "t", "partitions": [part]}]} | throttled(0)

    active = {"producer_id": 7, "producer_epoch": 0, "last_sequence": 4, "coordinator_epoch": 0}
    known = {"offset": 9, "leader_epoch": 2, "end_offset": 8, "active_producers": [active]}
    async with fake_broker() as broker:
        broker.add_topic("t")
        for api in (LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_PRODUCERS):
            broker.next(api, answer(of_leader(error)), answer(of_leader(ErrorCode.none, **known)))
        async with opened(broker.bootstrap) as cluster:
            assert await cluster.offsets([PLACE], LATEST) == {PLACE: OffsetAndEpoch(9, 2)}
            assert await cluster.end_of_epoch(PLACE, 2) == (2, 8)
            assert await cluster.last_sequences(7, [PLACE]) == {PLACE: 4}


async def test_a_group_whose_coordinator_is_away_holds_up_no_other() -> None:
    """What the others have committed is told. A pause that is longer than what is left ends the asking at once."""
    async with fake_broker() as broker:
        loading = of_group("b", 0, ErrorCode.coordinator_load_in_progress)
        broker.next(OFFSET_FETCH, lambda _: {"groups": [of_group("a", 4), loading]})
        broker.next(FIND_COORDINATOR, *[unavailable] * 1000)
        async with opened(broker.bootstrap, retry_backoff_ms=10**6, retry_backoff_max_ms=10**6) as cluster:
            found = await cluster.all_committed({"a": 0, "b": 0})
        assert found["a"] == {PLACE: OffsetAndEpoch(4, -1, "m")}
        assert isinstance(found["b"], TryAgain)


def committed(**errors: ErrorCode) -> Any:
    """An answer to OffsetCommit, with an error for partition 0 of each topic."""
    parts = {name: [{"partition_index": 0, "error_code": error}] for name, error in errors.items()}
    return lambda _: {"topics": [{"name": name, "partitions": its} for name, its in parts.items()]}


async def test_a_topic_that_the_coordinator_does_not_know_keeps_no_other_from_its_commit() -> None:
    """It is said, once all else is committed: what may pass is tried again first, whatever else is answered."""
    unknown, moved = ErrorCode.unknown_topic_or_partition, ErrorCode.not_coordinator
    async with fake_broker(0) as broker, opened(broker.bootstrap) as cluster:
        broker.next(OFFSET_COMMIT, committed(gone=unknown, t=moved), committed(gone=unknown, t=ErrorCode.none))
        with pytest.raises(UnknownTopic, match="gone"):
            await cluster.commit("g", {PLACE: OffsetAndEpoch(1), TopicPartition("gone", 0): OffsetAndEpoch(1)})
        assert len(broker.of(OFFSET_COMMIT)) == 2
        refused = committed(gone=unknown, t=ErrorCode.group_authorization_failed)
        broker.next(OFFSET_COMMIT, refused)
        with pytest.raises(NotAllowed):
            await cluster.commit("g", {PLACE: OffsetAndEpoch(1), TopicPartition("gone", 0): OffsetAndEpoch(1)})
