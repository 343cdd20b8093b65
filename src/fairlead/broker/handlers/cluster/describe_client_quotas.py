"""DescribeClientQuotas (KIP-546): there are no quotas, for nobody."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields

API_KEY = 48


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """What Kafka answers while no quota is set."""
    return {"error_code": ErrorCode.none, "entries": []}
