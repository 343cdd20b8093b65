"""A group outlives its server: what is kept, when, and what another server makes of it."""

from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import Stage

from fairlead.broker.groups.records import RECORD, GroupRecord, MemberRecord
from fairlead.broker.groups.values import GroupState


def test_members_of_a_stable_group_go_on_after_a_kill() -> None:
    """Same generation, protocol, leader and parts; they beat, commit and ask for their parts again as if nothing had
    happened. The first commit of a live member failed with ILLEGAL_GENERATION."""
    stage = Stage()
    one, two = stage.running(stage.actor(), stage.actor())
    before = stage.group.description()
    stage.kill()
    assert stage.group.description() == before
    assert stage.group.state is GroupState.STABLE
    assert stage.group.members.leader == one.identity.member_id
    for member in (one, two):
        assert member.beat() is ErrorCode.none
        stage.group.check_commit(member.identity, member.generation)
        assert member.sync().syncs[-1].assignment == member.identity.member_id.encode()


def test_sessions_begin_anew_when_a_group_is_loaded() -> None:
    """The server was away for as long as it was: nobody is out for that. Who never comes back is, and the others share
    its part."""
    stage = Stage()
    one, two = stage.running(stage.actor(session_timeout_ms=10_000), stage.actor(session_timeout_ms=10_000))
    stage.scheduler.turn(9)
    stage.kill()
    stage.scheduler.turn(9)
    assert one.beat() is ErrorCode.none
    stage.scheduler.turn(2)
    assert one.beat() is ErrorCode.rebalance_in_progress
    one.join().sync({one.identity.member_id: b"all"})
    assert one.syncs[-1].assignment == b"all"
    assert two.beat() is ErrorCode.unknown_member_id


def test_a_static_member_keeps_its_id_over_a_kill() -> None:
    """KIP-345: also one whose process ended with the server and comes back under its instance id: no rebalance."""
    stage = Stage()
    one, two = stage.running(stage.static("a"), stage.static("b"))
    stage.kill()
    assert one.beat() is ErrorCode.none
    again = stage.static("b").join()
    assert again.generation == two.generation
    assert again.sync().syncs[-1].assignment == two.syncs[-1].assignment
    assert two.beat() is ErrorCode.fenced_instance_id
    stage.kill()
    assert again.beat() is ErrorCode.none


def test_a_static_member_hears_of_its_new_id_once_that_is_kept() -> None:
    """Otherwise a kill would fence the one that is alive."""
    stage = Stage()
    one, _ = stage.running(stage.static("a"), stage.static("b"))
    stage.keeps_late = True
    again = stage.static("a").join()
    assert again.joins == []
    stage.keep()
    assert again.joins[-1].generation == one.generation


def test_nobody_is_told_a_part_before_it_is_kept() -> None:
    """Killed in between, the group is as it was before the rebalance, which begins again; nobody owns anything by the
    generation that was not kept."""
    stage = Stage()
    (one,) = stage.running(stage.actor())
    stage.keeps_late = True
    two = stage.actor().join()
    one.join()
    two.sync()
    one.sync({one.identity.member_id: b"half", two.identity.member_id: b"half"})
    assert stage.group.state is GroupState.COMPLETING
    assert (len(one.syncs), len(two.syncs)) == (1, 0)
    stage.kill()
    assert one.beat() is ErrorCode.illegal_generation
    assert two.beat() is ErrorCode.unknown_member_id
    one.join()
    two = stage.actor().join()
    one.join()
    two.sync()
    one.sync({one.identity.member_id: b"half", two.identity.member_id: b"half"})
    stage.keep()
    assert [member.syncs[-1].assignment for member in (one, two)] == [b"half", b"half"]


def test_a_rebalance_that_begins_while_a_generation_is_kept_goes_on() -> None:
    """What was kept is not told any more: members are to join again."""
    stage = Stage(keeps_late=True)
    one = stage.actor().join()
    one.sync({one.identity.member_id: b"all"})
    two = stage.actor().join()
    assert one.syncs[-1].error is ErrorCode.rebalance_in_progress
    stage.keep()
    assert stage.group.state is GroupState.PREPARING
    one.join()
    assert one.generation == two.generation == 2


def test_a_leader_that_syncs_twice_is_kept_once() -> None:
    """It lost the connection and came again; the first assignment is the one that is being written."""
    stage = Stage(keeps_late=True)
    one = stage.actor().join()
    one.sync({one.identity.member_id: b"first"})
    one.sync({one.identity.member_id: b"second"})
    stage.keep()
    assert [answer.assignment for answer in one.syncs] == [b"first"]


def test_an_empty_group_is_kept_with_its_type_and_generation() -> None:
    """The next member goes on counting, and may bring another type."""
    stage = Stage()
    (one,) = stage.running(stage.actor())
    one.leave()
    assert stage.kept == GroupRecord(2, "consumer")
    stage.kill()
    assert stage.group.summary().protocol_type == "consumer"
    (again,) = stage.running(stage.actor(protocol_type="connect"))
    assert again.generation == 3
    assert stage.group.protocol_type == "connect"


def test_a_heartbeat_keeps_nothing() -> None:
    """One record a rebalance, none while the group is stable."""
    stage = Stage(keeps_late=True)
    one = stage.actor().join()
    one.sync({one.identity.member_id: b"all"})
    stage.keep()
    before = stage.kept
    one.beat()
    one.sync()
    stage.group.check_commit(one.identity, one.generation)
    stage.keep()
    assert stage.kept is before


def test_a_record_survives_text() -> None:
    """With texts and bytes of any kind."""
    member = MemberRecord("é-1", "in/sta\nnce", "c", "/::1", 1, 2, (("range", bytes(range(256))), ("", b"")), b"\xff")
    record = GroupRecord(7, "consumer", "range", "é-1", (member,), {"ab": (0, 5)})
    assert RECORD.read(RECORD.write(record)) == record
