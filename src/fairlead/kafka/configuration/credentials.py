"""`security.protocol` and what belongs to it: who we are, and whom we trust."""

from __future__ import annotations

from typing import Final

from fairlead.kafka.configuration.entries import Entries
from fairlead.kafka.configuration.jaas import read_jaas
from fairlead.kafka.configuration.settings import MECHANISMS, Sasl, Security, Tls
from fairlead.model.errors import InvalidValue

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
_TO_PEM: Final = {
    "truststore": "keytool -list -rfc -keystore {} > trusted.pem",
    "keystore": "keytool -importkeystore -srckeystore {} -destkeystore our.p12 -deststoretype PKCS12, then "
    "openssl pkcs12 -in our.p12 -out our.pem",
}


def security_of(entries: Entries) -> Security:
    """How a connection begins.

    Raises:
        InvalidValue: a value is wrong, missing, or of a kind that is not built.
    """
    protocol = entries.choice("security.protocol", _PROTOCOLS, "PLAINTEXT")
    tls, sasl = _tls(entries), _sasl(entries) if protocol.startswith("SASL_") else None
    if sasl is None:
        for key in ("sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password"):
            if entries.text(key) is not None:
                entries.warn(key, f"has no effect with security.protocol={protocol}")
    return Security(tls if protocol.endswith("SSL") else None, sasl)


def _tls(entries: Entries) -> Tls:
    key = "ssl.endpoint.identification.algorithm"
    algorithm = "" if entries.is_empty(key) else entries.choice(key, ("https",), "https")
    entries.text("ssl.truststore.password")  # a PEM file has none
    entries.text("ssl.keystore.password")
    return Tls(
        authorities=_pem(entries, "truststore"),
        authorities_pem=entries.text("ssl.truststore.certificates"),
        certificate=_pem(entries, "keystore"),
        certificate_pem=entries.text("ssl.keystore.certificate.chain"),
        key_pem=entries.text("ssl.keystore.key"),
        key_password=entries.text("ssl.key.password"),
        check_name=bool(algorithm),
    )


def _pem(entries: Entries, store: str) -> str | None:
    path, kind = (
        entries.text(f"ssl.{store}.location"),
        entries.choice(f"ssl.{store}.type", ("JKS", "PKCS12", "PEM"), "JKS"),
    )
    if path is not None and kind != "PEM":
        raise entries.wrong(
            f"ssl.{store}.type",
            f"is {kind}, which is not read yet; make a PEM file with `{_TO_PEM[store].format(path)}`, give its path as "
            f"ssl.{store}.location and write ssl.{store}.type=PEM",
        )
    return path


def _sasl(entries: Entries) -> Sasl:
    mechanism = entries.text("sasl.mechanism", "GSSAPI") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise entries.wrong("sasl.mechanism", f"is {mechanism}, which is not built; there are {', '.join(MECHANISMS)}")
    username, password = _name_and_password(entries, mechanism)
    if not username or password is None:
        raise entries.wrong("sasl.jaas.config", "lacks username or password")
    return Sasl(mechanism, username, password)


def _name_and_password(entries: Entries, mechanism: str) -> tuple[str | None, str | None]:
    jaas = entries.text("sasl.jaas.config")
    if jaas is None:
        return entries.text("sasl.username"), entries.text("sasl.password")
    try:
        module, options = read_jaas(jaas)
    except InvalidValue as error:
        raise InvalidValue(f"{entries.where}: {error}") from None
    if mechanism not in _MODULES.get(module, ()):
        raise entries.wrong("sasl.jaas.config", f"names {module}, which is not for sasl.mechanism={mechanism}")
    return options.get("username"), options.get("password")
