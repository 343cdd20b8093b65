"""The running site, the clients, and the outcomes for the table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from benchmarks.systems.kafka import SMALL, SMALL_HEAP, Kafka, kafka

from tests.interop.clients import CLIENTS
from tests.interop.clients.base import Client
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.java_vm import JavaVM, java_vm
from tests.interop.clients.kafka_tools import JARS, KafkaTools
from tests.interop.clients.kcat_client import Kcat
from tests.interop.kafka_pair import KafkaPair, kafka_pair
from tests.interop.site import Site, run_site

_topics = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("interop")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with run_site(tmp_path_factory.mktemp("site")) as site:
        yield site


def installed(client: Client) -> Client:
    """The client, if the machine has it; else the test fails."""
    if client.name == "kcat" and shutil.which("kcat") is None:
        pytest.fail("kcat is not installed; run scripts/interop-setup")
    if client.name == "Kafka 4 tools" and not JARS.is_dir():
        pytest.fail("Kafka's tools are not there; run scripts/interop-setup")
    return client


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    return installed(request.param)


@pytest.fixture(params=[client for client in CLIENTS if client.waits_for_topics], ids=lambda client: client.name)
def patient_client(request: pytest.FixtureRequest) -> Client:
    """A client that may subscribe to what does not exist."""
    return installed(request.param)


@pytest.fixture
def confluent() -> Confluent:
    """The client that looks at what others did."""
    return Confluent()


@pytest.fixture
def kcat() -> Kcat:
    client = Kcat()
    installed(client)
    return client


@pytest.fixture
def tools() -> KafkaTools:
    client = KafkaTools()
    installed(client)
    return client


@pytest.fixture(scope="session")
def java() -> Iterator[JavaVM]:
    """Java's client library."""
    installed(KafkaTools())
    with java_vm() as vm:
        yield vm


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPair]:
    """Two brokers of Apache Kafka."""
    with kafka_pair(tmp_path_factory.mktemp("kafka")) as pair:
        yield pair


@pytest.fixture(scope="module")
def first_protocol(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker of Apache Kafka whose transactions are those of Kafka before 4.0."""
    features = {"transaction.version": 1}
    with kafka(tmp_path_factory.mktemp("kafka"), SMALL, "first-protocol", SMALL_HEAP, features) as broker:
        yield broker


@pytest.fixture
def topic(site: Site) -> str:
    """A new topic of one partition."""
    return site.make_topic(f"topic-{next(_topics)}")


@pytest.fixture
def wide_topic(site: Site) -> str:
    """A new topic of four partitions."""
    return site.make_topic(f"topic-{next(_topics)}", 4)
