"""Connections: order, bounds, garbage, and clients that hold up nobody but themselves."""

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.broker import RunningBroker, run_broker
from tests.support.hot_requests import produce_request
from tests.support.kafka_wire import WireClient, read_response
from tests.support.waiting import WAIT_SECONDS, wait_until

from fairlead.broker.apis import APIS
from fairlead.model.settings import Settings
from fairlead.protocol import produce
from fairlead.protocol.batch import build_batch, read_header
from fairlead.protocol.wire import array_length
from fairlead.storage.interface import Put
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.writing.draft import Draft

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
V_PRODUCE, V_FETCH = 9, 12
TIMEOUT = timedelta(seconds=5)
LONG_MS = int(2000 * WAIT_SECONDS)
"""A Fetch that waits as long as that is answered because of what is there, or not in the time that its client has."""


def make_topic(broker: RunningBroker, name: str, partitions: int = 1, **configs: Any) -> Any:
    return broker.call(broker.cluster.stream("/default").create_topic(name, partitions, configs))


def produce_body(
    topic: str,
    batch: bytes | None,
    *,
    acks: int = -1,
    partition: int = 0,
    version: int = V_PRODUCE,
    transaction: Any = None,
) -> Any:
    records = [produce.ProducePartition(partition, None if batch is None else memoryview(batch))]
    request = produce.ProduceRequest(transaction, acks, 1000, [produce.ProduceTopic(topic, None, records)])
    return produce_request(request, version)


def fetch_body(
    topic: str,
    offset: int,
    *,
    max_bytes: int = 50_000_000,
    min_bytes: int = 1,
    wait_ms: int = 500,
    epoch: int = -1,
    partition: int = 0,
    session: int = 0,
    session_epoch: int = -1,
) -> Any:
    """A Fetch v12 request of one partition."""
    numbers = [(-1, 4), (wait_ms, 4), (min_bytes, 4), (max_bytes, 4), (0, 1), (session, 4), (session_epoch, 4)]
    body = b"".join(number.to_bytes(size, "big", signed=True) for number, size in numbers)
    body += array_length(1, True) + bytes((len(topic) + 1,)) + topic.encode() + array_length(1, True)
    numbers = [(partition, 4), (epoch, 4), (offset, 8), (-1, 4), (-1, 8), (max_bytes, 4)]
    body += b"".join(number.to_bytes(size, "big", signed=True) for number, size in numbers)
    return body + b"\x00\x00" + array_length(0, True) + b"\x01" + b"\x00"


def partition_of(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
    return partition


def one_record(value: bytes = b"v", **options: Any) -> Any:
    return build_batch([(None, value)], **options)


def test_pipelined_produces_are_appended_and_answered_in_order(running_broker: RunningBroker) -> None:
    """A hundred requests sent before the first answer is read."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as client:
        sent = [client.send(PRODUCE, V_PRODUCE, produce_body("line", one_record(b"%d" % i))) for i in range(100)]
        for place, correlation in enumerate(sent):
            answered, data = client.receive()
            assert answered == correlation
            partition = partition_of(read_response(PRODUCE, V_PRODUCE, data))
            assert (partition.error_code, partition.base_offset) == (0, place)


def test_a_request_behind_produces_waits_for_them(running_broker: RunningBroker) -> None:
    """Its answer comes after theirs, and it sees what they did."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as client:
        order = [client.send(PRODUCE, V_PRODUCE, produce_body("line", one_record())) for _ in range(20)]
        order.append(client.send(FETCH, V_FETCH, fetch_body("line", 0)))
        order.append(client.send(PRODUCE, V_PRODUCE, produce_body("line", one_record())))
        answers = [client.receive() for _ in order]
        assert [correlation for correlation, _ in answers] == order
        assert partition_of(read_response(FETCH, V_FETCH, answers[20][1])).high_watermark == 20


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x00\x00\x00\x0a" + bytes([0, 77, 0, 0, 0, 0, 0, 1, 0, 0]),
        b"\x00\x00\x00\x0c" + bytes([0, 3, 0, 9, 0, 0, 0, 1, 0xFF, 0xFF, 0x7F, 0x7F]),
        b"\x00\x00\x00\x0e" + bytes([0, 19, 0, 7, 0, 0, 0, 1, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0x7F]),
        b"\xff" * 100,
        (100_000_001).to_bytes(4, "big"),
    ],
)
def test_garbage_disconnects_that_client_with_one_line(running_broker: RunningBroker, garbage: bytes) -> None:
    """Others, connected before, go on."""
    with WireClient(running_broker.address) as other, capture_logs() as logs:
        other.call(API_VERSIONS, 0)
        with WireClient(running_broker.address) as client:
            client.socket.sendall(garbage)
            assert client.closed_by_peer()
        assert other.call(API_VERSIONS, 0).error_code == 0
    assert [(line["log_level"], line["event"]) for line in logs] == [("warning", "client disconnected")]


def test_the_largest_request_is_bounded_by_its_length(running_broker: RunningBroker) -> None:
    """It is refused before it is read."""
    with WireClient(running_broker.address) as client, capture_logs() as logs:
        client.socket.sendall((100_000_001).to_bytes(4, "big"))
        assert client.closed_by_peer()
    assert "larger than the limit of 100,000,000" in logs[0]["why"]


def test_every_served_api_survives_an_empty_body(running_broker: RunningBroker) -> None:
    """It is answered or the connection is closed; the broker goes on."""
    for api in APIS.values():
        for version in (api.versions[0], api.versions[-1]):
            with WireClient(running_broker.address) as client:
                client.send(api.key, version, b"")
                client.closed_by_peer()
    with WireClient(running_broker.address) as client:
        assert client.call(API_VERSIONS, 0).error_code == 0


def test_versions_are_offered_as_they_are_served(running_broker: RunningBroker) -> None:
    """ApiVersions names every handler; Produce from 0, for old librdkafka."""
    with WireClient(running_broker.address) as client:
        for version in range(5):
            fields = {"client_software_name": "t", "client_software_version": "1"}
            keys = {key.api_key: key for key in client.call(API_VERSIONS, version, **fields).api_keys}
            assert set(keys) == set(APIS)
            assert (keys[PRODUCE].min_version, keys[PRODUCE].max_version) == (0, 13)
            assert (keys[FETCH].min_version, keys[FETCH].max_version) == (4, 18)


def test_a_version_that_is_too_new_is_answered_in_the_oldest_form(running_broker: RunningBroker) -> None:
    """KIP-511: UNSUPPORTED_VERSION in version 0, with the versions that are served."""
    with WireClient(running_broker.address) as client:
        client.send(API_VERSIONS, 99, b"\x00")
        _, data = client.receive()
        response = read_response(API_VERSIONS, 0, data)
        assert response.error_code == 35
        assert [(key.api_key, key.max_version) for key in response.api_keys] == [(API_VERSIONS, 4)]
        assert client.call(API_VERSIONS, 0).error_code == 0


def test_an_old_produce_closes_the_connection(running_broker: RunningBroker) -> None:
    """Versions 0 to 2 are offered for librdkafka's sake and not served, as in Kafka 4."""
    with WireClient(running_broker.address) as client:
        client.send(PRODUCE, 2, b"")
        assert client.closed_by_peer()


def damaged() -> Any:
    batch = bytearray(one_record())
    batch[-1] ^= 1
    return bytes(batch)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (produce_body("line", damaged()), 2),
        (produce_body("line", one_record()[:30]), 2),
        (produce_body("line", one_record() + one_record()), 87),
        (produce_body("line", b""), 87),
        (produce_body("line", None), 87),
        (produce_body("line", bytes(16) + b"\x01" + bytes(30)), 43),
        (produce_body("line", one_record(attributes=0x10)), 87),
        (produce_body("line", one_record(attributes=0x08)), 32),
        (produce_body("line", one_record(), partition=1), 3),
        (produce_body("line", one_record(), partition=-1), 3),
        (produce_body("none", one_record()), 3),
        (produce_body("/x:y", one_record()), 3),
        (produce_body("a b", one_record()), 17),
        (produce_body("line", one_record(), acks=5), 21),
        (produce_body("line", one_record(), transaction="t"), 53),
    ],
)
def test_a_produce_that_cannot_be_is_refused(running_broker: RunningBroker, body: Any, code: Any) -> None:
    """With Kafka's code, a message, and nothing appended."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as client:
        partition = partition_of(client.exchange(PRODUCE, V_PRODUCE, body))
        assert (partition.error_code, partition.base_offset) == (code, -1)
        assert partition.error_message
        assert partition_of(client.exchange(FETCH, V_FETCH, fetch_body("line", 0, wait_ms=0))).high_watermark == 0


def test_a_refused_produce_without_acknowledgement_closes_the_connection(running_broker: RunningBroker) -> None:
    """The only way to tell such a producer, as in Kafka."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as client, capture_logs() as logs:
        client.send(PRODUCE, V_PRODUCE, produce_body("line", one_record(), acks=0))
        assert client.call(API_VERSIONS, 0).error_code == 0
        client.send(PRODUCE, V_PRODUCE, produce_body("line", damaged(), acks=0))
        assert client.closed_by_peer()
    assert "CRC" in logs[0]["why"]


def test_one_bad_partition_of_a_request_spoils_no_other(running_broker: RunningBroker) -> None:
    """Each has its own outcome."""
    make_topic(running_broker, "line", 3)
    parts = [(0, one_record()), (1, damaged()), (2, one_record())]
    records = [produce.ProducePartition(*part) for part in parts]
    request = produce.ProduceRequest(None, -1, 1000, [produce.ProduceTopic("line", None, records)])
    with WireClient(running_broker.address) as client:
        (topic,) = client.exchange(PRODUCE, V_PRODUCE, produce_request(request, V_PRODUCE)).responses
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [
        (0, 0, 0),
        (1, 2, -1),
        (2, 0, 0),
    ]


@pytest.mark.parametrize(("offset", "epoch", "code"), [(5, -1, 1), (-1, -1, 1), (0, 0, 0), (0, 7, 75)])
def test_a_fetch_that_cannot_be_is_refused_at_once(
    running_broker: RunningBroker, offset: int, epoch: int, code: Any
) -> None:
    """It does not wait for data."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as client:
        client.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record()))
        body = fetch_body("line", offset, epoch=epoch, wait_ms=LONG_MS)
        assert partition_of(client.exchange(FETCH, V_FETCH, body)).error_code == code


def test_a_fetch_session_that_is_not_known_is_refused(running_broker: RunningBroker) -> None:
    """FETCH_SESSION_ID_NOT_FOUND makes the client name its partitions."""
    with WireClient(running_broker.address) as client:
        body = fetch_body("line", 0, session=9, session_epoch=1)
        assert client.exchange(FETCH, V_FETCH, body).error_code == 70


def test_a_fetch_waits_no_longer_than_it_said(running_broker: RunningBroker) -> None:
    """And answers empty, with the high watermark."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as client:
        started = time.monotonic()
        partition = partition_of(client.exchange(FETCH, V_FETCH, fetch_body("line", 0, wait_ms=300)))
        assert time.monotonic() - started >= 0.29
        assert (partition.error_code, partition.high_watermark, partition.records) == (0, 0, b"")


def test_a_fetch_is_answered_when_enough_has_come(running_broker: RunningBroker) -> None:
    """Less than `min_bytes` is waited on; each new batch is looked at."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as reader, WireClient(running_broker.address) as writer:
        reader.send(FETCH, V_FETCH, fetch_body("line", 0, min_bytes=1, wait_ms=LONG_MS))
        writer.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record()))
        _, data = reader.receive()
        header = read_header(partition_of(read_response(FETCH, V_FETCH, data)).records)
        assert (header.base_offset, header.record_count) == (0, 1)


def test_a_fetch_of_a_deleted_topic_ends(running_broker: RunningBroker) -> None:
    """Whoever waits there is told."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as reader:
        reader.send(FETCH, V_FETCH, fetch_body("line", 0, wait_ms=LONG_MS))
        with WireClient(running_broker.address) as other:
            other.call(API_VERSIONS, 0)
        running_broker.call(running_broker.cluster.stream("/default").delete_topic("line"))
        _, data = reader.receive()
        assert partition_of(read_response(FETCH, V_FETCH, data)).error_code == 3


def test_an_answer_holds_one_batch_at_least(running_broker: RunningBroker) -> None:
    """However small `max_bytes` is; else a reader would never pass a large batch."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as client:
        for size in (5000, 10):
            client.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record(bytes(size))))
        records = partition_of(client.exchange(FETCH, V_FETCH, fetch_body("line", 0, max_bytes=100))).records
        assert read_header(records).size_bytes == len(records) > 5000


def test_a_slow_consumer_holds_up_nobody(running_broker: RunningBroker) -> None:
    """It asks for far more than it reads; the broker buffers a little and serves others."""
    make_topic(running_broker, "line")
    with WireClient(running_broker.address) as writer:
        for _ in range(8):
            writer.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record(bytes(5_000_000))))
        with WireClient(running_broker.address, receive_bytes=10_000) as slow:
            for _ in range(30):
                slow.send(FETCH, V_FETCH, fetch_body("line", 0))
            for _ in range(20):
                writer.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record()))
            buffered = running_broker.do(lambda: [c.buffered_bytes for c in running_broker.server.connections])
            assert max(buffered) < 2_000_000
            slow.receive()  # and when it reads, it gets what it asked for


def test_connections_are_bounded(tmp_path: Path) -> None:
    """One too many is closed at once, with one line; a free place is used again."""
    with run_broker(tmp_path / "data", settings=Settings(max_connections=2)) as broker, capture_logs() as logs:
        with WireClient(broker.address) as one, WireClient(broker.address) as two:
            one.call(API_VERSIONS, 0)
            two.call(API_VERSIONS, 0)
            with WireClient(broker.address) as three:
                assert three.closed_by_peer()
        wait_until(lambda: not broker.do(lambda: len(broker.server.connections)), "all connections are gone")
        with WireClient(broker.address) as client:
            assert client.call(API_VERSIONS, 0).error_code == 0
    assert [line["event"] for line in logs] == ["too many connections; client refused"]


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    """After the setting's time, without a line in the log."""
    settings = Settings(connection_idle_seconds=1.0)
    with run_broker(tmp_path / "data", settings=settings) as broker, capture_logs() as logs:
        client = WireClient(broker.address)
        assert client.closed_by_peer()
        client.socket.close()
    assert logs == []


def test_a_full_disk_refuses_batches_and_not_deletions(tmp_path: Path) -> None:
    """KAFKA_STORAGE_ERROR, which clients try again; control rows still go through."""
    with run_broker(tmp_path / "data") as broker:
        make_topic(broker, "line")
    with run_broker(tmp_path / "data", settings=Settings(reserve_bytes=2**61)) as broker:
        with WireClient(broker.address) as client:
            partition = partition_of(client.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record())))
            assert partition.error_code == 56
            assert "reserve" in partition.error_message
        broker.call(broker.cluster.stream("/default").delete_topic("line"))


def test_a_topic_owned_elsewhere_is_read_only(running_broker: RunningBroker) -> None:
    """POLICY_VIOLATION with the owner in the message and in the log, by its path though it is no neighbour. Deletion
    and growth say so too."""
    from fairlead.streamlog.requests.topics import put_topic
    from fairlead.streamlog.values import Topic

    shard = running_broker.cluster.stream("/default").shards[0]

    def request(draft: Draft) -> None:
        number = draft.state.next_number("copy")
        topic = Topic(number, "copy", bytes(16), 1, b"o" * 16, home="copy", owner_at="/mapr/sydney/cargo")
        put_topic(draft, topic, b"o" * 16, b"o" * 16)

    running_broker.submit(shard, request)
    with WireClient(running_broker.address) as client, capture_logs() as logs:
        partition = partition_of(client.exchange(PRODUCE, V_PRODUCE, produce_body("copy", one_record())))
        (deleted,) = client.call(20, 5, topic_names=["copy"], timeout=TIMEOUT).responses
        wider = [{"name": "copy", "count": 2, "assignments": None}]
        (grown,) = client.call(37, 1, topics=wider, timeout=TIMEOUT, validate_only=False).results
        for answer in (partition, deleted, grown):
            assert answer.error_code == 44
            assert "owned by /mapr/sydney/cargo" in answer.error_message
            assert "`fairlead cluster list` shows the addresses of sydney" in answer.error_message
    assert [line["event"] for line in logs] == ["produce refused"]
    assert "/mapr/sydney/cargo" in str(logs)


def test_a_topic_that_waits_for_the_owner_before_is_tried_again(running_broker: RunningBroker) -> None:
    """NOT_ENOUGH_REPLICAS, which clients try again by themselves; the message says what is missing."""
    from fairlead.streamlog.requests.topics import put_topic
    from fairlead.streamlog.values import Topic

    stream = running_broker.cluster.stream("/default")

    def request(draft: Draft) -> None:
        number = draft.state.next_number("handed")
        topic = Topic(number, "handed", b"h" * 16, 1, stream.id, epoch=7, home="handed", since=((5, ((0, 0),)),))
        put_topic(draft, topic, b"o" * 16, b"o" * 16)

    running_broker.submit(stream.shards[0], request)
    with WireClient(running_broker.address) as client:
        partition = partition_of(client.exchange(PRODUCE, V_PRODUCE, produce_body("handed", one_record())))
        assert partition.error_code == 19
        assert "ends at 0, the owner before it wrote up to 5" in partition.error_message


def test_a_client_that_goes_away_while_its_commit_is_written_leaves_nothing_behind(
    running_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it had under way is dropped, and the loop has nothing to complain of."""
    make_topic(running_broker, "line")
    writes, may_write, complaints = threading.Event(), threading.Event(), list[Any]()
    put = LocalStorage.put_if_absent

    def held(storage: LocalStorage, name: str, data: Any) -> Put:
        writes.set()
        assert may_write.wait(WAIT_SECONDS)
        return put(storage, name, data)

    running_broker.loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
    monkeypatch.setattr(LocalStorage, "put_if_absent", held)
    with WireClient(running_broker.address) as client:
        for _ in range(3):
            client.send(PRODUCE, V_PRODUCE, produce_body("line", one_record()))
        assert writes.wait(WAIT_SECONDS)
    wait_until(lambda: not running_broker.server.connections, "the connection is gone")
    may_write.set()
    with WireClient(running_broker.address) as client:
        client.exchange(PRODUCE, V_PRODUCE, produce_body("line", one_record()))
    assert complaints == []


def test_closing_the_server_ends_every_connection(tmp_path: Path) -> None:
    """Also those that wait."""
    with run_broker(tmp_path / "data") as broker:
        make_topic(broker, "line")
        client = WireClient(broker.address)
        client.send(FETCH, V_FETCH, fetch_body("line", 0, wait_ms=LONG_MS))
    assert client.closed_by_peer()
    client.socket.close()


def test_a_producer_that_wants_no_answers_loses_nothing_by_closing(
    running_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More requests than are under way at a time, and then the end, while the first of them is written."""
    make_topic(running_broker, "line")
    may_write = threading.Event()
    put = LocalStorage.put_if_absent

    def held(storage: LocalStorage, name: str, data: Any) -> Put:
        assert may_write.wait(WAIT_SECONDS)
        return put(storage, name, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", held)
    before, body = running_broker.server.traffic.received_bytes, produce_body("line", one_record(), acks=0)
    with WireClient(running_broker.address) as client:
        for _ in range(500):
            client.send(PRODUCE, V_PRODUCE, body)
    wait_until(lambda: running_broker.server.traffic.received_bytes > before + 500 * len(body), "all has come")
    may_write.set()
    wait_until(lambda: not running_broker.server.connections, "the connection is gone")
    with WireClient(running_broker.address) as client:
        assert partition_of(client.exchange(FETCH, V_FETCH, fetch_body("line", 0))).high_watermark == 500
