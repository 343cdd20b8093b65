"""Settings of topics and of the broker as DescribeConfigs shows them: value, kind, where it comes from.

What a topic may be given, and which values hold for all, is in `topic_settings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from fairlead.broker.node import NODE_ID
from fairlead.broker.settings.kinds import ConfigType
from fairlead.broker.settings.topic_settings import SETTINGS, in_force, timestamp_type
from fairlead.cluster.stream import Stream
from fairlead.model.kafka_clusters import ORIGIN_CLUSTER, ORIGIN_TOPIC
from fairlead.model.settings import Settings
from fairlead.streamlog.values import Topic


class ResourceType(IntEnum):
    """Kafka's numbers of what has settings."""

    TOPIC = 2
    BROKER = 4


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
    type: ConfigType
    documentation: str = ""
    synonyms: tuple[tuple[str, Source], ...] = ()
    """Values that are set or would hold otherwise, with their sources, the strongest first."""


def source_of(name: str, own: Mapping[str, str]) -> Source:
    """Where the value of a topic's setting comes from; `own` are those set on the topic itself."""
    return Source.TOPIC if name in own else Source.DEFAULT


def topic_configs(stream: Stream, topic: Topic, settings: Settings) -> list[Config]:
    """Every setting of a topic, each its own or the default: a topic without any of its own has no overrides."""
    own, default = topic.configs, in_force(stream, {}, settings)
    found: list[Config] = []
    for name, value in in_force(stream, own, settings).items():
        setting, inherited = SETTINGS[name], (default[name], Source.DEFAULT)
        synonyms = ((own[name], Source.TOPIC), inherited) if name in own else (inherited,)
        found.append(Config(name, value, source_of(name, own), False, setting.type, setting.documentation, synonyms))
    if topic.is_of_kafka:
        what = f"The Kafka cluster that gives the topic's offsets, {topic.owner_at} here."
        found.append(_origin(ORIGIN_CLUSTER, topic.owner, what))
    elif topic.epoch:
        what = "The id that the topic has had at every site since it was made, also in Kafka if it came from there."
        found.append(_origin(ORIGIN_TOPIC, topic.incarnation, what))
    return found


def _origin(name: str, id: bytes, what: str) -> Config:
    value = str(UUID(bytes=id))
    return Config(name, value, Source.DEFAULT, True, ConfigType.STRING, what, ((value, Source.DEFAULT),))


def broker_configs(stream: Stream, settings: Settings, advertised: tuple[str, int]) -> list[Config]:
    """Settings of the one broker, as far as clients and tools ask for them; `stream` is the one with bare names,
    `advertised` the address that the client is told."""
    host, port = advertised
    ttl_seconds = stream.settings.ttl_seconds
    set_here = {
        "advertised.listeners": f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}",
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
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Config(name, text, source, True, _broker_type(name, text), synonyms=((text, source),))


def _broker_type(name: str, value: str) -> ConfigType:
    """The kind that Kafka declares for a setting of the broker."""
    if name == "advertised.listeners":
        return ConfigType.LIST
    if value in {"true", "false"}:
        return ConfigType.BOOLEAN
    if not value.lstrip("-").isdigit():
        return ConfigType.STRING
    return ConfigType.LONG if name in _LONGS else ConfigType.INT


_LONGS = frozenset({"log.retention.ms"})
