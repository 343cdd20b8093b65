"""Addresses that a server listens on: who can reach them, what others call them by, why one will not do."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Final

from fairlead.model.addresses import Address
from fairlead.model.errors import BadRequest, NotAllowed
from fairlead.model.limits import LISTEN_BACKLOG

LOOPBACK_OF_ALL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""By what a listener on all interfaces is reached from its own machine."""
ALL_INTERFACES: Final = frozenset(LOOPBACK_OF_ALL)


def callable_host(host: str) -> str:
    """What others call a listener on this host by: the machine's name where it listens on all interfaces."""
    return socket.gethostname() if host in ALL_INTERFACES else host


def why(error: OSError | UnicodeError) -> str:
    """What the operating system says of a port, without its number of errno; a UnicodeError says that no host can be
    called so."""
    if isinstance(error, UnicodeError):
        return "there can be no such host"
    if error.errno == errno.EADDRINUSE:
        return "the port is in use by another process"
    return error.strerror or str(error)


def bind(address: Address, listener: str, *, every_family: bool) -> list[socket.socket]:
    """The sockets of a listener (HTTP, Kafka): one for the host's first address, or one for each.

    They listen at once: only that keeps the port from others.

    Raises:
        BadRequest: the port is taken or not allowed, or there is no such host.
    """
    bound: list[socket.socket] = []
    port = address.port
    try:
        found = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        places = list(dict.fromkeys((family, str(place[0])) for family, _, _, _, place in found))
        for family, host in sorted(places) if every_family else sorted(places)[:1]:
            each = socket.socket(family, socket.SOCK_STREAM)
            bound.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind((host, port))
            each.listen(LISTEN_BACKLOG)
            port = each.getsockname()[1]
    except (OSError, UnicodeError) as error:
        for each in bound:
            each.close()
        option = listener.lower()
        raise BadRequest(f"{listener} listener {address}: {why(error)}; choose another with --{option}") from error
    return bound


CLUSTER_IS_OPEN: Final = "this cluster has no users yet: anyone could read and change everything"


def check_exposure(address: Address, insecure: bool, what: str = CLUSTER_IS_OPEN) -> None:
    """Refuse to listen where other machines can reach it, unless that was asked for; `what` says what they could do.

    Raises:
        NotAllowed: it is another address than the loopback's.
        BadRequest: there is no such host.
    """
    if insecure or _is_loopback(address.host):
        return
    raise NotAllowed(
        f"{address} can be reached from other machines and {what}; use 127.0.0.1, or say --insecure if the network is "
        "trusted"
    )


def _is_loopback(host: str) -> bool:
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise BadRequest(f"host {host!r}: {why(error)}") from error
    return all(ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in found)
