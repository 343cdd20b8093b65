"""What a cluster shows itself as to Kafka clients: one node, and an id as Kafka writes them."""

from __future__ import annotations

import base64

NODE_ID = 1
"""The node's id in every answer that names nodes."""


def kafka_cluster_id(cluster_id: bytes) -> str:
    """A cluster's id as Kafka writes it: base64 of 16 bytes, for URLs, without padding."""
    return base64.urlsafe_b64encode(cluster_id).rstrip(b"=").decode()
