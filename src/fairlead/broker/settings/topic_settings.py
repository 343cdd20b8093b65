"""Kafka's topic settings: what a topic may be given, and what holds for it.

Every setting of Kafka's is kept and shown. Some are honoured, those without a contract here have no effect; a name or a
value that Kafka does not know is refused. Where the stream or the server allows less than the topic asks for, the value
is kept, and what is shown is what holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest
from fairlead.broker.settings.kinds import INT_MAX, LONG_MAX, NO_EFFECT, ConfigType, Setting
from fairlead.cluster.stream import Stream
from fairlead.model.settings import Settings
from fairlead.streamlog.ranges import NAME_LENGTH_MAX
from fairlead.streamlog.topic_policy import CLEANUP_POLICY, COMPACT, DELETE, RETENTION_BYTES, RETENTION_MS, number

TIMESTAMP_TYPE: Final = "message.timestamp.type"
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
MESSAGE_BYTES_MAX: Final = "max.message.bytes"
TIMESTAMP_BEFORE: Final = "message.timestamp.before.max.ms"
TIMESTAMP_AFTER: Final = "message.timestamp.after.max.ms"

_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _whole(default: int, least: int, most: int | None = None, documentation: str = NO_EFFECT) -> Setting:
    return Setting(ConfigType.INT, str(default), least, most, documentation=documentation)


def _long(default: int, least: int | None = None, documentation: str = NO_EFFECT) -> Setting:
    return Setting(ConfigType.LONG, str(default), least, documentation=documentation)


def _flag() -> Setting:
    return Setting(ConfigType.BOOLEAN, "false")


SETTINGS: Final[Mapping[str, Setting]] = {
    CLEANUP_POLICY: Setting(
        ConfigType.LIST,
        DELETE,
        one_of=(COMPACT, DELETE),
        documentation="delete: old records expire. compact: records have keys and, without delete, never expire.",
    ),
    "compression.gzip.level": _whole(-1, -1, 9),
    "compression.lz4.level": _whole(9, 1, 17),
    "compression.type": Setting(ConfigType.STRING, "producer", one_of=_CODECS),
    "compression.zstd.level": _whole(3, -131072, 22),
    "delete.retention.ms": _long(86_400_000, 0),
    "file.delete.delay.ms": _long(60_000, 0),
    "flush.messages": _long(LONG_MAX, 1),
    "flush.ms": _long(LONG_MAX, 0),
    "follower.replication.throttled.replicas": Setting(ConfigType.LIST, "", replicas=True),
    "index.interval.bytes": _whole(4096, 0),
    "leader.replication.throttled.replicas": Setting(ConfigType.LIST, "", replicas=True),
    "local.retention.bytes": _long(-2, -2),
    "local.retention.ms": _long(-2, -2),
    "max.compaction.lag.ms": _long(LONG_MAX, 1),
    MESSAGE_BYTES_MAX: _whole(
        INT_MAX,
        0,
        documentation="A larger batch is refused; the server's setting message_bytes_max is the limit for all.",
    ),
    TIMESTAMP_AFTER: _long(LONG_MAX, 0, documentation="A record's time may be at most so far ahead of the server's."),
    TIMESTAMP_BEFORE: _long(LONG_MAX, 0, documentation="A record's time may be at most so far behind the server's."),
    TIMESTAMP_TYPE: Setting(
        ConfigType.STRING,
        CREATE_TIME,
        one_of=(CREATE_TIME, LOG_APPEND_TIME),
        documentation="Whether records have the producer's time or that of their append; by default as in the stream.",
    ),
    "min.cleanable.dirty.ratio": Setting(ConfigType.DOUBLE, "0.5", 0, 1),
    "min.compaction.lag.ms": _long(0, 0),
    "min.insync.replicas": _whole(1, 1),
    "preallocate": _flag(),
    "remote.log.copy.disable": _flag(),
    "remote.log.delete.on.disable": _flag(),
    "remote.storage.enable": _flag(),
    RETENTION_BYTES: _long(-1, documentation="Of each partition so much stays at least; older records expire."),
    RETENTION_MS: _long(-1, -1, documentation="Records live so long, and at most as long as the stream's."),
    "segment.bytes": _whole(1_073_741_824, 1_048_576),
    "segment.index.bytes": _whole(10_485_760, 4),
    "segment.jitter.ms": _long(0, 0),
    "segment.ms": _long(604_800_000, 1),
    "unclean.leader.election.enable": _flag(),
}
"""Kafka's topic settings. The defaults are Kafka's, but where something here says otherwise (see `in_force`)."""


def timestamp_type(stream: Stream, configs: Mapping[str, str]) -> str:
    """Which time a topic's records get, in Kafka's spelling: the topic's own setting or its stream's."""
    inherited = LOG_APPEND_TIME if stream.settings.timestamp_type == "logappendtime" else CREATE_TIME
    return configs.get(TIMESTAMP_TYPE, inherited)


def message_bytes_max(configs: Mapping[str, str], settings: Settings) -> int:
    """The largest batch that a topic takes: its own limit, at most the server's."""
    own = number(configs, MESSAGE_BYTES_MAX)
    return settings.message_bytes_max if own is None else min(own, settings.message_bytes_max)


def in_force(stream: Stream, configs: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Every setting of a topic with the value that holds, by name; `configs` are those set on the topic itself."""
    return {name: configs.get(name, setting.default) for name, setting in SETTINGS.items()} | {
        TIMESTAMP_TYPE: timestamp_type(stream, configs),
        MESSAGE_BYTES_MAX: str(message_bytes_max(configs, settings)),
        RETENTION_MS: str(_retention_ms(stream, configs)),
    }


def _retention_ms(stream: Stream, configs: Mapping[str, str]) -> int:
    """How long the topic's records live: as it says, at most as long as the stream's; -1: for ever."""
    lives = (number(configs, RETENTION_MS), stream.settings.ttl_seconds * 1000 or -1)
    return min((ms for ms in lives if ms is not None and ms >= 0), default=-1)


def check(name: str, value: str | None) -> str:
    """The value as it is kept, once it proves to be one of that setting.

    Raises:
        Refused: INVALID_CONFIG, the setting is unknown or its value is none.
    """
    setting = SETTINGS.get(name)
    if setting is None:
        raise RefusedRequest(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
    if value is None:
        raise RefusedRequest(ErrorCode.invalid_config, f"Null value not supported for topic configs: {name}")
    value = setting.check(name, value)
    if len(value) > NAME_LENGTH_MAX:
        raise RefusedRequest(ErrorCode.invalid_config, f"{name}: a value has at most {NAME_LENGTH_MAX} characters")
    return value


def chosen(pairs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The settings that a topic is given, each checked by itself.

    Raises:
        Refused: INVALID_CONFIG, see `check`.
    """
    return {name: check(name, value) for name, value in dict(pairs).items()}


def check_together(configs: Mapping[str, str]) -> None:
    """
    Raises:
        Refused: INVALID_CONFIG, settings of one topic contradict each other, or ask for what Kafka itself refuses.
    """
    least, most = (int(configs.get(name, SETTINGS[name].default)) for name in _LAGS)
    if least > most:
        raise RefusedRequest(
            ErrorCode.invalid_config, f"conflict topic config setting {_LAGS[0]} ({least}) > {_LAGS[1]} ({most})"
        )
    if configs.get("remote.storage.enable", "false").strip().lower() == "true":
        raise RefusedRequest(ErrorCode.invalid_config, "remote.storage.enable=true: there is no tiered storage")


_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")
