"""Streams that are deleted, and made again at the same path, under clients that go on as if nothing were."""

from typing import Any

from kio.schema.errors import ErrorCode
from tests.broker.test_connections import fetch_body, one_record, partition_of, produce_body
from tests.support.broker import RunningBroker
from tests.support.kafka_wire import WireClient, read_response

from fairlead.cluster.values import StreamSettings
from fairlead.protocol.batch import read_header

PRODUCE, FETCH = 0, 1
TOPIC = "/ships:line"


def make(broker: RunningBroker) -> None:
    async def work() -> None:
        stream = await broker.cluster.create_stream("/ships", StreamSettings())
        await stream.create_topic("line")

    broker.call(work())


def fetch(client: Any, offset: int) -> Any:
    return partition_of(client.exchange(FETCH, 12, fetch_body(TOPIC, offset, wait_ms=0)))


def test_a_reader_of_a_stream_that_was_made_again_reads_the_new_one(running_broker: RunningBroker) -> None:
    """It asks the same question at the same offset; what the connection remembers is of the old stream."""
    make(running_broker)
    with WireClient(running_broker.address) as client:
        for _ in range(2):
            assert fetch(client, 0).records == b""
        running_broker.call(running_broker.cluster.delete_stream("/ships"))
        assert fetch(client, 0).error_code == ErrorCode.unknown_topic_or_partition
        make(running_broker)
        assert fetch(client, 0).records == b""
        assert partition_of(client.exchange(PRODUCE, 9, produce_body(TOPIC, one_record()))).error_code == 0
        assert read_header(fetch(client, 0).records).record_count == 1


def test_a_reader_that_waits_hears_that_the_stream_was_deleted(running_broker: RunningBroker) -> None:
    """At once, with a code upon which clients ask for metadata."""
    make(running_broker)
    with WireClient(running_broker.address) as client:
        assert fetch(client, 0).records == b""
        client.send(FETCH, 12, fetch_body(TOPIC, 0, wait_ms=25_000))
        running_broker.call(running_broker.cluster.delete_stream("/ships"))
        _, data = client.receive()
        answer = partition_of(read_response(FETCH, 12, data))
        assert answer.error_code in {ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition}
