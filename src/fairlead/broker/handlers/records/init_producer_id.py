"""InitProducerId (KIP-98, KIP-360): an id for an idempotent producer.

Ids are random 63-bit numbers, never counted: two clusters must not give the same one, since batches keep theirs when
they are replicated. A producer that bumps its epoch keeps its id. Transactions are not served: a transactional id is
refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client treats as final and shows; UNSUPPORTED_VERSION
makes some clients retry for ever.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields

API_KEY = 22
_EPOCH_MAX = 2**15 - 1


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """A new id with epoch 0, or the producer's own with the next epoch."""
    if request.transactional_id is not None:
        return _answer(ErrorCode.transactional_id_authorization_failed, -1, -1)
    producer, epoch = getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
    if producer >= 0 and 0 <= epoch < _EPOCH_MAX:
        return _answer(ErrorCode.none, producer, epoch + 1)
    made = int.from_bytes(ctx.randomness.id16()[:8], "big") >> 1
    if ctx.connection.forwards is not None:
        ctx.connection.forwards.given(made)
    return _answer(ErrorCode.none, made, 0)


def _answer(code: ErrorCode, producer: int, epoch: int) -> AnswerFields:
    return {"error_code": code, "producer_id": producer, "producer_epoch": epoch}
