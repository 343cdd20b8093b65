"""What has passed through the Kafka listeners since they started; for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Counters that only grow."""

    requests: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    produced_batches: int = 0
    produced_records: int = 0
    produced_bytes: int = 0
    fetched_bytes: int = 0
    refused_connections: int = 0
