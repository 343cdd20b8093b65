"""HOST:PORT, as people write it."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.model.errors import InvalidValue
from fairlead.model.limits import PORT_MAX


class Address(NamedTuple):
    """A host (name or number, without brackets) and a TCP port; port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, what: str) -> Address:
    """Read HOST:PORT or [IPv6]:PORT.

    Raises:
        InvalidValue: the text is neither, or no host can be called so; the message says what it was given for (`what`).
    """
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise InvalidValue(f"{what} {text!r}: write HOST:PORT, for example 127.0.0.1:9092")
    if not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise InvalidValue(f"{what} {text!r}: the port is a number from 0 to {PORT_MAX}")
    return Address(check_host(host[1:-1] if bracketed else host, f"{what} {text!r}"), int(port))


def check_host(host: str, what: str) -> str:
    """A host, if one can be called so; the system fails in a way of its own to look up what cannot be a name.

    Raises:
        InvalidValue: a part between dots is empty or too long, or has what no name has; the message begins with `what`.
    """
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise InvalidValue(
            f"{what}: {host!r} cannot be the name of a host; its parts between dots have 1 to 63 characters"
        ) from error
    return host
