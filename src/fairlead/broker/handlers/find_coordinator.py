"""FindCoordinator: there is one node, so it coordinates every group. Transactions have no coordinator here."""

from __future__ import annotations

from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.node import NODE_ID
from fairlead.broker.pacing import in_turns
from fairlead.protocol.messages import Fields

API_KEY = 10

GROUP_KEY_TYPE = 0


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Version 4 and later ask for many keys at once (KIP-699)."""
    key_type = getattr(request, "key_type", GROUP_KEY_TYPE)
    if ctx.version >= 4:
        keys = dict.fromkeys(request.coordinator_keys)
        return {"coordinators": await in_turns(partial(_coordinator, ctx, key_type), keys)}
    return _coordinator(ctx, key_type, request.key)


def _coordinator(ctx: RequestContext, key_type: int, key: str) -> Fields:
    if key_type != GROUP_KEY_TYPE:
        # An authorization error is what every client takes for final; other codes are retried until a time-out.
        error = ErrorCode.transactional_id_authorization_failed
        what = "transactions" if key_type == 1 else "share groups"
        return {"key": key, "node_id": -1, "host": "", "port": -1, **_error(error, f"{what}: not implemented yet")}
    host, port = ctx.connection.advertised
    return {"key": key, "node_id": NODE_ID, "host": host, "port": port, **_error(ErrorCode.none, None)}


def _error(code: ErrorCode, message: str | None) -> Fields:
    return {"error_code": code, "error_message": message}
