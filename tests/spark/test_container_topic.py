"""A container's topic on its journey: Tokyo, a ship, Singapore, Sydney; four clusters as processes, each with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.records import differences, read_all
from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

STREAM, TOPIC = "/cargo", "container-17"
PREFIX = STREAM + ":"
ROUTE = ("tokyo", "ship", "singapore", "sydney")
EACH = 20
"""Records written at each stop."""


@pytest.fixture
def route(tmp_path: Path) -> Iterator[list[Site]]:
    """Each stop replicates to the next one and to the one before."""
    settings = {"round_seconds": "600", "replicator_workers": "1"}
    with sites(tmp_path, *ROUTE, settings=settings) as stops:
        stops[0].cli("stream", "create", "-path", path(stops[0]))
        stops[0].cli("stream", "topic", "create", "-path", path(stops[0]), "-topic", TOPIC)
        for here, there in pairwise(stops):
            here.cli("stream", "replica", "autosetup", "-path", path(here), "-replica", path(there))
            here.cli("stream", "upstream", "add", "-path", path(here), "-upstream", path(there))
            there.cli("stream", "replica", "add", "-path", path(there), "-replica", path(here))
        yield stops


def path(site: Site) -> str:
    return f"/mapr/{site.name}{STREAM}"


def owner(site: Site) -> str:
    """Of the topic, by what the site knows; empty before it has come."""
    with suppress(httpx.TransportError):
        params = {"path": STREAM}
        rows = httpx.get(f"{site.url}/rest/stream/topic/list", params=params, timeout=WAIT_SECONDS).json()["data"]
        return next((row["owner"] for row in rows if row["topic"] == TOPIC), "")
    return ""


def written(site: Site, label: str) -> None:
    """A producer's records, all acknowledged. It tries again by itself while the new owner lacks some."""
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": site.kafka, "enable.idempotence": True})
    for number in range(EACH):
        producer.produce(PREFIX + TOPIC, f"{label} {number}", on_delivery=note)
    assert producer.flush(WAIT_SECONDS) == 0
    if failures:
        raise KafkaException(failures[0])


def test_container_topic_tokyo_ship_singapore_sydney(route: list[Site]) -> None:
    """Written at each stop in turn, it reads as one history without a gap at all four, with the same records at the
    same offsets. Whoever writes at an earlier stop is told where the topic is."""
    for number, stop in enumerate(route):
        if number:
            before = route[number - 1]
            wait_until(lambda: before.in_sync(STREAM), f"{before.name} is in sync")  # noqa: B023
            before.cli("stream", "topic", "transfer", "-path", path(before), "-topic", TOPIC, "-to", stop.name, "--yes")
            wait_until(lambda: owner(stop) == path(stop), f"{stop.name} owns the topic")  # noqa: B023
        written(stop, stop.name)
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        written(route[0], "late")
    wait_until(lambda: {owner(stop) for stop in route} == {path(route[-1])}, "every stop knows the owner")
    total = EACH * len(route)
    expected = [f"{stop}".encode() + f" {number}".encode() for stop in ROUTE for number in range(EACH)]
    last = read_all(route[-1].kafka, [TOPIC], prefix=PREFIX)
    assert [place.offset for place in sorted(last)] == list(range(total))
    assert [last[place].value for place in sorted(last)] == expected
    for stop in route[:-1]:
        wait_until(lambda: _count(stop) == total, f"{stop.name} has all")  # noqa: B023
        assert not differences(last, read_all(stop.kafka, [TOPIC], prefix=PREFIX))


def _count(site: Site) -> int:
    return len(read_all(site.kafka, [TOPIC], prefix=PREFIX))
