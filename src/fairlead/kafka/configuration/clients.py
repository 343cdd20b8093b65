"""Kafka's own settings of consumers and producers, from a property file: its keys, its defaults.

A key that is not known is a warning that names it; a value that is wrong is an error. Secrets stand in no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from fairlead.kafka.configuration.credentials import security_of
from fairlead.kafka.configuration.entries import Entries
from fairlead.kafka.configuration.properties import load_properties
from fairlead.kafka.configuration.settings import (
    IN_FLIGHT_MAX,
    ClientSettings,
    ConsumerSettings,
    FetchSettings,
    ProducerSettings,
    ProduceSettings,
    Reset,
    Security,
)
from fairlead.model.addresses import Address, parse_address
from fairlead.model.errors import InvalidValue

S = TypeVar("S")
_CLIENT: Final = ClientSettings(())
_FETCH: Final = FetchSettings()
_PRODUCE: Final = ProduceSettings()
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PROVIDERS: Final = "config.providers"
NO_PROVIDERS: Final = "is not done here: write the values themselves into the file"
"""Without that `${…}` would be taken for the value."""
_RESETS: Final = {"smallest": "earliest", "largest": "latest"}
"""As consumers before 0.9 wrote them."""


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OF_CLIENTS: Final = _keys(
    """
    auto.include.jmx.reporter client.dns.lookup connections.max.idle.ms default.api.timeout.ms enable.metrics.push
    interceptor.classes metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms sasl.client.callback.handler.class security.providers
    send.buffer.bytes
    socket.connection.setup.timeout.max.ms ssl.cipher.suites ssl.enabled.protocols ssl.engine.factory.class
    ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    """
)
_OF_CONSUMERS: Final = _OF_CLIENTS | _keys(
    """
    allow.auto.create.topics auto.commit.interval.ms check.crcs client.rack enable.auto.commit
    exclude.internal.topics group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    key.deserializer max.poll.interval.ms max.poll.records partition.assignment.strategy session.timeout.ms
    share.acknowledgement.mode value.deserializer

    auto.commit.enable consumer.id consumer.timeout.ms dual.commit.enabled fetch.message.max.bytes fetch.wait.max.ms
    num.consumer.fetchers offsets.storage queued.max.message.chunks rebalance.backoff.ms rebalance.max.retries
    refresh.leader.backoff.ms socket.receive.buffer.bytes socket.timeout.ms
    """
)
"""At the end those of consumers before 0.9."""
_OF_PRODUCERS: Final = _OF_CLIENTS | _keys(
    """
    batch.size buffer.memory compression.gzip.level compression.lz4.level compression.zstd.level delivery.timeout.ms
    enable.idempotence key.serializer linger.ms max.block.ms metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys retries transactional.id transaction.two.phase.commit.enable
    value.serializer

    batch.num.messages compressed.topics key.serializer.class message.send.max.retries producer.type
    queue.buffering.max.messages queue.buffering.max.ms queue.enqueue.timeout.ms serializer.class
    topic.metadata.refresh.interval.ms
    """
)
_PREFIXES: Final = ("zookeeper.", "zk.", "sasl.login.", "sasl.kerberos.", "sasl.oauthbearer.")


class Read(NamedTuple, Generic[S]):
    """What a file says, and what a person should know of it."""

    settings: S
    warnings: list[str]


def consumer_settings(given: Mapping[str, str], where: str, file: Path | None = None) -> Read[ConsumerSettings]:
    """A consumer's settings; `where` names the file. Who we are is read again from `file` for each connection.

    Raises:
        InvalidValue: a value is wrong, or there is no broker to ask.
    """
    entries = Entries(given, where)
    client = _client(entries, file)
    fetch = FetchSettings(
        max_bytes=entries.number("fetch.max.bytes", _FETCH.max_bytes, 1),
        partition_bytes=entries.number("max.partition.fetch.bytes", _FETCH.partition_bytes, 1),
        min_bytes=entries.number("fetch.min.bytes", _FETCH.min_bytes),
        max_wait_ms=entries.number("fetch.max.wait.ms", _FETCH.max_wait_ms),
    )
    settings = ConsumerSettings(
        client=client,
        group_id=entries.text("group.id"),
        auto_offset_reset=_reset(entries),
        read_committed=entries.choice("isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted")
        == "read_committed",
        fetch=fetch,
        given=given,
    )
    entries.warn_of_others(_OF_CONSUMERS, _PREFIXES)
    return Read(settings, entries.warnings)


def producer_settings(given: Mapping[str, str], where: str, file: Path | None = None) -> Read[ProducerSettings]:
    """A producer's settings; `where` names the file. Who we are is read again from `file` for each connection.

    Raises:
        InvalidValue: a value is wrong, or there is no broker to ask.
    """
    entries = Entries(given, where)
    client = _client(entries, file)
    produce = ProduceSettings(
        request_bytes_max=entries.number("max.request.size", _PRODUCE.request_bytes_max, 1),
        timeout_ms=entries.number("request.timeout.ms", _PRODUCE.timeout_ms, 1),
        in_flight_max=entries.number("max.in.flight.requests.per.connection", IN_FLIGHT_MAX, 1, IN_FLIGHT_MAX),
        transaction_timeout_ms=entries.number("transaction.timeout.ms", _PRODUCE.transaction_timeout_ms, 1),
    )
    acks = entries.choice("acks", ("all", "-1", "1", "0"), "all")
    if acks in ("1", "0"):
        entries.warn("acks", f"is {acks}; here all replicas in sync always acknowledge")
    compression = entries.choice("compression.type", _CODECS, "none")
    entries.warn_of_others(_OF_PRODUCERS, _PREFIXES)
    return Read(ProducerSettings(client, produce, compression, given), entries.warnings)


def _client(entries: Entries, file: Path | None) -> ClientSettings:
    if entries.text(PROVIDERS) is not None:
        raise entries.wrong(PROVIDERS, NO_PROVIDERS)
    return ClientSettings(
        bootstrap=_bootstrap(entries),
        client_id=entries.text("client.id", _CLIENT.client_id) or _CLIENT.client_id,
        request_timeout_ms=entries.number("request.timeout.ms", _CLIENT.request_timeout_ms, 1),
        connect_timeout_ms=entries.number("socket.connection.setup.timeout.ms", _CLIENT.connect_timeout_ms, 1),
        retry_backoff_ms=entries.number("retry.backoff.ms", _CLIENT.retry_backoff_ms, 1),
        retry_backoff_max_ms=entries.number("retry.backoff.max.ms", _CLIENT.retry_backoff_max_ms, 1),
        metadata_max_age_ms=entries.number("metadata.max.age.ms", _CLIENT.metadata_max_age_ms),
        security=security_of(entries),
        security_now=None if file is None else partial(_security_in, file),
    )


def _security_in(file: Path) -> Security:
    """Raises: InvalidValue."""
    return security_of(Entries(load_properties(file), str(file)))


def _bootstrap(entries: Entries) -> tuple[Address, ...]:
    listed, old = entries.text("bootstrap.servers"), entries.text("metadata.broker.list")
    text = listed or old
    if text is None:
        if entries.text("zookeeper.connect") is not None:
            raise entries.wrong(
                "zookeeper.connect",
                "names ZooKeeper, which clients do not ask since Kafka 0.9; "
                "write bootstrap.servers=HOST:9092 with one or more of the brokers instead",
            )
        raise entries.wrong("bootstrap.servers", "is missing; write bootstrap.servers=HOST:9092")
    key = "bootstrap.servers" if listed else "metadata.broker.list"
    if not listed:
        entries.warn(key, "is the old name of bootstrap.servers")
    try:
        addresses = tuple(parse_address(_without_protocol(each), key) for each in text.split(",") if each.strip())
    except InvalidValue as error:
        raise InvalidValue(f"{entries.where}: {error}") from None
    if not addresses:
        raise entries.wrong(key, "names no broker; write HOST:9092")
    return addresses


def _without_protocol(address: str) -> str:
    """Java takes `PLAINTEXT://HOST:PORT` too, and looks at host and port alone."""
    return address.strip().rpartition("://")[2]


def _reset(entries: Entries) -> Reset:
    key = "auto.offset.reset"
    old = _RESETS.get((entries.text(key) or "").lower())
    return Reset(old or entries.choice(key, [each.value for each in Reset], Reset.LATEST.value))
