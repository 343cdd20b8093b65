"""DescribeCluster (KIP-700): the one node and the cluster's id."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.node import NODE_ID, kafka_cluster_id
from fairlead.broker.topics import authorized
from fairlead.protocol.metadata import NOT_ASKED

API_KEY = 60
_BROKERS = 1


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Brokers are described; there are no controllers to ask for (KIP-919)."""
    host, port = ctx.connection.advertised
    cluster_id = kafka_cluster_id(ctx.cluster.id)
    if getattr(request, "endpoint_type", _BROKERS) != _BROKERS:
        return {
            "error_code": ErrorCode.unsupported_endpoint_type,
            "error_message": "there is no controller to speak to; ask the brokers",
            "cluster_id": cluster_id,
        }
    asked = request.include_cluster_authorized_operations
    return {
        "error_code": ErrorCode.none,
        "cluster_id": cluster_id,
        "cluster_authorized_operations": authorized.CLUSTER if asked else NOT_ASKED,
        "controller_id": NODE_ID,
        "brokers": [{"broker_id": NODE_ID, "host": host, "port": port, "is_fenced": False}],
    }
