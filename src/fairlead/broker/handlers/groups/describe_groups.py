"""DescribeGroups: state, protocol and members of groups on this listener."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.group_logs.cursors import group_key, has_cursors
from fairlead.broker.groups.values import GroupDescription, GroupState, MemberDescription
from fairlead.broker.pacing import Pace
from fairlead.broker.topics import authorized
from fairlead.model.limits import ANSWER_BYTES_MAX
from fairlead.protocol.messages import Fields
from fairlead.protocol.metadata import NOT_ASKED

API_KEY = 15

_MEMBER_BYTES = 500
"""What a member takes in an answer that is being made, beside its metadata and assignment."""
NOT_FOUND_SINCE = 6
"""Before, an unknown group is one in state Dead, without error (KIP-1043)."""


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each group by itself, and once."""
    pace = Pace()
    described: dict[str, Fields] = {}
    left_bytes = ANSWER_BYTES_MAX
    operations = authorized.GROUP if getattr(request, "include_authorized_operations", False) else NOT_ASKED
    for group_id in request.groups:
        if left_bytes < 0:
            described.setdefault(group_id, _too_long(group_id))
        elif group_id not in described:
            made = described[group_id] = _described(ctx, group_id, operations)
            left_bytes -= sum(map(_bytes_in, made["members"]))
        await pace.turn()
    return {"groups": list(described.values())}


def _bytes_in(member: Fields) -> int:
    return _MEMBER_BYTES + len(member["member_metadata"]) + len(member["member_assignment"])


def _too_long(group_id: str) -> Fields:
    return {
        "error_code": ErrorCode.invalid_request,
        "error_message": "the answer is too long: ask for fewer groups at once",
        **_fields(GroupDescription(group_id, GroupState.DEAD)),
    }


def _described(ctx: RequestContext, group_id: str, operations: int) -> Fields:
    group = ctx.groups.describe(group_key(ctx.listener, group_id))
    if group.state is GroupState.DEAD and has_cursors(ctx.listener, group_id):
        group = replace(group, state=GroupState.EMPTY)
    missing = group.state is GroupState.DEAD and ctx.version >= NOT_FOUND_SINCE
    return {
        "error_code": ErrorCode.group_id_not_found if missing else ErrorCode.none,
        "error_message": f"Group {group_id} not found." if missing else None,
        "authorized_operations": NOT_ASKED if missing else operations,
        **_fields(group),
    }


def _fields(group: GroupDescription) -> Fields:
    return {
        "group_id": group.group,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [_member(member) for member in group.members],
    }


def _member(member: MemberDescription) -> Fields:
    return {
        "member_id": member.identity.member_id,
        "group_instance_id": member.identity.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.subscription,
        "member_assignment": member.assignment,
    }
