from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import Stage

from fairlead.broker.groups.values import GroupState, Identity


def test_a_static_member_needs_no_id_first() -> None:
    """KIP-345: its instance id is enough."""
    stage = Stage()
    actor = stage.static("one", id_required=True).join()
    assert actor.joins[-1].error is ErrorCode.none
    assert actor.identity.member_id.startswith("one-")


def test_a_static_member_that_restarts_goes_on_without_a_rebalance() -> None:
    """It gets a new id, the same assignment, and the others notice nothing."""
    stage = Stage()
    first, second = stage.running(stage.static("one"), stage.static("two"))
    again = stage.static("two").join()
    assert stage.group.state is GroupState.STABLE
    assert again.identity.member_id != second.identity.member_id
    assert again.generation == second.generation
    assert again.sync().syncs[-1].assignment == second.identity.member_id.encode()
    assert first.beat() is ErrorCode.none


def test_the_former_holder_of_an_instance_id_is_fenced() -> None:
    """Whatever it does, it is told FENCED_INSTANCE_ID."""
    stage = Stage()
    _, second = stage.running(stage.static("one"), stage.static("two"))
    stage.static("two").join()
    assert second.beat() is ErrorCode.fenced_instance_id
    assert second.sync().syncs[-1].error is ErrorCode.fenced_instance_id
    assert second.join().joins[-1].error is ErrorCode.fenced_instance_id
    assert second.leave() is ErrorCode.fenced_instance_id


def test_a_waiting_join_of_the_former_holder_is_answered_with_fenced() -> None:
    """Two instances with one id do not both wait."""
    stage = Stage()
    stage.running(stage.static("one"))
    waiting = stage.static("two").join()
    stage.static("two").join()
    assert waiting.joins[-1].error is ErrorCode.fenced_instance_id


def test_a_static_leader_that_restarts_does_not_assign_anew() -> None:
    """KIP-814: a client that knows it is told to skip; an older one is told that somebody else leads."""
    stage = Stage()
    first, _ = stage.running(stage.static("one"), stage.static("two"))
    again = stage.static("one").join()
    assert again.joins[-1].skip_assignment
    assert again.leads
    assert len(again.joins[-1].members) == 2
    older = stage.static("one", may_skip_assignment=False).join()
    assert not older.leads
    assert older.joins[-1].members == ()
    assert first.identity.member_id != older.identity.member_id


def test_a_static_member_stays_through_a_rebalance_it_does_not_join() -> None:
    """It is away for a restart; its session timeout, not the rebalance, takes it out."""
    stage = Stage()
    first, _ = stage.running(
        stage.static("one", session_timeout_ms=60_000), stage.static("two", session_timeout_ms=60_000)
    )
    stage.actor(session_timeout_ms=60_000).join()
    first.join()
    stage.scheduler.turn(30.1)
    assert first.generation == 3
    assert len(first.joins[-1].members) == 3


def test_a_static_member_can_be_removed_by_its_instance_id_alone() -> None:
    """An operator does so with kafka-consumer-groups or the admin API (KIP-345)."""
    stage = Stage()
    stage.running(stage.static("one"))
    stage.group.leave(Identity("", "one"))
    assert stage.forgotten


def test_an_unknown_instance_cannot_leave() -> None:
    """It is told UNKNOWN_MEMBER_ID."""
    stage = Stage()
    actor = stage.static("one")
    assert actor.leave() is ErrorCode.unknown_member_id
