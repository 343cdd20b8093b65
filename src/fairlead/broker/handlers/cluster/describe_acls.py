"""DescribeAcls: there are no users yet, so there are no ACLs."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields

API_KEY = 29


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """What Kafka answers without an authorizer; tools such as MirrorMaker 2 go on without copying ACLs."""
    message = "this cluster has no users, so it has no ACLs"
    return {"error_code": ErrorCode.security_disabled, "error_message": message, "resources": []}
