"""ListPartitionReassignments (KIP-455): one node has nowhere to move a partition to, so none is being moved."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields

API_KEY = 46


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """As in Kafka only partitions that are being moved are named, whichever were asked for."""
    return {"error_code": ErrorCode.none, "topics": []}
