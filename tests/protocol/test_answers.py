"""Answers as a client reads them: bounded, in every version that it speaks."""

import contextlib
import io
import resource
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from tests.protocol.test_messages import instance

from fairlead.kafka.connecting.versions import FETCH, PRODUCE, SPOKEN
from fairlead.protocol import client_fetch, client_produce
from fairlead.protocol.messages import read_request, read_response, write_request
from fairlead.protocol.schema import plan
from fairlead.protocol.wire import Malformed, uvarint

COLD = [(api, version) for api, versions in SPOKEN.items() for version in versions if api not in (FETCH, PRODUCE)]
DESCRIBE_CLIENT_QUOTAS, DESCRIBE_TRANSACTIONS, DESCRIBE_QUORUM = 48, 65, 55


def written(schema: Any, message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, message)
    return buffer.getvalue()


@pytest.mark.parametrize(("api", "version"), COLD)
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_answers_that_kio_wrote_are_read_in_every_version_that_is_spoken(api: Any, version: Any, data: Any) -> None:
    """Each field comes back as it went in."""
    answer = instance(load_response_schema(api, version), data.draw)
    assert read_response(api, version, written(type(answer), answer)) == answer


@pytest.mark.parametrize("api", [DESCRIBE_CLIENT_QUOTAS, DESCRIBE_TRANSACTIONS, DESCRIBE_QUORUM])
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_fractions_moments_and_ports_are_read(api: Any, data: Any) -> None:
    """Types that no request has which is served here."""
    answer = instance(load_response_schema(api, 0), data.draw)
    assert read_response(api, 0, written(type(answer), answer)) == answer


@pytest.mark.parametrize(("api", "version"), COLD)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_hostile_answers_are_refused_or_read(api: Any, version: Any, data: Any) -> None:
    """Any bytes are read or raise Malformed."""
    with contextlib.suppress(Malformed):
        read_response(api, version, data.draw(st.binary(max_size=100)))


def test_a_claimed_array_in_an_answer_takes_no_memory() -> None:
    """Lengths are not believed before the items are there."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    claims = (b"\x7f\xff\xff\xff" * 8, b"\xff\xff\xff\xff\x07" * 8, b"\x00" * 6 + b"\x7f\xff\xff\xff" * 4)
    for api, version in COLD:
        for body in claims:
            with contextlib.suppress(Malformed):
                read_response(api, version, body)
    for body in claims:
        for version in client_fetch.VERSIONS:
            with contextlib.suppress(Malformed):
                client_fetch.read_response(body, version)
        for version in client_produce.VERSIONS:
            with contextlib.suppress(Malformed):
                client_produce.read_response(body, version)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_an_error_code_of_a_newer_broker_is_an_error_that_nobody_knows() -> None:
    answer = read_response(17, 0, (12345).to_bytes(2) + bytes(4))
    assert answer.error_code is ErrorCode.unknown_server_error


def test_one_mapping_asks_in_every_version() -> None:
    """Fields that a version lacks are left out."""
    for version in SPOKEN[3]:
        fields = {"topics": [{"name": "a", "topic_id": None}], "allow_auto_topic_creation": False}
        options = {"include_topic_authorized_operations": False, "include_cluster_authorized_operations": False}
        request = read_request(3, version, write_request(3, version, fields | options))
        assert [topic.name for topic in request.topics] == ["a"]
        assert request.allow_auto_topic_creation is False


@pytest.mark.parametrize("version", client_fetch.VERSIONS)
def test_a_fetch_is_asked_as_kio_reads_it(version: int) -> None:
    """All that is asked, and what leaves the session."""
    topic: str | bytes = b"i" * 16 if version >= 13 else "a"
    asked = [client_fetch.Asked(1, 2, 3, 4, 5), client_fetch.Asked(6, 7, 8, 9, 10)]
    bounds = client_fetch.Bounds(500, 1, 1000)
    body = client_fetch.write_request(version, bounds, (3, 4), {topic: asked}, {topic: [7, 8]}, committed=True)
    request: Any
    request, size = entity_reader(load_request_schema(1, version))(body, 0)
    assert size == len(body)
    assert (request.isolation_level, request.max_bytes) == (1, 1000)
    partitions = [
        (each.partition, each.fetch_offset, each.partition_max_bytes) for each in request.topics[0].partitions
    ]
    assert partitions == [(1, 3, 5), (6, 8, 10)]
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (3, 4)
        assert request.forgotten_topics_data[0].partitions == (7, 8)
    if version >= 12:
        assert request.topics[0].partitions[0].last_fetched_epoch == 4


@pytest.mark.parametrize("version", client_fetch.VERSIONS)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_fetch_answer_is_read_as_kio_wrote_it(version: Any, data: Any) -> None:
    """Records are views of the answer."""
    schema: Any = load_response_schema(1, version)
    topics = {field.name: field for field in plan(schema)}["responses"].entity
    partitions = {field.name: field for field in plan(topics)}["partitions"].entity
    one = instance(partitions, data.draw)
    topic: dict[str, Any] = {"topic_id": data.draw(st.uuids())} if version >= 13 else {"topic": "a"}
    told = {"error_code": ErrorCode(70), "session_id": 5} if version >= 7 else {}
    throttle = instance(schema, data.draw).throttle_time
    answer = schema(throttle_time=throttle, responses=(topics(**topic, partitions=(one,)),), **told)
    read = client_fetch.read_response(memoryview(written(schema, answer)), version)
    assert (read.error, read.session_id) == ((70, 5) if version >= 7 else (0, 0))
    ((key, found),) = read.partitions.items()
    assert key == (topic["topic_id"].bytes if version >= 13 else "a", one.partition_index)
    assert (found.error, found.high_watermark, found.last_stable) == (
        one.error_code,
        one.high_watermark,
        one.last_stable_offset,
    )
    assert bytes(found.records) == (one.records or b"")
    assert found.aborted == [(each.producer_id, each.first_offset) for each in one.aborted_transactions or ()]
    if version >= 12:
        diverging = one.diverging_epoch
        assert found.diverging == ((diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None)


@pytest.mark.parametrize("version", client_produce.VERSIONS)
def test_batches_are_sent_as_kio_reads_them(version: int) -> None:
    topic: str | bytes = b"i" * 16 if version >= 13 else "a"
    pieces = client_produce.write_request({topic: {1: [b"ab", b"c"], 2: [b"d"]}}, version, 77)
    request: Any
    body = b"".join(pieces)
    request, size = entity_reader(load_request_schema(0, version))(body, 0)
    assert size == len(body)
    assert request.acks == -1
    assert [(each.index, each.records) for each in request.topic_data[0].partition_data] == [(1, b"abc"), (2, b"d")]


@pytest.mark.parametrize("version", client_produce.VERSIONS)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_what_became_of_batches_is_read_as_kio_wrote_it(version: Any, data: Any) -> None:
    schema: Any = load_response_schema(0, version)
    topics = {field.name: field for field in plan(schema)}["responses"].entity
    partitions = {field.name: field for field in plan(topics)}["partition_responses"].entity
    one = instance(partitions, data.draw)
    topic: dict[str, Any] = {"topic_id": data.draw(st.uuids())} if version >= 13 else {"name": "a"}
    throttle = instance(schema, data.draw).throttle_time
    answer = schema(throttle_time=throttle, responses=(topics(**topic, partition_responses=(one,)),))
    ((key, found),) = client_produce.read_response(written(schema, answer), version).outcomes.items()
    assert key == (topic["topic_id"].bytes if version >= 13 else "a", one.index)
    assert (found.error, found.base_offset) == (one.error_code, one.base_offset)
    if version >= 8 and one.error_message:
        assert found.message == one.error_message


def test_an_answer_that_speaks_of_a_partition_twice_is_refused() -> None:
    """One of the two would be believed and the other lost."""
    topic = b"\0\1a\0\0\0\2" + 2 * (bytes(4) + bytes(2) + bytes(8) + bytes(8))
    with pytest.raises(Malformed, match="twice"):
        client_produce.read_response(b"\0\0\0\1" + topic + bytes(4), 3)


@given(st.binary(max_size=200), st.sampled_from(client_fetch.VERSIONS), st.sampled_from(client_produce.VERSIONS))
def test_hostile_fetch_and_produce_answers_are_refused_or_read(data: Any, fetch: Any, produce: Any) -> None:
    with contextlib.suppress(Malformed):
        client_fetch.read_response(data, fetch)
    with contextlib.suppress(Malformed):
        client_produce.read_response(data, produce)


def test_very_many_tagged_fields_of_an_answer_are_refused_before_they_are_read() -> None:
    """Those of a fetched partition, of which one has a meaning."""
    topic = uvarint(2) + b"a" + uvarint(2) + bytes(4 + 2 + 8 + 8 + 8) + uvarint(0) + bytes(4) + uvarint(0)
    start = bytes(4 + 2 + 4) + uvarint(2) + topic
    answer = client_fetch.read_response(start + uvarint(2) + b"\x05\x00" * 2 + bytes(2), 12)
    assert list(answer.partitions) == [("a", 0)]
    with pytest.raises(Malformed, match="100,000 tagged fields"):
        client_fetch.read_response(start + uvarint(200_000) + b"\x05\x00" * 200_000 + bytes(2), 12)
