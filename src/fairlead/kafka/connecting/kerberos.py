"""Kerberos by GSSAPI (RFC 4752), without a layer of its own around what follows: TLS is for that.

The package `gssapi` is loaded when a broker is first met by it; it comes with `pip install fairlead[kerberos]`.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from fairlead.kafka.configuration.settings import Kerberos
from fairlead.model.errors import InvalidValue, NotAllowed

_NO_LAYER: Final = 1
"""The bit of an offer; the word that chooses it says further that nothing wrapped is taken."""
_CHOSEN: Final = bytes((_NO_LAYER, 0, 0, 0))
_OFFER_BYTES: Final = 4


class KerberosConversation:
    """One conversation: tickets until both sides are sure of each other, then no layer is agreed upon."""

    def __init__(self, kerberos: Kerberos, host: str) -> None:
        self._gssapi = _library()
        self._kerberos = kerberos
        self._host = host
        self._context: Any = None

    def first(self) -> bytes:
        """The first message. Raises: NotAllowed: there is no ticket."""
        try:
            self._context = self._begun()
            return bytes(self._context.step() or b"")
        except self._gssapi.exceptions.GSSError as error:
            raise self._refused(error) from None

    def next(self, challenge: bytes) -> bytes | None:
        """The reply to the broker's message; None after its last one.

        Raises:
            NotAllowed: the broker is not who it says, or insists on a layer.
        """
        try:
            if self._context.complete:
                return self._agreed(challenge) if challenge else None
            return bytes(self._context.step(challenge) or b"")
        except self._gssapi.exceptions.GSSError as error:
            raise self._refused(error) from None

    def _begun(self) -> Any:
        gss, kerberos = self._gssapi, self._kerberos
        service = gss.Name(f"{kerberos.service}@{self._host}", gss.NameType.hostbased_service)
        credentials = None
        if kerberos.principal is not None or kerberos.keytab is not None:
            name = None if kerberos.principal is None else gss.Name(kerberos.principal, gss.NameType.kerberos_principal)
            store = None if kerberos.keytab is None else {"client_keytab": kerberos.keytab}
            credentials = gss.Credentials(name=name, usage="initiate", store=store)
        flags = gss.RequirementFlag.mutual_authentication | gss.RequirementFlag.integrity
        return gss.SecurityContext(name=service, creds=credentials, usage="initiate", flags=flags)

    def _agreed(self, challenge: bytes) -> bytes:
        offer = bytes(self._context.unwrap(challenge).message)
        if len(offer) != _OFFER_BYTES or not offer[0] & _NO_LAYER:
            raise NotAllowed("the broker insists on a layer of Kerberos around everything, which is not built; use TLS")
        return bytes(self._context.wrap(_CHOSEN, False).message)

    def _refused(self, error: Exception) -> NotAllowed:
        return NotAllowed(f"Kerberos, {self._kerberos.service}@{self._host}: {' '.join(str(error).split())[:300]}")


def _library() -> Any:
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise InvalidValue(
            f"sasl.mechanism=GSSAPI needs the package gssapi ({error}): pip install 'fairlead[kerberos]'"
        ) from None
