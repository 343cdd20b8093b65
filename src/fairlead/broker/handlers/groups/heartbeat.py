"""Heartbeat: the member is alive; the answer tells it to join again when a rebalance runs."""

from __future__ import annotations

from typing import Any

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.group_logs.cursors import group_key
from fairlead.broker.groups.values import Identity

API_KEY = 12


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Begin the session anew."""
    identity = Identity(request.member_id, getattr(request, "group_instance_id", None))
    key = group_key(ctx.listener, request.group_id)
    return {"error_code": ctx.groups.heartbeat(key, identity, request.generation_id)}
