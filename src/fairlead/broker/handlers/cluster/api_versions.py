"""ApiVersions (KIP-35, KIP-511): what is served, in which versions, and as which Kafka (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import API_VERSIONS, PRODUCE, AnswerFields

API_KEY = API_VERSIONS

METADATA_VERSION = 27
"""Kafka 4.1's `metadata.version` (`MetadataVersion.IBP_4_1_IV1`): kafka-ui and others read there how new a cluster is
and what they may ask of it. It is the only feature: those that change what clients do (`transaction.version`,
`group.version`, `share.version`) would offer what is not served."""
_FIRST_METADATA_VERSION = 7
"""`MetadataVersion.MINIMUM_VERSION`, as Kafka 4.1 offers it."""
_FEATURE = "metadata.version"


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """All APIs of the table; a version that is not served was answered by `unsupported` before."""
    return {
        "error_code": ErrorCode.none,
        "api_keys": [_range(key, vs) for key, vs in sorted(ctx.offered.items())],
        "supported_features": [
            {"name": _FEATURE, "min_version": _FIRST_METADATA_VERSION, "max_version": METADATA_VERSION}
        ],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": _FEATURE, "min_version_level": METADATA_VERSION, "max_version_level": METADATA_VERSION}
        ],
    }


def unsupported(offered: range) -> Mapping[str, Any]:
    """The answer, in the form of version 0, to a version that is not served: which versions of this API are."""
    return {"error_code": ErrorCode.unsupported_version, "api_keys": [_range(API_KEY, offered)]}


def _range(key: int, versions: range) -> dict[str, int]:
    # librdkafka before 2.8 takes a Produce that does not begin at version 0 for a broker without compression
    # (KAFKA-18659); Kafka 4 answers 0 too, and refuses versions 0 to 2 when they come.
    lowest = 0 if key == PRODUCE else versions[0]
    return {"api_key": key, "min_version": lowest, "max_version": versions[-1]}
