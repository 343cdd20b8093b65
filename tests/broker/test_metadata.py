"""Metadata: names, ids, and a hundred thousand topics at once."""

import asyncio
import gc
import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from tests.support.broker import RunningBroker
from tests.support.hot_requests import metadata_request, produce_request
from tests.support.kafka_wire import WireClient, read_response

from fairlead.broker.node import kafka_cluster_id
from fairlead.broker.server import KafkaServer
from fairlead.cluster.values import StreamSettings
from fairlead.protocol import fetch, produce
from fairlead.protocol.batch import build_batch, read_header
from fairlead.protocol.messages import known_versions
from fairlead.protocol.metadata import Asked
from fairlead.streamlog.requests.topics import create_topic

PRODUCE, FETCH, METADATA = 0, 1, 3
MANY = 100_000
TURNS_MIN = 40
"""What one turn of the loop takes at most of all that it works: 50 ms where that is 2 s, more where all is slower."""


def stream(broker: RunningBroker, path: str = "/default") -> Any:
    return broker.cluster.stream(path)


def metadata(client: Any, topics: Any, version: int = 13, allow: bool = True) -> Any:
    asked = None if topics is None else [Asked(name, None) for name in topics]
    return client.exchange(METADATA, version, metadata_request(asked, version, allow))


@pytest.mark.parametrize("version", known_versions(METADATA))
def test_every_version_names_node_cluster_and_topics(running_broker: RunningBroker, version: int) -> None:
    """The address is the one the client came in on."""
    running_broker.call(stream(running_broker).create_topic("here", 2))
    with WireClient(running_broker.address) as client:
        for asked in (None, ["here"]):
            response = metadata(client, asked, version)
            (node,) = response.brokers
            assert (node.node_id, node.host, node.port) == (1, *running_broker.address)
            cluster_id = kafka_cluster_id(running_broker.cluster.id)
            assert getattr(response, "cluster_id", cluster_id) == cluster_id
            (topic,) = response.topics
            assert (topic.name, topic.error_code, len(topic.partitions)) == ("here", 0, 2)


def test_asking_makes_a_topic_if_both_sides_allow_it(running_broker: RunningBroker) -> None:
    """The client by its request, the stream by its settings; the answer has the topic already."""
    running_broker.call(running_broker.cluster.create_stream("/three", StreamSettings(default_partitions=3)))
    running_broker.call(running_broker.cluster.create_stream("/none", StreamSettings(autocreate=False)))
    with WireClient(running_broker.address) as client:
        names = ["a", "/three:b", "/none:c", "/nowhere:d", "bad name", "mapr/elsewhere/x:y"]
        codes = [(topic.error_code, len(topic.partitions)) for topic in metadata(client, names).topics]
        assert codes == [(0, 1), (0, 3), (3, 0), (3, 0), (17, 0), (17, 0)]
        assert [topic.error_code for topic in metadata(client, ["e"], allow=False).topics] == [3]
        assert [topic.name for topic in metadata(client, None).topics] == ["a"]


def test_a_stream_with_upstreams_makes_no_topics(running_broker: RunningBroker) -> None:
    """Else one name would stand for two topics at two sites."""
    stream(running_broker).is_copy = True
    with WireClient(running_broker.address) as client:
        assert [topic.error_code for topic in metadata(client, ["a"]).topics] == [3]


def test_topics_are_found_by_id(running_broker: RunningBroker) -> None:
    """Metadata, Produce and Fetch take the id that Metadata gave; an unknown one is UNKNOWN_TOPIC_ID."""
    with WireClient(running_broker.address) as client:
        (topic,) = metadata(client, ["ships"]).topics
        known, unknown = topic.topic_id.bytes, uuid.uuid4().bytes
        body = metadata_request([Asked(None, known), Asked(None, unknown)], 13)
        answers = client.exchange(METADATA, 13, body).topics
        assert [(t.name, t.error_code) for t in answers] == [("ships", 0), (None, 100)]
        for name in ("", "other"):  # the id is what is asked for, whatever name stands beside it
            body = metadata_request([Asked(name, known), Asked(name, unknown)], 13)
            assert client.exchange(METADATA, 13, body).topics == answers
        assert stream(running_broker).find_topic("other") is None
        records = [produce.ProducePartition(0, memoryview(build_batch([(None, b"v")])))]
        topics = [produce.ProduceTopic(None, topic_id, records) for topic_id in (known, unknown)]
        response = client.exchange(PRODUCE, 13, produce_request(produce.ProduceRequest(None, 1, 9, topics), 13))
        assert [t.partition_responses[0].error_code for t in response.responses] == [0, 100]
        fetched = client.call(
            FETCH,
            17,
            max_wait=timedelta(0),
            min_bytes=1,
            isolation_level=0,
            topics=[
                {"topic_id": t, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
                for t in (topic.topic_id, uuid.UUID(bytes=unknown))
            ],
            forgotten_topics_data=[],
        )
        assert [t.partitions[0].error_code for t in fetched.responses] == [0, 100]
        assert read_header(fetched.responses[0].partitions[0].records).record_count == 1
        assert fetch.TOPIC_IDS_FROM == produce.TOPIC_IDS_FROM == 13


def test_a_topic_that_is_made_again_has_another_id(running_broker: RunningBroker) -> None:
    """So that clients do not take it for the old one."""
    with WireClient(running_broker.address) as client:
        (first,) = metadata(client, ["again"]).topics
        running_broker.call(stream(running_broker).delete_topic("again"))
        (second,) = metadata(client, ["again"]).topics
        assert first.topic_id != second.topic_id


def test_packed_topics_follow_every_change(running_broker: RunningBroker) -> None:
    """Topics that come, grow and go are so in the next answer for all topics."""
    home = stream(running_broker)
    with WireClient(running_broker.address) as client:
        shown = {}
        for step in (
            home.create_topic("a"),
            home.create_topic("b", 2),
            home.set_partitions("a", 4),
            home.delete_topic("b"),
        ):
            running_broker.call(step)
            for version in (0, 4, 9, 13):
                shown = {topic.name: len(topic.partitions) for topic in metadata(client, None, version).topics}
                assert shown == {
                    topic.name: topic.partitions for topic in running_broker.do(lambda: list(home.topics()))
                }
        assert shown == {"a": 4}


def test_the_advertised_address_is_answered(running_broker: RunningBroker) -> None:
    """A stream's listener keeps its own port."""

    async def start() -> Any:
        server = KafkaServer(running_broker.cluster, advertise=("ships.example", 19092))
        return server, await server.start("127.0.0.1", 0), await server.start("127.0.0.1", 0, "/default")

    server, main, exposed = running_broker.call(start())
    try:
        for address, shown in ((main, 19092), (exposed, exposed[1])):
            with WireClient(address) as client:
                (node,) = metadata(client, None).brokers
                assert (node.host, node.port) == ("ships.example", shown)
    finally:
        running_broker.call(server.close())


def make_many(broker: RunningBroker, count: int) -> None:
    """Topics by the thousand, a commit each."""
    shard = stream(broker).shards[0]

    async def make() -> None:
        for first in range(0, count, 1000):
            names = [f"ship-{n:07d}" for n in range(first, first + 1000)]
            await shard.submit(lambda draft, names=names: [create_topic(draft, name) for name in names])

    broker.call(make())


class Lag:
    """How long the broker's loop worked while somebody waited who wants a turn all the time.

    Work is the thread's own time on a processor: on a machine that others use too, the clock says more than that.
    """

    def __init__(self) -> None:
        self.delays: list[float] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.ensure_future(self._measure())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()

    async def _measure(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            self.delays.append(time.thread_time() - before)


def test_a_hundred_thousand_topics_delay_nobody(running_broker: RunningBroker) -> None:
    """All of them, unpacked and packed, and each by name, and while others are made by asking for them."""
    make_many(running_broker, MANY)
    lag = Lag()
    by_name = [Asked(f"ship-{n:07d}", None) for n in range(MANY)]
    new = [Asked(f"new-{n}", None) for n in range(3000)]
    # Built before: this thread and the broker's share one interpreter.
    requests = [metadata_request(asked, 12) for asked in (None, None, by_name, new, None)]
    answers = []
    gc.collect()
    gc.freeze()  # as the server does once it is open; the test's own modules are half a million objects
    with WireClient(running_broker.address) as client:
        running_broker.call(lag.start())
        for request in requests:
            client.send(METADATA, 12, request)
            answers.append(client.receive()[1])
        running_broker.call(lag.stop())
    gc.unfreeze()
    counts = [len(read_response(METADATA, 12, answer).topics) for answer in answers]
    assert counts == [MANY, MANY, MANY, 3000, MANY + 3000]
    print(f"loop busy for at most {max(lag.delays) * 1000:.1f} ms")
    assert max(lag.delays) < sum(lag.delays) / TURNS_MIN


def test_clients_are_told_the_new_name_of_a_topic(running_broker: RunningBroker) -> None:
    """Also those that ask for all topics, whose answer is kept packed; the id stays."""
    with WireClient(running_broker.address) as client:
        metadata(client, ["ships"])
        before = {topic.name: topic.topic_id for topic in metadata(client, None).topics}
        running_broker.call(stream(running_broker).rename_topic("ships", "boats"))
        after = {topic.name: topic.topic_id for topic in metadata(client, None).topics}
        assert after == {("boats" if name == "ships" else name): id for name, id in before.items()}
        assert [topic.error_code for topic in metadata(client, ["ships", "boats"], allow=False).topics] == [3, 0]
