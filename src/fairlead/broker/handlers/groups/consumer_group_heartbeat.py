"""ConsumerGroupHeartbeat (KIP-848): groups use the classic protocol, and who asks for the new one is told so.

It is offered all the same, as by a Kafka in which the new protocol is switched off: a client that is not offered it
says so (Java), or waits for ever without a word (librdkafka).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields

API_KEY = 68
ONLY_CLASSIC = "the new group protocol is not served; set group.protocol=classic"


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Nobody joins."""
    return {
        "error_code": ErrorCode.unsupported_version,
        "error_message": ONLY_CLASSIC,
        "member_epoch": 0,
        "heartbeat_interval": timedelta(0),
    }
