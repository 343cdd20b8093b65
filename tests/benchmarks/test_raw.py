"""The benchmarks' own requests and answers, against the server's reading and writing of the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.load.content import Content, WrongContent
from benchmarks.load.producer import turns
from benchmarks.load.raw import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    BatchForm,
    BatchRecords,
    Refused,
    batches_of,
    check_produce_answer,
    fetch_body,
    produce_body,
    read_fetch_answer,
    values_of,
)

from fairlead.protocol import fetch, produce
from fairlead.protocol.batch import HEADER_BYTES, build_batch, check_produced, records_of
from fairlead.protocol.wire import string


@pytest.mark.parametrize("count", [1, 64, 65, 8193])
def test_batches_are_those_that_the_protocol_builds(count: int) -> None:
    content = Content(100)
    values = content.values(0, 0, np.arange(2 * count)).reshape(2, count, 100)
    built = BatchForm(count, 100).build(values, 1_700_000_000_000)
    expected = [build_batch([(None, bytes(v)) for v in rows], timestamp_ms=1_700_000_000_000) for rows in values]
    assert [row.tobytes() for row in built] == expected


def test_a_produce_request_is_read_by_the_server() -> None:
    names = ["/s:a", "/s:bb"]
    batches = BatchForm(1, 100).build(Content(100).values(0, [0, 1], [0, 0]).reshape(2, 1, 100), 5)
    request = produce.read_request(produce_body([string(name, True) for name in names], batches), PRODUCE_VERSION)
    assert request.acks == -1
    topics = list(request.topics)
    assert [topic.name for topic in topics] == names
    for topic, batch in zip(topics, batches, strict=True):
        assert topic.partitions[0].partition == 0
        assert bytes(topic.partitions[0].records or b"") == batch.tobytes()
        assert check_produced(batch.tobytes()).header.record_count == 1


def produced(names: list[str], errors: dict[str, int], message: str | None = None) -> bytes:
    answers = []
    for name in names:
        error = errors.get(name, 0)
        partition = produce.PartitionProduceResponse(0, error, message=message if error else None)
        answers.append(produce.TopicProduceResponse(name, None, [partition]))
    return bytes(5) + produce.write_response(answers, PRODUCE_VERSION)


@pytest.mark.parametrize(
    "names", [["/s:a", "/s:b"], ["/s:a", "/s:bbbb"], ["t" * 200], [f"t{n:04d}" for n in range(999)]]
)
@pytest.mark.parametrize("message", [None, "why"])
def test_one_error_among_acknowledgements_is_seen(names: list[str], message: str | None) -> None:
    wire = [string(name, True) for name in names]
    check_produce_answer(produced(names, {}), wire)
    for name in (names[0], names[-1]):
        with pytest.raises(Refused, match=f"{name}: error 6"):
            check_produce_answer(produced(names, {name: 6}, message), wire)


def test_a_topic_that_is_not_in_the_answer_is_seen() -> None:
    with pytest.raises(Refused, match="1 topics"):
        check_produce_answer(produced(["a"], {}), [b"\x02a", b"\x02b"])


def test_a_fetch_request_is_read_by_the_server() -> None:
    body = fetch_body([string("/s:a", True), string("/s:b", True)], [0, 77], 1000, 2000)
    request = fetch.read_request(body, FETCH_VERSION)
    topics = [fetch.read_topic(topic, FETCH_VERSION) for topic in request.topics]
    assert (request.max_bytes, request.session_id, request.session_epoch) == (2000, 0, -1)
    assert [(topic.name, topic.partitions[0].offset) for topic in topics] == [("/s:a", 0), ("/s:b", 77)]
    assert topics[0].partitions[0].max_bytes == 1000


def test_a_fetch_answer_gives_the_values() -> None:
    content = Content(100)
    batches = [
        build_batch([(None, value) for value in content.messages(0, 0, first, 70)], base_offset=first, codec=codec)
        for first, codec in ((0, 0), (70, 3))
    ]
    topic = fetch.FetchTopicResponse(
        "/s:a", None, [fetch.FetchPartitionResponse(0, 0, 140, 0, [*batches, batches[0][:80]])]
    )
    answer = bytes(5) + b"".join(fetch.write_response([topic], FETCH_VERSION))
    (found,) = read_fetch_answer(answer)
    read = batches_of(found.records)
    assert (found.name, found.high_watermark, read[-1].next_offset) == (string("/s:a", True), 140, 140)
    assert content.read(values_of(read, 100))[2].tolist() == list(range(140))


def test_an_error_in_a_fetch_answer_is_seen() -> None:
    topic = fetch.FetchTopicResponse("/s:a", None, [fetch.FetchPartitionResponse(0, 3)])
    with pytest.raises(Refused, match="/s:a: error 3"):
        read_fetch_answer(bytes(5) + b"".join(fetch.write_response([topic], FETCH_VERSION)))


def test_a_damaged_batch_is_seen() -> None:
    batch = bytearray(build_batch([(None, bytes(100))]))
    batch[-1] ^= 1
    with pytest.raises(WrongContent, match="CRC"):
        batches_of(memoryview(batch))


@pytest.mark.parametrize("records", [[(None, bytes(99))], [(b"key", bytes(100))], [(None, None)]])
def test_records_of_another_form_are_seen(records: list[tuple[bytes | None, bytes | None]]) -> None:
    with pytest.raises(WrongContent, match="were expected"):
        values_of(batches_of(memoryview(build_batch(records))), 100)


def test_records_that_are_cut_are_seen() -> None:
    batch = build_batch([(None, bytes(100))] * 2)
    for end in range(HEADER_BYTES, len(batch)):
        with pytest.raises(WrongContent):
            values_of([BatchRecords(2, 2, batch[HEADER_BYTES:end])], 100)


@pytest.mark.parametrize(("count", "topics", "longest"), [(10, 3, 2), (3, 5, 10), (10, 1, 3), (12, 4, 3)])
def test_turns_give_every_topic_its_records_in_order(count: int, topics: int, longest: int) -> None:
    found: dict[int, list[int]] = {}
    for topic, first, length in turns(count, topics, longest):
        assert 0 < length <= longest
        found.setdefault(topic, []).extend(range(first, first + length))
    assert sum(map(len, found.values())) == count
    assert all(sequence == list(range(len(sequence))) for sequence in found.values())
    assert max(map(len, found.values())) - min(len(found.get(topic, [])) for topic in range(topics)) <= 1


def test_a_batch_read_back_by_the_protocol_has_the_values() -> None:
    content = Content(200)
    values = content.values(3, 1, np.arange(100)).reshape(1, 100, 200)
    (row,) = BatchForm(100, 200).build(values, 9)
    assert [record.value for record in records_of(row.tobytes())] == content.messages(3, 1, 0, 100)
