"""HOST:PORT as people write it."""

from __future__ import annotations

import pytest

from fairlead.model.addresses import Address, parse_address
from fairlead.model.errors import InvalidValue


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("ship:0", Address("ship", 0)),
        ("[::1]:7660", Address("::1", 7660)),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, address: Address) -> None:
    """Reading and writing are each other's inverse."""
    assert parse_address(text, "--kafka") == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "9092", "host", "host:", ":1", "host:x", "host:65536", "::1:7660", "host:-1"])
def test_anything_else_is_refused_by_the_options_name(text: str) -> None:
    """The message says which option was wrong."""
    with pytest.raises(InvalidValue, match="--kafka"):
        parse_address(text, "--kafka")


@pytest.mark.parametrize("host", ["a..b", "..", ".a", "x" * 64, f"a.{'x' * 70}", "\ud800"])
def test_what_no_host_can_be_called_is_refused(host: str) -> None:
    """Before it is looked up, which fails in another way than for a name that nobody has."""
    with pytest.raises(InvalidValue, match=r"--kafka .* cannot be the name of a host"):
        parse_address(f"{host}:9092", "--kafka")


@pytest.mark.parametrize("host", ["a.b.", "a_b", "b\u00fccher.example", "xn--bcher-kva.example", "x" * 63])
def test_names_that_a_host_may_have_are_taken(host: str) -> None:
    """Whether there is such a host is found out when it is called."""
    assert parse_address(f"{host}:9092", "--kafka") == Address(host, 9092)
