"""How connections leave HTTP: the request, the answer, and who may pass.

The request is `GET /gateway/apply HTTP/1.1` with `Connection: Upgrade` and `Upgrade: fairlead-apply`, and no body; the
answer is `101 Switching Protocols` with the same two headers. Behind its empty line both sides send messages. The same
goes for `/gateway/forward` and `fairlead-forward`, behind which Kafka's Produce requests and answers follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.model.errors import InvalidValue

APPLY_PATH: Final = "/gateway/apply"
TOKEN: Final = "fairlead-apply"
FORWARD_PATH: Final = "/gateway/forward"
FORWARD_TOKEN: Final = "fairlead-forward"
HEAD_BYTES_MAX: Final = 8 * 1024
"""An answer whose head is longer is none of a gateway."""

HEAD_END: Final = b"\r\n\r\n"

Headers = Iterable[tuple[bytes, bytes]]


def request_of(host: str, path: str, token: str = TOKEN) -> bytes:
    """What the caller says first."""
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{_upgrade(token)}".encode("ascii")


def answer_of(token: str = TOKEN) -> bytes:
    """What the gateway answers."""
    return f"HTTP/1.1 101 Switching Protocols\r\n{_upgrade(token)}".encode()


def _upgrade(token: str) -> str:
    return f"Connection: Upgrade\r\nUpgrade: {token}\r\n\r\n"


def asks_to_upgrade(headers: Headers, token: str = TOKEN) -> bool:
    """The headers (names in lower case) ask for this protocol, and nothing of a body follows them."""
    found = list(headers)
    if any(name in {b"content-length", b"transfer-encoding"} for name, _ in found):
        return False
    return _tokens(found, b"upgrade") == [token.encode()] and b"upgrade" in _tokens(found, b"connection")


def check_answer(head: bytes, token: str = TOKEN) -> None:
    """The head of the answer, without its empty line, switches to this protocol.

    Raises:
        InvalidValue: it does not; the message shows what was answered.
    """
    first, *lines = head.split(b"\r\n")
    if not first.startswith(b"HTTP/1.1 101 "):
        shown = first[:80].decode("latin-1")
        raise InvalidValue(f"no gateway of Fairlead, or a proxy that does not pass Upgrade on: it answered {shown!r}")
    split = [line.partition(b":") for line in lines]
    headers = [(name.lower(), value) for name, _, value in split]
    if not all(colon for _, colon, _ in split) or not asks_to_upgrade(headers, token):
        raise InvalidValue(f"it switched to another protocol than {token}")


def _tokens(headers: Headers, name: bytes) -> list[bytes]:
    return [token.strip().lower() for key, value in headers if key == name for token in value.split(b",")]
