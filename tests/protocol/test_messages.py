"""The cold messages, by kio's codec."""

import contextlib
import io
import resource
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from fairlead.broker.apis import OFFERED
from fairlead.protocol.messages import known_versions, read_request, write_response
from fairlead.protocol.schema import plan
from fairlead.protocol.wire import Malformed, Reader, uvarint

PRODUCE, FETCH, METADATA = 0, 1, 3
COLD = sorted(OFFERED.keys() - {PRODUCE, FETCH, METADATA})
"""What is served and not read by hand."""


@pytest.mark.parametrize("api", COLD)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_hostile_requests_are_refused_or_read(api: Any, data: st.DataObject) -> None:
    """Any bytes are read or raise Malformed."""
    version = data.draw(st.sampled_from(list(known_versions(api))))
    body = data.draw(st.binary(max_size=100))
    with contextlib.suppress(Malformed):
        read_request(api, version, memoryview(body))


@pytest.mark.parametrize("api", COLD)
def test_a_claimed_array_of_two_thousand_million_items_takes_no_memory(api: Any) -> None:
    """Lengths are not believed before the items are there."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for version in known_versions(api):
        for body in (b"\x7f\xff\xff\xff" * 8, b"\xff\xff\xff\xff\x07" * 8, b"\x00" * 6 + b"\x7f\xff\xff\xff" * 4):
            with contextlib.suppress(Malformed):
                read_request(api, version, body)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize("version", known_versions(19))
def test_one_mapping_answers_every_version(version: int) -> None:
    """Fields that a version lacks are left out, those that were not given take their default."""
    topics = [{"name": "a", "error_code": ErrorCode.none, "num_partitions": 3, "replication_factor": 1}]
    data = write_response(19, version, {"topics": topics})
    response: Any
    response, size = entity_reader(load_response_schema(19, version))(data, 0)
    assert size == len(data)
    assert response.throttle_time == timedelta(0)
    assert response.topics[0].name == "a"
    assert getattr(response.topics[0], "num_partitions", 3) == 3


def test_a_forgotten_field_is_a_fault() -> None:
    """The message names it."""
    with pytest.raises(KeyError, match="error_code"):
        write_response(19, 7, {"topics": [{"name": "a"}]})


def test_whoever_reads_or_writes_many_items_can_rest_between_them() -> None:
    """A hundred thousand groups take seconds, and Python computes one thing at a time."""
    rests: list[None] = []
    fields = {"error_code": ErrorCode.none, "group_state": "Dead", "protocol_type": "", "protocol_data": ""}
    groups = [{"group_id": f"g{number}", "members": [], **fields} for number in range(10)]
    write_response(15, 0, {"groups": groups}, lambda: rests.append(None))
    assert len(rests) == len(groups)
    read_request(15, 0, (3).to_bytes(4) + 3 * b"\x00\x01g", lambda: rests.append(None))
    assert len(rests) == len(groups) + 3


@given(st.binary(max_size=40), st.booleans())
def test_primitives_never_read_past_the_end(data: bytes, flexible: Any) -> None:
    """Every read of hostile bytes ends in a value or in Malformed."""
    for read in ("int8", "int16", "int32", "int64", "uvarint", "string", "nullable_string", "nullable_bytes", "uuid"):
        reader = Reader(data, flexible)
        with contextlib.suppress(Malformed):
            while True:
                getattr(reader, read)()
                assert reader.position <= len(data)
                if reader.remaining == 0:
                    break
    with contextlib.suppress(Malformed):
        Reader(data, flexible).skip_tags()
    with contextlib.suppress(Malformed):
        Reader(data, flexible).has_tag(3)
    with contextlib.suppress(Malformed):
        assert len(Reader(data, flexible).items()) <= len(data)


@pytest.mark.parametrize("pass_over", [Reader.skip_tags, lambda reader: reader.has_tag(7)])
def test_very_many_tagged_fields_are_refused_before_they_are_read(pass_over: Callable[[Reader], object]) -> None:
    """Each costs a microsecond of the event loop, and none has a meaning here: in one part of a message, and in all of
    its parts together."""
    reader = Reader(uvarint(200_000) + b"\x05\x00" * 200_000, True)
    with pytest.raises(Malformed, match="100,000 tagged fields"):
        pass_over(reader)
    assert reader.position == len(uvarint(200_000))
    reader = Reader((uvarint(60_000) + b"\x05\x00" * 60_000) * 2, True)
    pass_over(reader)
    with pytest.raises(Malformed, match="100,000 tagged fields"):
        pass_over(reader)
    with pytest.raises(Malformed, match="60 tagged fields are longer"):
        pass_over(Reader(uvarint(60) + bytes(119), True))


def test_tagged_fields_count_in_all_parts_of_a_request() -> None:
    """Also in those that stand in a tagged field themselves; whoever reads them can rest between two."""
    tags, rests = uvarint(60_000) + b"\x77\x00" * 60_000, list[None]()
    topic = uvarint(0) + bytes(16) + tags
    assert len(read_request(20, 6, uvarint(2) + topic + bytes(5), lambda: rests.append(None)).topics) == 1
    assert len(rests) == 60_001
    with pytest.raises(Malformed, match="100,000 tagged fields"):
        read_request(20, 6, uvarint(3) + topic * 2 + bytes(5))
    replica = bytes(12) + tags
    within = uvarint(1) + uvarint(len(replica)) + replica
    fetch = bytes(4 + 4 + 4 + 1 + 4 + 4) + uvarint(1) + uvarint(1) + uvarint(1)
    assert read_request(1, 17, fetch + uvarint(1) + within).replica_state.replica_id == 0
    with pytest.raises(Malformed, match="100,000 tagged fields"):
        read_request(1, 17, fetch + uvarint(2) + within * 2)


def _whole_milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def example(field: Any, draw: Any) -> Any:
    """A value that a field may have on the wire."""
    plain = {
        "bool": st.booleans(),
        "bytes": st.binary(max_size=9),
        "datetime_i64": st.datetimes(min_value=datetime(1990, 1, 1), timezones=st.just(UTC)).map(_whole_milliseconds),
        "error_code": st.sampled_from(list(ErrorCode)),
        "float64": st.floats(allow_nan=False),
        "int8": st.integers(-(2**7), 2**7 - 1),
        "int16": st.integers(-(2**15), 2**15 - 1),
        "int32": st.integers(-(2**31), 2**31 - 1),
        "int64": st.integers(-(2**63), 2**63 - 1),
        "records": st.binary(max_size=9),
        "string": st.text("abé", max_size=9),
        "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
        "timedelta_i64": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
        "uint16": st.integers(0, 2**16 - 1),
        "uuid": st.uuids(),
    }

    def one() -> Any:
        if field.entity is not None:
            return instance(field.entity, draw)
        absent = field.nullable and not field.array and draw(st.integers(0, 3)) == 0
        return None if absent else draw(plain[field.kind])

    return tuple(one() for _ in range(draw(st.integers(0, 2)))) if field.array else one()


def instance(schema: Any, draw: Any) -> Any:
    return schema(**{field.name: example(field, draw) for field in plan(schema)})


@pytest.mark.parametrize("api", COLD)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_requests_that_kio_wrote_are_read_in_every_version(api: Any, data: st.DataObject) -> None:
    """Each field comes back as it went in."""
    version = data.draw(st.sampled_from(list(known_versions(api))))
    request = instance(load_request_schema(api, version), data.draw)
    buffer = io.BytesIO()
    entity_writer(type(request))(buffer, request)
    assert read_request(api, version, buffer.getvalue()) == request
