"""TLS as Kafka's PEM settings say it (KIP-651)."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.kafka.configuration.settings import Tls
from fairlead.model.errors import InvalidValue


def context_of(tls: Tls) -> ssl.SSLContext:
    """What a connection is wrapped in.

    Raises:
        InvalidValue: a file cannot be read, or holds no certificate.
    """
    try:
        context = ssl.create_default_context(cafile=tls.authorities, cadata=tls.authorities_pem)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, password=tls.key_password or _no_password)
        elif tls.certificate_pem is not None:
            with _as_file(f"{tls.key_pem or ''}\n{tls.certificate_pem}\n") as path:
                context.load_cert_chain(path, password=tls.key_password or _no_password)
    except ssl.SSLError as error:
        raise InvalidValue(
            f"{_files(tls)}: no certificate or key that can be used (PEM): {error.reason or error}"
        ) from None
    except OSError as error:
        raise InvalidValue(f"{_files(tls)}: {error.strerror or error}") from None
    if not tls.check_name:
        context.check_hostname = False
    return context


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise InvalidValue("the key is encrypted; give its password as `ssl.key.password`")


def _files(tls: Tls) -> str:
    return " and ".join(filter(None, (tls.certificate, tls.authorities))) or "the certificates in the settings"


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
