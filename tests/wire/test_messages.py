"""Messages of the link protocol: text and back, and what is said about text that is wrong."""

from __future__ import annotations

import json

import pytest

from fairlead.model.conversation import Kinds, from_json
from fairlead.model.errors import InvalidValue
from fairlead.streamlog.values import EpochRange, GrantRun, LogObject
from fairlead.wire.apply import Applied, ApplyHello, Error, Refused, SlicesAt
from fairlead.wire.control import (
    Announce,
    Done,
    Failed,
    Grant,
    ListObjects,
    Locate,
    Passing,
    PassingWanted,
    Progress,
    ReaderHello,
    ReadReport,
    ReplicatorState,
    TopicName,
    Topics,
    TopicsWanted,
    Withdraw,
    WithdrawRun,
)
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import (
    APPLY_HEARS,
    APPLY_SAYS,
    READER_HEARS,
    READER_SAYS,
    REPLICATOR_SAYS,
    SINK_HEARS,
    SINK_SAYS,
    body_from_json,
    to_json,
)
from fairlead.wire.neighbours import LinkRequest

HERE = StreamPlace("sanfrancisco", "/ships", b"s" * 16, ("http://127.0.0.1:1",))
THERE = StreamPlace("newyork", "/ships", b"d" * 16)

SAMPLES = [
    (ReaderHello("w", 2), READER_SAYS),
    (ListObjects(b"s" * 16, 0, 7), READER_SAYS),
    (TopicsWanted(b"s" * 16, 0, (1, 17)), READER_SAYS),
    (PassingWanted(b"s" * 16, 0, 3, (1, 17)), READER_SAYS),
    (ReadReport(1, {0: 5, 15: 6}, {15: 4}), READER_SAYS),
    (Locate(b"s" * 16, 0, 1, 2, 3), READER_SAYS),
    (Done(4), READER_SAYS),
    (
        Grant(
            1,
            b"l" * 16,
            GrantRun(1, 2),
            HERE,
            0,
            THERE,
            "all",
            "/data",
            "streams/aa/shard-0000",
            {3: 9},
            (EpochRange(1, b"e" * 16, 0, None),),
            12,
        ),
        READER_HEARS,
    ),
    (Announce(b"s" * 16, 0, 12, (LogObject("commit/1", 0, 1, False),)), READER_HEARS),
    (Topics(b"s" * 16, 0, (TopicName(1, b"i" * 16, "t"),)), READER_HEARS),
    (Passing(b"s" * 16, 0, (17,)), READER_HEARS),
    (Withdraw(1, "paused"), READER_HEARS),
    (Progress(b"l" * 16, GrantRun(1, 2), 0, {3: 9}, 1, 2, 3), SINK_SAYS),
    (Failed(b"l" * 16, GrantRun(1, 2), 3, "unreachable", "no answer"), SINK_SAYS),
    (WithdrawRun(b"l" * 16, GrantRun(1, 2), 3), SINK_HEARS),
    (ReplicatorState(b"p" * 16, 1, "failed", 2, "no java found"), REPLICATOR_SAYS),
    (ApplyHello(1, b"l" * 16, GrantRun(1, 2), HERE, b"d" * 16, 3), APPLY_SAYS),
    (Applied(3, (SlicesAt(1, 2),), 4, 5, 6), APPLY_HEARS),
    (Refused(3, 1, 2, "position"), APPLY_HEARS),
    (Error("not_agreed", "run: …"), APPLY_HEARS),
]


@pytest.mark.parametrize(("message", "kinds"), SAMPLES)
def test_a_message_survives_text(message: object, kinds: Kinds) -> None:
    """What was sent is what is received."""
    assert from_json(to_json(message), kinds) == message


def test_a_body_of_http_survives_text() -> None:
    """Bodies have no type and are read by the kind that is expected."""
    request = LinkRequest(b"l" * 16, HERE, "/ships", once=True)
    assert body_from_json(to_json(request), LinkRequest) == request


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"type":"nothing"}', "expected one of done, hello"),
        ('{"type":"done"}', "'grant' is missing"),
        ('{"type":"done","grant":"1"}', "Done.grant"),
        ('{"type":"done","grant":true}', "Done.grant"),
        ('{"type":"done","grant":1,"more":2}', "unknown field 'more'"),
        ('{"type":"read","grant":1,"slices":{"x":1}}', "ReadReport.slices"),
        ('{"type":"locate","source":"zz","shard":0,"number":1,"partition":1,"offset":0}', "Locate.source"),
    ],
)
def test_wrong_text_is_refused_by_name(text: str, words: str) -> None:
    """The error names the message, the field and what is wrong with it."""
    with pytest.raises(InvalidValue, match=words):
        from_json(text, READER_SAYS)


def test_ids_are_hex_and_runs_are_pairs_in_the_text() -> None:
    """The text is readable by people and by other languages."""
    data = json.loads(to_json(WithdrawRun(b"\x01" * 16, GrantRun(3, 4), 0)))
    assert data == {"type": "withdraw", "link": "01" * 16, "run": [3, 4], "shard": 0}
