"""SyncGroup: the leader brings everyone's assignment, each member gets its own."""

from __future__ import annotations

from typing import Any

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.group_logs.cursors import group_key
from fairlead.broker.groups.values import Identity, SyncRequest

API_KEY = 14


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Answered when the leader's sync has come."""
    syncing = SyncRequest(
        identity=Identity(request.member_id, getattr(request, "group_instance_id", None)),
        generation=request.generation_id,
        protocol_type=getattr(request, "protocol_type", None),
        protocol=getattr(request, "protocol_name", None),
        assignments={given.member_id: given.assignment for given in request.assignments},
    )
    answer = await ctx.groups.sync(group_key(ctx.listener, request.group_id), syncing)
    return {
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }
