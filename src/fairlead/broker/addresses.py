"""How many connections one address may have, and make in a second (KIP-402, KIP-612), so that one leaves room for all.

An address that makes them faster is not refused at once: each further connection is read a little later than the one
before, so that a client that comes back at once and again gains nothing.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

DELAY_SECONDS_MAX: Final = 10.0
"""A connection that would be read later than this is refused."""
_KEPT: Final = 10_000
"""Addresses without a connection that are remembered."""
_IPV6_SITE_BITS: Final = 64
"""One user of IPv6 has so many addresses that they count together."""


@dataclass(slots=True)
class _Address:
    connections: int = 0
    free_at: float = 0.0
    """When its next connection may be read."""


class Addresses:
    """The addresses that have connections."""

    def __init__(self, connections_max: int, per_second: float) -> None:
        """`per_second` 0: as many as they like."""
        self.connections_max = connections_max
        self._spacing_seconds = 1 / per_second if per_second else 0.0
        self._addresses: dict[str, _Address] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, host: str, now: float) -> float | None:
        """Count a connection. After how many seconds it may be read; None if it is refused, and then not counted."""
        found = self._addresses.setdefault(_key(host), _Address())
        free_at = max(found.free_at, now - 1)  # what was not used in the last second may come at once
        delay = max(0.0, free_at - now)
        if found.connections >= self.connections_max or delay > DELAY_SECONDS_MAX:
            return None
        found.free_at = free_at + self._spacing_seconds
        found.connections += 1
        return delay

    def left(self, host: str) -> None:
        """A connection that was counted has ended."""
        key = _key(host)
        found = self._addresses[key]
        found.connections -= 1
        if not found.connections and len(self._addresses) > _KEPT:
            del self._addresses[key]


def _key(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    mapped = address.ipv4_mapped
    return str(mapped or ipaddress.ip_network((address, _IPV6_SITE_BITS), strict=False))
