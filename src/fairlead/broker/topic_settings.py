"""Kafka's topic settings: the two that are honoured per topic, and the values that hold for all others.

A setting that is not honoured is refused by name, unless it asks for what is so anyway: tools set many settings to
their defaults, and nothing is lost by agreeing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest
from fairlead.cluster.stream import Stream
from fairlead.model.settings import Settings

CLEANUP_POLICY = "cleanup.policy"
TIMESTAMP_TYPE = "message.timestamp.type"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

HONOURED: Mapping[str, tuple[str, ...]] = {
    CLEANUP_POLICY: ("delete", "compact"),
    TIMESTAMP_TYPE: (CREATE_TIME, LOG_APPEND_TIME),
}
"""What may be set on a topic, and to what. `compact` exempts from time-to-live until compaction exists."""

_FIXED: Mapping[str, str] = {
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""Kafka's defaults of what has no meaning here or no other value."""


def timestamp_type(stream: Stream, configs: Mapping[str, str]) -> str:
    """Which time a topic's records get, in Kafka's spelling: the topic's own setting or its stream's."""
    inherited = LOG_APPEND_TIME if stream.settings.timestamp_type == "logappendtime" else CREATE_TIME
    return configs.get(TIMESTAMP_TYPE, inherited)


def in_force(stream: Stream, configs: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Every setting of a topic with its value, by name; `configs` are those set on the topic itself."""
    ttl_seconds = stream.settings.ttl_seconds
    values = {
        **_FIXED,
        CLEANUP_POLICY: configs.get(CLEANUP_POLICY, "delete"),
        TIMESTAMP_TYPE: timestamp_type(stream, configs),
        "max.message.bytes": str(settings.message_bytes_max),
        "retention.ms": str(ttl_seconds * 1000) if ttl_seconds else "-1",
    }
    return dict(sorted(values.items()))


def check(stream: Stream, settings: Settings, name: str, value: str | None) -> None:
    """
    Raises:
        Refused: INVALID_CONFIG, the setting is unknown, its value is, or it is not honoured and not so anyway.
    """
    default = in_force(stream, {}, settings).get(name)
    if default is None:
        raise RefusedRequest(ErrorCode.invalid_config, f"{name} is no topic setting")
    allowed = HONOURED.get(name)
    if allowed is not None and value not in allowed:
        raise RefusedRequest(ErrorCode.invalid_config, f"{name}={value}: use one of {', '.join(allowed)}")
    if allowed is None and value != default:
        raise RefusedRequest(
            ErrorCode.invalid_config,
            f"{name}={value} is not honoured; it is {default} here, see docs/not-implemented.md",
        )


def chosen(stream: Stream, settings: Settings, pairs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The settings that a new topic keeps of those that were asked for.

    Raises:
        Refused: INVALID_CONFIG, see `check`.
    """
    kept: dict[str, str] = {}
    for name, value in dict(pairs).items():
        check(stream, settings, name, value)
        if name in HONOURED and value is not None:
            kept[name] = value
    return kept
