"""The client's half of SCRAM (RFC 5802) without channel binding, as Kafka has it: SHA-256 and SHA-512."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from fairlead.kafka.configuration.settings import Sasl
from fairlead.model.clock import Randomness, SystemRandomness
from fairlead.model.errors import NotAllowed

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_BINDING: Final = "n,,"
_ITERATIONS_MIN: Final = 4096
"""Kafka's own lower bound, and the RFC's: with fewer an impostor would learn the password sooner."""
_ITERATIONS_MAX: Final = 1_000_000
"""A second of work: more is a broker that wants to keep us busy."""


class Scram:
    """One conversation: we prove that we know the password, and so does the broker."""

    def __init__(self, sasl: Sasl, randomness: Randomness | None = None) -> None:
        self._hash = _HASHES[sasl.mechanism]
        self._sasl = sasl
        self._nonce = _base64((randomness or SystemRandomness()).id16())
        name = sasl.username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._expected: bytes | None = None
        """The broker's signature, once ours was sent."""

    def first(self) -> bytes:
        """The first message."""
        return (_NO_BINDING + self._first_bare).encode()

    def next(self, challenge: bytes) -> bytes | None:
        """The reply to the broker's message; None after its last one.

        Raises:
            NotAllowed: the broker does not know the password, or speaks otherwise than it should.
        """
        fields = _fields(challenge)
        if "e" in fields:
            raise NotAllowed(f"refused: {fields['e']}")
        if self._expected is None:
            return self._proof(challenge.decode(), fields)
        self._verify(fields)
        return None

    def _proof(self, challenge: str, fields: dict[str, str]) -> bytes:
        nonce, salt, iterations = fields.get("r", ""), _decoded(fields.get("s", "")), fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise NotAllowed("the broker's nonce does not begin with ours")
        if not iterations.isdecimal() or not _ITERATIONS_MIN <= int(iterations) <= _ITERATIONS_MAX:
            raise NotAllowed(
                f"the broker asks for {iterations[:20]!r} rounds, not {_ITERATIONS_MIN} to {_ITERATIONS_MAX}"
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._sasl.password.encode(), salt, int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        last = f"c={_base64(_NO_BINDING.encode())},r={nonce}"
        said = f"{self._first_bare},{challenge},{last}".encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), said)
        self._expected = self._hmac(self._hmac(salted, b"Server Key"), said)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{last},p={_base64(proof)}".encode()

    def _verify(self, fields: dict[str, str]) -> None:
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._expected or b""):
            raise NotAllowed("the broker does not know the password that it asks for")

    def _hmac(self, key: bytes, said: bytes) -> bytes:
        return hmac.new(key, said, self._hash).digest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotAllowed("the broker's message is no SCRAM") from None


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise NotAllowed("the broker's message is no SCRAM") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}
