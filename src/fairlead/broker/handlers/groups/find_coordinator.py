"""FindCoordinator: there is one node, so it coordinates every group. Transactions have no coordinator here.

What a transactional producer shows its user is this refusal, so code and message are chosen by what clients make of
them (`docs/guides/kafka-clients.md` has their texts). Java shows the message of any code but
TRANSACTIONAL_ID_AUTHORIZATION_FAILED; clients that show no message show the code, and UNSUPPORTED_VERSION comes nearest
to what is true. librdkafka, which asks in version 2, takes nothing for final but a failed authorization: with any other
code it tries again until its time is over.
"""

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
TRANSACTION_KEY_TYPE = 1
_FINAL_BY_ANY_CODE_FROM = 4
"""Clients that ask in this version take whatever is not retriable for final."""
NO_TRANSACTIONS = "transactions are not served; produce without transactional.id (enable.idempotence=true works)"


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Version 4 and later ask for many keys at once (KIP-699)."""
    key_type = getattr(request, "key_type", GROUP_KEY_TYPE)
    if ctx.version >= 4:
        keys = dict.fromkeys(request.coordinator_keys)
        return {"coordinators": await in_turns(partial(_coordinator, ctx, key_type), keys)}
    return _coordinator(ctx, key_type, request.key)


def _coordinator(ctx: RequestContext, key_type: int, key: str) -> Fields:
    if key_type != GROUP_KEY_TYPE:
        transactions = key_type == TRANSACTION_KEY_TYPE
        return {
            "key": key,
            "node_id": -1,
            "host": "",
            "port": -1,
            "error_code": _refusal(ctx.version),
            "error_message": NO_TRANSACTIONS if transactions else "share groups are not served; use a consumer group",
        }
    host, port = ctx.connection.advertised
    return {"key": key, "node_id": NODE_ID, "host": host, "port": port, "error_code": ErrorCode.none}


def _refusal(version: int) -> ErrorCode:
    if version >= _FINAL_BY_ANY_CODE_FROM:
        return ErrorCode.unsupported_version
    return ErrorCode.transactional_id_authorization_failed
