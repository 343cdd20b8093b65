"""Key stores as Java has them, made into PEM: PKCS12 by `cryptography`, JKS by Java's own keytool.

As in Java, a file itself shows what it is: a store that is called JKS may be PKCS12, which keytool has made for years.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, pkcs12
from cryptography.x509 import Certificate

from fairlead.kafka.configuration.settings import Store
from fairlead.model.clock import SystemRandomness
from fairlead.model.errors import InvalidValue

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""How JKS and JCEKS begin."""
_KEYTOOL_SECONDS: Final = 60
_KEY_ALIAS: Final = "PrivateKeyEntry"


class OwnCertificate(NamedTuple):
    """A certificate and its key."""

    pem: str
    """The key first, encrypted."""
    password: str


def trusted_in(store: Store) -> str:
    """The certificates in a store that is not PEM, as PEM.

    Raises:
        InvalidValue: it cannot be read, has another password, or holds none.
    """
    found = _opened(store, None)
    certificates = [each.certificate for each in found.additional_certs]
    if found.cert is not None:
        certificates.append(found.cert.certificate)
    if not certificates:
        raise InvalidValue(f"{store.path}: there is no certificate in it")
    return "".join(map(_pem, certificates))


def own_in(store: Store, key_password: str | None) -> OwnCertificate:
    """The certificate in a store that is not PEM, its chain and its key.

    Raises:
        InvalidValue: it cannot be read, has another password, or holds no key.
    """
    found = _opened(store, key_password)
    if found.key is None or found.cert is None:
        raise InvalidValue(f"{store.path}: there is no key with its certificate in it")
    password = SystemRandomness().id16().hex()
    encryption = BestAvailableEncryption(password.encode())
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
    chain = [found.cert.certificate, *(each.certificate for each in found.additional_certs)]
    return OwnCertificate(key + "".join(map(_pem, chain)), password)


def _pem(certificate: Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _opened(store: Store, key_password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    data, password = Path(store.path).read_bytes(), store.password
    if data.startswith(_JKS):
        data, password = _converted(store, key_password)
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        why = "it is no PKCS12, or it has another password" if store.password else "it needs its password"
        raise InvalidValue(f"{store.path}: {why} ({error})") from None


# ---------------------------------------------------------------- JKS


def _converted(store: Store, key_password: str | None) -> tuple[bytes, str]:
    """A JKS store as PKCS12, and the password of that."""
    if store.password is None:
        raise InvalidValue(f"{store.path}: a JKS store needs its password")
    keytool = _keytool(os.environ)
    if keytool is None:
        raise InvalidValue(
            f"{store.path} is JKS, which Java's keytool reads, and there is none; make another file where Java is: "
            f"keytool -importkeystore -srckeystore {store.path} -destkeystore store.p12 -deststoretype PKCS12"
        )
    if key_password is None or key_password == store.password:
        return _imported(keytool, store, store.password, [])
    alias = _alias_of_key(keytool, store)
    return _imported(keytool, store, key_password, ["-srcalias", alias, "-srckeypass:env", "FAIRLEAD_KEY"])


def _imported(keytool: Path, store: Store, key_password: str, more: list[str]) -> tuple[bytes, str]:
    password = SystemRandomness().id16().hex()
    secrets = {"FAIRLEAD_FROM": store.password or "", "FAIRLEAD_TO": password, "FAIRLEAD_KEY": key_password}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "store.p12"
        source = ["-srckeystore", store.path, "-srcstorepass:env", "FAIRLEAD_FROM"]
        target = ["-destkeystore", str(made), "-deststoretype", "PKCS12", "-deststorepass:env", "FAIRLEAD_TO"]
        keys = ["-destkeypass:env", "FAIRLEAD_TO"] if more else []
        _ask(keytool, store, ["-importkeystore", "-noprompt", *source, *target, *more, *keys], secrets)
        return made.read_bytes(), password


def _alias_of_key(keytool: Path, store: Store) -> str:
    """A key with a password of its own is asked for by its name."""
    command = ["-list", "-keystore", store.path, "-storepass:env", "FAIRLEAD_FROM"]
    listed = _ask(keytool, store, command, {"FAIRLEAD_FROM": store.password or ""})
    for line in listed.splitlines():
        if _KEY_ALIAS in line:
            return line.split(",")[0]
    raise InvalidValue(f"{store.path}: there is no key in it")


def _ask(keytool: Path, store: Store, command: list[str], secrets: Mapping[str, str]) -> str:
    """What keytool says. Passwords go by its environment: everybody may read the arguments of a process."""
    environment = {**os.environ, **secrets}
    try:
        done = subprocess.run(
            [keytool, "-J-Duser.language=en", *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_KEYTOOL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InvalidValue(f"{store.path}: keytool has not read it in {_KEYTOOL_SECONDS} s") from None
    if done.returncode != 0:
        said = " ".join((done.stdout + done.stderr).split())
        raise InvalidValue(f"{store.path}: {_without(said, secrets)[:300]}")
    return done.stdout


def _without(text: str, secrets: Mapping[str, str]) -> str:
    for secret in secrets.values():
        text = text.replace(secret, "…") if secret else text
    return text


def _keytool(environment: Mapping[str, str]) -> Path | None:
    """That of JAVA_HOME, else the first one on PATH."""
    home = environment.get("JAVA_HOME")
    if home and (found := Path(home) / "bin" / "keytool").is_file():
        return found
    on_path = shutil.which("keytool", path=environment.get("PATH", os.defpath))
    return None if on_path is None else Path(on_path)
