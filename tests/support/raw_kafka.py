"""Record batches to and from a real broker as they are: nothing between the test and the bytes of the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from fairlead.protocol.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.support.hot_requests import produce_request
from tests.support.kafka_wire import WireClient

_PRODUCE, _PRODUCE_VERSION = 0, 9
_FETCH, _FETCH_VERSION = 1, 12


class Answer(NamedTuple):
    """What a broker answers to a fetch of one partition."""

    records: bytes
    aborted: list[tuple[int, int]]
    """(producer id, first offset)."""
    last_stable: int


class RawKafka(WireClient):
    """A connection to a broker that leads all partitions."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        super().__init__((host, int(port)))

    def __enter__(self) -> RawKafka:
        return self

    def produce(self, topic: str, batch: bytes, partition: int = 0) -> int:
        """The error's number, 0 if the broker took the batch."""
        given = ProduceTopic(topic, None, [ProducePartition(partition, memoryview(batch))])
        request = produce_request(ProduceRequest(None, -1, 30_000, [given]), _PRODUCE_VERSION)
        (answer,) = self.exchange(_PRODUCE, _PRODUCE_VERSION, request).responses[0].partition_responses
        return int(answer.error_code)

    def produce_all(self, topic: str, batches: Sequence[Sequence[bytes | memoryview]]) -> None:
        """Batches, each in pieces, one after the other."""
        for pieces in batches:
            assert self.produce(topic, b"".join(pieces)) == 0

    def fetch(self, topic: str, offset: int = 0, *, partition: int = 0, bytes_max: int = 1 << 20) -> Answer:
        """Up to the last stable offset."""
        wanted = [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": bytes_max}]
        answer = self.call(
            _FETCH,
            _FETCH_VERSION,
            max_wait=timedelta(milliseconds=500),
            min_bytes=1,
            isolation_level=1,
            topics=[{"topic": topic, "partitions": wanted}],
            forgotten_topics_data=[],
        )
        (found,) = answer.responses[0].partitions
        assert int(found.error_code) == 0, found.error_code
        aborted = [(int(one.producer_id), int(one.first_offset)) for one in found.aborted_transactions or ()]
        return Answer(bytes(found.records or b""), aborted, int(found.last_stable_offset))
