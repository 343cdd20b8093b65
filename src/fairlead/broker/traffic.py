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
    forwarded_batches: int = 0
    """Passed on to an owner elsewhere, which has taken them."""
    forwarded_bytes: int = 0
    put_aside_batches: int = 0
    """For topics of owners that could not be reached."""
    put_aside_bytes: int = 0
    forward_failures: int = 0
    """Batches that were to be passed on and were refused, or have no answer."""
