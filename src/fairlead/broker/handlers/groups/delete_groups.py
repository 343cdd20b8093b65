"""DeleteGroups: groups that nobody is in, with all their cursors."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import RefusedRequest, code_of
from fairlead.broker.group_logs.cursors import group_key, has_cursors
from fairlead.broker.pacing import Pace
from fairlead.model.errors import FairleadError
from fairlead.protocol.messages import Fields

API_KEY = 42


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """A group with members, through whichever listener, is not deleted."""
    pace = Pace()
    results: list[Fields] = []
    for group in dict.fromkeys(request.groups_names):
        results.append({"group_id": group, "error_code": await _delete(ctx, group)})
        await pace.turn()
    return {"results": results}


async def _delete(ctx: RequestContext, group: str) -> ErrorCode:
    def check_empty() -> None:
        if ctx.groups.has_members(group):
            raise RefusedRequest(ErrorCode.non_empty_group, f"consumer group {group} has members")

    try:
        check_empty()
        known = has_cursors(ctx.listener, group)
        for stream in ctx.listener.streams() if known else ():
            await stream.delete_cursors(group, check=check_empty)
        known |= await ctx.groups.forget(group_key(ctx.listener, group))
    except FairleadError as error:
        return code_of(error)
    return ErrorCode.none if known else ErrorCode.group_id_not_found
