"""What a destination takes, and how much is merged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one topic of a destination."""

    message_bytes_max: int = 1_048_588
    """Its `max.message.bytes`; the default is Kafka's. No batch is larger."""
    merged_bytes_max: int = 1_000_000
    """Small batches are merged up to this size, or up to the one above."""
    small_bytes_max: int = 65_536
    """Uncompressed batches below this size are merged with their neighbours, compressed ones below a share of it; 0:
    none are."""
    inflated_bytes_max: int = 128 * 1024 * 1024
    """A batch that must be opened and decompresses to more is refused."""

    @property
    def merged(self) -> int:
        """The size up to which batches are merged."""
        return min(self.merged_bytes_max, self.message_bytes_max)
