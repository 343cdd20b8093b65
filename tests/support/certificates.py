"""Certificates of a test's own authority, and stores with them as Java's and other programs write them."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"
DAY = timedelta(days=1)


class Own(NamedTuple):
    """A certificate, its key and who vouches for it."""

    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate


class Authority:
    """Vouches for others."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._made(name, self._key, self._key, x509.BasicConstraints(ca=True, path_length=None))

    def own(self, name: str, *, expired: bool = False) -> Own:
        """A certificate for this host, which has a day left or has none."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = -DAY if expired else DAY
        return Own(name, key, self._made(name, key, self._key, None, until), self.certificate)

    def _made(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        signed_by: ec.EllipticCurvePrivateKey,
        constraints: x509.BasicConstraints | None,
        until: timedelta = DAY,
    ) -> x509.Certificate:
        named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = named if constraints else self.certificate.subject
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now + until)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        )
        if constraints is not None:
            builder = builder.add_extension(constraints, critical=True)
        return builder.sign(signed_by, hashes.SHA256())


def pem_of(*certificates: x509.Certificate) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def pem_store(file: Path, own: Own) -> Path:
    """Key, certificate and authority."""
    key = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    file.write_text(key + pem_of(own.certificate, own.authority))
    return file


def pkcs12_store(file: Path, own: Own, password: str = PASSWORD) -> Path:
    """The same, encrypted."""
    encryption = BestAvailableEncryption(password.encode())
    others = [own.authority]
    file.write_bytes(
        pkcs12.serialize_key_and_certificates(own.name.encode(), own.key, own.certificate, others, encryption)
    )
    return file


def keytool(*arguments: str) -> None:
    """Java's own tool; in tests passwords may be seen."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "keytool") if home else "keytool"
    subprocess.run([command, "-J-XX:TieredStopAtLevel=1", *arguments], check=True, capture_output=True, timeout=120)


def jks_store(file: Path, own: Own, key_password: str = PASSWORD) -> Path:
    """A key in a store as old Java programs have it; the key may have a password of its own."""
    made = pkcs12_store(file.with_suffix(".made"), own)
    source = ["-srckeystore", str(made), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD, "-srcalias", own.name]
    target = ["-destkeystore", str(file), "-deststoretype", "JKS", "-deststorepass", PASSWORD]
    keytool("-importkeystore", "-noprompt", *source, *target, "-destkeypass", key_password)
    return file


def trust_store(file: Path, kind: str, authority: Authority) -> Path:
    """A store with certificates to trust, as keytool writes it."""
    file.unlink(missing_ok=True)
    certificate = file.with_suffix(".crt")
    certificate.write_text(pem_of(authority.certificate))
    store = ["-keystore", str(file), "-storetype", kind, "-storepass", PASSWORD]
    keytool("-importcert", "-noprompt", "-alias", "authority", "-file", str(certificate), *store)
    return file


def java_trust_store(file: Path, authority: Authority) -> Path:
    """The same in PKCS12, where there may be no Java."""
    trusted = [pkcs12.PKCS12Certificate(authority.certificate, b"authority")]
    file.write_bytes(pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(PASSWORD.encode())))
    return file
