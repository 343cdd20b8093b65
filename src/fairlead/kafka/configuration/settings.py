"""What a client is told: values only. `clients.py` reads them from Kafka's property files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fairlead.model.addresses import Address

IN_FLIGHT_MAX: Final = 5
"""A broker remembers the last five batches of a producer in a partition: with more under way it could not tell one that
comes again from one that is lost."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Of SASL, by which a broker may be told who we are."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How a broker is told from an impostor, and we are known to it. Files are read again for each connection; a text
    stands in for a file (KIP-651)."""

    authorities: str | None = None
    """Path of a PEM file with certificates to trust; None: those of the machine."""
    authorities_pem: str | None = None
    certificate: str | None = None
    """Path of a PEM file with our certificate, its chain and its key."""
    certificate_pem: str | None = None
    key_pem: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_name: bool = True
    """Whether the certificate must be for the host's name."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """A name and a password, and how they are shown."""

    mechanism: str
    """One of `MECHANISMS`."""
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """How a connection begins."""

    tls: Tls | None = None
    sasl: Sasl | None = None


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
    security: Security = Security()


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How much is asked for at once."""

    max_bytes: int = 52_428_800
    partition_bytes: int = 1_048_576
    min_bytes: int = 1
    max_wait_ms: int = 500


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
