"""Key stores as Java writes them, which our TLS reads. Those of JKS need Java, by its keytool."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import (
    PASSWORD,
    Authority,
    Own,
    java_trust_store,
    jks_store,
    pem_of,
    pem_store,
    pkcs12_store,
    trust_store,
)

from fairlead.kafka.configuration.settings import Store, Tls
from fairlead.kafka.connecting.keystores import own_in, trusted_in
from fairlead.kafka.connecting.tls import TlsContexts, context_of
from fairlead.model.errors import InvalidValue


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def own(authority: Authority) -> Own:
    return authority.own("us")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


JKS = pytest.param("JKS", marks=pytest.mark.interop)


@pytest.fixture(scope="module", params=["PKCS12", JKS])
def trusting(request: pytest.FixtureRequest, folder: Path, authority: Authority) -> Store:
    """A store with an authority."""
    kind = request.param
    file = folder / f"trust.{kind}"
    made = trust_store(file, kind, authority) if kind == "JKS" else java_trust_store(file, authority)
    return Store(str(made), kind, PASSWORD)


@pytest.fixture(scope="module", params=["PKCS12", JKS])
def ours(request: pytest.FixtureRequest, folder: Path, own: Own) -> Store:
    """A store with our key."""
    kind = request.param
    write = pkcs12_store if kind == "PKCS12" else jks_store
    return Store(str(write(folder / f"own.{kind}", own)), kind, PASSWORD)


def test_a_trust_store_has_its_certificates(trusting: Store, authority: Authority) -> None:
    assert trusted_in(trusting) == pem_of(authority.certificate)
    assert [each["subject"] for each in context_of(Tls(authorities=trusting)).get_ca_certs()] == [
        ((("commonName", "authority"),),)
    ]


def test_a_key_store_has_its_key_and_chain(ours: Store, own: Own) -> None:
    """The key is encrypted by a password of the moment: it may lie in a file while OpenSSL reads it."""
    found = own_in(ours, None)
    assert found.pem.startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert found.pem.endswith(pem_of(own.certificate, own.authority))
    context_of(Tls(certificate=ours))


@pytest.mark.interop
def test_a_key_may_have_a_password_of_its_own(folder: Path, own: Own) -> None:
    store = Store(str(jks_store(folder / "two.jks", own, key_password="key-secret")), "JKS", PASSWORD)
    assert own_in(store, "key-secret").pem.endswith(pem_of(own.certificate, own.authority))
    with pytest.raises(InvalidValue, match=r"two\.jks: .*") as raised:
        own_in(store, "guessed")
    assert "guessed" not in str(raised.value)


def test_what_is_called_jks_may_be_pkcs12(folder: Path, own: Own) -> None:
    """keytool writes PKCS12 since Java 9, and Kafka's default of the type is JKS; Java looks at the file, too."""
    store = Store(str(pkcs12_store(folder / "newer.jks", own)), "JKS", PASSWORD)
    assert own_in(store, None).pem.endswith(pem_of(own.certificate, own.authority))


@pytest.mark.parametrize("password", [None, "guessed"])
def test_a_wrong_password_is_one_line_without_it(ours: Store, trusting: Store, password: str | None) -> None:
    for read in (lambda: own_in(Store(ours.path, ours.kind, password), None), lambda: trusted_in(_with(trusting))):
        with pytest.raises(InvalidValue) as raised:
            read()
        assert "password" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "guessed" not in str(raised.value)


def _with(store: Store) -> Store:
    return Store(store.path, store.kind, "guessed")


@pytest.mark.interop
def test_passwords_are_never_arguments(folder: Path, own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody on a machine may read those of a process."""
    store = Store(str(jks_store(folder / "seen.jks", own, key_password="key-secret")), "JKS", PASSWORD)
    seen: list[list[str]] = []
    run = subprocess.run

    def watching(command: list[Any], **options: Any) -> Any:
        seen.append([str(each) for each in command])
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watching)
    own_in(store, "key-secret")
    assert len(seen) == 2
    assert not any(secret in word for secret in (PASSWORD, "key-secret") for command in seen for word in command)


@pytest.mark.interop
def test_a_jks_store_where_there_is_no_java_is_an_error_with_the_command(
    folder: Path, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(jks_store(folder / "lonely.jks", own)), "JKS", PASSWORD)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InvalidValue, match=r"keytool -importkeystore -srckeystore .*lonely\.jks"):
        own_in(store, None)


def test_a_store_without_what_is_looked_for_says_so(trusting: Store) -> None:
    with pytest.raises(InvalidValue, match=r"trust.*: there is no key"):
        own_in(trusting, None)


async def test_a_store_is_read_again_when_it_has_changed(tmp_path: Path, own: Own) -> None:
    """And only then: a JKS store takes a second."""
    contexts = TlsContexts()
    tls = Tls(authorities=Store(str(pem_store(tmp_path / "trust.pem", own))))
    first = await contexts.of(tls)
    assert await contexts.of(tls) is first
    other = Authority("another")
    pem_store(tmp_path / "new.pem", other.own("x")).replace(tmp_path / "trust.pem")
    second: ssl.SSLContext = await contexts.of(tls)
    assert "another" in str(second.get_ca_certs())
