"""LeaveGroup: one member until version 2, several since version 3 (KIP-345)."""

from __future__ import annotations

from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.group_logs.cursors import group_key
from fairlead.broker.groups.values import GroupKey, Identity
from fairlead.broker.pacing import in_turns
from fairlead.protocol.messages import Fields

API_KEY = 13


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Take members out; each has an answer of its own since version 3."""
    key = group_key(ctx.listener, request.group_id)
    if ctx.version < 3:
        return {"error_code": ctx.groups.leave(key, Identity(request.member_id))}
    if not key.group:
        return {"error_code": ErrorCode.invalid_group_id}
    return {"error_code": ErrorCode.none, "members": await in_turns(partial(_leave, ctx, key), request.members)}


def _leave(ctx: RequestContext, key: GroupKey, member: Any) -> Fields:
    code = ctx.groups.leave(key, Identity(member.member_id, member.group_instance_id))
    return {"member_id": member.member_id, "group_instance_id": member.group_instance_id, "error_code": code}
