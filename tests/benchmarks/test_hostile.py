"""Hostile requests are what they are said to be: read by the server, and answered or refused as it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.load import hostile

from tests.support.broker import RunningBroker, run_broker
from tests.support.kafka_wire import WireClient, read_response


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningBroker]:
    monkeypatch.setattr(hostile, "ITEMS", 50)
    with run_broker(tmp_path / "data") as running:
        for name, partitions in (("bombed", 1), ("large", 9)):
            running.call(running.cluster.stream("/default").create_topic(name, partitions))
        yield running


def answered(broker: RunningBroker, data: bytes) -> Any:
    """What a request of a family is answered with."""
    with WireClient(broker.address) as client:
        client.socket.sendall(data)
        api, version = int.from_bytes(data[4:6]), int.from_bytes(data[6:8])
        return read_response(api, version, client.receive()[1])


def test_each_family_is_answered(broker: RunningBroker) -> None:
    """A bomb is found at its first offset; what is named often is answered once; a join is a member."""
    address = broker.bootstrap
    attack = hostile.Attack(
        {"family": "lookups", "bootstrap": address, "seconds": 1, "topic": "bombed", "large_topic": "large"}
    )
    (found,) = answered(broker, attack.requests[0]).topics[0].partitions
    assert (found.error_code, found.offset) == (0, 0)
    (topic,) = answered(broker, hostile.names("", "large")[0]).topics
    assert len(topic.partitions) == 9
    described, configs, too_many = hostile.groups("", "")
    assert len(answered(broker, described).groups) == len(answered(broker, configs).results) == 50
    assert answered(broker, hostile.joins("", "")[0]).error_code in {0, 79}
    with WireClient(broker.address) as client:
        client.socket.sendall(too_many)
        assert client.closed_by_peer()


@pytest.mark.parametrize("family", ["halves", "visits"])
def test_connections_are_made_again_and_counted(broker: RunningBroker, family: str) -> None:
    """Of those that ask for nothing."""
    places = {"topic": "bombed", "large_topic": "large", "connections": 2}
    found = hostile.Attack({"family": family, "bootstrap": broker.bootstrap, "seconds": 0.2, **places}).run()
    assert found["requests"] >= 2
    assert found["answers"] == 0
