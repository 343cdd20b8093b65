"""What becomes of the keys of MirrorMaker 2's property file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.kafka.configuration.clients import NO_PROVIDERS, PROVIDERS

_PACKAGE: Final = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY: Final = _PACKAGE + "DefaultReplicationPolicy"
IDENTITY_POLICY: Final = _PACKAGE + "IdentityReplicationPolicy"

OLD_NAMES: Final[Mapping[str, str]] = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""By which MirrorMaker 2 takes keys too."""

TOPICS: Final = ".*"
TOPICS_EXCLUDE: Final = r"mm2.*\.internal,.*\.replica,__.*"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


READ: Final = _words(
    """
    enabled topics topics.exclude replication.policy.class replication.policy.separator
    replication.policy.internal.topic.separator.enabled replication.factor tasks.max
    refresh.topics.enabled refresh.topics.interval.seconds
    emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.replication.enabled
    heartbeats.topic.replication.factor exactly.once.source.support
    groups groups.exclude emit.checkpoints.enabled emit.checkpoints.interval.seconds
    sync.group.offsets.enabled sync.group.offsets.interval.seconds
    sync.topic.configs.enabled config.properties.exclude use.defaults.from sync.topic.acls.enabled
    emit.offset-syncs.enabled offset-syncs.topic.location offset-syncs.topic.replication.factor offset.lag.max
    """
)
"""Keys of flows that are honoured."""

NOT_YET: Final = _words(
    """
    checkpoints.topic.replication.factor
    """
)
"""Keys of what this program does not do yet."""


def _all(text: str, why: str) -> Mapping[str, str]:
    return dict.fromkeys(_words(text), why)


IDLE: Final[Mapping[str, str]] = {
    **_all(
        "consumer.poll.timeout.ms admin.timeout.ms add.source.alias.to.metrics tasks.max.enforce",
        "nothing here waits for it",
    ),
    **_all(
        "sync.topic.configs.interval.seconds sync.topic.acls.interval.seconds",
        "they are looked for as often as topics, by refresh.topics.interval.seconds",
    ),
    **_all("use.incremental.alter.configs", "settings are always changed one by one"),
    **_all("refresh.groups.enabled refresh.groups.interval.seconds", "groups are listed each time that they are moved"),
    **_all(
        """
        name connector.class connector.plugin.version config.action.reload enabled.connectors source.cluster.alias
        target.cluster.alias
        """,
        "flows are no connectors here",
    ),
    **_all(
        """
        errors.log.enable errors.log.include.messages errors.retry.delay.max.ms errors.retry.timeout errors.tolerance
        """,
        "what passes is tried again for ever, and what does not stops its partition",
    ),
    **_all(
        """
        key.converter value.converter header.converter key.converter.plugin.version value.converter.plugin.version
        header.converter.plugin.version
        """,
        "bytes are copied as they are",
    ),
    **_all(
        """
        dedicated.mode.enable.internal.rest listeners access.control.allow.methods access.control.allow.origin
        response.http.headers.config
        """,
        "--http has a page, metrics, and pause and resume",
    ),
    "metric.reporters": "--http has metrics for Prometheus",
    "auto.include.jmx.reporter": "--http has metrics for Prometheus",
}
"""Keys that have no effect here, and why that is well so."""

OF_WORKERS: Final = (
    *("offset.storage.", "config.storage.", "status.storage.", "offset.flush.", "rest.", "plugin.", "worker.", "task."),
    *("internal.", "inter.worker.", "scheduled.rebalance.", "connect.protocol", "topic.creation.", "key.converter."),
    *("value.converter.", "header.converter.", "group.id", "rebalance.timeout.ms", "topic.tracking."),
)
"""Beginnings of keys of Kafka Connect's workers, of which there are none here."""

EXACTLY_ONCE: Final = "exactly.once.source.support"

REFUSED: Final[Mapping[str, str]] = {
    "transforms": "is not done here: write --message.handler module:function, a Python function of record batches",
    "predicates": "is not done here: write --message.handler module:function, a Python function of record batches",
    PROVIDERS: NO_PROVIDERS,
}
"""Keys that may be there only without a value, and what to use instead."""

CLASSES: Final[Mapping[str, tuple[str, str]]] = {
    "topic.filter.class": (_PACKAGE + "DefaultTopicFilter", "choose topics by topics and topics.exclude"),
    "group.filter.class": (_PACKAGE + "DefaultGroupFilter", "choose groups by groups and groups.exclude"),
    "config.property.filter.class": (
        _PACKAGE + "DefaultConfigPropertyFilter",
        "choose settings by config.properties.exclude",
    ),
    "forwarding.admin.class": (
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "topics are made by the destination's own interface; make them before, if something else is to make them",
    ),
}
"""Keys that name a class: the one that may be named, and what to use instead of another."""

CLIENTS: Final = ("consumer.", "producer.", "admin.")
OF_CONNECTIONS: Final = ("bootstrap.servers", "security.", "ssl.", "sasl.")
"""Beginnings of keys that count for all clients of a cluster, or of all clusters."""
