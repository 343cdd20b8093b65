"""How a server is called by others, without starting one."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.listening.addresses import bind, check_exposure
from fairlead.listening.http import local_url, url_of
from fairlead.model.addresses import Address
from fairlead.model.errors import BadRequest, NotAllowed
from fairlead.server.listeners import KafkaListeners

SHIP = Address("ship.example", 19092)


def listeners(host: str, advertise: Address | None) -> KafkaListeners:
    """Of a Kafka server that listens there, for /ships too."""
    kafka = SimpleNamespace(address=(host, 9092), addresses=lambda: {None: (host, 9092), "/ships": (host, 9192)})
    return KafkaListeners(cast(Any, kafka), cast(Any, None), Address(host, 9092), advertise)


def url(host: str, advertise: Address | None) -> str:
    """Of an HTTP listener there."""
    bound = SimpleNamespace(getsockname=lambda: (host, 7660))
    return url_of(cast(Any, bound), Address(host, 7660), advertise)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_listener_on_all_interfaces_is_called_by_the_machines_name(host: str) -> None:
    """Nobody can call 0.0.0.0."""
    found = listeners(host, None)
    assert found.main_address == f"{socket.gethostname()}:9092"
    assert found.addresses() == {"/ships": f"{socket.gethostname()}:9192"}
    assert url(host, None) == f"http://{socket.gethostname()}:7660"


def test_what_is_advertised_is_told() -> None:
    """A stream's listener has its own port there."""
    found = listeners("0.0.0.0", SHIP)
    assert found.main_address == "ship.example:19092"
    assert found.addresses() == {"/ships": "ship.example:9192"}
    assert url("0.0.0.0", SHIP) == "http://ship.example:7660"


def test_an_address_of_one_interface_is_told_as_it_is() -> None:
    """Kafka's may still be advertised as another."""
    assert listeners("10.0.0.2", None).main_address == "10.0.0.2:9092"
    assert url("10.0.0.2", SHIP) == "http://10.0.0.2:7660"


@pytest.mark.parametrize(
    ("bound", "called"),
    [
        ("0.0.0.0", "http://127.0.0.1:7660"),
        ("::", "http://[::1]:7660"),
        ("127.0.0.1", "http://127.0.0.1:7660"),
        ("10.0.0.2", "http://10.0.0.2:7660"),
        ("fd00::2", "http://[fd00::2]:7660"),
    ],
)
def test_the_replicator_beside_a_server_is_not_sent_out_of_the_machine(bound: str, called: str) -> None:
    """It says the server's secret, and the name that others are told may be another machine's, or lead nowhere here."""
    assert local_url(cast(Any, SimpleNamespace(getsockname=lambda: (bound, 7660)))) == called


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_a_name_that_no_host_can_have_is_one_line(host: str) -> None:
    """It is looked up as it is given."""
    with pytest.raises(BadRequest, match="there can be no such host"):
        bind(Address(host, 0), "Kafka", every_family=True)
    with pytest.raises(BadRequest, match="there can be no such host"):
        check_exposure(Address(host, 0), insecure=False)


def test_only_insecure_listens_where_others_reach_it() -> None:
    """There are no users yet."""
    check_exposure(Address("127.0.0.1", 0), insecure=False)
    check_exposure(Address("0.0.0.0", 0), insecure=True)
    with pytest.raises(NotAllowed, match="--insecure"):
        check_exposure(Address("0.0.0.0", 0), insecure=False)
