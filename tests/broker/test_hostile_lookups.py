"""Look-ups by time into hostile batches: what they cost is bounded, and nobody else pays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from kio.schema.errors import ErrorCode
from tests.support.batches import bomb
from tests.support.broker import RunningBroker
from tests.support.kafka_wire import WireClient

from fairlead.broker.handlers.records import list_offsets, produce
from fairlead.cluster.cluster import LOOKUP_THREADS
from fairlead.protocol.batch import build_batch

TIME_MS = 10**12


def produced(client: WireClient, batch: bytes) -> ErrorCode:
    topic = {"name": "a", "partition_data": [{"index": 0, "records": batch}]}
    answer = client.call(produce.API_KEY, 9, acks=-1, timeout=timedelta(seconds=1), topic_data=[topic])
    code: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return code


def looked_up(address: tuple[str, int]) -> tuple[int, int]:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": TIME_MS}
    with WireClient(address) as client:
        asked = [{"name": "a", "partitions": [partition]}]
        answer = client.call(list_offsets.API_KEY, 7, replica_id=-1, isolation_level=0, topics=asked)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.offset


def test_bombs_are_looked_into_by_few_threads_and_not_to_their_end(running_broker: RunningBroker) -> None:
    """Eight look-ups at once held 1.9 GB and the event loop; ten million records in 6 KB took 159 s."""
    running_broker.call(running_broker.cluster.stream("/default").create_topic("a"))
    with WireClient(running_broker.address) as client:
        assert produced(client, build_batch([(None, b"x")])) == ErrorCode.none
        assert produced(client, bomb(10_000_000, max_timestamp=TIME_MS)) == ErrorCode.none
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(looked_up, [running_broker.address] * 8))
    assert answers == [(ErrorCode.none, 1)] * 8
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("fairlead-lookup")]
    assert 1 <= len(threads) <= LOOKUP_THREADS


def test_a_count_that_cannot_fit_is_refused(running_broker: RunningBroker) -> None:
    """A reader that made room for so many records would have none left."""
    running_broker.call(running_broker.cluster.stream("/default").create_topic("a"))
    with WireClient(running_broker.address) as client:
        assert produced(client, bomb(40_000_000)) == ErrorCode.invalid_record
