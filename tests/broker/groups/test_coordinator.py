import asyncio
from dataclasses import replace

from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import REQUEST, Unkept
from tests.support.waiting import WAIT_SECONDS

from fairlead.broker.groups.coordinator import Coordinator
from fairlead.broker.groups.values import GroupDescription, GroupKey, GroupState, Identity, SyncRequest
from fairlead.model.clock import SystemRandomness
from fairlead.model.settings import Settings

KEY = GroupKey("", "g")


def coordinator() -> Coordinator:
    return Coordinator(Settings(initial_rebalance_delay_ms=0), SystemRandomness(), Unkept())


async def joined(groups: Coordinator, key: GroupKey = KEY) -> Identity:
    answer = await groups.join(key, REQUEST)
    await groups.sync(key, SyncRequest(Identity(answer.member_id), answer.generation))
    return Identity(answer.member_id)


async def test_a_group_of_one_runs_and_is_empty_when_it_leaves() -> None:
    """Join, sync, heartbeat, leave; its type is known further on, and it has no timer."""
    groups = coordinator()
    member = await joined(groups)
    assert groups.heartbeat(KEY, member, 1) is ErrorCode.none
    assert groups.describe(KEY).state is GroupState.STABLE
    assert groups.has_members("g")
    assert groups.leave(KEY, member) is ErrorCode.none
    assert groups.describe(KEY) == GroupDescription("g", GroupState.EMPTY, "consumer")
    assert len(groups) == 0


async def test_groups_of_one_name_on_two_listeners_are_two_groups() -> None:
    """Membership is per listener: subscriptions of a stream listener name other topics."""
    groups = coordinator()
    first = await joined(groups)
    await joined(groups, GroupKey("/activity", "g"))
    assert len(groups.describe(KEY).members) == 1
    assert [g.group for g in groups.known("/activity")] == ["g"]
    groups.leave(KEY, first)
    assert groups.has_members("g")
    groups.close()


async def test_bad_group_ids_and_session_timeouts_are_refused() -> None:
    """Empty or overlong ids, and sessions outside the settings' range."""
    groups = coordinator()
    assert (await groups.join(GroupKey("", ""), REQUEST)).error is ErrorCode.invalid_group_id
    assert (await groups.join(GroupKey("", "g" * 3000), REQUEST)).error is ErrorCode.invalid_group_id
    short = replace(REQUEST, session_timeout_ms=1)
    assert (await groups.join(KEY, short)).error is ErrorCode.invalid_session_timeout
    assert len(groups) == 0


async def test_a_group_without_members_takes_commits_from_anybody_and_of_no_generation() -> None:
    """That is how tools, and consumers with assigned partitions, commit."""
    groups = coordinator()
    assert groups.check_commit(KEY, Identity(""), -1) is ErrorCode.none
    assert groups.check_commit(KEY, Identity("ghost"), 3) is ErrorCode.illegal_generation
    assert groups.heartbeat(KEY, Identity("ghost"), 3) is ErrorCode.unknown_member_id


async def test_a_join_whose_connection_closed_stops_waiting() -> None:
    """The task is cancelled, the member's session runs, and the others are not held for long."""
    groups = coordinator()
    first = await joined(groups)
    waiting = asyncio.ensure_future(groups.join(KEY, replace(REQUEST, session_timeout_ms=1000)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    answer = await asyncio.wait_for(groups.join(KEY, replace(REQUEST, identity=first)), WAIT_SECONDS)
    assert answer.generation == 2
    assert len(answer.members) == 1
    groups.close()


async def test_closing_answers_whoever_waits() -> None:
    """A server that stops leaves no join hanging."""
    groups = coordinator()
    await joined(groups)
    waiting = asyncio.ensure_future(groups.join(KEY, REQUEST))
    await asyncio.sleep(0)
    groups.close()
    assert (await waiting).error is ErrorCode.not_coordinator


async def test_members_that_ask_while_the_server_stops_are_still_members() -> None:
    """UNKNOWN_MEMBER_ID would let them join under a new id, and the group would wait for the old one."""
    groups = coordinator()
    member = await joined(groups)
    groups.close()
    assert groups.heartbeat(KEY, member, 1) is ErrorCode.not_coordinator
    assert groups.check_commit(KEY, member, 1) is ErrorCode.not_coordinator
    assert (await groups.join(KEY, REQUEST)).error is ErrorCode.not_coordinator
