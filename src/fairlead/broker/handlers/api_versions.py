"""ApiVersions (KIP-35, KIP-511): what is served, in which versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import API_VERSIONS, PRODUCE, AnswerFields

API_KEY = API_VERSIONS


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """All APIs of the table; a version that is not served was answered by `unsupported` before."""
    return {"error_code": ErrorCode.none, "api_keys": [_range(key, vs) for key, vs in sorted(ctx.offered.items())]}


def unsupported(offered: range) -> Mapping[str, Any]:
    """The answer, in the form of version 0, to a version that is not served: which versions of this API are."""
    return {"error_code": ErrorCode.unsupported_version, "api_keys": [_range(API_KEY, offered)]}


def _range(key: int, versions: range) -> dict[str, int]:
    # librdkafka before 2.8 takes a Produce that does not begin at version 0 for a broker without compression
    # (KAFKA-18659); Kafka 4 answers 0 too, and refuses versions 0 to 2 when they come.
    lowest = 0 if key == PRODUCE else versions[0]
    return {"api_key": key, "min_version": lowest, "max_version": versions[-1]}
