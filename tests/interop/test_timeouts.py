"""Python's producers when the server is slow, away or started again: each record has an outcome in time, once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, groupby
from pathlib import Path

import pytest
from typing_extensions import Buffer

from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage
from tests.interop.clients.producers import PRODUCERS, Make, OpenProducer, Patience
from tests.interop.site import STREAM, Site, run_site
from tests.interop.test_behaviours import PRODUCE, stored
from tests.interop.test_restart import listen_again
from tests.support.broker import run_broker
from tests.support.waiting import WAIT_SECONDS, wait_until

IMPATIENT = Patience(request_ms=500, delivery_ms=1_500, idempotent=False)
PATIENT = Patience(request_ms=500, delivery_ms=120_000)
_topics = count(1)


class SlowDisk(LocalStorage):
    """A directory whose writes wait while it is held."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._free = threading.Event()
        self._free.set()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def put_if_absent(self, name: str, data: Buffer | Sequence[Buffer]) -> Put:
        self._free.wait()
        return super().put_if_absent(name, data)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> SlowDisk:
    return SlowDisk(tmp_path_factory.mktemp("slow"))


@pytest.fixture(scope="module")
def site(disk: SlowDisk) -> Iterator[Site]:
    with run_site(disk) as site:
        yield site


@pytest.fixture(params=PRODUCERS, ids=lambda client: client.name)
def make(request: pytest.FixtureRequest) -> Make:
    return PRODUCERS[request.param]


@pytest.fixture
def topic(site: Site) -> str:
    return site.make_topic(f"timed-{next(_topics)}")


@contextmanager
def opened(make: Make, site: Site, topic: str, patience: Patience) -> Iterator[OpenProducer]:
    producer = make(site, topic, patience)
    try:
        yield producer
    finally:
        producer.close()


def write(producer: OpenProducer, value: bytes) -> None:
    """Until it is acknowledged; an impatient producer may store it more than once where the machine is busy."""
    wait_until(lambda: producer.outcomes([value]) == [None], "the producer writes")


def values(site: Site, topic: str) -> list[bytes | None]:
    return [record.value for record in stored(site, topic)]


def test_a_record_that_the_disk_keeps_waiting_fails_in_time(make: Make, disk: SlowDisk, site: Site, topic: str) -> None:
    """It may be stored all the same, which its producer cannot know. The same producer goes on."""
    with opened(make, site, topic, IMPATIENT) as producer:
        write(producer, b"before")
        with site.watched(PRODUCE) as requests, disk.held():
            (failed,) = producer.outcomes([b"late"])
        assert failed is not None
        assert "tim" in str(failed).lower(), "it does not say that it is about time"
        write(producer, b"after")
    found = values(site, topic)
    assert (found[0], found[-1]) == (b"before", b"after")
    assert found.count(b"late") <= requests.count


def test_an_answer_later_than_the_client_waits_doubles_nothing(
    make: Make, disk: SlowDisk, site: Site, topic: str
) -> None:
    """The client closes the connection and sends again while its first request still waits for the disk."""
    with opened(make, site, topic, PATIENT) as producer:
        assert producer.outcomes([b"0"]) == [None]
        with site.watched(PRODUCE) as requests, disk.held():
            sent = [producer.send(b"%d" % number) for number in range(1, 4)]
            wait_until(lambda: requests.count >= 3, "the request was sent again")
        assert [future.exception(WAIT_SECONDS) for future in sent] == [None] * 3
    assert values(site, topic) == [b"0", b"1", b"2", b"3"]


def test_a_record_fails_in_time_while_no_server_is_there(make: Make, site: Site, topic: str) -> None:
    """When the server is back, the same producer goes on; what failed was never sent."""
    with opened(make, site, topic, IMPATIENT) as producer:
        write(producer, b"before")
        with site.away():
            assert producer.outcomes([b"lost"]) != [None]
        write(producer, b"after")
    assert [value for value, _ in groupby(values(site, topic))] == [b"before", b"after"]


def test_a_server_that_is_started_again_under_way_gets_everything_once(make: Make, tmp_path: Path) -> None:
    """Records of an idempotent producer are stored once and in order, also those that were under way at the stop."""
    given = [b"%d" % number for number in range(3000)]
    topic = "kept"
    with run_broker(tmp_path) as broker:
        site = Site(broker, STREAM)
        site.make_topic(topic)
        producer = make(site, topic, Patience(10_000, 120_000))
        sent = [producer.send(value) for value in given[:2000]]
        sent[0].result(WAIT_SECONDS)
    try:
        sent += [producer.send(value) for value in given[2000:]]
        with run_broker(tmp_path) as broker:
            listen_again(broker, site)
            assert {future.exception(WAIT_SECONDS) for future in sent} == {None}
            assert values(site, topic) == given
    finally:
        producer.close()
