"""Topic and broker settings by Kafka's names: what is shown, where each value comes from, what may be changed.

A topic stores only `cleanup.policy` and `message.timestamp.type`. Everything else comes from its stream or is fixed; a
request that sets such a name is refused, unless it sets the value that holds already: tools that send their defaults
(Kafka Connect, MirrorMaker 2) then work, and nothing is accepted that is not honoured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from kio.schema.errors import ErrorCode

from fairlead.broker.context import NODE_ID
from fairlead.broker.errors import Refused
from fairlead.cluster.stream import Stream
from fairlead.model.settings import Settings
from fairlead.streamlog.values import Topic

FOREVER = -1
"""Kafka's `retention.ms` of records that do not expire."""


class ConfigType(IntEnum):
    """Kafka's numbers of value types."""

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
    """One setting as DescribeConfigs shows it."""

    name: str
    value: str
    source: Source
    type: ConfigType
    documentation: str
    read_only: bool = True


CLEANUP_POLICY = "cleanup.policy"
TIMESTAMP_TYPE = "message.timestamp.type"

SETTABLE: Mapping[str, tuple[str, ...]] = {
    CLEANUP_POLICY: ("delete", "compact"),
    TIMESTAMP_TYPE: ("CreateTime", "LogAppendTime"),
}
"""What a topic stores, with the values that are honoured."""

_LISTS = frozenset({CLEANUP_POLICY})


def timestamp_type(stream: Stream, topic: Topic | None) -> str:
    """`CreateTime` or `LogAppendTime`: the topic's own, else the stream's."""
    of_stream = "LogAppendTime" if stream.settings.timestamp_type == "logappendtime" else "CreateTime"
    return of_stream if topic is None else topic.configs.get(TIMESTAMP_TYPE, of_stream)


def retention_ms(stream: Stream) -> int:
    """The stream's time-to-live in Kafka's terms."""
    return stream.settings.ttl_seconds * 1000 or FOREVER


def topic_configs(stream: Stream, topic: Topic | None, settings: Settings) -> list[Config]:
    """Every setting of a topic, or of one that is yet to be made in that stream."""
    own = {} if topic is None else topic.configs
    return [
        _settable(CLEANUP_POLICY, "delete", own, "compact keeps records beyond the time-to-live"),
        _settable(TIMESTAMP_TYPE, timestamp_type(stream, None), own, "default: the stream's"),
        _of_stream("retention.ms", retention_ms(stream), ConfigType.LONG, "the stream's time-to-live"),
        _of_stream("max.message.bytes", settings.message_bytes_max, ConfigType.INT, "largest record batch"),
        *_FIXED_OF_TOPICS,
    ]


def broker_configs(stream: Stream, settings: Settings) -> list[Config]:
    """Settings of the one broker, as far as clients and tools ask for them."""
    return [
        _of_broker("broker.id", NODE_ID, ConfigType.INT, "the one node"),
        _of_broker("message.max.bytes", settings.message_bytes_max, ConfigType.INT, "largest record batch"),
        _of_broker("socket.request.max.bytes", settings.request_bytes_max, ConfigType.INT, "largest request"),
        _of_broker("max.connections", settings.max_connections, ConfigType.INT, "Kafka connections at one time"),
        _of_broker("fetch.max.bytes", settings.fetch_bytes_max, ConfigType.INT, "largest answer to a fetch"),
        _of_broker("num.partitions", stream.settings.default_partitions, ConfigType.INT, "of the default stream"),
        _of_broker("auto.create.topics.enable", stream.may_autocreate, ConfigType.BOOLEAN, "of the default stream"),
        _of_broker("log.retention.ms", retention_ms(stream), ConfigType.LONG, "of the default stream"),
        _of_broker("log.message.timestamp.type", timestamp_type(stream, None), ConfigType.STRING, "as above"),
        _of_broker(
            "group.initial.rebalance.delay.ms",
            settings.initial_rebalance_delay_ms,
            ConfigType.INT,
            "a new consumer group waits this long for members",
        ),
        _of_broker("group.min.session.timeout.ms", settings.session_timeout_min_ms, ConfigType.INT, "shortest session"),
        _of_broker("group.max.session.timeout.ms", settings.session_timeout_max_ms, ConfigType.INT, "longest session"),
        *_FIXED_OF_BROKERS,
    ]


def check_topic_configs(stream: Stream, wanted: Mapping[str, str | None], settings: Settings) -> dict[str, str]:
    """The settings that a topic is to store, of those that a request gives; None stands for the default.

    Raises:
        Refused: INVALID_CONFIG naming the first that is unknown, not honoured, or has a value that is not.
    """
    held = {config.name: config.value for config in topic_configs(stream, None, settings)}
    return {name: value for name, value in wanted.items() if value is not None and _stored(name, value, held)}


def _stored(name: str, value: str, held: Mapping[str, str]) -> bool:
    """Is this a value to store (True), or one that holds anyway (False)?"""
    if name in SETTABLE:
        if value not in SETTABLE[name]:
            raise _invalid(f"{name}={value}: use {' or '.join(SETTABLE[name])}")
        return True
    if name not in held:
        raise _invalid(f"{name}: not a topic setting of this cluster")
    if value != held[name]:
        raise _invalid(f"{name}={value}: not implemented for topics, it is {held[name]}; see `fairlead stream edit`")
    return False


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.invalid_config, message)


def _settable(name: str, default: str, own: Mapping[str, str], documentation: str) -> Config:
    source = Source.TOPIC if name in own else Source.DEFAULT
    kind = ConfigType.LIST if name in _LISTS else ConfigType.STRING
    return Config(name, own.get(name, default), source, kind, documentation, read_only=False)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_stream(name: str, value: object, kind: ConfigType, documentation: str) -> Config:
    return Config(name, _text(value), Source.STATIC_BROKER, kind, documentation)


_of_broker = _of_stream


def _fixed(name: str, value: object, kind: ConfigType) -> Config:
    return Config(name, _text(value), Source.DEFAULT, kind, "fixed")


_FIXED_OF_TOPICS = (
    _fixed("compression.type", "producer", ConfigType.STRING),
    _fixed("min.insync.replicas", 1, ConfigType.INT),
    _fixed("retention.bytes", -1, ConfigType.LONG),
    _fixed("unclean.leader.election.enable", False, ConfigType.BOOLEAN),
)
_FIXED_OF_BROKERS = (
    _fixed("compression.type", "producer", ConfigType.STRING),
    _fixed("min.insync.replicas", 1, ConfigType.INT),
    _fixed("default.replication.factor", 1, ConfigType.INT),
    _fixed("offsets.topic.replication.factor", 1, ConfigType.INT),
    _fixed("delete.topic.enable", True, ConfigType.BOOLEAN),
)
