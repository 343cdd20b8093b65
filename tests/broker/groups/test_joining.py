import pytest
from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import Stage

from fairlead.broker.groups.values import GroupState, Identity


def test_the_first_member_leads_a_generation_of_one() -> None:
    """With no initial delay a lone member is answered at once, as leader, with itself as only member."""
    stage = Stage()
    actor = stage.actor().join()
    answer = actor.joins[-1]
    assert (answer.error, answer.generation, answer.leader) == (ErrorCode.none, 1, answer.member_id)
    assert [(m.identity.member_id, m.subscription) for m in answer.members] == [(answer.member_id, b"sub")]
    assert stage.group.state is GroupState.COMPLETING


def test_a_new_client_is_given_an_id_first() -> None:
    """KIP-394: a join of version 4 or later without id is told to come again with the one it gets."""
    stage = Stage()
    actor = stage.actor(id_required=True).join()
    assert len(stage.group.members) == 0
    actor.join()
    assert [answer.error for answer in actor.joins] == [ErrorCode.member_id_required, ErrorCode.none]
    assert not stage.group.members.pending


def test_an_id_that_is_not_used_is_forgotten_and_the_group_with_it() -> None:
    """An id given out holds the group for one session timeout, no longer."""
    stage = Stage()
    actor = stage.actor(id_required=True).join()
    stage.scheduler.turn(10.1)
    assert stage.forgotten
    assert stage.scheduler.timers == 0
    assert actor.join().joins[-1].error is ErrorCode.unknown_member_id


def test_a_second_member_waits_until_the_first_joins_again() -> None:
    """The newcomer starts a rebalance; the generation begins when all have joined; only the leader sees the members."""
    stage = Stage()
    first = stage.actor().join()
    first.sync({})
    second = stage.actor().join()
    assert not second.joins
    assert first.beat() is ErrorCode.rebalance_in_progress
    first.join()
    assert first.generation == second.generation == 2
    assert first.leads
    assert len(first.joins[-1].members) == 2
    assert second.joins[-1].members == ()


def test_members_that_start_together_share_the_first_generation() -> None:
    """KIP-134: the initial delay gathers members, and each newcomer prolongs it up to the rebalance timeout."""
    stage = Stage(initial_rebalance_delay_ms=3000)
    first = stage.actor().join()
    stage.scheduler.turn(2)
    second = stage.actor().join()
    stage.scheduler.turn(2)
    assert not first.joins
    stage.scheduler.turn(2.1)
    assert first.generation == second.generation == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    """Newcomers without end do not keep the others waiting for ever."""
    stage = Stage(initial_rebalance_delay_ms=3000)
    first = stage.actor(rebalance_timeout_ms=7000).join()
    for _ in range(6):
        stage.scheduler.turn(1)
        stage.actor(rebalance_timeout_ms=7000).join()
    assert not first.joins
    stage.scheduler.turn(1.1)
    assert first.generation == 1
    assert len(first.joins[-1].members) == 7


def test_a_member_that_does_not_join_again_in_time_is_out() -> None:
    """The join deadline is the longest rebalance timeout of the members."""
    stage = Stage()
    first, second = stage.running(stage.actor(), stage.actor())
    second.join(protocols=(("range", b"other"),))
    for _ in range(4):
        stage.scheduler.turn(8)
        first.beat()
    assert second.generation == 3
    assert len(second.joins[-1].members) == 1
    assert second.leads
    assert first.beat() is ErrorCode.unknown_member_id


def test_a_follower_that_joins_unchanged_disturbs_nobody() -> None:
    """A join that changes nothing in a stable group is answered with the running generation."""
    stage = Stage()
    first, second = stage.running(stage.actor(), stage.actor())
    second.join()
    assert second.generation == first.generation
    assert stage.group.state is GroupState.STABLE


def test_a_leader_that_joins_again_asks_for_a_rebalance() -> None:
    """That is how a leader says that the partitions of a topic have changed."""
    stage = Stage()
    first, second = stage.running(stage.actor(), stage.actor())
    first.join()
    assert stage.group.state is GroupState.PREPARING
    second.join()
    assert first.generation == second.generation == 3


def test_the_protocol_is_the_one_that_all_know_and_most_prefer() -> None:
    """Votes go to each member's first protocol among the common ones."""
    stage = Stage()
    first = stage.actor(protocols=(("sticky", b""), ("range", b""), ("own", b"")))
    second = stage.actor(protocols=(("range", b""), ("sticky", b"")))
    third = stage.actor(protocols=(("range", b""), ("sticky", b"")))
    stage.running(first, second, third)
    assert third.joins[-1].protocol == "range"


def test_a_member_without_a_common_protocol_is_refused() -> None:
    """Another type, no common name, or nothing at all: INCONSISTENT_GROUP_PROTOCOL, and the group goes on."""
    stage = Stage()
    stage.running(stage.actor())
    for changes in ({"protocols": (("own", b""),)}, {"protocol_type": "connect"}, {"protocols": ()}):
        assert stage.actor(**changes).join().joins[-1].error is ErrorCode.inconsistent_group_protocol
    assert stage.group.state is GroupState.STABLE


@pytest.mark.parametrize("instance", [None, "one"])
def test_a_lone_member_may_change_its_assignor_and_not_its_kind(instance: str | None) -> None:
    """One that comes back with another assignor waits for nobody, be it that it was only started anew. The group keeps
    its type: a client that is told another one than it said ends."""
    stage = Stage()
    (first,) = stage.running(stage.actor() if instance is None else stage.static(instance))
    again = first if instance is None else stage.static(instance)
    other = (("own", b""),)
    refused = again.join(protocol_type="connect", protocols=other).joins[-1]
    assert refused.error is ErrorCode.inconsistent_group_protocol
    assert (stage.group.state, stage.group.protocol_type) == (GroupState.STABLE, "consumer")
    told = again.join(protocol_type="consumer", protocols=other).joins[-1]
    assert (told.error, told.protocol_type, told.protocol) == (ErrorCode.none, "consumer", "own")


def test_a_full_group_takes_nobody() -> None:
    """Ids given out count as well."""
    stage = Stage(group_size_max=2)
    stage.running(stage.actor())
    stage.actor(id_required=True).join()
    assert stage.actor().join().joins[-1].error is ErrorCode.group_max_size_reached


def test_an_unknown_id_is_told_so() -> None:
    """After a restart of the server members come with ids of its former life."""
    stage = Stage()
    actor = stage.actor(identity=Identity("client-of-yesterday")).join()
    assert actor.joins[-1].error is ErrorCode.unknown_member_id
