"""TLS and SASL: who we are, and whom we talk to."""

from __future__ import annotations

import base64
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import settings_of
from tests.kafka.fake_broker import FakeBroker, fake_broker
from tests.support.waiting import in_time

from fairlead.kafka import Cluster
from fairlead.kafka.configuration.settings import Sasl, Security, Store, Tls
from fairlead.kafka.connecting.scram import Scram
from fairlead.kafka.connecting.versions import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fairlead.model.errors import InvalidValue, NotAllowed, TryAgain

PLAIN = Sasl("PLAIN", "ann", "secret")
GIVES_UP_SOON = {"request_timeout_ms": 2_000, "connect_timeout_ms": 2_000}
"""Where nobody ever lets us in, which is tried until the time is over."""


@asynccontextmanager
async def opened(broker: FakeBroker, security: Security, **changes: int) -> AsyncIterator[Cluster]:
    async with in_time():
        settings = replace(settings_of(broker.bootstrap, **changes), security=security)
        cluster = await Cluster.open(settings)
        try:
            yield cluster
        finally:
            await cluster.close()


# ---------------------------------------------------------------- SASL


async def test_a_name_and_a_password_are_said_before_anything_is_asked() -> None:
    async with fake_broker() as broker, opened(broker, Security(sasl=PLAIN)):
        (said,) = broker.of(SASL_AUTHENTICATE)
        assert said.auth_bytes == b"\0ann\0secret"
        apis = [seen.api for seen in broker.seen]
        assert apis.index(SASL_HANDSHAKE) < apis.index(SASL_AUTHENTICATE) < apis.index(METADATA)


async def test_a_wrong_password_is_one_line_and_is_not_tried_again() -> None:
    """Accounts are locked after some wrong passwords."""
    async with fake_broker() as broker:
        refused = {
            "error_code": ErrorCode.sasl_authentication_failed,
            "error_message": "no\nsuch user",
            "auth_bytes": b"",
        }
        broker.next(SASL_AUTHENTICATE, lambda _: refused)
        with pytest.raises(NotAllowed) as raised:
            async with opened(broker, Security(sasl=PLAIN)):
                pass
        line = f"broker {broker.bootstrap}, user ann: SASL_AUTHENTICATION_FAILED (no such user)"
        assert str(raised.value) == line
        assert len(broker.of(SASL_AUTHENTICATE)) == 1


async def test_a_mechanism_that_the_broker_lacks_is_an_error_that_names_those_that_it_has() -> None:
    async with fake_broker() as broker:
        refused = {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": ["GSSAPI"]}
        broker.next(SASL_HANDSHAKE, lambda _: refused)
        with pytest.raises(NotAllowed, match="takes no PLAIN, but GSSAPI"):
            async with opened(broker, Security(sasl=PLAIN)):
                pass


class Fixed:
    """A nonce that somebody wrote down."""

    def id16(self) -> bytes:
        return base64.b64decode("rOprNGfwEbeRWgbNEkqO")


NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def conversation() -> Scram:
    return Scram(Sasl("SCRAM-SHA-256", "user", "pencil"), Fixed())


def test_scram_says_what_the_rfc_says() -> None:
    """The example of RFC 7677."""
    scram = conversation()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    proof = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert scram.next(CHALLENGE.encode()) == proof.encode()
    assert scram.next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_a_name_with_a_comma_is_one_name() -> None:
    assert Scram(Sasl("SCRAM-SHA-512", "a,b=c", "p"), Fixed()).first().startswith(b"n,,n=a=2Cb=3Dc,r=")


@pytest.mark.parametrize(
    ("challenges", "message"),
    [
        ([CHALLENGE, "v=AAAA"], "does not know the password"),
        ([CHALLENGE, ""], "does not know the password"),
        ([CHALLENGE.replace("rOpr", "rOpq")], "does not begin with ours"),
        (["r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096"], "does not begin with ours"),
        ([CHALLENGE.replace("4096", "1")], "rounds"),
        ([CHALLENGE.replace("4096", "99999999")], "rounds"),
        ([CHALLENGE.replace("W22Z", "?")], "no SCRAM"),
        (["e=other-error"], "refused: other-error"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_not_believed(challenges: list[str], message: str) -> None:
    """It could be anybody who wants to learn it."""
    scram = conversation()
    scram.first()
    *before, last = [challenge.encode() for challenge in challenges]
    for challenge in before:
        scram.next(challenge)
    with pytest.raises(NotAllowed, match=message):
        scram.next(last)


async def test_a_broker_that_lets_us_in_without_proof_is_left() -> None:
    async with fake_broker() as broker:
        with pytest.raises(NotAllowed, match="user ann"):
            async with opened(broker, Security(sasl=Sasl("SCRAM-SHA-256", "ann", "secret"))):
                pass


# ---------------------------------------------------------------- TLS


def make_certificate(folder: Path, name: str, alternative: str) -> Path:
    """A PEM file with a key and a certificate that vouches for itself."""
    key, certificate, both = (folder / f"{name}.{kind}" for kind in ("key", "crt", "pem"))
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    made = ["-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}"]
    command = ["openssl", "req", "-x509", *options, *made, "-addext", f"subjectAltName={alternative}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    both.write_text(key.read_text() + certificate.read_text())
    return both


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of a broker, of another host, and of a client."""
    folder = tmp_path_factory.mktemp("certificates")
    names = {"broker": "IP:127.0.0.1", "elsewhere": "DNS:elsewhere.example", "client": "DNS:client"}
    return {name: make_certificate(folder, name, alternative) for name, alternative in names.items()}


def of_server(certificate: Path, client: Path | None = None) -> dict[str, Any]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if client is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client)
    return {"ssl": context}


async def test_a_broker_is_trusted_by_a_file_or_a_text(certificates: dict[str, Path]) -> None:
    path = certificates["broker"]
    async with fake_broker(**of_server(path)) as broker:
        for tls in (Tls(authorities=Store(str(path))), Tls(authorities_pem=path.with_suffix(".crt").read_text())):
            async with opened(broker, Security(tls, PLAIN)) as cluster:
                assert cluster.cluster_id == "fake"


async def test_a_broker_that_nobody_vouches_for_is_not_talked_to(certificates: dict[str, Path]) -> None:
    async with fake_broker(**of_server(certificates["broker"])) as broker:
        with pytest.raises(NotAllowed, match="its certificate is not trusted"):
            async with opened(broker, Security(Tls())):
                pass
        assert broker.seen == []


async def test_a_certificate_of_another_host_is_refused_unless_names_are_not_checked(
    certificates: dict[str, Path],
) -> None:
    path = certificates["elsewhere"]
    async with fake_broker(**of_server(path)) as broker:
        with pytest.raises(NotAllowed, match="not trusted"):
            async with opened(broker, Security(Tls(authorities=Store(str(path))))):
                pass
        async with opened(broker, Security(Tls(authorities=Store(str(path)), check_name=False))):
            pass


async def test_we_are_known_by_our_certificate(certificates: dict[str, Path]) -> None:
    """From a file, or from texts."""
    path, ours = certificates["broker"], certificates["client"]
    async with fake_broker(**of_server(path, ours)) as broker:
        chain, key = ours.with_suffix(".crt").read_text(), ours.with_suffix(".key").read_text()
        for tls in (
            Tls(authorities=Store(str(path)), certificate=Store(str(ours))),
            Tls(authorities=Store(str(path)), certificate_pem=chain, key_pem=key),
        ):
            async with opened(broker, Security(tls)):
                pass
        with pytest.raises(TryAgain):
            async with opened(broker, Security(Tls(authorities=Store(str(path)))), **GIVES_UP_SOON):
                pass


async def test_a_file_without_a_certificate_is_an_error_that_names_it(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    async with fake_broker() as broker:
        for path in (empty, tmp_path / "missing.pem"):
            with pytest.raises(InvalidValue, match=path.name):
                async with opened(broker, Security(Tls(authorities=Store(str(path))))):
                    pass


async def test_tls_to_a_broker_without_it_is_an_error_that_asks_for_the_protocol(
    certificates: dict[str, Path],
) -> None:
    async with fake_broker() as broker:
        with pytest.raises(TryAgain):
            async with opened(broker, Security(Tls(authorities=Store(str(certificates["broker"])))), **GIVES_UP_SOON):
                pass
    async with fake_broker(**of_server(certificates["broker"])) as broker:
        with pytest.raises(TryAgain, match=r"security\.protocol"):
            async with opened(broker, Security(), **GIVES_UP_SOON):
                pass
