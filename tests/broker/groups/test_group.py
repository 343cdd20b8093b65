from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import Stage, code

from fairlead.broker.groups.values import GroupState, Identity, SyncRequest


def test_each_member_gets_its_own_assignment() -> None:
    """Followers that sync first wait for the leader's; one that syncs later is answered at once."""
    stage = Stage()
    first, second = stage.running(stage.actor(), stage.actor())
    assert first.syncs[-1].assignment == first.identity.member_id.encode()
    assert second.syncs[-1].assignment == second.identity.member_id.encode()
    assert stage.group.state is GroupState.STABLE


def test_a_follower_that_syncs_before_the_leader_waits() -> None:
    """The answer comes with the leader's sync."""
    stage = Stage()
    first, second = stage.actor().join(), stage.actor().join()
    first.join()
    second.sync()
    assert not second.syncs
    first.sync({second.identity.member_id: b"all"})
    assert second.syncs[-1].assignment == b"all"
    assert first.syncs[-1].assignment == b""


def test_a_sync_names_the_protocol_it_was_told() -> None:
    """KIP-559: another protocol name or type than the chosen one is INCONSISTENT_GROUP_PROTOCOL."""
    stage = Stage()
    actor = stage.actor().join()
    wrong = SyncRequest(actor.identity, 1, "consumer", "sticky")
    assert code(lambda: stage.group.sync(wrong, actor.syncs.append)) is ErrorCode.inconsistent_group_protocol
    right = SyncRequest(actor.identity, 1, "consumer", "range")
    assert code(lambda: stage.group.sync(right, actor.syncs.append)) is ErrorCode.none


def test_waiting_syncs_are_sent_back_to_join_when_a_rebalance_begins() -> None:
    """They are told REBALANCE_IN_PROGRESS, and may join at once."""
    stage = Stage()
    first, second = stage.actor().join(), stage.actor().join()
    first.join()
    second.sync()
    third = stage.actor().join()
    assert second.syncs[-1].error is ErrorCode.rebalance_in_progress
    first.join()
    second.join()
    assert third.generation == 3


def test_another_generation_is_illegal() -> None:
    """Sync, heartbeat and commit of a former generation are refused."""
    stage = Stage()
    (actor,) = stage.running(stage.actor())
    assert actor.beat(generation=7) is ErrorCode.illegal_generation
    assert actor.sync(generation=7).syncs[-1].error is ErrorCode.illegal_generation
    assert code(lambda: stage.group.check_commit(actor.identity, 0)) is ErrorCode.illegal_generation


def test_a_silent_member_is_out_after_its_session_timeout() -> None:
    """Then the group is empty, forgotten, and no timer is left."""
    stage = Stage()
    (actor,) = stage.running(stage.actor())
    stage.scheduler.turn(9)
    assert actor.beat() is ErrorCode.none
    stage.scheduler.turn(9)
    assert not stage.forgotten
    stage.scheduler.turn(1.1)
    assert stage.forgotten
    assert stage.scheduler.timers == 0
    assert actor.beat() is ErrorCode.unknown_member_id


def test_a_member_that_waits_for_us_does_not_expire() -> None:
    """The session does not run while a join or sync of the member waits."""
    stage = Stage()
    first, second = stage.running(stage.actor(), stage.actor())
    third = stage.actor(session_timeout_ms=1000).join()
    for _ in range(2):
        stage.scheduler.turn(8)
        first.beat()
        second.beat()
    first.join()
    second.join()
    assert third.joins[-1].error is ErrorCode.none


def test_members_that_joined_and_never_sync_are_out_after_the_rebalance_timeout() -> None:
    """Even if they heartbeat: the group must not stay without assignment for ever."""
    stage = Stage()
    first, second = stage.actor().join(), stage.actor().join()
    first.join()
    second.sync()
    for _ in range(5):
        stage.scheduler.turn(7)
        first.beat()
    assert second.syncs[-1].error is ErrorCode.rebalance_in_progress
    assert first.beat() is ErrorCode.unknown_member_id
    second.join()
    assert second.leads


def test_a_connection_that_is_gone_leaves_only_a_session() -> None:
    """A member whose waiting join lost its connection is out after its session timeout, not after five minutes."""
    stage = Stage()
    first, second = stage.running(stage.actor(), stage.actor())
    second.join(protocols=(("range", b"other"),))
    for member in stage.group.members:
        member.gave_up(second.hear)
    stage.scheduler.turn(8)
    first.join()
    assert not second.joins[-1].error.value
    stage.scheduler.turn(2.1)
    assert first.generation == 3
    assert len(first.joins[-1].members) == 1


def test_leaving_starts_a_rebalance_and_the_next_member_leads() -> None:
    """The leader left: the other one leads the next generation."""
    stage = Stage()
    first, second = stage.running(stage.actor(), stage.actor())
    assert first.leave() is ErrorCode.none
    assert second.beat() is ErrorCode.rebalance_in_progress
    second.join()
    assert second.leads
    assert second.generation == 3
    assert first.leave() is ErrorCode.unknown_member_id


def test_an_id_that_was_only_given_out_can_leave() -> None:
    """A client that closes between its two joins leaves nothing behind."""
    stage = Stage()
    actor = stage.actor(id_required=True).join()
    assert actor.leave() is ErrorCode.none
    assert stage.forgotten
    assert stage.scheduler.timers == 0


@pytest.mark.parametrize(
    ("generation", "member", "expected"),
    [
        (-1, "", ErrorCode.unknown_member_id),
        (2, "", ErrorCode.unknown_member_id),
        (2, "somebody", ErrorCode.unknown_member_id),
    ],
)
def test_an_active_group_takes_commits_of_its_members_only(generation: Any, member: Any, expected: Any) -> None:
    """A commit without membership would move the cursors under the members' feet."""
    stage = Stage()
    actor, _ = stage.running(stage.actor(), stage.actor())
    assert code(lambda: stage.group.check_commit(Identity(member), generation)) is expected
    assert code(lambda: stage.group.check_commit(actor.identity, actor.generation)) is ErrorCode.none


def test_a_member_may_commit_before_it_joins_again_but_not_before_it_is_assigned() -> None:
    """While joins are gathered the old assignment still holds; while the new one is made none does."""
    stage = Stage()
    (first,) = stage.running(stage.actor())
    stage.actor().join()
    assert code(lambda: stage.group.check_commit(first.identity, 1)) is ErrorCode.none
    first.join()
    assert code(lambda: stage.group.check_commit(first.identity, 2)) is ErrorCode.rebalance_in_progress


def test_a_closed_group_has_no_timer_and_sends_waiting_members_away() -> None:
    """At shutdown nobody is left hanging."""
    stage = Stage()
    stage.running(stage.actor())
    waiting = stage.actor().join()
    stage.group.close()
    assert waiting.joins[-1].error is ErrorCode.not_coordinator
    assert stage.scheduler.timers == 0
