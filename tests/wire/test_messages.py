"""Messages of the link protocol: text and back, and what is said about text that is wrong."""

from __future__ import annotations

import json

import pytest

from fairlead.model.errors import InvalidValue
from fairlead.streamlog.values import EpochRange, GrantRun, LogObject
from fairlead.wire import messages as m

HERE = m.StreamPlace("sanfrancisco", "/ships", b"s" * 16, ("http://127.0.0.1:1",))
THERE = m.StreamPlace("newyork", "/ships", b"d" * 16)

SAMPLES = [
    (m.ReaderHello("w", 2), m.READER_SAYS),
    (m.ListObjects(b"s" * 16, 0, 7), m.READER_SAYS),
    (m.TopicsWanted(b"s" * 16, 0, (1, 17)), m.READER_SAYS),
    (m.ReadReport(1, {0: 5, 15: 6}, {15: 4}), m.READER_SAYS),
    (m.Locate(b"s" * 16, 0, 1, 2, 3), m.READER_SAYS),
    (m.Done(4), m.READER_SAYS),
    (
        m.Grant(
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
        m.READER_HEARS,
    ),
    (m.Announce(b"s" * 16, 0, 12, (LogObject("commit/1", 0, 1, False),)), m.READER_HEARS),
    (m.Topics(b"s" * 16, 0, (m.TopicName(1, b"i" * 16, "t"),)), m.READER_HEARS),
    (m.Withdraw(1, "paused"), m.READER_HEARS),
    (m.Progress(b"l" * 16, GrantRun(1, 2), 0, {3: 9}, 1, 2, 3), m.SINK_SAYS),
    (m.Failed(b"l" * 16, GrantRun(1, 2), 3, "unreachable", "no answer"), m.SINK_SAYS),
    (m.WithdrawRun(b"l" * 16, GrantRun(1, 2), 3), m.SINK_HEARS),
    (m.ReplicatorState(b"p" * 16, 1, "failed", 2, "no java found"), m.REPLICATOR_SAYS),
    (m.ApplyHello(1, b"l" * 16, GrantRun(1, 2), HERE, b"d" * 16, 3), m.APPLY_SAYS),
    (m.Applied(3, (m.SlicesAt(1, 2),), 4, 5, 6), m.APPLY_HEARS),
    (m.Refused(3, 1, 2, "position"), m.APPLY_HEARS),
    (m.Error("not_agreed", "run: …"), m.APPLY_HEARS),
]


@pytest.mark.parametrize(("message", "kinds"), SAMPLES)
def test_a_message_survives_text(message: object, kinds: m.Kinds) -> None:
    """What was sent is what is received."""
    assert m.from_json(m.to_json(message), kinds) == message


def test_a_body_of_http_survives_text() -> None:
    """Bodies have no type and are read by the kind that is expected."""
    request = m.LinkRequest(b"l" * 16, HERE, "/ships", once=True)
    assert m.body_from_json(m.to_json(request), m.LinkRequest) == request


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
        m.from_json(text, m.READER_SAYS)


def test_ids_are_hex_and_runs_are_pairs_in_the_text() -> None:
    """The text is readable by people and by other languages."""
    data = json.loads(m.to_json(m.WithdrawRun(b"\x01" * 16, GrantRun(3, 4), 0)))
    assert data == {"type": "withdraw", "link": "01" * 16, "run": [3, 4], "shard": 0}
