"""What a client is told: values only. `clients.py` reads them from Kafka's property files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fairlead.model.addresses import Address

IN_FLIGHT_MAX: Final = 5
"""A broker remembers the last five batches of a producer in a partition: with more under way it could not tell one that
comes again from one that is lost."""

NAMES_AND_PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Mechanisms of SASL by which a name and a password are shown."""


@dataclass(frozen=True, slots=True)
class Store:
    """A file with certificates or a key. It is read again when it has changed."""

    path: str
    kind: str = "PEM"
    """`PEM`, `PKCS12` or `JKS`. As in Java, the two others are told apart by what is in the file."""
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """How a broker is told from an impostor, and we are known to it. A text stands in for a file (KIP-651)."""

    authorities: Store | None = None
    """Certificates to trust; None: those of the machine."""
    authorities_pem: str | None = None
    certificate: Store | None = None
    """Our certificate, its chain and its key."""
    certificate_pem: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    """Of the key, where it differs from that of the file."""
    check_name: bool = True
    """Whether the certificate must be for the host's name."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """A name and a password, and how they are shown."""

    mechanism: str
    """One of `NAMES_AND_PASSWORDS`."""
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Who gives tokens to those that have a client's id and secret (OAuth 2.0, KIP-768)."""

    url: str
    """`https://…`, `http://…`, or `file:///…` of a file with a token that somebody else keeps fresh."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str | None = None
    url_encoded: bool = False
    """Whether id and secret are encoded in the header, as RFC 6749 has it and most servers do not ask for."""
    timeout_ms: int = 10_000
    tls: Tls = Tls()


@dataclass(frozen=True, slots=True)
class OAuthBearer:
    """A token, by which a broker knows who we are."""

    source: TokenEndpoint | Mapping[str, object]
    """Who gives it, or the claims of one that nobody signs: brokers that are tried out take it."""
    lifetime_seconds: int = 3600
    """Of one that nobody signs."""
    extensions: tuple[tuple[str, str], ...] = ()
    """Said with it (KIP-342)."""


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A ticket of Kerberos, from the cache of whoever runs us or by a key of a file (GSSAPI)."""

    service: str
    """The brokers' name in Kerberos; `kafka` as a rule."""
    principal: str | None = None
    keytab: str | None = None


Credentials = Sasl | OAuthBearer | Kerberos


@dataclass(frozen=True, slots=True)
class Security:
    """How a connection begins."""

    tls: Tls | None = None
    sasl: Credentials | None = None


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What all clients of a cluster have in common, with Kafka's defaults."""

    bootstrap: tuple[Address, ...]
    client_id: str = "fairlead"
    request_timeout_ms: int = 30_000
    """How long an answer may take, and a call that is tried again."""
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    metadata_max_age_ms: int = 300_000
    """After so long it is asked again who leads what is read, also where all answer."""
    security: Security = Security()
    security_now: Callable[[], Security] | None = field(default=None, compare=False, repr=False)
    """Reads it again where it came from, for the next connection. Raises: InvalidValue."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How much is asked for at once."""

    max_bytes: int = 52_428_800
    partition_bytes: int = 4 * 1_048_576
    """Four times Kafka's default, with which an answer has one batch of a megabyte of each of fifty partitions. What is
    fetched here is sent on as it came, so larger pieces of fewer partitions cost brokers and us less."""
    min_bytes: int = 1
    max_wait_ms: int = 500
    apart_ms: int = 5
    """A leader is asked again no sooner than so long after it was asked before. Who asks again at once asks a thousand
    times a second for a few records each, while they are written steadily, which costs brokers and us a core."""


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """How much is sent at once."""

    request_bytes_max: int = 1_048_576
    """A larger batch goes alone."""
    timeout_ms: int = 30_000
    """How long a broker waits for its replicas."""
    in_flight_max: int = IN_FLIGHT_MAX
    """Requests of a connection that are not answered; at most `IN_FLIGHT_MAX`."""
    transaction_timeout_ms: int = 60_000
    """A transaction that is open for longer is aborted by its coordinator."""


class Reset(StrEnum):
    """Where a consumer begins whose group has no offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """A consumer's property file."""

    client: ClientSettings
    group_id: str | None = None
    auto_offset_reset: Reset = Reset.LATEST
    read_committed: bool = False
    fetch: FetchSettings = FetchSettings()
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The file as it was, for those who know more keys."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """A producer's property file."""

    client: ClientSettings
    produce: ProduceSettings = ProduceSettings()
    compression: str = "none"
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
