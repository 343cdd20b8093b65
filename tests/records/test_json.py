"""What Spark keeps as the streaming offset, and what a server answers a reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from tests.support.spoiled import with_more, without_each

from fairlead.model.errors import InvalidValue, UnknownStream
from fairlead.records.client import RecordsClient, ShardPlan, StreamPlan, TopicPlan
from fairlead.records.position import RecordsPosition, ShardPosition, from_json
from fairlead.streamlog.values import EpochRange, LogObject

STREAM, EPOCH = "ab" * 16, "cd" * 16
POSITION = RecordsPosition(
    STREAM,
    {1: ShardPosition(2**63, "", 5), 0: ShardPosition(7, EPOCH, 0)},
    {(0, 16): {3: 23, 0: -2}, (1, 17): {}},
    "5e",
)
TEXT = (
    '{"version": 1, "stream": "' + STREAM + '", "shards": {"0": {"commit": 7, "epoch": "' + EPOCH + '", "began": 0}, '
    '"1": {"commit": 9223372036854775808, "epoch": "", "began": 5}}, '
    '"starting": {"0/16": {"3": 23, "0": -2}, "1/17": {}}, "topics": "5e"}'
)


def test_a_position_is_this_text() -> None:
    """And the text is this position."""
    assert json.dumps(POSITION.to_json()) == TEXT
    assert from_json(json.loads(TEXT)) == POSITION
    assert from_json(json.loads(with_more(TEXT))) == POSITION
    bare = RecordsPosition(STREAM, {}, {})
    text = '{"version": 1, "stream": "' + STREAM + '", "shards": {}, "starting": {}, "topics": ""}'
    assert json.dumps(bare.to_json()) == text
    assert from_json(json.loads(text)) == bare
    assert from_json(json.loads(without_each(text)["topics"])) == bare, "older ones lack it"


@pytest.mark.parametrize(
    "found",
    [
        *map(json.loads, without_each(TEXT, "topics").values()),
        {**json.loads(TEXT), "shards": 5},
        {**json.loads(TEXT), "topics": 5},
        {**json.loads(TEXT), "shards": {"x": {"commit": 7, "epoch": EPOCH, "began": 0}}},
        {**json.loads(TEXT), "shards": {"0": {"commit": 7, "epoch": EPOCH}}},
        {**json.loads(TEXT), "shards": {"0": 7}},
        {**json.loads(TEXT), "starting": {"0": {"3": 23}}},
        {**json.loads(TEXT), "starting": {"0/x": {"3": 23}}},
        {**json.loads(TEXT), "starting": {"0/16": {"x": 23}}},
        {**json.loads(TEXT), "starting": {"0/16": 23}},
        {},
        [],
        None,
    ],
)
def test_what_is_no_position_is_refused(found: Any) -> None:
    """Spark's checkpoint may be another source's."""
    with pytest.raises(InvalidValue, match="the checkpoint holds no position of format fairlead"):
        from_json(found)


def test_another_version_is_refused_naming_both_whatever_else_is_there() -> None:
    """Its fields are another matter."""
    with pytest.raises(InvalidValue, match="checkpoint of version 2; this program knows version 1"):
        from_json({"version": 2})


class Answering(HTTPServer):
    """Answers every question with the same bytes."""

    answer: bytes = b""
    status = 200


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.answer)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering(("127.0.0.1", 0), _Handler) as serving:
        thread = Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def client(server: Answering) -> RecordsClient:
    return RecordsClient([f"http://127.0.0.1:{server.server_port}"], "/ships")


def test_a_plan_is_read(server: Answering, client: RecordsClient) -> None:
    """With what a newer server adds passed over."""
    server.answer = json.dumps(
        {
            "cluster": "sanfrancisco",
            "path": "/ships",
            "stream": STREAM,
            "root": "/data/ü",
            "shards": [
                {
                    "shard": 0,
                    "begin": 3,
                    "end": 9,
                    "epochs": [[1, EPOCH, 0, 5], [2, STREAM, 5, None]],
                    "objects": [{"name": "a", "first": 3, "end": 5, "segment": True, "more": 1}],
                    "more": 1,
                }
            ],
        }
    ).encode()
    epochs = (EpochRange(1, bytes.fromhex(EPOCH), 0, 5), EpochRange(2, bytes.fromhex(STREAM), 5, None))
    shard = ShardPlan(0, 3, 9, epochs, (LogObject("a", 3, 5, segment=True),))
    assert client.ends() == StreamPlan(STREAM, "/ships", "/data/ü", (shard,))


def test_topics_names_and_offsets_are_read(server: Answering, client: RecordsClient) -> None:
    """Each by its own answer."""
    server.answer = json.dumps(
        {"topics": [{"name": "t", "shard": 0, "number": 16, "partitions": [[0, 5], [2, 2]], "more": 1}]}
    ).encode()
    assert client.topics(["t"]) == [TopicPlan("t", 0, 16, ((0, 5), (2, 2)))]
    server.answer = b'{"names": [[16, "t"], [17, "u"]], "more": 1}'
    assert client.names(0, [16, 17, 33]) == {16: "t", 17: "u"}
    server.answer = b'{"topics": [{"shard": 0, "number": 16, "offsets": [3, -1]}]}'
    assert client.offsets_at(None, 5) == {(0, 16): [3, -1]}


def test_an_error_is_raised_as_the_server_met_it(server: Answering, client: RecordsClient) -> None:
    """By its code."""
    server.status = 404
    server.answer = b'{"errors": [{"id": 2, "desc": "no /ships here", "code": "unknown_stream"}]}'
    with pytest.raises(UnknownStream, match="no /ships here"):
        client.ends()


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{"])
def test_what_is_no_json_comes_from_another_program(answer: bytes, server: Answering, client: RecordsClient) -> None:
    """And its address is named."""
    server.answer = answer
    with pytest.raises(InvalidValue, match=rf"127\.0\.0\.1:{server.server_port} is not a Fairlead server"):
        client.ends()


def test_an_answer_of_another_shape_is_refused_by_name(server: Answering, client: RecordsClient) -> None:
    """The server may be another version."""
    server.answer = b'{"stream": "", "path": "", "root": "", "shards": [{"shard": 0}]}'
    with pytest.raises(InvalidValue, match=r"is not understood: shards\.0: field 'begin' is missing"):
        client.ends()


@pytest.mark.parametrize("commit", ["7", 7.0, True, None])
def test_a_position_of_other_kinds_is_refused(commit: object) -> None:
    """Before anything is read by it."""
    found = json.loads(TEXT)
    found["shards"]["0"]["commit"] = commit
    with pytest.raises(InvalidValue, match=r"no position of format fairlead: shards\.0\.commit"):
        from_json(found)
