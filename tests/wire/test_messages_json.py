"""The exact text of every message, and every text that is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.spoiled import NO_OBJECTS, of_bad_hex, of_other_kinds, said_twice, with_more, without_each

from fairlead.model.conversation import Kinds, from_json
from fairlead.model.errors import InvalidValue
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.values import EpochRange, GrantRun, LogObject
from fairlead.wire.apply import Applied, ApplyHello, Error, Ok, Refused, SlicesAt
from fairlead.wire.control import (
    Announce,
    Credit,
    Done,
    Failed,
    Grant,
    KafkaGrant,
    KafkaPartition,
    KafkaReport,
    KafkaStopped,
    LeftWanted,
    LinkEnds,
    LinksActive,
    LinksLeft,
    ListObjects,
    Locate,
    Located,
    Progress,
    ReaderHello,
    ReadReport,
    RepairGrant,
    RepairPartition,
    SinkHello,
    SlicesRefused,
    TopicName,
    Topics,
    TopicsWanted,
    Withdraw,
    WithdrawRun,
)
from fairlead.wire.link_protocol import PROTOCOL, PROTOCOL_OLDEST, StreamPlace
from fairlead.wire.messages import (
    APPLY_HEARS,
    APPLY_SAYS,
    READER_HEARS,
    READER_SAYS,
    REPLICATOR_HEARS,
    REPLICATOR_SAYS,
    SINK_HEARS,
    SINK_SAYS,
    body_from_json,
    check_protocol,
    to_json,
)
from fairlead.wire.neighbours import (
    BehindPartition,
    DeletedTopic,
    GapRange,
    HeldTopic,
    LinkAnswer,
    LinkRequest,
    ServerStart,
    SideCopyEnd,
    SlicesPosition,
    TransferAnswer,
    TransferRequest,
)

LINK, SOURCE, REPLICA, EPOCH, TOPIC = b"\xab" * 16, b"s" * 16, b"d" * 16, b"e" * 16, b"i" * 16
RUN = GrantRun(3, 2**63)
HERE = StreamPlace("sanfrancisco", "/flöte/船", SOURCE, ("http://127.0.0.1:1", "http://[::1]:2"))
THERE = StreamPlace("", "", b"")
EPOCHS = (EpochRange(1, EPOCH, 0, 9), EpochRange(2, EPOCH, 9, None))
OBJECTS = (LogObject("commit/1", 0, 1, False), LogObject("segment/a", 1, 9, True))

TEXT_MORE = '"features":["txn","compact","opaque"],"ext":{}'
TEXT_LINK, TEXT_SOURCE, TEXT_REPLICA = (
    '"link":"' + "ab" * 16 + '"',
    '"source":"' + "73" * 16 + '"',
    '"' + "64" * 16 + '"',
)
TEXT_EPOCH, TEXT_TOPIC, TEXT_RUN = '"' + "65" * 16 + '"', '"' + "69" * 16 + '"', '"run":[3,9223372036854775808]'
TEXT_HERE = (
    '{"cluster":"sanfrancisco","path":"/fl\\u00f6te/\\u8239","stream":"' + "73" * 16 + '",'
    '"urls":["http://127.0.0.1:1","http://[::1]:2"]}'
)
TEXT_THERE = '{"cluster":"","path":"","stream":"","urls":[]}'
TEXT_EPOCHS = (
    f'"epochs":[{{"number":1,"id":{TEXT_EPOCH},"first":0,"end":9}},'
    f'{{"number":2,"id":{TEXT_EPOCH},"first":9,"end":null}}]'
)
TEXT_OBJECTS = (
    '"objects":[{"name":"commit/1","first":0,"end":1,"segment":false},'
    '{"name":"segment/a","first":1,"end":9,"segment":true}]'
)
LOCATED_OBJECTS = TEXT_OBJECTS + ',"end":12,"cuts":[]'

MESSAGES: list[tuple[Kinds, object, str]] = [
    (READER_SAYS, ReaderHello("w", 2), '{"type":"hello","worker":"w","slots":2}'),
    (
        READER_SAYS,
        ListObjects(SOURCE, 0, 2**70),
        f'{{"type":"list",{TEXT_SOURCE},"shard":0,"from_commit":1180591620717411303424}}',
    ),
    (
        READER_SAYS,
        TopicsWanted(SOURCE, 0, (1, 17)),
        f'{{"type":"topics",{TEXT_SOURCE},"shard":0,"numbers":[1,17]}}',
    ),
    (
        READER_SAYS,
        ReadReport(1, {0: 5, 15: 6}, {15: 4}),
        '{"type":"read","grant":1,"slices":{"0":5,"15":6},"emitted":{"15":4}}',
    ),
    (READER_SAYS, ReadReport(1, {}), '{"type":"read","grant":1,"slices":{},"emitted":{}}'),
    (
        READER_SAYS,
        Locate(SOURCE, 0, 1, 2, -3),
        f'{{"type":"locate",{TEXT_SOURCE},"shard":0,"number":1,"partition":2,"offset":-3}}',
    ),
    (READER_SAYS, Done(4), '{"type":"done","grant":4}'),
    (
        READER_HEARS,
        Grant(1, LINK, RUN, HERE, 0, THERE, "all", "/data", "streams/aa", {3: 9}, EPOCHS, 12, 99, 1_700, {3: 10}),
        (
            f'{{"type":"grant","grant":1,{TEXT_LINK},{TEXT_RUN},"source":{TEXT_HERE},"shard":0,"destination":{TEXT_THERE},'
            f'"forward":"all","data_root":"/data","prefix":"streams/aa","slices":{{"3":9}},{TEXT_EPOCHS},"end":12,'
            '"until":99,"created":1700,"read_from":{"3":10},"cursors":"all","filtered":false,"record_end":false,"topic_prefix":"","begin":0}'
        ),
    ),
    (
        READER_HEARS,
        Grant(1, LINK, RUN, HERE, 0, THERE, "own", "/data", "p", {}, (), 0),
        (
            f'{{"type":"grant","grant":1,{TEXT_LINK},{TEXT_RUN},"source":{TEXT_HERE},"shard":0,"destination":{TEXT_THERE},'
            '"forward":"own","data_root":"/data","prefix":"p","slices":{},"epochs":[],"end":0,'
            '"until":null,"created":null,"read_from":{},"cursors":"all","filtered":false,"record_end":false,"topic_prefix":"","begin":0}'
        ),
    ),
    (
        READER_HEARS,
        RepairGrant(
            1, LINK, RUN, HERE, 0, THERE, "all", "/data", "p", (RepairPartition(16, 0, 7, "gap"),), EPOCHS, 12, 5
        ),
        (
            f'{{"type":"repair","grant":1,{TEXT_LINK},{TEXT_RUN},"source":{TEXT_HERE},"shard":0,"destination":{TEXT_THERE},'
            '"forward":"all","data_root":"/data","prefix":"p",'
            '"partitions":[{"number":16,"partition":0,"end":7,"reason":"gap"}],'
            f'{TEXT_EPOCHS},"end":12,"created":5,"cursors":"all","topic_prefix":"","begin":0}}'
        ),
    ),
    (
        READER_HEARS,
        KafkaGrant(
            *(1, LINK, RUN, HERE, "the-one", THERE, "/etc/old.properties", {3: 4}),
            (KafkaPartition(19, "t", SOURCE, 2, 7, -1, 0),),
        ),
        (
            f'{{"type":"kafka","grant":1,{TEXT_LINK},{TEXT_RUN},"source":{TEXT_HERE},"kafka_cluster":"the-one",'
            f'"destination":{TEXT_THERE},"config_file":"/etc/old.properties","slices":{{"3":4}},"partitions":'
            f'[{{"number":19,"topic":"t","topic_id":"{SOURCE.hex()}","partition":2,"end":7,"epoch":-1,"topic_epoch":0}}]}}'
        ),
    ),
    (
        READER_SAYS,
        KafkaReport(1, "no broker answers", (KafkaStopped(SOURCE, 2, "gone", True),)),
        (
            '{"type":"kafka","grant":1,"waits_for":"no broker answers",'
            f'"stopped":[{{"topic_id":"{SOURCE.hex()}","partition":2,"why":"gone","parted":true}}]}}'
        ),
    ),
    (
        READER_HEARS,
        Announce(SOURCE, 0, 12, OBJECTS, cuts=((1, 2, 30, 11, 0),)),
        f'{{"type":"announce",{TEXT_SOURCE},"shard":0,"end":12,{TEXT_OBJECTS},"reset":false,"cuts":[[1,2,30,11,0]]}}',
    ),
    (
        READER_HEARS,
        Topics(SOURCE, 0, (TopicName(1, TOPIC, 'a"b\\c'),)),
        (
            f'{{"type":"topics",{TEXT_SOURCE},"shard":0,'
            f'"topics":[{{"number":1,"incarnation":{TEXT_TOPIC},"name":"a\\"b\\\\c"}}]}}'
        ),
    ),
    (
        READER_HEARS,
        Located(SOURCE, 0, 1, 2, 3, OBJECTS, 12),
        f'{{"type":"located",{TEXT_SOURCE},"shard":0,"number":1,"partition":2,"offset":3,{LOCATED_OBJECTS}}}',
    ),
    (READER_HEARS, Withdraw(1, "paused"), '{"type":"withdraw","grant":1,"reason":"paused"}'),
    (READER_HEARS, Credit(1, 2, 3), '{"type":"credit","grant":1,"frames":2,"size_bytes":3}'),
    (SINK_SAYS, SinkHello("w"), '{"type":"hello","worker":"w"}'),
    (
        SINK_SAYS,
        Progress(LINK, RUN, 0, {3: 9}, 1, 2, 3),
        (
            f'{{"type":"progress",{TEXT_LINK},{TEXT_RUN},"shard":0,"slices":{{"3":9}},'
            '"frames":1,"records":2,"size_bytes":3,"behind":0,"duplicates":0}'
        ),
    ),
    (
        SINK_SAYS,
        Failed(LINK, RUN, 3, "unreachable", "no\nanswer \U0001f6a2"),
        (
            f'{{"type":"failed",{TEXT_LINK},{TEXT_RUN},"shard":3,"reason":"unreachable",'
            '"message":"no\\nanswer \\ud83d\\udea2"}'
        ),
    ),
    (
        SINK_SAYS,
        SlicesRefused(LINK, RUN, 0, 1, 2),
        f'{{"type":"refused",{TEXT_LINK},{TEXT_RUN},"shard":0,"slices":1,"position":2}}',
    ),
    (SINK_HEARS, WithdrawRun(LINK, RUN, 3), f'{{"type":"withdraw",{TEXT_LINK},{TEXT_RUN},"shard":3}}'),
    (REPLICATOR_HEARS, LinksActive(2, 1), '{"type":"links","links":2,"waiting":1}'),
    (
        REPLICATOR_HEARS,
        LinksLeft((LinkEnds(LINK, (7, 8)),), 1, 4, 0),
        f'{{"type":"left","ends":[{{{TEXT_LINK},"ends":[7,8]}}],"links":1,"commits":4,"partitions":0}}',
    ),
    (REPLICATOR_SAYS, LeftWanted(None), '{"type":"left","since":null}'),
    (
        REPLICATOR_SAYS,
        LeftWanted((LinkEnds(LINK, (7,)),)),
        f'{{"type":"left","since":[{{{TEXT_LINK},"ends":[7]}}]}}',
    ),
    (
        APPLY_SAYS,
        ApplyHello(1, LINK, RUN, HERE, REPLICA, 3),
        (
            f'{{"type":"hello","protocol":1,{TEXT_LINK},{TEXT_RUN},"source":{TEXT_HERE},'
            f'"destination":{TEXT_REPLICA},"shard":3,{TEXT_MORE},"topic_prefix":""}}'
        ),
    ),
    (APPLY_HEARS, Ok(1 << 24), f'{{"type":"ok","window_bytes":16777216,{TEXT_MORE}}}'),
    (
        APPLY_HEARS,
        Error("moved", "run: …", ("http://c:1",)),
        '{"type":"error","code":"moved","message":"run: \\u2026","urls":["http://c:1"]}',
    ),
    (
        APPLY_HEARS,
        Applied(3, (SlicesAt(1, 2),), 4, 5, 6),
        ('{"type":"applied","through":3,"slices":[{"slices":1,"commit":2}],"records":4,"duplicates":5,"behind":6}'),
    ),
    (
        APPLY_HEARS,
        Refused(3, 1, 2, "from"),
        '{"type":"refused","frame":3,"slices":1,"position":2,"reason":"from"}',
    ),
]

ANSWER = LinkAnswer("newyork", "/ships", REPLICA, (), (), 0, 0, (), 0)
BODIES: list[tuple[object, str]] = [
    (
        LinkRequest(LINK, HERE, "/ships", once=True),
        f'{{{TEXT_LINK},"source":{TEXT_HERE},"path":"/ships","once":true,"protocol":5,{TEXT_MORE}}}',
    ),
    (
        LinkAnswer(
            "newyork",
            "/ships",
            REPLICA,
            (SlicesPosition(0, 1, 2, EPOCH, RUN),),
            (BehindPartition("t", TOPIC, 0, 7, "gap"),),
            1,
            0,
            (GapRange("t", 0, 3, 4, "ttl"),),
            1,
            (DeletedTopic("u", TOPIC),),
            (TopicPayload("o", TOPIC, 1, REPLICA, 7, 2, {}, "o", "/mapr/newyork/ships", ((5, ((0, 0),)),)),),
            {1: ("http://c:1",)},
        ),
        (
            f'{{"cluster":"newyork","path":"/ships","stream":{TEXT_REPLICA},'
            f'"positions":[{{"shard":0,"slices":1,"commit":2,"epoch_id":{TEXT_EPOCH},{TEXT_RUN}}}],'
            f'"behind":[{{"topic":"t","incarnation":{TEXT_TOPIC},"partition":0,"end":7,"reason":"gap"}}],'
            '"behind_total":1,"conflicts_total":0,'
            '"gaps":[{"topic":"t","partition":0,"start":3,"end":4,"reason":"ttl"}],"gaps_total":1,'
            f'"deleted":[{{"topic":"u","incarnation":{TEXT_TOPIC}}}],'
            f'"superseded":[{{"name":"o","incarnation":{TEXT_TOPIC},"partitions":1,"owner":{TEXT_REPLICA},"epoch":7,'
            '"version":2,"configs":{},"home":"o","owner_at":"/mapr/newyork/ships","since":[[5,[[0,0]]]],'
            '"deleted_to":[],"ext":{}}],'
            f'"urls":{{"1":["http://c:1"]}},{TEXT_MORE},"superseded_records":0}}'
        ),
    ),
    (
        TransferRequest(LinkRequest(LINK, HERE, "/ships"), (TOPIC,)),
        (
            f'{{"contact":{{{TEXT_LINK},"source":{TEXT_HERE},"path":"/ships","once":false,"protocol":5,{TEXT_MORE}}},'
            f'"incarnations":[{TEXT_TOPIC}]}}'
        ),
    ),
    (
        TransferAnswer("newyork", REPLICA, "", (HeldTopic(held=True, ends=7, conflict="conflict: x"),)),
        (
            f'{{"cluster":"newyork","stream":{TEXT_REPLICA},"way_back":"",'
            '"topics":[{"held":true,"ends":7,"conflict":"conflict: x","epoch":0}],"refuses":""}'
        ),
    ),
    (ServerStart(EPOCH, 3), f'{{"start":{TEXT_EPOCH},"resolved":3}}'),
]

DEFAULTS = {
    "cursors",
    "cuts",
    "emitted",
    "deleted",
    "superseded",
    "until",
    "created",
    "read_from",
    "filtered",
    "record_end",
    "topic_prefix",
    "begin",
    "reset",
    "frames",
    "records",
    "size_bytes",
    "behind",
    "duplicates",
    "once",
    "protocol",
    "urls",
    "features",
    "ext",
}
NAMES = [type(message).__name__ for _, message, _ in MESSAGES]


@pytest.mark.parametrize(("kinds", "message", "text"), MESSAGES, ids=NAMES)
def test_a_message_is_this_text(kinds: Kinds, message: object, text: str) -> None:
    """Byte for byte; and the text is this message."""
    assert to_json(message) == text
    assert from_json(text, kinds) == message
    assert from_json(text.encode(), kinds) == message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (replace(ANSWER, positions=(SlicesPosition(-9, 1, 2, EPOCH, RUN),)), "positions.0.shard"),
        (replace(ANSWER, positions=(SlicesPosition(0, 1, -1, EPOCH, RUN),)), "positions.0.commit"),
        (replace(ANSWER, behind=(BehindPartition("t", TOPIC, -1, 7, "gap"),)), "behind.0.partition"),
        (replace(ANSWER, behind=(BehindPartition("t", TOPIC, 0, -7, "gap"),)), "behind.0.end"),
        (SideCopyEnd(LinkRequest(LINK, HERE, "/ships"), LINK, LINK, (), ()), "until"),
        (SideCopyEnd(LinkRequest(LINK, HERE, "/ships"), LINK, LINK, (-1,), (EPOCH,)), "until.0"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_name(body: Any, field: str) -> None:
    """A stranger says it; the one who hears it counts on it."""
    with pytest.raises(InvalidValue, match=rf"{type(body).__name__}\.{field}: "):
        body_from_json(to_json(body).encode(), type(body))


@pytest.mark.parametrize(("body", "text"), BODIES, ids=lambda value: type(value).__name__)
def test_a_body_is_this_text(body: object, text: str) -> None:
    """Without a type."""
    assert to_json(body) == text
    assert body_from_json(text, type(body)) == body


@pytest.mark.parametrize(("kinds", "message", "text"), MESSAGES, ids=NAMES)
def test_a_value_of_another_kind_is_refused(kinds: Kinds, message: object, text: str) -> None:
    """A bool is no int, and neither are 1.0 and "1"; nothing is null that may not be."""
    for said, wrong in (of_other_kinds(text, "until", "created", "epochs.0.end", "since") | of_bad_hex(text)).items():
        with pytest.raises(InvalidValue):
            raise AssertionError(f"{said} was read as {from_json(wrong, kinds)}")


@pytest.mark.parametrize(("body", "text"), BODIES, ids=lambda value: type(value).__name__)
def test_a_value_of_another_kind_in_a_body_is_refused(body: object, text: str) -> None:
    """As in a message."""
    for said, wrong in (of_other_kinds(text) | of_bad_hex(text)).items():
        with pytest.raises(InvalidValue):
            raise AssertionError(f"{said} was read as {body_from_json(wrong, type(body))}")


@pytest.mark.parametrize(("kinds", "message", "text"), MESSAGES, ids=NAMES)
def test_a_missing_field_is_refused_by_name(kinds: Kinds, message: object, text: str) -> None:
    """One that has a default may be missing."""
    name = type(message).__name__
    for field, shorter in without_each(text, "type", *DEFAULTS - {"slices"}).items():
        if (name, field) in {("Credit", "frames"), ("Credit", "size_bytes"), ("Applied", "records")}:
            continue
        with pytest.raises(InvalidValue, match=f"{name}: field '{field}' is missing"):
            from_json(shorter, kinds)
    with pytest.raises(InvalidValue, match="message of type None: expected one of "):
        from_json(without_each(text)["type"], kinds)


@pytest.mark.parametrize(("kinds", "message", "text"), MESSAGES, ids=NAMES)
def test_an_unknown_field_is_refused_by_name(kinds: Kinds, message: object, text: str) -> None:
    """The other side may be a newer version, whose field may mean much."""
    expected = f"{type(message).__name__}: unknown field 'more'; is the other side a newer version?"
    with pytest.raises(InvalidValue, match=expected.replace("?", r"\?")):
        from_json(with_more(text), kinds)


def test_fields_with_a_default_may_be_missing() -> None:
    """An older version did not know them."""
    data = json.loads(MESSAGES[8][2])
    shorter = json.dumps({name: value for name, value in data.items() if name not in DEFAULTS})
    assert from_json(shorter, READER_HEARS) == MESSAGES[8][1]
    request = json.dumps({n: v for n, v in json.loads(BODIES[0][1]).items() if n not in DEFAULTS})
    assert body_from_json(request, LinkRequest) == LinkRequest(LINK, HERE, "/ships")


@pytest.mark.parametrize("text", NO_OBJECTS)
def test_what_is_no_object_is_refused(text: str) -> None:
    """As a message and as a body."""
    with pytest.raises(InvalidValue, match=r"message is not (JSON|a JSON object)"):
        from_json(text, READER_SAYS)
    with pytest.raises(InvalidValue, match=r"message is not (JSON|a JSON object)"):
        body_from_json(text, LinkRequest)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"type":"nothing"}',
            "message of type 'nothing': expected one of done, hello, kafka, list, locate, passing, read, topics",
        ),
        ('{"type":"grant","grant":1}', "message of type 'grant': expected one of done, hello, kafka, list"),
        ('{"type":5}', "expected one of done"),
        ('{"type":null}', "expected one of done"),
        ('{"type":"done","grant":NaN}', r"Done\.grant"),
        ('{"type":"done","grant":Infinity}', r"Done\.grant"),
        ('{"type":"done","grant":1e3}', r"Done\.grant"),
        ('{"type":"read","grant":1,"slices":{"x":1}}', r"ReadReport\.slices"),
        ('{"type":"read","grant":1,"slices":{"1.5":1}}', r"ReadReport\.slices"),
        ('{"type":"read","grant":1,"slices":{"1":true}}', r"ReadReport\.slices"),
        ("[" * 100_000, "message is not JSON"),
        ('{"type":"done","grant":' + "[" * 100_000, "message is not JSON"),
        ('{"type":"done","grant":1' + "0" * 5_000 + "}", "message is not JSON"),
    ],
)
def test_wrong_text_is_refused_by_name(text: str, words: str) -> None:
    """The error names the message, the field and what is wrong with it."""
    with pytest.raises(InvalidValue, match=words) as refused:
        from_json(text, READER_SAYS)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("run", ["[]", "[1]", "[1,2,3]", '{"epoch":1,"counter":2}', '"12"', "null", "[1,true]"])
def test_a_run_is_a_pair_of_numbers(run: str) -> None:
    """And nothing else."""
    with pytest.raises(InvalidValue, match=r"WithdrawRun\.run"):
        from_json(f'{{"type":"withdraw",{TEXT_LINK},"run":{run}}}', SINK_HEARS)


def test_what_is_wrong_within_a_message_is_named() -> None:
    """However deep it lies."""
    text = MESSAGES[7][2].replace('"cluster":"sanfrancisco",', "")
    with pytest.raises(InvalidValue, match="field 'cluster' is missing"):
        from_json(text, READER_HEARS)


def test_of_a_field_that_stands_twice_the_last_counts() -> None:
    """As everywhere in JSON."""
    assert from_json(said_twice('{"type":"done","grant":4}', "grant", "x"), READER_SAYS) == Done(4)


def test_ids_may_be_in_upper_case_and_spaces_stand_anywhere_in_the_text() -> None:
    """Other languages write hex and JSON their own way."""
    text = '\n{ "source": "' + "7A" * 16 + '", "numbers": [ ],\t"shard":0, "type":"topics" } '
    assert from_json(text, READER_SAYS) == TopicsWanted(b"z" * 16, 0, ())


@pytest.mark.parametrize("root", ["/data/\udcff", "/flöte/\udcc3", "\udc80", "C:\\x41"])
def test_a_directory_may_have_any_name(root: str) -> None:
    """Also one that is no text."""
    grant = Grant(1, LINK, RUN, HERE, 0, THERE, "all", root, "p", {}, (), 0)
    assert from_json(to_json(grant), READER_HEARS) == grant


def test_what_is_said_to_people_may_name_such_a_directory() -> None:
    """By an escape."""
    text = to_json(Error("storage_unavailable", "/data/\udcff: gone"))
    assert from_json(text, APPLY_HEARS) == Error("storage_unavailable", "/data/\\udcff: gone")


@pytest.mark.parametrize("version", [0, PROTOCOL_OLDEST - 1, PROTOCOL + 1, "5", True, None, 5.0])
def test_another_version_is_refused_naming_both_whatever_else_it_says(version: object) -> None:
    """Its fields are another matter: a newer source would only be told of the first one that is not known here."""
    with pytest.raises(InvalidValue, match=f"speaks version .* of the link protocol, this gateway {PROTOCOL}"):
        check_protocol(json.dumps({"protocol": version, "later": 1}))
    check_protocol(json.dumps({"protocol": PROTOCOL, "later": 1}))
