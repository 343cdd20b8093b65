"""SASL: a connection says who it is before anything else is asked (KIP-152, KIP-368)."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from fairlead.kafka.configuration.settings import Sasl
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.scram import Scram
from fairlead.kafka.connecting.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from fairlead.kafka.errors import check
from fairlead.model.errors import NotAllowed

_RENEW_AT: Final = 0.85
"""Of a session's life: as in Java, where a random 85 to 95 % keeps clients apart."""


class Conversation(Protocol):
    """What is said in turn."""

    def first(self) -> bytes:
        """To the broker."""
        ...

    def next(self, challenge: bytes) -> bytes | None:
        """The reply to the broker's word; None if all is said. Raises: NotAllowed: the broker does not know the
        password."""
        ...


class _Plain:
    """RFC 4616: all at once, so only for connections that nobody can listen to."""

    def __init__(self, sasl: Sasl) -> None:
        self._sasl = sasl

    def first(self) -> bytes:
        return f"\0{self._sasl.username}\0{self._sasl.password}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        return None


async def authenticate(connection: Connection, sasl: Sasl) -> None:
    """Say who we are.

    Raises:
        NotAllowed: the broker knows no such name or password, or does not take the mechanism.
        Unanswered, Malformed
    """
    who = f"{connection.who}, user {sasl.username}"
    answer = await connection.call(SASL_HANDSHAKE, {"mechanism": sasl.mechanism})
    taken = ", ".join(answer.mechanisms)
    check(answer.error_code, f"{connection.who} takes no {sasl.mechanism}, but {taken or 'nothing'}")
    conversation: Conversation = _Plain(sasl) if sasl.mechanism == "PLAIN" else Scram(sasl)
    word: bytes | None = conversation.first()
    lifetime_seconds = 0.0
    while word is not None:
        answer = await connection.call(SASL_AUTHENTICATE, {"auth_bytes": word})
        check(answer.error_code, who, answer.error_message)
        lifetime = getattr(answer, "session_lifetime", None)
        lifetime_seconds = lifetime.total_seconds() if lifetime is not None else 0.0
        try:
            word = conversation.next(answer.auth_bytes)
        except NotAllowed as error:
            raise NotAllowed(f"{who}: {error}") from None
    if lifetime_seconds > 0:
        connection.until = asyncio.get_running_loop().time() + _RENEW_AT * lifetime_seconds
