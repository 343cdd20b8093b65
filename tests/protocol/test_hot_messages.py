"""Produce, Fetch and Metadata, packed by hand, against kio's codec in every version."""

import contextlib
import io
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from tests.support.hot_requests import metadata_request, produce_request

from fairlead.protocol import fetch, metadata, produce
from fairlead.protocol.messages import build, known_versions
from fairlead.protocol.wire import Malformed

NAMES = st.text("abcxyz-_.0", min_size=1, max_size=20)
IDS = st.binary(min_size=16, max_size=16).filter(any)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ROUNDS = settings(max_examples=25, deadline=None)


def kio_request(api: Any, version: int, **values: Any) -> Any:
    schema = load_request_schema(api, version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, build(schema, values))
    return buffer.getvalue()


def kio_response(api: Any, version: int, parts: Any) -> Any:
    data = b"".join(parts)
    response, size = entity_reader(load_response_schema(api, version))(data, 0)
    assert size == len(data)
    return response


def named(version: int, ids_from: Any, name: str, topic_id: Any) -> Any:
    return (None, topic_id) if version >= ids_from else (name, None)


@pytest.mark.parametrize("version", known_versions(0))
@ROUNDS
@given(
    NAMES, IDS, st.none() | NAMES, st.integers(-1, 1), st.lists(st.tuples(INT32, st.none() | st.binary()), max_size=3)
)
def test_a_produce_request_is_read_as_kio_wrote_it(
    version: int, name: str, topic_id: Any, transaction: Any, acks: Any, partitions: Any
) -> None:
    """Names or ids, acks, and every partition's bytes."""
    from datetime import timedelta

    body = kio_request(
        0,
        version,
        transactional_id=transaction,
        acks=acks,
        timeout=timedelta(milliseconds=1500),
        topic_data=[
            {
                "name": name,
                "topic_id": UUID(bytes=topic_id),
                "partition_data": [{"index": index, "records": data} for index, data in partitions],
            }
        ],
    )
    request = produce.read_request(body, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transaction, acks, 1500)
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == named(version, produce.TOPIC_IDS_FROM, name, topic_id)
    assert [(p.partition, p.records) for p in topic.partitions] == partitions
    assert produce_request(request._replace(topics=[topic]), version) == body


@pytest.mark.parametrize("version", known_versions(0))
@ROUNDS
@given(NAMES, IDS, INT32, st.sampled_from([0, 3, 87]), INT64, st.integers(-1, 2**45), st.none() | NAMES)
def test_a_produce_answer_is_what_kio_reads(
    version: int, name: str, topic_id: Any, index: Any, code: Any, offset: int, time: Any, message: Any
) -> None:
    """Every field of every version."""
    records = ((0, "no key"), (7, "too old"))
    answer = produce.PartitionProduceResponse(index, code, offset, time, 5, message, records)
    known = named(version, produce.TOPIC_IDS_FROM, name, topic_id)
    data = produce.write_response([produce.TopicProduceResponse(known[0], known[1], [answer, answer])], version)
    (topic,) = kio_response(0, version, [data]).responses
    assert (getattr(topic, "name", None), getattr(topic, "topic_id", None)) == (
        known[0],
        known[1] and UUID(bytes=topic_id),
    )
    assert len(topic.partition_responses) == 2
    read = topic.partition_responses[1]
    assert (read.index, read.error_code, read.base_offset) == (index, code, offset)
    assert (read.log_append_time is None) == (time == -1)
    assert getattr(read, "log_start_offset", 5) == 5
    assert getattr(read, "error_message", message) == message
    found = [(each.batch_index, each.batch_index_error_message) for each in getattr(read, "record_errors", ())]
    assert found == (list(records) if version >= 8 else [])


PARTITIONS = st.lists(st.tuples(INT32, INT32, INT64, INT32, INT32), max_size=4)


@pytest.mark.parametrize("version", known_versions(1))
@ROUNDS
@given(NAMES, IDS, INT32, INT32, PARTITIONS, st.lists(INT32, max_size=4))
def test_a_fetch_request_is_read_as_kio_wrote_it(
    version: int, name: str, topic_id: Any, min_bytes: Any, session: Any, partitions: Any, gone: Any
) -> None:
    """What old versions do not say is what Kafka implies."""
    from datetime import timedelta

    body = kio_request(
        1,
        version,
        replica_id=-1,
        max_wait=timedelta(milliseconds=500),
        min_bytes=min_bytes,
        max_bytes=77,
        isolation_level=1,
        session_id=session,
        session_epoch=3,
        topics=[
            {
                "topic": name,
                "topic_id": UUID(bytes=topic_id),
                "partitions": [
                    {
                        "partition": index,
                        "current_leader_epoch": epoch,
                        "fetch_offset": offset,
                        "last_fetched_epoch": last,
                        "log_start_offset": -1,
                        "partition_max_bytes": size,
                    }
                    for index, epoch, offset, last, size in partitions
                ],
            }
        ],
        forgotten_topics_data=[{"topic": name, "topic_id": UUID(bytes=topic_id), "partitions": gone}],
    )
    request = fetch.read_request(body, version)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation) == (500, min_bytes, 77, 1)
    assert (request.session_id, request.session_epoch) == ((session, 3) if version >= 7 else (0, -1))
    (topic,) = [fetch.read_topic(data, version) for data in request.topics]
    assert (topic.name, topic.topic_id) == named(version, fetch.TOPIC_IDS_FROM, name, topic_id)
    for read, (index, epoch, offset, last, size) in zip(topic.partitions, partitions, strict=True):
        assert (read.partition, read.offset, read.max_bytes) == (index, offset, size)
        assert read.current_leader_epoch == (epoch if version >= 9 else -1)
        assert read.last_fetched_epoch == (last if version >= 12 else -1)
    key = topic_id if version >= fetch.TOPIC_IDS_FROM else name
    assert list(request.forgotten) == ([(key, tuple(gone))] if version >= 7 else [])


@pytest.mark.parametrize("version", known_versions(1))
@ROUNDS
@given(NAMES, IDS, INT32, st.sampled_from([0, 1, 74]), st.lists(st.binary(max_size=300), max_size=3), st.integers(0, 1))
def test_a_fetch_answer_is_what_kio_reads(
    version: int, name: str, topic_id: Any, index: Any, code: Any, batches: Any, isolation: Any
) -> None:
    """The batches are carried as they are, and nothing is copied into another piece."""
    known = named(version, fetch.TOPIC_IDS_FROM, name, topic_id)
    aborted = [(5, 60, 70), (-1, 2**63 - 1, 2**63 - 1)] if isolation else []
    answer = fetch.FetchPartitionResponse(index, code, 100, 7, batches, 90, aborted)
    parts = fetch.write_response([fetch.FetchTopicResponse(known[0], known[1], [answer, answer])], version, isolation)
    assert all(any(part is batch for part in parts) for batch in batches)
    topic = fetch.FetchTopicResponse(known[0], known[1], [answer, answer])
    packed = fetch.write_response([fetch.pack_topic(topic, version, isolation)], version, isolation)
    assert b"".join(packed) == b"".join(parts)
    response = kio_response(1, version, parts)
    assert getattr(response, "session_id", 0) == 0
    of_session = fetch.FetchAnswer(0, version, isolation, session_id=9)
    assert getattr(kio_response(1, version, of_session.finish()), "session_id", 9) == 9
    (topic,) = response.responses
    read = topic.partitions[1]
    assert (read.partition_index, read.error_code) == (index, code)
    assert (read.high_watermark, read.last_stable_offset) == (100, 90)
    assert getattr(read, "log_start_offset", 7) == 7
    assert bytes(read.records or b"") == b"".join(batches)
    told = [(each.producer_id, each.first_offset) for each in read.aborted_transactions or ()]
    assert (read.aborted_transactions is None, told) == (not isolation, [each[:2] for each in aborted])


@pytest.mark.parametrize("version", known_versions(3))
@ROUNDS
@given(st.none() | st.lists(NAMES, max_size=3), st.booleans(), st.booleans(), st.booleans())
def test_a_metadata_request_is_read_as_kio_wrote_it(
    version: int, names: Any, allow: Any, cluster: Any, topic: Any
) -> None:
    """No list asks for all topics; in version 0 an empty one does."""
    topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
    if version == 0 and not names:
        topics, names = [], None
    body = kio_request(
        3,
        version,
        topics=topics,
        allow_auto_topic_creation=allow,
        include_cluster_authorized_operations=cluster,
        include_topic_authorized_operations=topic,
    )
    request = metadata.MetadataRequest(body, version)
    assert request.all_topics == (names is None)
    assert [asked.name for asked in request.topics()] == (names or [])
    assert request.options() == (
        allow if version >= 4 else True,
        version in {8, 9, 10} and cluster,
        version >= 8 and topic,
    )
    if not (cluster or topic):
        asked = None if names is None else [metadata.Asked(name, None) for name in names]
        assert metadata_request(asked, version, allow) == body


@pytest.mark.parametrize("version", known_versions(3))
@ROUNDS
@given(NAMES, IDS, st.integers(1, 5), st.integers(0, 9))
def test_a_metadata_answer_is_what_kio_reads(
    version: int, name: str, topic_id: Any, partitions: int, epoch: int
) -> None:
    """Node, cluster, a topic that is there and one that is not."""
    there = metadata.topic(version, 1, name, topic_id, partitions, epoch, 0x78)
    missing = metadata.missing(version, metadata.Asked("nowhere", None), 3)
    first = metadata.begin(version, node=1, host="h", port=9092, cluster_id="c", topic_count=2)
    response = kio_response(3, version, [first, there, missing, metadata.end(version, 0x30)])
    assert getattr(response, "cluster_authorized_operations", 0x30) == 0x30
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "h", 9092)
    assert getattr(response, "cluster_id", "c") == "c"
    assert getattr(response, "controller_id", 1) == 1
    topic, unknown = response.topics
    assert (topic.name, topic.error_code, len(topic.partitions)) == (name, 0, partitions)
    assert getattr(topic, "topic_authorized_operations", 0x78) == 0x78
    assert getattr(unknown, "topic_authorized_operations", metadata.NOT_ASKED) == metadata.NOT_ASKED
    assert getattr(topic, "topic_id", UUID(bytes=topic_id)) == UUID(bytes=topic_id)
    for index, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.leader_id, partition.error_code) == (index, 1, 0)
        assert (partition.replica_nodes, partition.isr_nodes) == ((1,), (1,))
        assert getattr(partition, "leader_epoch", epoch) == epoch
    assert (unknown.name, unknown.error_code, unknown.partitions) == ("nowhere", 3, ())


def read_fetch(request: fetch.FetchRequest, version: int) -> None:
    for data in request.topics:
        fetch.read_topic(data, version)
    list(request.forgotten)


READERS = [
    (0, lambda body, version: list(produce.read_request(body, version).topics)),
    (1, lambda body, version: read_fetch(fetch.read_request(body, version), version)),
    (3, lambda body, version: list(metadata.MetadataRequest(body, version).topics())),
]


@pytest.mark.parametrize(("api", "read"), READERS)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_hostile_requests_are_refused_or_read(api: Any, read: Any, data: st.DataObject) -> None:
    """Any bytes are read or raise Malformed, soon, whatever lengths they claim."""
    version = data.draw(st.sampled_from(list(known_versions(api))))
    body = data.draw(st.binary(max_size=120))
    with contextlib.suppress(Malformed):
        read(body, version)


def test_a_batch_that_follows_what_was_put_aside_says_so() -> None:
    """By a tag, which Kafka's readers pass over; other tags, and that one with something in it, say nothing."""
    first, second = UUID(int=5), UUID(int=6)
    body = b"".join(produce.write_request([(first.bytes, 3, b"abc"), (second.bytes, 0, b"d")], {1}))
    read = [each for topic in produce.read_request(body, 13).topics for each in topic.partitions]
    assert [(each.partition, each.follows_pending) for each in read] == [(3, False), (0, True)]
    for tags in (b"\x01\xa0\x1f\x01x", b"\x01\xa1\x1f\x00"):
        other = body.replace(b"\x01\xa0\x1f\x00", tags)
        assert other != body
        assert not any(
            each.follows_pending for topic in produce.read_request(other, 13).topics for each in topic.partitions
        )


def test_a_request_that_passes_batches_on_is_one_of_kafkas() -> None:
    """kio reads it as a Produce request of version 13, and its answer is read as kio writes it."""
    first, second = UUID(int=5), UUID(int=6)
    body = b"".join(produce.write_request([(first.bytes, 3, b"abc"), (second.bytes, 0, b"")]))
    request: Any
    request, size = entity_reader(load_request_schema(produce.API_KEY, 13))(body, 0)
    assert (size, request.acks, request.transactional_id) == (len(body), -1, None)
    named = [
        (topic.topic_id, [(each.index, each.records) for each in topic.partition_data]) for topic in request.topic_data
    ]
    assert named == [(first, [(3, b"abc")]), (second, [(0, b"")])]
    outcomes = [
        produce.PartitionProduceResponse(3, 0, 7, 99, 5),
        produce.PartitionProduceResponse(
            0, 87, message="no key", record_errors=[(0, "it has no key"), (4, "nor this")]
        ),
    ]
    answer = [
        produce.TopicProduceResponse(None, topic.bytes, [each])
        for topic, each in zip((first, second), outcomes, strict=True)
    ]
    written = produce.write_response(answer, 13)
    assert produce.read_response(written) == [
        (first.bytes, outcomes[0]._replace(record_errors=[])),
        (second.bytes, outcomes[1]),
    ]
    for cut in range(len(written) - 5):
        with contextlib.suppress(Malformed):
            assert len(produce.read_response(written[:cut])) <= 2
