"""What a join does: a new member, one that comes with the id it was given, a static one that came back, a known one."""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.group import Group
from fairlead.broker.groups.member import Member
from fairlead.broker.groups.values import GroupState, JoinAnswer, JoinCallback, JoinRequest, RefusedMember

NewId = Callable[[str], str]
"""Makes a member id that begins with the client's or instance's name."""


def join(group: Group, request: JoinRequest, new_id: NewId, answer: JoinCallback) -> None:
    """Let a member join; `answer` is called once, now or when the generation begins.

    Raises:
        Refused: it may not join so; then `answer` is not called.
    """
    if not request.identity.member_id:
        _join_without_id(group, request, new_id, answer)
    elif request.identity.member_id in group.members.pending:
        _join_with_given_id(group, request, answer)
    else:
        _join_again(group, request, answer)


def _join_without_id(group: Group, request: JoinRequest, new_id: NewId, answer: JoinCallback) -> None:
    instance = request.identity.instance_id
    known = group.members.of_instance(instance) if instance is not None else None
    _check_protocols(group, request, known)
    member_id = new_id(instance or request.client_id)
    if known is not None:
        _replace_static(group, known, member_id, request, answer)
        return
    if len(group.members) + len(group.members.pending) >= group.settings.group_size_max:
        raise RefusedMember(ErrorCode.group_max_size_reached)
    if instance is None and request.id_required:
        group.give_id(member_id, request.session_timeout_ms)
        answer(JoinAnswer(member_id, ErrorCode.member_id_required))
    else:
        _admit(group, request, member_id, answer)


def _join_with_given_id(group: Group, request: JoinRequest, answer: JoinCallback) -> None:
    if request.identity.instance_id is not None:  # ids are given to dynamic members only
        raise RefusedMember(ErrorCode.unknown_member_id)
    _check_protocols(group, request, None)
    _admit(group, request, request.identity.member_id, answer)


def _admit(group: Group, request: JoinRequest, member_id: str, answer: JoinCallback) -> None:
    if not len(group.members):
        group.protocol_type = request.protocol_type
    member = Member(request, member_id, group.scheduler, group.expire)
    group.add(member)
    member.wait_join(answer)
    group.rebalance()


def _join_again(group: Group, request: JoinRequest, answer: JoinCallback) -> None:
    member = group.members.check(request.identity)
    _check_protocols(group, request, member)
    changed = member.request.protocols != request.protocols
    stable_leader = group.state is GroupState.STABLE and member.id == group.members.leader
    group.members.update(member, request)
    if group.state is GroupState.PREPARING or changed or stable_leader:
        # a leader joins again when what its members subscribe to has changed, so that it can assign anew
        member.wait_join(answer)
        group.rebalance()
    else:
        member.beat()
        answer(group.join_answer(member))


def _replace_static(group: Group, member: Member, member_id: str, request: JoinRequest, answer: JoinCallback) -> None:
    """A static member came back without its id: it goes on under a new one, without a rebalance if the group is stable
    and its protocol stays (KIP-345). A request that still waits under the old id is fenced."""
    leader_before = group.members.leader or ""
    member.refuse_all(ErrorCode.fenced_instance_id)
    group.members.rename(member, member_id)
    group.members.update(member, request)
    if group.state is not GroupState.STABLE or group.members.select_protocol() != group.protocol:
        member.wait_join(answer)
        group.rebalance()
        return
    member.beat()
    told = _static_answer(group, member, leader_before, request.may_skip_assignment)
    group.keep(group, lambda: answer(told))


def _static_answer(group: Group, member: Member, leader_before: str, may_skip: bool) -> JoinAnswer:
    """A leader that came back must not assign anew: newer clients are told so (KIP-814), older ones are told that
    somebody else leads."""
    told = group.join_answer(member)
    leads = told.leader == member.id
    return JoinAnswer(
        member_id=member.id,
        generation=told.generation,
        protocol_type=told.protocol_type,
        protocol=told.protocol,
        leader=told.leader if may_skip else leader_before,
        members=told.members if may_skip else (),
        skip_assignment=may_skip and leads,
    )


def _check_size(group: Group, request: JoinRequest, member: Member | None) -> None:
    """Is there room for what it says?"""
    more_bytes = request.size_bytes - (0 if member is None else member.request.size_bytes)
    code = group.members.room_for(more_bytes, group.settings.group_bytes_max)
    if more_bytes > 0 and code is not ErrorCode.none:
        raise RefusedMember(code)


def _check_protocols(group: Group, request: JoinRequest, member: Member | None) -> None:
    """Is there a protocol left that all members know, of the group's type, and room for what it says?

    What a member knew before does not bind it, as it does in Kafka: one that comes back with another assignor need not
    wait for the end of its own session.
    """
    _check_size(group, request, member)
    fits = bool(request.protocol_type) and bool(request.protocols)
    if len(group.members):
        fits = fits and request.protocol_type == group.protocol_type
    if len(group.members) > (member is not None):
        common = group.members.common_protocols(without=member)
        fits = fits and not common.isdisjoint(request.protocol_names)
    if not fits:
        raise RefusedMember(ErrorCode.inconsistent_group_protocol)
