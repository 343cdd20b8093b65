"""What a Kafka user's file says of OAUTHBEARER: KIP-768's keys, and the options of an unsecured token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead.kafka.configuration.entries import Entries
from fairlead.kafka.configuration.settings import OAuthBearer, Tls, TokenEndpoint

_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_HANDLER: Final = "sasl.login.callback.handler.class"
_HANDLERS: Final = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")
_EXTENSION: Final = "extension_"
_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_SCHEMES: Final = ("https://", "http://", "file:///")


def oauth_of(entries: Entries, options: Mapping[str, str], tls_of: Callable[[Entries], Tls]) -> OAuthBearer:
    """Where tokens come from; `options` are those of the login module.

    Raises:
        InvalidValue: there is no endpoint and no claim, or what belongs to it is missing.
    """
    handler = (entries.text(_HANDLER) or "").rpartition(".")[2]
    if handler and handler not in _HANDLERS:
        raise entries.wrong(_HANDLER, f"names {handler}, which is Java and does not run here; write {_URL}=https://…")
    said = tuple(
        (name.removeprefix(_EXTENSION), value) for name, value in options.items() if name.startswith(_EXTENSION)
    )
    if entries.text(_URL) is not None:
        return OAuthBearer(_endpoint(entries, options, tls_of), extensions=said)
    claims = _claims(entries, options)
    if not claims:
        raise entries.wrong(_URL, "is missing; write the address where tokens are given out, https://…")
    lifetime = Entries(options, f"{entries.where}: sasl.jaas.config").number(_LIFETIME, 3600, 1)
    return OAuthBearer(claims, lifetime, said)


def _endpoint(entries: Entries, options: Mapping[str, str], tls_of: Callable[[Entries], Tls]) -> TokenEndpoint:
    url = entries.text(_URL) or ""
    if not url.startswith(_SCHEMES):
        raise entries.wrong(_URL, f"is {url!r}; it begins with {', '.join(_SCHEMES)}")
    of_client = "sasl.oauthbearer.client.credentials.client"  # KIP-1139; the options of the module are older
    client_id = options.get("clientId") or entries.text(f"{of_client}.id")
    client_secret = options.get("clientSecret") or entries.text(f"{of_client}.secret")
    if not url.startswith("file:") and (not client_id or not client_secret):
        raise entries.wrong("sasl.jaas.config", "lacks clientId or clientSecret, by which tokens are asked for")
    return TokenEndpoint(
        url=url,
        client_id=client_id or "",
        client_secret=client_secret or "",
        scope=options.get("scope") or entries.text("sasl.oauthbearer.scope"),
        url_encoded=entries.choice("sasl.oauthbearer.header.urlencode", ("true", "false"), "false") == "true",
        timeout_ms=entries.number("sasl.login.read.timeout.ms", 10_000, 1),
        tls=tls_of(Entries(options, f"{entries.where}: sasl.jaas.config")),
    )


def _claims(entries: Entries, options: Mapping[str, str]) -> dict[str, object]:
    claims: dict[str, object] = {}
    for name, value in options.items():
        if name.startswith(_STRING):
            claims[name.removeprefix(_STRING)] = value
        elif name.startswith(_LIST):
            claims[name.removeprefix(_LIST)] = value[1:].split(value[:1]) if value else []
        elif name.startswith(_NUMBER):
            try:
                claims[name.removeprefix(_NUMBER)] = float(value)
            except ValueError:
                raise entries.wrong("sasl.jaas.config", f"has {name}, which is no number") from None
    return claims
