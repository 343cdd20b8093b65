"""Rows of kinds that this program does not know are kept and passed on; what belongs to a topic goes with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.streamlog.world import (
    SETTINGS,
    SeededRandomness,
    applied,
    committed,
    frame,
    fresh,
    installed,
    made,
    opened,
    produced,
    repair_frame,
    replicated,
    rows_of,
)

from fairlead.model.errors import CorruptBatch, NotAllowed
from fairlead.model.names import SLICES, slice_of
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.payloads import StatePayload
from fairlead.streamlog.requests.topics import delete_topic
from fairlead.streamlog.rows import KEPT_KINDS, LOCAL_KINDS, NO_TOPIC, NO_TOPIC_SENT, PASSED_ON_KINDS, Kind, Row
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.writer import ShardLog

A, B, C, D = (letter * 16 for letter in (b"a", b"b", b"c", b"d"))
SMALL = replace(SETTINGS, merge_commits_min=1)
LATER = 100
"""A kind that a later program brings."""
LATER_LOCAL = 70


def said(key: str, n: int = 1, **more: Any) -> bytes:
    """The payload of such a row, with fields of its own."""
    fields = "".join(f',"{name}":{value}' for name, value in more.items())
    return f'{{"v":7,"k":"{key}","n":{n}{fields},"x":[1]}}'.encode()


def put(log: ShardLog, data: bytes, number: int, kind: int = LATER, partition: int = -1) -> None:
    origin = None if kind in LOCAL_KINDS else log.announced.state.stream_id
    committed(log, lambda d: d.add_control(kind, data, number=number, partition=partition, origin=origin))


def kept(log: ShardLog) -> list[tuple[int, int, bytes]]:
    """(kind, partition, payload) of the rows in the log."""
    return [(row.kind, row.partition, bytes(row.batch)) for row in rows_of(log) if row.kind in KEPT_KINDS]


def held(log: ShardLog) -> list[bytes]:
    """What the state holds, which is what a start and a checkpoint give."""
    state = log.announced.state
    copy = MemoryStorage()
    assert isinstance(log.announced.storage, MemoryStorage)
    copy.replace(log.announced.storage.snapshot())
    again = opened(copy, state.stream_id).announced.state
    loaded = snapshot.load(state.stream_id, *snapshot.dump(state))
    found = [sorted(kept.data for _, _, kept in each.kept_rows.items()) for each in (state, again, loaded)]
    assert found[0] == found[1] == found[2]
    return found[0]


def merged(log: ShardLog) -> None:
    """All commits in segments."""
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))


def two_sites() -> tuple[ShardLog, ShardLog, Topic]:
    a, b = fresh(A, settings=SMALL), fresh(B, settings=SMALL)
    return a, b, made(a, partitions=2)


@pytest.mark.parametrize("kind", [LATER, Kind.TXN, Kind.COMPACTED])
def test_a_third_site_gets_rows_that_the_middle_one_does_not_know(kind: int) -> None:
    """Of a topic, of a partition, of no topic: byte for byte. Without that a site that is upgraded last would keep
    those behind it without them, for the position passes such rows. Each row comes once, whatever is sent again."""
    a, b, topic = two_sites()
    c = fresh(C)
    nowhere = NO_TOPIC_SENT + 5
    for data, number, partition in (
        (said("t"), topic.number, -1),
        (said("p"), topic.number, 1),
        (said("s"), nowhere, -1),
    ):
        put(a, data, number, kind, partition)
    for log, sender in ((b, a), (c, b)):
        replicated(sender, log)
        for slice in range(SLICES):
            applied(log, frame(sender, log.announced.state.stream_id, slice, 0))
        assert sorted(kept(log)) == sorted(kept(a))
        assert len(held(log)) == 3
        assert check_all(log.announced.storage) == []
    assert {row.via for row in rows_of(c) if row.kind == kind} == {B}
    assert {row.origin for row in rows_of(c) if row.kind == kind} == {A}


def test_of_two_rows_of_a_key_the_one_with_the_larger_number_counts() -> None:
    """They come by two ways, and one of them is slow: otherwise two sites could tell each other the two for ever."""
    a, b, topic = two_sites()
    c = fresh(C)
    put(a, said("k", 1), topic.number)
    slow = frame(a, C, slice_of("ships"), 0)
    put(a, said("k", 2, gone="true"), topic.number)
    replicated(a, b)
    replicated(b, c)
    applied(c, replace(slow, link=b"m" * 16))
    assert [data for _, _, data in kept(c)] == [said("k", 1), said("k", 2, gone="true")]
    assert held(c) == [said("k", 2, gone="true")]


def test_a_merge_leaves_the_newest_row_of_each_key() -> None:
    """By kind, topic, partition and key; a local key that holds nothing any more leaves none, and one that is sent
    leaves the row that says so."""
    log = fresh(A, settings=SMALL)
    topic = made(log, partitions=2)
    for n in (1, 2):
        for kind in (LATER, LATER + 1, LATER_LOCAL):
            put(log, said("k", n), topic.number, kind)
        put(log, said("k", n), topic.number, partition=1)
        put(log, said("k", n), NO_TOPIC_SENT + 3)
        put(log, said("k", n), NO_TOPIC, LATER_LOCAL)
        put(log, payloads.encode(StatePayload("claim", n)), topic.number, Kind.STATE)
    put(log, said("k", 3, gone="true"), topic.number, LATER + 1)
    put(log, said("k", 3, gone="true"), NO_TOPIC, LATER_LOCAL)
    before = held(log)
    merged(log)
    assert [row.batch for row in rows_of(log) if row.kind == Kind.STATE] == [b'{"v":3,"key":"claim","value":2}']
    left = kept(log)
    assert sorted(data for _, _, data in left) == before == [said("k", 2)] * 4 + [said("k", 3, gone="true")]
    assert held(log) == before


def test_what_belongs_to_a_topic_goes_with_it() -> None:
    """Its rows of kinds that are not known, and its own states, which no link sends."""
    a, b, topic = two_sites()
    put(a, said("k"), topic.number)
    put(a, said("k"), NO_TOPIC_SENT + 3)
    for value in ({"to": 7}, {"to": 8}):
        put(a, payloads.encode(StatePayload("claim", value)), topic.number, Kind.STATE)
    replicated(a, b)
    assert not [row for row in rows_of(b) if row.kind == Kind.STATE]
    a = opened(a.announced.storage, A, settings=SMALL)
    loaded = snapshot.load(A, *snapshot.dump(a.announced.state))
    assert [s.topic_state(topic.number, "claim") for s in (a.announced.state, loaded)] == [{"to": 8}] * 2
    committed(a, lambda d: delete_topic(d, "ships"))
    replicated(a, b)
    for log in (a, b):
        assert held(log) == [said("k")]
        assert log.announced.state.topic_state(topic.number, "claim") is None
        merged(log)
    left = [row for row in rows_of(a) if row.topic == topic.number]
    assert [row.kind for row in left] == [Kind.TOPIC_DELETED]


def test_a_repair_brings_what_could_not_be_kept() -> None:
    """The topic was not here when the row came."""
    a, b, topic = two_sites()
    produced(a, topic.number, b"1")
    put(a, said("k"), topic.number)
    put(a, said("p"), topic.number, partition=0)
    f = frame(a, B, slice_of("ships"), 0)
    assert applied(b, replace(f, rows=[row for row in f.rows if row.kind == LATER]))[0].behind == 2
    applied(b, repair_frame(a, B, topic.number, 0, 0))
    assert held(b) == sorted([said("k"), said("p")])
    assert not b.announced.state.behind(b"l" * 16)


def hostile(data: bytes, number: int, partition: int = -1) -> Row:
    a, _, topic = two_sites()
    put(a, said("k"), topic.number)
    row = next(row for row in rows_of(a) if row.kind == LATER)
    return row._replace(batch=data, topic=topic.number if number < 0 else number, partition=partition)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"v":1}', b'{"v":1,"k":2}', b'{"v":-1,"k":"k"}', b'{"v":1,"k":"k","n":-1}']
)
def test_a_row_that_says_no_key_is_refused(data: bytes) -> None:
    """Of a topic it is noted, and the others go on; of no topic the frame is refused, or the position would pass it."""
    with pytest.raises(CorruptBatch, match="kind 100 row cannot be read"):
        payloads.decode_kept(data, LATER)
    a, b, _ = two_sites()
    f = frame(a, B, slice_of("ships"), 0)
    assert applied(b, replace(f, rows=[*f.rows, hostile(data, -1)]))[0].behind == 1
    with pytest.raises(CorruptBatch, match="kind 100 row cannot be read"):
        applied(b, replace(f, rows=[hostile(data, NO_TOPIC_SENT + 1)]))
    assert not kept(b)


def test_rows_of_other_kinds_are_refused_with_their_frame() -> None:
    """Local ones, and those between: nobody says how they would be kept."""
    a, b, _ = two_sites()
    f = frame(a, B, slice_of("ships"), 0)
    for kind in (LATER_LOCAL, 63, 128, 15, Kind.STATE):
        with pytest.raises(CorruptBatch, match=f"applies no rows of kind {int(kind)}"):
            applied(b, replace(f, rows=[hostile(said("k"), -1)._replace(kind=kind)]))


def test_a_partner_speaks_for_its_own_topics_and_fills_no_memory() -> None:
    """As with its topics."""
    a, b, topic = two_sites()
    replicated(a, b)
    for key in "xyz":
        put(a, said(key), topic.number)
    f = frame(a, B, slice_of("ships"), 0)
    stranger, few = Admission(origins=frozenset({C})), Admission(origins=frozenset({A}), topics_max=2)
    nowhere = replace(f, rows=[hostile(said("k"), NO_TOPIC_SENT + 1)])
    assert committed(b, lambda d: apply_frame(d, nowhere, stranger))[0].result().conflicts == 0
    with pytest.raises(NotAllowed, match="3 rows of kinds that are not known here in a shard, 2 are allowed"):
        committed(b, lambda d: apply_frame(d, f, few))[0].result()
    assert held(b) == []
    assert committed(b, lambda d: apply_frame(d, f, stranger))[0].result().conflicts == 4
    assert held(b) == []


def test_the_kinds_that_are_kept_are_sent_or_local() -> None:
    """None is forgotten in the one set or the other."""
    assert PASSED_ON_KINDS.isdisjoint(LOCAL_KINDS)
    assert KEPT_KINDS - LOCAL_KINDS == PASSED_ON_KINDS
