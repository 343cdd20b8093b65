"""SASL: a connection says who it is before anything else is asked (KIP-152), and again before the broker would end it
(KIP-368)."""

from __future__ import annotations

import asyncio
import json
from typing import Final, NamedTuple, Protocol

from fairlead.kafka.configuration.settings import Credentials, Kerberos, OAuthBearer, Sasl
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.kerberos import KerberosConversation
from fairlead.kafka.connecting.scram import Scram
from fairlead.kafka.connecting.tokens import Tokens
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


class _Bearer:
    """RFC 7628: a token, and what is said with it. A broker that does not take it says why, and is answered."""

    def __init__(self, token: str, extensions: tuple[tuple[str, str], ...]) -> None:
        self._said = {"auth": f"Bearer {token}", **dict(extensions)}

    def first(self) -> bytes:
        return ("n,,\1" + "".join(f"{name}={value}\1" for name, value in self._said.items()) + "\1").encode()

    def next(self, challenge: bytes) -> bytes | None:
        return b"\1" if challenge else None


class Introduction(NamedTuple):
    """What is going to be said on a connection."""

    mechanism: str
    user: str
    """Words about who says it."""
    conversation: Conversation

    async def say(self, connection: Connection) -> float:
        """Say who we are, with nobody in between; after how many seconds to say it again, 0: never.

        Raises:
            NotAllowed: the broker knows no such name or password, or does not take the mechanism.
            Unanswered, Malformed
        """
        async with connection.alone():
            answer = await connection.call_alone(SASL_HANDSHAKE, {"mechanism": self.mechanism})
            taken = ", ".join(answer.mechanisms)
            check(answer.error_code, f"{connection.who} takes no {self.mechanism}, but {taken or 'nothing'}")
            return _RENEW_AT * await _converse(connection, self.conversation, f"{connection.who}, {self.user}")


async def introduction(credentials: Credentials, host: str, tokens: Tokens) -> Introduction:
    """What to say to a broker on that host.

    Raises:
        NotAllowed: we are given no token; InvalidValue: what we are given is none, or Kerberos is not installed.
        Unreachable: who gives tokens does not answer.
    """
    match credentials:
        case OAuthBearer():
            bearer = _Bearer(await tokens.of(credentials), credentials.extensions)
            return Introduction("OAUTHBEARER", "by a token", bearer)
        case Kerberos(principal=principal):
            return Introduction("GSSAPI", principal or "by Kerberos", KerberosConversation(credentials, host))
        case Sasl(mechanism, username):
            conversation = _Plain(credentials) if mechanism == "PLAIN" else Scram(credentials)
            return Introduction(mechanism, f"user {username}", conversation)


async def _converse(connection: Connection, conversation: Conversation, who: str) -> float:
    """For how many seconds the broker believes it."""
    word = await asyncio.to_thread(_next, conversation, None, who)
    refusal = ""
    lifetime_seconds = 0.0
    while word is not None:
        answer = await connection.call_alone(SASL_AUTHENTICATE, {"auth_bytes": word})
        check(answer.error_code, who, " ".join(filter(None, (refusal, answer.error_message))))
        lifetime = getattr(answer, "session_lifetime", None)
        lifetime_seconds = lifetime.total_seconds() if lifetime is not None else 0.0
        word = await asyncio.to_thread(_next, conversation, bytes(answer.auth_bytes), who)
        refusal = _status(bytes(answer.auth_bytes))
    return lifetime_seconds


def _next(conversation: Conversation, challenge: bytes | None, who: str) -> bytes | None:
    try:
        return conversation.first() if challenge is None else conversation.next(challenge)
    except NotAllowed as error:
        raise NotAllowed(f"{who}: {error}") from None


def _status(challenge: bytes) -> str:
    """Why a token is not taken, if that is what the broker says."""
    try:
        fields = json.loads(challenge)
    except ValueError:
        return ""
    return str(fields.get("status", "")) if isinstance(fields, dict) else ""
