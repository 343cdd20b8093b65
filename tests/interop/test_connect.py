"""Kafka Connect: its three internal topics, connectors, and offsets that its REST API resets and sets (KIP-875)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.connect import Connector, connect_worker
from tests.interop.clients.kafka_tools import KafkaTools
from tests.interop.conftest import installed
from tests.interop.site import Site
from tests.interop.test_behaviours import messages, stored
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def connect(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    installed(KafkaTools())
    with connect_worker(site, tmp_path_factory.mktemp("connect")) as address:
        yield address


def test_a_sinks_offsets_are_reset_and_set(
    connect: str, confluent: Confluent, site: Site, topic: str, tmp_path: Path
) -> None:
    """They are those of its group: a reset deletes the group, setting commits for it."""
    given = messages(20)
    lines = [message.value.decode() for message in given]
    confluent.produce(site, topic, given)
    made = tmp_path / "made"
    sink = Connector(connect, f"sink-{topic}")
    place = {"kafka_topic": topic, "kafka_partition": 0}
    at_the_end = [{"partition": place, "offset": {"kafka_offset": 20}}]
    sink.configure("Sink", {"topics": topic, "file": str(made)})
    wait_until(lambda: sink.offsets() == at_the_end, "the sink has read everything")
    with sink.stopped():
        sink.reset_offsets()
        assert sink.offsets() == []
    wait_until(lambda: sink.offsets() == at_the_end, "the sink has read everything again")
    with sink.stopped():
        sink.set_offset(place, {"kafka_offset": 15})
        assert sink.offsets() == [{"partition": place, "offset": {"kafka_offset": 15}}]
    wait_until(lambda: sink.offsets() == at_the_end, "the sink has read what comes after the offset")
    sink.delete()
    assert made.read_text().splitlines() == lines + lines + lines[15:]


def test_a_sources_offsets_are_reset(connect: str, site: Site, topic: str, tmp_path: Path) -> None:
    """They are records of the worker's own topic: a reset writes one without a value."""
    lines = [b"line %d" % number for number in range(20)]
    given = tmp_path / "given"
    given.write_bytes(b"\n".join(lines) + b"\n")
    source = Connector(connect, f"source-{topic}")
    source.configure("Source", {"topic": topic, "file": str(given)})
    at_the_end = [{"partition": {"filename": str(given)}, "offset": {"position": given.stat().st_size}}]
    wait_until(lambda: source.offsets() == at_the_end, "the source has sent everything")
    with source.stopped():
        source.reset_offsets()
        assert source.offsets() == []
    wait_until(lambda: source.offsets() == at_the_end, "the source has sent everything again")
    source.delete()
    assert [record.value for record in stored(site, topic)] == lines + lines
