"""What consumers subscribe to, as they say it in their joins (ConsumerProtocolSubscription)."""

from __future__ import annotations

from fairlead.protocol.wire import Malformed, Reader

CONSUMER = "consumer"
"""Protocol type of the groups whose members say which topics they read."""


def subscribed_topics(protocol_type: str, subscription: bytes) -> set[str]:
    """The topics that a member subscribes to, by their names on its listener.

    Raises:
        Malformed: it is no consumer, or not its protocol, so what it uses is not known.
    """
    if protocol_type != CONSUMER:
        raise Malformed(f"a member of protocol type {protocol_type}")
    reader = Reader(memoryview(subscription))
    reader.int16()  # version; every version begins with the topics
    return {reader.string() for _ in range(reader.array_length())}
