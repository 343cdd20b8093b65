"""Settings of topics and of the broker as DescribeConfigs shows them: value, kind, where it comes from.

What a topic may be given, and which values hold for all, is in `topic_settings.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fairlead.broker.node import NODE_ID
from fairlead.broker.topic_settings import CLEANUP_POLICY, HONOURED, in_force, timestamp_type
from fairlead.cluster.stream import Stream
from fairlead.model.settings import Settings
from fairlead.streamlog.values import Topic


class ResourceType(IntEnum):
    """Kafka's numbers of what has settings."""

    TOPIC = 2
    BROKER = 4


class ConfigType(IntEnum):
    """Kafka's numbers of kinds of values."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Source(IntEnum):
    """Kafka's numbers of places that a value comes from."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Config:
    """One setting."""

    name: str
    value: str
    source: Source
    read_only: bool
    documentation: str = ""

    @property
    def type(self) -> ConfigType:
        """The kind that Kafka declares for the name."""
        if self.name in _LISTS:
            return ConfigType.LIST
        if self.value in {"true", "false"}:
            return ConfigType.BOOLEAN
        if self.name in _DOUBLES:
            return ConfigType.DOUBLE
        if not self.value.lstrip("-").isdigit():
            return ConfigType.STRING
        return ConfigType.INT if self.name in _INTS else ConfigType.LONG


_LISTS = frozenset({CLEANUP_POLICY, "follower.replication.throttled.replicas", "leader.replication.throttled.replicas"})
_DOUBLES = frozenset({"min.cleanable.dirty.ratio"})
_INTS = frozenset(
    {
        "broker.id",
        "default.replication.factor",
        "fetch.max.bytes",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.min.session.timeout.ms",
        "index.interval.bytes",
        "max.connections",
        "max.message.bytes",
        "message.max.bytes",
        "min.insync.replicas",
        "num.partitions",
        "offsets.topic.replication.factor",
        "segment.bytes",
        "segment.index.bytes",
        "socket.request.max.bytes",
    }
)

_OF_STREAM = {
    "retention.ms": "the stream's time-to-live",
    "max.message.bytes": "the server's setting message_bytes_max",
}


def topic_configs(stream: Stream, topic: Topic, settings: Settings) -> list[Config]:
    """Every setting of a topic."""
    return [_of_topic(name, value, topic) for name, value in in_force(stream, topic.configs, settings).items()]


def _of_topic(name: str, value: str, topic: Topic) -> Config:
    if name in topic.configs:
        return Config(name, value, Source.TOPIC, read_only=False)
    if name in _OF_STREAM:
        return Config(name, value, Source.STATIC_BROKER, read_only=True, documentation=_OF_STREAM[name])
    return Config(name, value, Source.DEFAULT, read_only=name not in HONOURED)


def broker_configs(stream: Stream, settings: Settings) -> list[Config]:
    """Settings of the one broker, as far as clients and tools ask for them; `stream` is the default one."""
    ttl_seconds = stream.settings.ttl_seconds
    set_here = {
        "auto.create.topics.enable": stream.may_autocreate,
        "broker.id": NODE_ID,
        "fetch.max.bytes": settings.fetch_bytes_max,
        "group.initial.rebalance.delay.ms": settings.initial_rebalance_delay_ms,
        "group.max.session.timeout.ms": settings.session_timeout_max_ms,
        "group.min.session.timeout.ms": settings.session_timeout_min_ms,
        "log.message.timestamp.type": timestamp_type(stream, {}),
        "log.retention.ms": ttl_seconds * 1000 or -1,
        "max.connections": settings.max_connections,
        "message.max.bytes": settings.message_bytes_max,
        "num.partitions": stream.settings.default_partitions,
        "socket.request.max.bytes": settings.request_bytes_max,
    }
    fixed = {
        "compression.type": "producer",
        "default.replication.factor": 1,
        "delete.topic.enable": True,
        "min.insync.replicas": 1,
        "offsets.topic.replication.factor": 1,
    }
    return [_of_broker(name, value, Source.STATIC_BROKER) for name, value in set_here.items()] + [
        _of_broker(name, value, Source.DEFAULT) for name, value in fixed.items()
    ]


def _of_broker(name: str, value: object, source: Source) -> Config:
    return Config(name, str(value).lower() if isinstance(value, bool) else str(value), source, read_only=True)
