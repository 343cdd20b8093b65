"""Authorized operations (KIP-430): what a client may do, as far as it asks to be told.

There are no users, so whoever reaches a listener may do all that it serves. What is not served to anybody is left out:
tools such as kafka-ui take it away from their pages.
"""

from __future__ import annotations

from enum import IntEnum

from fairlead.broker.topics.topics import Found


class Operation(IntEnum):
    """Kafka's `AclOperation`."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


CLUSTER = _bits(Operation.CREATE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.IDEMPOTENT_WRITE)
GROUP = _bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
_READ_TOPIC = _bits(Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_CHANGE_TOPIC = _bits(Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS)


def of_topic(found: Found) -> int:
    """A topic that another stream owns can only be read, and written where writes are passed on."""
    if found.topic.owner == found.stream.id:
        return _READ_TOPIC | _CHANGE_TOPIC
    return _READ_TOPIC | _bits(Operation.WRITE) if found.stream.settings.forward_writes else _READ_TOPIC
