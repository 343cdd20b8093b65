"""One address has and makes so many connections, and leaves the others to others."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.broker import run_broker
from tests.support.kafka_wire import WireClient

from fairlead.broker.addresses import DELAY_SECONDS_MAX, Addresses
from fairlead.model.settings import Settings

API_VERSIONS = 18


def test_an_address_has_no_more_connections_than_it_may() -> None:
    """Others have theirs, and a place that is free is used again."""
    addresses = Addresses(2, 0)
    assert [addresses.admit(host, 0) for host in ("a", "a", "a", "b")] == [0, 0, None, 0]
    addresses.left("a")
    assert addresses.admit("a", 0) == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_the_addresses_of_one_user_count_together(one: str, other: str, same: bool) -> None:
    """Who has one address of IPv6 has 2^64 of them."""
    addresses = Addresses(1, 0)
    assert addresses.admit(one, 0) == 0
    assert addresses.admit(other, 0) == (None if same else 0)


def test_connections_that_come_faster_than_they_may_are_read_later() -> None:
    """A second's worth may come at once; the delay grows, up to a bound, and goes with time."""
    addresses = Addresses(10**6, 100)
    delays = [addresses.admit("a", 1000.0) for _ in range(300)]
    assert delays[:100] == [0.0] * 100
    assert delays[200] == pytest.approx(1.0)
    while (delay := addresses.admit("a", 1000.0)) is not None:
        assert delay <= DELAY_SECONDS_MAX
    assert addresses.admit("b", 1000.0) == 0
    assert addresses.admit("a", 1100.0) == 0


def test_addresses_without_connections_are_forgotten() -> None:
    """Nobody fills the memory with addresses."""
    addresses = Addresses(10, 100)
    for number in range(20_000):
        addresses.admit(str(number), 0)
        addresses.left(str(number))
    assert len(addresses) <= 10_000


def test_a_connection_above_the_limit_is_closed(tmp_path: Path) -> None:
    """With a line that says why (KIP-402)."""
    with (
        run_broker(tmp_path / "data", settings=Settings(max_connections_per_ip=1)) as broker,
        capture_logs() as logs,
        WireClient(broker.address) as one,
        WireClient(broker.address) as two,
    ):
        assert one.call(API_VERSIONS, 0).error_code == 0
        assert two.closed_by_peer()
    assert [line["event"] for line in logs] == ["too many connections from one address; client refused"]


def test_a_connection_that_came_too_soon_is_answered_later(tmp_path: Path) -> None:
    """It is not refused: an honest client that starts all its consumers at once waits a little (KIP-612)."""
    settings = Settings(max_connection_creation_rate=2.0)
    with run_broker(tmp_path / "data", settings=settings) as broker:
        clients = [WireClient(broker.address) for _ in range(5)]
        assert [client.call(API_VERSIONS, 0).error_code for client in clients] == [0] * 5
        for client in clients:
            client.socket.close()
