"""`security.protocol` and what belongs to it: who we are, and whom we trust."""

from __future__ import annotations

from typing import Final

from fairlead.kafka.configuration.entries import Entries
from fairlead.kafka.configuration.jaas import read_jaas
from fairlead.kafka.configuration.oauth import oauth_of
from fairlead.kafka.configuration.settings import NAMES_AND_PASSWORDS, Credentials, Kerberos, Sasl, Security, Store, Tls
from fairlead.model.errors import InvalidValue

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OAUTH: Final = "OAUTHBEARER"
_KERBEROS: Final = "GSSAPI"
_MECHANISMS: Final = (*NAMES_AND_PASSWORDS, _OAUTH, _KERBEROS)
_MODULES: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": (_OAUTH,),
    "Krb5LoginModule": (_KERBEROS,),
}
_KINDS: Final = ("JKS", "PKCS12", "PEM")


def security_of(entries: Entries) -> Security:
    """How a connection begins.

    Raises:
        InvalidValue: a value is wrong, missing, or of a kind that is not built.
    """
    protocol = entries.choice("security.protocol", _PROTOCOLS, "PLAINTEXT")
    tls, sasl = tls_of(entries), _sasl(entries) if protocol.startswith("SASL_") else None
    if sasl is None:
        for key in ("sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password"):
            if entries.text(key) is not None:
                entries.warn(key, f"has no effect with security.protocol={protocol}")
    return Security(tls if protocol.endswith("SSL") else None, sasl)


def tls_of(entries: Entries) -> Tls:
    """What `ssl.…` says. Raises: InvalidValue."""
    key = "ssl.endpoint.identification.algorithm"
    algorithm = "" if entries.is_empty(key) else entries.choice(key, ("https",), "https")
    return Tls(
        authorities=_store(entries, "truststore"),
        authorities_pem=entries.text("ssl.truststore.certificates"),
        certificate=_store(entries, "keystore"),
        certificate_pem=entries.text("ssl.keystore.certificate.chain"),
        key_pem=entries.text("ssl.keystore.key"),
        key_password=entries.text("ssl.key.password"),
        check_name=bool(algorithm),
    )


def _store(entries: Entries, which: str) -> Store | None:
    path = entries.text(f"ssl.{which}.location")
    kind = entries.choice(f"ssl.{which}.type", _KINDS, "JKS")
    password = entries.text(f"ssl.{which}.password")
    return None if path is None else Store(path, kind, password)


def _sasl(entries: Entries) -> Credentials:
    mechanism = entries.text("sasl.mechanism", _KERBEROS) or _KERBEROS
    if mechanism not in _MECHANISMS:
        raise entries.wrong("sasl.mechanism", f"is {mechanism}, which is not built; there are {', '.join(_MECHANISMS)}")
    options = _jaas(entries, mechanism)
    if mechanism == _OAUTH:
        return oauth_of(entries, options, tls_of)
    if mechanism == _KERBEROS:
        return _kerberos(entries, options)
    username, password = options.get("username"), options.get("password")
    if not username or password is None:
        raise entries.wrong("sasl.jaas.config", "lacks username or password")
    return Sasl(mechanism, username, password)


def _kerberos(entries: Entries, options: dict[str, str]) -> Kerberos:
    service = options.get("serviceName") or entries.text("sasl.kerberos.service.name")
    if not service:
        raise entries.wrong("sasl.kerberos.service.name", "is missing; write the brokers' name in Kerberos, as `kafka`")
    keytab = options.get("keyTab") if options.get("useKeyTab", "false").lower() == "true" else None
    return Kerberos(service, options.get("principal"), keytab)


def _jaas(entries: Entries, mechanism: str) -> dict[str, str]:
    """The options of the login module. librdkafka's names of them stand in for it."""
    jaas = entries.text("sasl.jaas.config")
    if jaas is None:
        given = {name: entries.text(f"sasl.{name}") for name in ("username", "password")}
        return {name: value for name, value in given.items() if value is not None}
    try:
        module, options = read_jaas(jaas)
    except InvalidValue as error:
        raise InvalidValue(f"{entries.where}: {error}") from None
    if mechanism not in _MODULES.get(module, ()):
        raise entries.wrong("sasl.jaas.config", f"names {module}, which is not for sasl.mechanism={mechanism}")
    return options
