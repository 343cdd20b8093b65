"""SaslHandshake (KIP-43): there are no users yet, so nobody logs in.

It is offered all the same, as by a Kafka whose listener asks nobody who he is: without an answer Java's client takes
the connection for lost and tries again for ever, without a word to its user.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields

API_KEY = 17


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """What Kafka answers at a listener without SASL, which every client takes for final."""
    return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []}
