from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking, versions

FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE = 10, 11, 12, 13, 14, 15, 16, 42
OFFSET_DELETE = 47
CONSUMER_GROUP_HEARTBEAT = 68
TEN_SECONDS = timedelta(seconds=10)


async def join(asker: Asker, version: int = 9, member_id: str = "", **fields: Any) -> Any:
    return await asker.ask(
        JOIN,
        version,
        group_id="g",
        session_timeout=TEN_SECONDS,
        rebalance_timeout=TEN_SECONDS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\x00\x03\x00\x00\x00\x01\x00\x01a"}],
        **fields,
    )


async def joined(asker: Asker, version: int = 9) -> Any:
    first = await join(asker, version)
    if first.error_code is ErrorCode.member_id_required:
        first = await join(asker, version, first.member_id)
    assert first.error_code is ErrorCode.none
    return first


@pytest.mark.parametrize("version", versions(JOIN))
async def test_a_lone_member_joins_in_every_version(version: int) -> None:
    """The old forms lack fields, not meaning."""
    async with asking() as asker:
        answer = await joined(asker, version)
        assert (answer.generation_id, answer.protocol_name, answer.leader) == (1, "range", answer.member_id)
        assert answer.members[0].metadata.startswith(b"\x00\x03")


@pytest.mark.parametrize("version", versions(JOIN))
async def test_a_refused_join_has_an_answer_in_every_version(version: int) -> None:
    """Fields that may not be null in old versions are empty there."""
    async with asking() as asker:
        answer = await join(asker, version, "nobody")
        assert answer.error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", versions(SYNC))
async def test_a_leader_syncs_in_every_version(version: int) -> None:
    """It gets back what it assigned to itself."""
    async with asking() as asker:
        member = await joined(asker)
        given = [{"member_id": member.member_id, "assignment": b"mine"}]
        answer = await asker.ask(
            SYNC,
            version,
            group_id="g",
            generation_id=1,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given,
        )
        assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"mine")


@pytest.mark.parametrize("version", versions(HEARTBEAT))
async def test_heartbeats_in_every_version(version: int) -> None:
    """Of a member, and of somebody who is none."""
    async with asking() as asker:
        member = await joined(asker)
        for member_id, code in ((member.member_id, ErrorCode.none), ("nobody", ErrorCode.unknown_member_id)):
            answer = await asker.ask(HEARTBEAT, version, group_id="g", generation_id=1, member_id=member_id)
            assert answer.error_code is code


@pytest.mark.parametrize("version", versions(LEAVE))
async def test_a_member_leaves_in_every_version(version: int) -> None:
    """One member in old versions, a list with an answer for each in newer ones."""
    async with asking() as asker:
        member = await joined(asker)
        answer = await asker.ask(
            LEAVE,
            version,
            group_id="g",
            member_id=member.member_id,
            members=[{"member_id": member.member_id}, {"member_id": "nobody"}],
        )
        assert answer.error_code is ErrorCode.none
        if version >= 3:
            assert [m.error_code for m in answer.members] == [ErrorCode.none, ErrorCode.unknown_member_id]
        assert len(asker.groups) == 0


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
async def test_the_coordinator_is_the_address_that_clients_are_told(version: int) -> None:
    """There is one node."""
    async with asking() as asker:
        answer = await asker.ask(FIND_COORDINATOR, version, key="g", key_type=0, coordinator_keys=["g"])
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.node_id, found.host, found.port) == (
            ErrorCode.none,
            1,
            "broker.example",
            9092,
        )


@pytest.mark.parametrize("version", [version for version in versions(FIND_COORDINATOR) if version >= 1])
async def test_transactions_have_no_coordinator(version: int) -> None:
    """The code is one that clients of that version take for final, with a message that says why."""
    final = ErrorCode.transactional_id_authorization_failed if version < 4 else ErrorCode.unsupported_version
    async with asking() as asker:
        answer = await asker.ask(FIND_COORDINATOR, version, key="t", key_type=1, coordinator_keys=["t"])
        found = answer.coordinators[0] if version >= 4 else answer
        assert found.error_code is final
        assert "transactions are not served" in found.error_message


@pytest.mark.parametrize("version", versions(CONSUMER_GROUP_HEARTBEAT))
async def test_the_new_group_protocol_is_refused_by_an_answer(version: int) -> None:
    """librdkafka waits for ever where it is not offered, and fails at once on this code."""
    async with asking() as asker:
        said: Any = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout": timedelta(seconds=1)}
        answer = await asker.ask(CONSUMER_GROUP_HEARTBEAT, version, **said)
        assert answer.error_code is ErrorCode.unsupported_version
        assert "group.protocol=classic" in answer.error_message


@pytest.mark.parametrize("version", versions(LIST))
async def test_active_groups_and_those_with_cursors_are_listed(version: int) -> None:
    """A group that left cursors is Empty."""
    async with asking() as asker:
        await commit(asker, "left")
        await joined(asker)
        answer = await asker.ask(LIST, version)
        assert {group.group_id for group in answer.groups} == {"g", "left"}
        if version >= 4:
            states = {group.group_id: group.group_state for group in answer.groups}
            assert states == {"g": "CompletingRebalance", "left": "Empty"}


async def test_groups_are_listed_by_state_and_type() -> None:
    """In any case of letters; there are classic groups only."""
    async with asking() as asker:
        await commit(asker, "left")
        await joined(asker)
        for states, types, expected in (
            (["empty"], [], ["left"]),
            (["Stable"], [], []),
            ([], ["Classic"], ["g", "left"]),
            ([], ["consumer"], []),
        ):
            answer = await asker.ask(LIST, 5, states_filter=states, types_filter=types)
            assert [group.group_id for group in answer.groups] == expected


@pytest.mark.parametrize("version", versions(DESCRIBE))
async def test_groups_are_described_in_every_version(version: int) -> None:
    """An active one with its member, one that left cursors as Empty, an unknown one as Dead."""
    async with asking() as asker:
        await commit(asker, "left")
        member = await joined(asker)
        answer = await asker.ask(DESCRIBE, version, groups=["g", "left", "nobody"], include_authorized_operations=False)
        active, empty, dead = answer.groups
        assert [m.member_id for m in active.members] == [member.member_id]
        assert active.members[0].client_host == "/127.0.0.1"
        assert (empty.group_state, dead.group_state) == ("Empty", "Dead")
        assert dead.error_code is (ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none)


async def commit(asker: Asker, group: str, topic: str = "a") -> None:
    partitions = [{"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 0, "committed_metadata": "m"}]
    answer = await asker.ask(
        8,
        9,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": partitions}],
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


@pytest.mark.parametrize("version", versions(DELETE))
async def test_only_groups_that_nobody_is_in_are_deleted(version: int) -> None:
    """With all their cursors; members through another listener count."""
    async with asking() as asker:
        await commit(asker, "left")
        await commit(asker, "left", "/ships:a")
        await commit(asker, "g")
        await joined(asker.on_stream("/ships"))
        answer = await asker.ask(DELETE, version, groups_names=["left", "g", "nobody"])
        assert [result.error_code for result in answer.results] == [
            ErrorCode.none,
            ErrorCode.non_empty_group,
            ErrorCode.group_id_not_found,
        ]
        listed = await asker.ask(LIST, 5)
        assert [group.group_id for group in listed.groups] == ["g"]


async def test_a_group_that_gets_a_member_while_it_is_deleted_keeps_its_cursors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The member has asked for them by then."""
    async with asking() as asker:
        await commit(asker, "g")
        await commit(asker, "g", "/ships:a")
        first, second = asker.listener.streams()
        (shard,) = first.shards
        submit = shard.submit

        async def joins_first(*request: Any) -> Any:
            monkeypatch.setattr(shard, "submit", submit)
            await joined(asker)
            return await submit(*request)

        monkeypatch.setattr(shard, "submit", joins_first)
        answer = await asker.ask(DELETE, 2, groups_names=["g"])
        assert answer.results[0].error_code is ErrorCode.non_empty_group
        assert [name for name, *_ in second.cursors("g")] == ["g"]


async def test_a_group_that_its_members_left_is_empty_and_keeps_its_type() -> None:
    """Without a cursor too. It was gone, or had no type, so tools took the groups of Connect for consumers."""
    async with asking() as asker:
        member = await joined(asker)
        await asker.ask(LEAVE, 0, group_id="g", member_id=member.member_id)
        for _ in range(2):
            listed = (await asker.ask(LIST, 5)).groups
            assert [(g.group_id, g.group_state, g.protocol_type) for g in listed] == [("g", "Empty", "consumer")]
            described = (await asker.ask(DESCRIBE, 6, groups=["g"], include_authorized_operations=False)).groups[0]
            assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", ())
            await commit(asker, "g")
        answer = await asker.ask(DELETE, 2, groups_names=["g"])
        assert answer.results[0].error_code is ErrorCode.none
        assert (await asker.ask(LIST, 5)).groups == ()


async def test_a_group_whose_last_cursor_was_deleted_is_there_to_be_deleted() -> None:
    """Also one that never had members, on the listener that was asked."""
    async with asking() as asker:
        await commit(asker, "left")
        topics = [{"name": "a", "partitions": [{"partition_index": 0}]}]
        answer = await asker.ask(OFFSET_DELETE, 0, group_id="left", topics=topics)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none
        assert [group.group_id for group in (await asker.ask(LIST, 5)).groups] == ["left"]
        for expected in (ErrorCode.none, ErrorCode.group_id_not_found):
            deleted = await asker.ask(DELETE, 2, groups_names=["left"])
            assert deleted.results[0].error_code is expected
        assert (await asker.ask(OFFSET_DELETE, 0, group_id="left", topics=topics)).error_code is (
            ErrorCode.group_id_not_found
        )
