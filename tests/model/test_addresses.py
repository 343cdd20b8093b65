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
