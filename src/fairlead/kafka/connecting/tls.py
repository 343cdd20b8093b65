"""TLS as Kafka's settings say it: PEM texts and files (KIP-651), PKCS12 and JKS stores."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fairlead.kafka.configuration.settings import Store, Tls
from fairlead.kafka.connecting.keystores import own_in, trusted_in
from fairlead.model.errors import InvalidValue, NotAllowed

_PEM: Final = "PEM"
_OF_CERTIFICATES: Final = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "HANDSHAKE_FAILURE")
"""Words in the alerts of a broker that knows us by our certificate."""


class TlsContexts:
    """Contexts that are made anew when what they are made of has changed. Making one may take a second."""

    def __init__(self) -> None:
        self._made: tuple[object, ssl.SSLContext] | None = None
        self._making = asyncio.Lock()

    async def of(self, tls: Tls) -> ssl.SSLContext:
        """What a connection is wrapped in. Raises: as `context_of`."""
        async with self._making:
            now = (tls, [_stamp(store) for store in (tls.authorities, tls.certificate)])
            if self._made is None or self._made[0] != now:
                self._made = now, await asyncio.to_thread(context_of, tls)
            return self._made[1]


def _stamp(store: Store | None) -> tuple[int, ...] | None:
    """What changes with a file."""
    try:
        found = None if store is None else Path(store.path).stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def context_of(tls: Tls) -> ssl.SSLContext:
    """What a connection is wrapped in.

    Raises:
        InvalidValue: a file cannot be read, holds no certificate, or has another password.
    """
    try:
        context = _trusting(tls)
        _load_own(context, tls)
    except ssl.SSLError as error:
        raise InvalidValue(
            f"{_files(tls)}: no certificate or key that can be used (PEM): {error.reason or error}"
        ) from None
    except OSError as error:
        raise InvalidValue(f"{error.filename or _files(tls)}: {error.strerror or error}") from None
    if not tls.check_name:
        context.check_hostname = False
    return context


def refusal_of(error: BaseException | None, who: str) -> NotAllowed | None:
    """The error to raise, if this is one by which one side does not believe the other."""
    if isinstance(error, NotAllowed):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotAllowed(f"{who}: its certificate is not trusted: {error.verify_message}")
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in _OF_CERTIFICATES):
        return NotAllowed(f"{who} does not take our certificate (ssl.keystore.…): {reason.replace('_', ' ').lower()}")
    return None


def _trusting(tls: Tls) -> ssl.SSLContext:
    store = tls.authorities
    if store is None or store.kind == _PEM:
        path = None if store is None else store.path
        return ssl.create_default_context(cafile=path, cadata=tls.authorities_pem)
    return ssl.create_default_context(cadata=trusted_in(store))


def _load_own(context: ssl.SSLContext, tls: Tls) -> None:
    store, password = tls.certificate, tls.key_password or _no_password
    if store is not None and store.kind == _PEM:
        context.load_cert_chain(store.path, password=tls.key_password or store.password or _no_password)
    elif store is not None:
        own = own_in(store, tls.key_password)
        with _as_file(own.pem) as path:
            context.load_cert_chain(path, password=own.password)
    elif tls.certificate_pem is not None:
        with _as_file(f"{tls.key_pem or ''}\n{tls.certificate_pem}\n") as path:
            context.load_cert_chain(path, password=password)


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise InvalidValue("the key is encrypted; give its password as `ssl.key.password`")


def _files(tls: Tls) -> str:
    paths = [store.path for store in (tls.certificate, tls.authorities) if store is not None]
    return " and ".join(paths) or "the certificates in the settings"


@contextmanager
def _as_file(text: str) -> Iterator[Path]:
    """Python takes a certificate from a file only; nobody else may read it."""
    descriptor, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield Path(name)
    finally:
        Path(name).unlink()
