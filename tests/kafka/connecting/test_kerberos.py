"""Kerberos's part of SASL (RFC 4752), beside a GSSAPI of the test's own: there is no KDC where tests run."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.kafka.configuration.settings import Kerberos
from fairlead.kafka.connecting.kerberos import KerberosConversation
from fairlead.model.errors import InvalidValue, NotAllowed


class GSSError(Exception):
    """As the library's."""


@dataclass
class Context:
    """Needs one answer of the broker; `wrapped` is what it was given to wrap."""

    name: str
    creds: Any
    usage: str
    flags: int
    complete: bool = False
    wrapped: list[tuple[bytes, bool]] = field(default_factory=list)

    def step(self, token: bytes | None = None) -> bytes | None:
        if token == b"impostor":
            raise GSSError("Major (1):\n no such\n key")
        self.complete = token is not None
        return None if self.complete else b"ticket"

    def unwrap(self, message: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=message.removeprefix(b"wrapped "))

    def wrap(self, message: bytes, encrypt: bool) -> SimpleNamespace:
        self.wrapped.append((message, encrypt))
        return SimpleNamespace(message=b"wrapped " + message)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """The contexts that are made by a library that looks like `gssapi`."""
    contexts: list[Context] = []

    def context(**given: Any) -> Context:
        contexts.append(Context(**given))
        return contexts[-1]

    library = SimpleNamespace(
        Name=lambda text, kind: f"{kind} {text}",
        NameType=SimpleNamespace(hostbased_service="service", kerberos_principal="principal"),
        Credentials=lambda **given: given,
        RequirementFlag=SimpleNamespace(mutual_authentication=2, integrity=32),
        SecurityContext=context,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", library)
    return contexts


def test_both_sides_are_sure_of_each_other_and_no_layer_is_agreed_upon(made: list[Context]) -> None:
    """Ticket, the broker's proof, nothing more to prove; its offer of layers, our choice of none."""
    talk = KerberosConversation(Kerberos("kafka", "us@R", "/k"), "broker.example")
    assert talk.first() == b"ticket"
    assert talk.next(b"proof") == b""
    assert talk.next(b"wrapped \7\0\1\0") == b"wrapped \1\0\0\0"
    assert talk.next(b"") is None
    (context,) = made
    assert (context.name, context.usage, context.flags) == ("service kafka@broker.example", "initiate", 2 | 32)
    assert context.creds == {"name": "principal us@R", "usage": "initiate", "store": {"client_keytab": "/k"}}
    assert context.wrapped == [(b"\1\0\0\0", False)]


def test_without_a_key_file_the_tickets_of_whoever_runs_us_are_used(made: list[Context]) -> None:
    KerberosConversation(Kerberos("kafka"), "b").first()
    assert made[0].creds is None


def test_a_broker_that_insists_on_a_layer_is_left(made: list[Context]) -> None:
    talk = KerberosConversation(Kerberos("kafka"), "b")
    talk.first()
    talk.next(b"proof")
    with pytest.raises(NotAllowed, match="insists on a layer"):
        talk.next(b"wrapped \4\0\1\0")


def test_a_broker_that_is_not_who_it_says_is_one_line(made: list[Context]) -> None:
    talk = KerberosConversation(Kerberos("kafka"), "b")
    talk.first()
    with pytest.raises(NotAllowed, match=r"^Kerberos, kafka@b: Major \(1\): no such key$"):
        talk.next(b"impostor")
    assert len(made) == 1


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidValue, match=r"pip install 'fairlead\[kerberos\]'"):
        KerberosConversation(Kerberos("kafka"), "b")
