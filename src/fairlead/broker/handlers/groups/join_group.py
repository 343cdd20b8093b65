"""JoinGroup: the answer comes when the generation begins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.group_logs.cursors import group_key
from fairlead.broker.groups.values import Identity, JoinAnswer, JoinedMember, JoinRequest
from fairlead.protocol.messages import Fields

API_KEY = 11

MEMBER_ID_REQUIRED_SINCE = 4
"""KIP-394."""
NULLABLE_PROTOCOL_SINCE = 7
"""KIP-559."""
SKIP_ASSIGNMENT_SINCE = 9
"""KIP-814."""

_MILLISECOND = timedelta(milliseconds=1)


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Join or join again."""
    answer = await ctx.groups.join(group_key(ctx.listener, request.group_id), _joining(ctx, request))
    return _fields(answer, ctx.version)


def _joining(ctx: RequestContext, request: Any) -> JoinRequest:
    session_timeout_ms = request.session_timeout // _MILLISECOND
    # version 0 has no rebalance timeout: the session's stands for both (KIP-62)
    rebalance_timeout = getattr(request, "rebalance_timeout", request.session_timeout)
    return JoinRequest(
        identity=Identity(request.member_id, getattr(request, "group_instance_id", None)),
        client_id=ctx.client_id,
        client_host=f"/{ctx.connection.client_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=max(rebalance_timeout // _MILLISECOND, 0),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        id_required=ctx.version >= MEMBER_ID_REQUIRED_SINCE,
        may_skip_assignment=ctx.version >= SKIP_ASSIGNMENT_SINCE,
    )


def _fields(answer: JoinAnswer, version: int) -> Fields:
    no_protocol = None if version >= NULLABLE_PROTOCOL_SINCE else ""
    return {
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": no_protocol if answer.protocol is None else answer.protocol,
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [_member(member) for member in answer.members],
    }


def _member(member: JoinedMember) -> Fields:
    return {
        "member_id": member.identity.member_id,
        "group_instance_id": member.identity.instance_id,
        "metadata": member.subscription,
    }
