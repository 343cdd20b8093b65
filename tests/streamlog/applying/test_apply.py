"""The apply table: each case of `docs/formats/apply.md`, and the runs F3, F6, S3, S4, S8, S11 and S16 that made it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.streamlog.world import (
    START_MS,
    FakeClock,
    applied,
    batch_of,
    committed,
    frame,
    fresh,
    made,
    masked_frame,
    opened,
    produced,
    repair_frame,
    replicated,
    rows_of,
    values_at,
)
from tests.support.batches import changed
from tests.support.rows import said_of

from fairlead.model.errors import CorruptBatch, InvalidValue, NotAllowed
from fairlead.model.names import slice_of
from fairlead.protocol.batch import CONTROL, CRC_AT, TRANSACTIONAL, build_batch, check_produced, set_offset
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.frame import forget_link
from fairlead.streamlog.frames.frame import FrameTopic
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.numbers import mask_of, slices_of_mask
from fairlead.streamlog.payloads import BEGINS_HERE, FROM_NOW, BehindPayload, History, StartPayload
from fairlead.streamlog.requests.produce import produce
from fairlead.streamlog.requests.topics import (
    create_topic,
    delete_topic,
    put_topic,
    rename_topic,
    set_configs,
    set_partitions,
    take_again,
)
from fairlead.streamlog.rows import HOLE, REWRITTEN, Kind, Row
from fairlead.streamlog.values import NO_NAME_HERE, GrantRun, Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.writer import ShardLog

A, B, C, D = (letter * 16 for letter in (b"a", b"b", b"c", b"d"))
LINK = b"l" * 16


def test_a_replica_has_the_same_record_at_the_same_offset() -> None:
    """Case 3 of the table, P = E = base: appended; topic, owner and epochs are the source's."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1", b"2")
    produced(a, topic.number, b"3")
    replicated(a, b)
    copy = b.announced.state.by_incarnation(topic.incarnation)
    assert copy is not None
    assert (copy.name, copy.owner) == ("ships", A)
    assert values_at(b, copy.number) == {0: b"1", 1: b"2", 2: b"3"}
    assert {row.via for row in rows_of(b) if row.kind == Kind.BATCH} == {A}


def test_a_replica_takes_what_no_producer_may_send_here() -> None:
    """Control batches, those of transactions, and such as compaction has left with fewer records than offsets; what was
    applied is served from the disk too, and `fsck` finds nothing wrong."""
    a, b = fresh(A), fresh(B)
    number = made(a).number
    three, two = batch_of(b"1", b"2", b"3"), batch_of(b"1", b"2")
    batches = (
        changed(three, attributes=TRANSACTIONAL),
        changed(three, attributes=CONTROL),
        changed(two, last_offset_delta=2),
    )
    for base, batch in zip((0, 3, 6), batches, strict=True):
        with pytest.raises(CorruptBatch):
            check_produced(batch)
        said = dict(zip(("records", "bits", "crc"), said_of(batch), strict=True))
        put = partial(Draft.add_batch, batch=set_offset(batch, base, 0), origin=A, via=None, max_timestamp=0)
        committed(a, partial(put, **said, number=number, partition=0, base_offset=base, last_offset=base + 2, epoch=0))
    replicated(a, b)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == dict(enumerate([b"1", b"2", b"3"] * 2 + [b"1", b"2"]))
    assert check_all(b.announced.storage) == []


def test_a_replica_remembers_producers_and_no_control_batch_changes_that() -> None:
    """Whoever takes the topic over answers a retry as its owner would have: also after a start from merged rows. The
    batch that ends a transaction has no sequence number, and takes none."""
    a, b = fresh(A), fresh(B)
    number = made(a).number
    for sequence in (0, 1):
        batch = check_produced(batch_of(b"x", producer_id=7, epoch=0, sequence=sequence))
        committed(a, lambda d, batch=batch: produce(d, number, 0, batch))  # type: ignore[misc]
    marker = set_offset(changed(batch_of(b"end", producer_id=7, epoch=0), attributes=CONTROL | TRANSACTIONAL), 2, 0)
    said = dict(zip(("records", "bits", "crc"), said_of(bytes(marker)), strict=True))
    committed(a, lambda d: d.add_batch(number, 0, 2, 2, 0, A, None, 0, marker, **said))
    replicated(a, b)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    for state in (a.announced.state, b.announced.state, opened(b.announced.storage, B).announced.state):
        known = state.producer(copy.number, 0, 7)
        assert known is not None
        assert [each.first_sequence for each in known.batches] == [0, 1]


def compacted(row: Row) -> Row:
    """The row once its log was compacted at its site: its first record is left, at its offset."""
    batch = changed(build_batch([(None, b"1")]), last_offset_delta=row.last_offset - row.base_offset)
    batch = bytes(set_offset(batch, row.base_offset, 0))
    return row._replace(batch=batch, records=1, bits=row.bits | REWRITTEN)


def test_a_batch_that_was_rewritten_is_still_the_one_that_its_owner_wrote() -> None:
    """Compaction works at each site by itself. Its row keeps the CRC of the batch as it was: no conflict where another
    site has that, in memory or on the disk. Where it comes first, it counts as many records as it has."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    produced(a, made(a).number, b"1", b"2", b"3")
    replicated(a, b)
    f = frame(a, B, slice_of("ships"), 0)
    rewritten = replace(f, rows=[f.rows[0], compacted(f.rows[1])])
    for log in (b, opened(b.announced.storage, B)):
        answer = applied(log, rewritten)[0]
        assert (answer.duplicates, answer.behind, answer.conflicts) == (1, 0, 0)
    assert applied(c, rewritten)[0].appended == 1
    answer = applied(c, f)[0]
    assert (answer.duplicates, answer.behind, answer.conflicts) == (3, 0, 0)
    assert sum(s.records for stats in c.announced.tail.commits for s in stats.slices) == 1
    (held,) = [row for row in rows_of(c) if row.kind == Kind.BATCH]
    assert (held.crc, held.records, held.bits) == (f.rows[1].crc, 1, REWRITTEN)
    lying = replace(f, rows=[f.rows[0], compacted(f.rows[1])._replace(bits=0)])
    assert applied(fresh(B), lying)[0].behind == 1


@pytest.mark.parametrize("changed_again", [False, True])
def test_a_batch_behind_a_hole_follows_whatever_the_hole_held(changed_again: bool) -> None:
    """At the source compaction took the last record of epoch 0 and the only one of epoch 1, and merging says of the
    next one that it follows what is left. The replica that holds them has another epoch before it: no conflict."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1", b"2")
    in_epoch_1 = topic._replace(epoch=1, version=1, since=((2, ((0, 0),)),))
    committed(a, lambda d: put_topic(d, in_epoch_1, A, None))
    produced(a, topic.number, b"3")
    if changed_again:
        in_epoch_2 = topic._replace(epoch=2, version=2, since=((3, ((0, 0), (1, 2))),))
        committed(a, lambda d: put_topic(d, in_epoch_2, A, None))
    replicated(a, b)
    before = a.announced.end
    produced(a, topic.number, b"4")
    f = frame(a, B, slice_of("ships"), before)
    behind_hole = f.rows[0]._replace(previous_end=1, previous_epoch=0, bits=HOLE)
    assert applied(b, replace(f, rows=[behind_hole]))[0].appended == 1
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"1", 1: b"2", 2: b"3", 3: b"4"}


def test_what_does_not_follow_is_a_conflict_behind_a_hole_too() -> None:
    """The topic's row says where its epoch begins: no record of it stands below that."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    committed(a, lambda d: put_topic(d, topic._replace(epoch=3, version=1, since=((5, ((2, 0),)),)), A, None))
    f = frame(a, B, slice_of("ships"), 0)
    rows = [row for row in f.rows if row.kind == Kind.TOPIC]
    batch = f.rows[1]._replace(epoch=3, base_offset=1, last_offset=1, batch=set_offset(f.rows[1].batch, 1, 3))
    hole = batch._replace(bits=HOLE, previous_end=0, previous_epoch=-1)
    assert applied(b, replace(f, rows=[*rows, hole]))[0].conflicts == 1


def test_a_frame_applied_twice_changes_nothing() -> None:
    """Case 2: the same bounds, epoch, origin and CRC are already here, in one commit or in two."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    f = frame(a, B, slice_of("ships"), 0)
    first, second = applied(b, f, f)
    assert (first.appended, first.duplicates) == (1, 0)
    assert (second.appended, second.duplicates) == (0, 1)
    end = b.announced.end
    assert applied(b, f)[0].duplicates == 1
    assert b.announced.end == end, "what changes nothing makes no commit"


def test_duplicates_are_known_after_a_restart_when_rows_are_only_on_disk() -> None:
    """Case 2 again: the rows to compare with are loaded first."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"1")
    f = frame(a, B, slice_of("ships"), 0)
    applied(b, f)
    again = opened(b.announced.storage, B)
    assert applied(again, f)[0].duplicates == 1


def test_a_frame_that_begins_beyond_the_position_is_refused_whole() -> None:
    """F3: f2 arrives before f1; nothing of it is applied, the answer names the position."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    cut = a.announced.end
    produced(a, topic.number, b"2")
    f1, f2 = frame(a, B, slice_of("ships"), 0, cut), frame(a, B, slice_of("ships"), cut)
    refused = applied(b, f2)[0]
    assert (refused.refused_position, refused.reason) == (0, "from")
    assert b.announced.end == 0
    assert [answer.refused_position for answer in applied(b, f1, f2)] == [None, None]


def test_a_position_never_goes_back() -> None:
    """F3 and S16: a zombie's older frame is applied again, harmlessly."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    f1 = frame(a, B, slice_of("ships"), 0)
    produced(a, topic.number, b"2")
    applied(b, frame(a, B, slice_of("ships"), 0))
    assert set(applied(b, f1)[0].positions.values()) == {a.announced.end}
    position = b.announced.state.positions(LINK)[0, slice_of("ships")]
    assert (position.commit, position.epoch_id) == (a.announced.end, a.epoch.id)


def two_slices(source: ShardLog) -> tuple[Topic, Topic, int]:
    """Two topics in different slices, and the mask of both."""
    one, two = made(source, "ships"), made(source, "ports")
    assert slice_of("ships") != slice_of("ports")
    return one, two, mask_of([slice_of("ships"), slice_of("ports")])


def test_a_frame_of_many_slices_records_one_row() -> None:
    """Sixteen rows a read were most of what a link wrote."""
    a, b = fresh(A), fresh(B)
    one, two, both = two_slices(a)
    produced(a, one.number, b"1")
    produced(a, two.number, b"2")
    outcome = applied(b, masked_frame(a, B, both, 0))[0]
    assert outcome.positions == dict.fromkeys(slices_of_mask(both), a.announced.end)
    rows = [payloads.decode_position(row.batch) for row in rows_of(b) if row.kind == Kind.POSITION]
    assert [(row.slices, row.commit) for row in rows] == [(both, a.announced.end)]


def test_a_frame_of_slices_that_stand_apart_brings_each_what_it_lacks() -> None:
    """No row twice, and only those slices that lay below move: a position never goes back."""
    a, b = fresh(A), fresh(B)
    one, two, both = two_slices(a)
    produced(a, one.number, b"1")
    cut = a.announced.end
    produced(a, two.number, b"2")
    f = masked_frame(a, B, both, 0, cut)
    applied(b, frame(a, B, slice_of("ports"), 0))
    outcome = applied(b, f)[0]
    assert outcome.positions == {slice_of("ships"): cut, slice_of("ports"): a.announced.end}
    newest = [payloads.decode_position(row.batch) for row in rows_of(b) if row.kind == Kind.POSITION][-1]
    assert (newest.slices, newest.commit) == (1 << slice_of("ships"), cut)
    again = applied(b, masked_frame(a, B, both, cut), masked_frame(a, B, both, 0))
    assert [(each.appended, each.duplicates) for each in again] == [(0, 1), (0, 2)]


def test_a_frame_beyond_the_position_of_one_of_its_slices_is_refused_whole() -> None:
    """It would leave that slice's rows out for ever."""
    a, b = fresh(A), fresh(B)
    one, two, both = two_slices(a)
    applied(b, masked_frame(a, B, both, 0))
    cut = a.announced.end
    produced(a, one.number, b"1")
    produced(a, two.number, b"2")
    applied(b, frame(a, B, slice_of("ships"), cut))
    end = b.announced.end
    refused = applied(b, masked_frame(a, B, both, a.announced.end))[0]
    assert (refused.refused_position, refused.reason, b.announced.end) == (cut, "from", end)


def test_a_frame_whose_run_is_older_for_one_of_its_slices_is_refused() -> None:
    """S16: that slice has another reader now."""
    a, b = fresh(A), fresh(B)
    _, _, both = two_slices(a)
    applied(b, frame(a, B, slice_of("ports"), 0, run=GrantRun(1, 2)))
    refused = applied(b, masked_frame(a, B, both, 0, run=GrantRun(1, 1)))[0]
    assert refused.reason == "run"
    assert applied(b, masked_frame(a, B, both, 0, run=GrantRun(1, 2)))[0].reason == ""


def test_a_smaller_run_than_seen_is_refused() -> None:
    """S16: after a new grant the old task's frames are refused."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    applied(b, frame(a, B, slice_of("ships"), 0, run=GrantRun(2, 1)))
    produced(a, topic.number, b"2")
    refused = applied(b, frame(a, B, slice_of("ships"), 0, run=GrantRun(1, 7)))[0]
    assert (refused.refused_position, refused.reason) == (a.announced.end - 1, "run")


def test_a_row_that_begins_beyond_the_end_is_noted_behind_and_others_go_on() -> None:
    """Case 4 and S4: P > E is refused for its partition only; a repair brings it and clears the note."""
    a, b = fresh(A), fresh(B)
    topic = made(a, partitions=2)
    produced(a, topic.number, b"1")
    produced(a, topic.number, b"2")
    produced(a, topic.number, b"x", partition=1)
    f = frame(a, B, slice_of("ships"), 0)
    lost = [row for row in f.rows if not (row.kind == Kind.BATCH and row.partition == 0 and row.base_offset == 0)]
    answer = applied(b, replace(f, rows=lost))[0]
    assert (answer.behind, min(answer.positions.values())) == (1, a.announced.end)
    (behind,) = b.announced.state.behind(LINK)
    assert (behind.topic, behind.partition, behind.end, behind.reason) == ("ships", 0, 0, "gap")
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number, 1) == {0: b"x"}
    applied(b, repair_frame(a, B, topic.number, 0, behind.end))
    assert values_at(b, copy.number) == {0: b"1", 1: b"2"}
    assert b.announced.state.behind(LINK) == []


def test_a_repair_moves_no_position() -> None:
    """It brings one partition of the slice; the others are still where they were."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    applied(b, frame(a, B, slice_of("ships"), 0, 1))
    before = b.announced.state.positions(LINK)
    applied(b, repair_frame(a, B, topic.number, 0, 0))
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"1"}
    assert b.announced.state.positions(LINK) == before


def test_a_repair_that_has_read_less_than_the_position_leaves_the_note() -> None:
    """The slice has passed more than the repair has seen: something may still be missing."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    early = repair_frame(a, B, topic.number, 0, 0)
    produced(a, topic.number, b"2")
    f = frame(a, B, slice_of("ships"), 0)
    applied(b, replace(f, rows=[row for row in f.rows if row.kind == Kind.TOPIC or row.base_offset == 1]))
    applied(b, early)
    assert len(b.announced.state.behind(LINK)) == 1


def test_a_repair_that_lost_a_frame_leaves_the_note() -> None:
    """Its last frame says where the partition ends; the replica has not come that far."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    f = frame(a, B, slice_of("ships"), 0)
    applied(b, replace(f, rows=[f.rows[0], replace_batch(f.rows[1])]))
    assert [note.reason for note in b.announced.state.behind(LINK)] == ["crc"]
    repair = repair_frame(a, B, topic.number, 0, 0)
    applied(b, replace(repair, rows=()))
    assert len(b.announced.state.behind(LINK)) == 1


def replace_batch(row: Row) -> Row:
    """The row with one byte of its records changed."""
    changed = bytearray(row.batch)
    changed[-1] ^= 1
    return row._replace(batch=bytes(changed))


def test_a_batch_with_a_bad_crc_is_noted_behind() -> None:
    """S4: never a stalled slice; the position passes it."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    f = frame(a, B, slice_of("ships"), 0)
    answer = applied(b, replace(f, rows=[f.rows[0], replace_batch(f.rows[1])]))[0]
    assert (min(answer.positions.values()), answer.behind) == (a.announced.end, 1)
    applied(b, repair_frame(a, B, topic.number, 0, 0))
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"1"}
    assert b.announced.state.behind(LINK) == []


def test_a_repair_that_meets_the_bad_row_again_leaves_the_note() -> None:
    """The last frame of the same repair may be clean; that proves nothing."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    f = frame(a, B, slice_of("ships"), 0)
    bad = replace(f, rows=[f.rows[0], replace_batch(f.rows[1])])
    applied(b, bad)
    repair = repair_frame(a, B, topic.number, 0, 0)
    assert repair.repair is not None
    unsure = replace(repair.repair, end=0)
    applied(b, replace(repair, rows=bad.rows, repair=unsure))
    applied(b, replace(repair, rows=(), repair=unsure))
    assert len(b.announced.state.behind(LINK)) == 1


def test_a_topic_that_is_set_aside_stays_so_when_its_owner_renames_it() -> None:
    """What a link may have left out by the name of before is brought, and not what is a conflict by any name."""
    a, b, other = fresh(A), fresh(B), fresh(A)
    topic = made(a)
    produced(a, topic.number, b"old")
    replicated(a, b)
    twin = committed(other, lambda d: create_topic(d, "ships", incarnation=topic.incarnation))[0].result()
    produced(other, twin.number, b"new")
    other_link = b"m" * 16
    applied(b, frame(other, B, slice_of("ships"), 0, link=other_link))
    committed(other, lambda d: rename_topic(d, "ships", "ports"))
    applied(b, frame(other, B, slice_of("ships"), 2, link=other_link))
    assert b.announced.state.by_name("ports") is not None
    assert [note.conflict for note in b.announced.state.behind(other_link)] == [True]


def test_another_record_at_the_same_offset_sets_the_topic_aside() -> None:
    """Case 5 and F10: same offsets, other CRC; noted for every partition, other topics go on."""
    a, b, other = fresh(A), fresh(B), fresh(A)
    topic, _ = made(a, partitions=2), made(a, "free")
    produced(a, topic.number, b"old")
    replicated(a, b)
    from fairlead.streamlog.requests.topics import create_topic

    twin = committed(other, lambda d: create_topic(d, "ships", 2, incarnation=topic.incarnation))[0].result()
    produced(other, twin.number, b"new")
    produced(other, twin.number, b"more")
    other_link = b"m" * 16
    answer = applied(b, frame(other, B, slice_of("ships"), 0, link=other_link))[0]
    assert answer.conflicts == 2
    notes = b.announced.state.behind(other_link)
    assert sorted(note.partition for note in notes) == [0, 1]
    assert all(note.conflict for note in notes)
    assert b.announced.state.behind(LINK) == []
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"old"}


def test_a_partition_that_a_topic_gets_while_it_is_set_aside_is_set_aside_with_it() -> None:
    """Nothing of a log that is another one comes until that is settled, and the note of each partition says why."""
    a, b, other = fresh(A), fresh(B), fresh(A)
    topic = made(a)
    produced(a, topic.number, b"old")
    replicated(a, b)
    twin = committed(other, lambda d: create_topic(d, "ships", incarnation=topic.incarnation))[0].result()
    produced(other, twin.number, b"new")
    link = b"m" * 16
    applied(b, frame(other, B, slice_of("ships"), 0, link=link))
    grown = other.announced.end
    committed(other, lambda d: set_partitions(d, "ships", 2))
    produced(other, twin.number, b"more", partition=1)
    answer = applied(b, frame(other, B, slice_of("ships"), grown, link=link))[0]
    assert (answer.appended, answer.conflicts) == (0, 1)
    notes = b.announced.state.behind(link)
    assert [note.partition for note in notes if note.conflict] == [0, 1]
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number, 1) == {}


def test_the_same_bytes_of_another_origin_are_another_record() -> None:
    """Case 2 asks for the same bounds, epoch, origin and CRC."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"1")
    replicated(a, b)
    f = frame(a, B, slice_of("ships"), 0)
    other = replace(f, rows=[f.rows[0], f.rows[1]._replace(origin=C)])
    answer = applied(b, other)[0]
    assert (answer.duplicates, answer.conflicts) == (0, 1)


def test_of_what_lies_in_a_gap_the_epoch_must_fit() -> None:
    """Case 2: the records are gone, their place in the history is known. An epoch that the topic never had is behind:
    its owner is not known here yet."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    committed(a, lambda d: d.add_control(Kind.START, StartPayload("ttl", 10, ((0, 0),)), **at(topic.number, 10)))
    replicated(a, b)
    f = frame(a, B, slice_of("ships"), 0)
    batch = f.rows[1]._replace(base_offset=3, last_offset=3, previous_end=3)
    for epoch, expected in ((0, (1, 0)), (4, (0, 1))):
        row = batch._replace(epoch=epoch, batch=set_offset(batch.batch, 3, epoch))
        answer = applied(b, replace(f, rows=[row]))[0]
        assert (answer.duplicates, answer.behind) == expected


def test_a_deletion_that_cannot_be_read_is_behind() -> None:
    """Or the topic would stay here for ever: nothing else says that it is gone."""
    a, b = fresh(A), fresh(B)
    made(a)
    replicated(a, b)
    committed(a, lambda draft: delete_topic(draft, "ships"))
    f = frame(a, B, slice_of("ships"), a.announced.end - 1)
    answer = applied(b, replace(f, rows=[f.rows[0]._replace(batch=b"?")]))[0]
    assert answer.behind == 1
    assert [(note.partition, note.end, note.reason) for note in b.announced.state.behind(LINK)] == [(0, 0, "crc")]
    applied(b, repair_frame(a, B, f.rows[0].topic, 0, 0))
    assert b.announced.state.by_name("ships") is None
    assert b.announced.state.behind(LINK) == []


def test_a_damaged_row_of_a_topic_whose_partition_is_behind_is_noted_with_it() -> None:
    """From where the partition is behind: the repair brings both. A note of a damaged row outlives a deletion, which
    the row may have taken back."""
    a, b = fresh(A), fresh(B)
    number = made(a).number
    produced(a, number, b"1")
    replicated(a, b)
    for value in (b"2", b"3"):
        produced(a, number, value)
    committed(a, lambda draft: set_configs(draft, "ships", {"cleanup.policy": "compact"}))
    f = frame(a, B, slice_of("ships"), 2)
    third, settings = f.rows[-2:]
    applied(b, replace(f, rows=[third, settings._replace(batch=b"?")]))
    assert [(note.partition, note.end, note.reason) for note in b.announced.state.behind(LINK)] == [(0, 1, "crc")]
    applied(b, repair_frame(a, B, number, 0, 1))
    assert b.announced.state.behind(LINK) == []
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert (copy.configs, len(values_at(b, copy.number))) == ({"cleanup.policy": "compact"}, 3)


def test_a_damaged_row_at_offsets_that_are_here_is_behind_and_no_conflict() -> None:
    """S4: its CRC tells nothing of what the source has. If its row says what is here, nothing is to be brought."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"1")
    replicated(a, b)
    f = frame(a, B, slice_of("ships"), 0)
    changed = bytearray(f.rows[1].batch)
    changed[CRC_AT] ^= 1
    row = f.rows[1]._replace(batch=bytes(changed))
    answers = [applied(b, replace(f, rows=[f.rows[0], each]))[0] for each in (row, row._replace(crc=row.crc ^ 1))]
    assert [(each.duplicates, each.behind, each.conflicts) for each in answers] == [(1, 0, 0), (0, 1, 0)]


def test_a_row_that_begins_below_the_end_and_reaches_beyond_it_is_a_conflict() -> None:
    """Case 5: batches are never cut, so another one stands at its first offset."""
    a, b, other = fresh(A), fresh(B), fresh(A)
    topic = made(a)
    produced(a, topic.number, b"1")
    produced(a, topic.number, b"2")
    replicated(a, b)
    produced(other, made(other).number, b"1")
    produced(other, topic.number, b"2", b"3")
    f = frame(a, B, slice_of("ships"), 0)
    longer = rows_of(other)[-1]
    answer = applied(b, replace(f, rows=[*f.rows, longer]))[0]
    assert (longer.base_offset, longer.last_offset) == (1, 2)
    assert (answer.appended, answer.duplicates, answer.conflicts) == (0, 2, 1)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"1", 1: b"2"}


def test_an_unlike_epoch_before_the_row_is_a_conflict() -> None:
    """S3 [sim2]: the offsets fit, the history does not."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    produced(a, topic.number, b"2")
    f = frame(a, B, slice_of("ships"), a.announced.end - 1)
    wrong = [row._replace(previous_epoch=3) if row.kind == Kind.BATCH else row for row in f.rows]
    assert applied(b, replace(f, rows=wrong))[0].conflicts == 1


def test_a_start_row_begins_a_partition_that_was_never_held() -> None:
    """S21: a start, not a gap."""
    b = started_at_ten(created=None)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert b.announced.state.partition(copy.number, 0)[:2] == (10, 10)
    assert b.announced.state.gaps() == []


def test_what_expired_before_the_link_was_made_is_a_start() -> None:
    """The link begins behind it, whatever the clocks said then and say now."""
    assert started_at_ten(created=2).announced.state.gaps() == []


def test_what_expired_after_the_link_was_made_is_a_gap_also_in_a_topic_never_held() -> None:
    """F5a, a topic written once and expired before the link returned shows its gap."""
    b = started_at_ten(created=1)
    (gap,) = b.announced.state.gaps()
    assert (gap.topic, gap.start, gap.end, gap.reason) == ("ships", 0, 10, "ttl")


def test_a_partition_that_began_there_has_no_gap_whenever_it_was_made() -> None:
    """A diverged topic begins where the histories part: what is below is in the topic that was cut."""
    b = started_at_ten(created=1, reason=BEGINS_HERE)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert b.announced.state.partition(copy.number, 0)[:2] == (10, 10)
    assert b.announced.state.gaps() == []


def test_a_past_that_is_left_out_is_told_step_by_step_and_is_no_gap_where_nothing_is_held() -> None:
    """The partition begins at the last of them, with the epochs of all; what was said before goes unsaid."""
    b = told_of_a_past((5, 0, ((0, 0),)), (8, 5, ((0, 0), (3, 5))), (5, 0, ((0, 0),)))
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert b.announced.state.partition(copy.number, 0)[:4] == (8, 8, 3, ((0, 0), (3, 5)))
    assert b.announced.state.gaps() == []


def test_a_past_that_is_left_out_is_a_gap_behind_what_is_held() -> None:
    """And where what is told does not touch what is here, the partition is behind: the source tells it anew."""
    b = told_of_a_past((8, 0, ((0, 0),)), held=2)
    (gap,) = b.announced.state.gaps()
    assert (gap.start, gap.end, gap.reason) == (2, 8, FROM_NOW)
    b = told_of_a_past((8, 5, ((0, 0),)), held=2)
    (note,) = b.announced.state.behind(LINK)
    assert (note.end, note.reason) == (2, "gap")


def told_of_a_past(*steps: tuple[int, int, History], held: int = 0) -> ShardLog:
    """A replica that holds some records, and is told by its source up to where a past goes that it does not get, from
    where on, and of which epochs."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, *[b"v"] * max(held, 1))
    if held:
        applied(b, frame(a, B, slice_of("ships"), 0))
    sent = frame(a, B, slice_of("ships"), 0)
    made_of, batch = sent.rows
    starts = [
        batch._replace(
            kind=Kind.START,
            base_offset=end,
            commit=batch.commit + place,
            batch=payloads.encode(StartPayload(FROM_NOW, end, history, begin)),
        )
        for place, (end, begin, history) in enumerate(steps)
    ]
    applied(b, replace(sent, rows=(made_of, *starts), to_commit=sent.to_commit + len(starts)))
    return b


def started_at_ten(created: int | None, reason: str = "ttl"):  # type: ignore[no-untyped-def]
    """A replica that was told of the start in commit 1."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    committed(a, lambda d: d.add_control(Kind.START, StartPayload(reason, 10, ((0, 0),)), **at(topic.number, 10)))
    applied(b, frame(a, B, slice_of("ships"), 0, created=created))
    assert a.announced.end == 2
    return b


def at(number: int, offset: int) -> dict[str, Any]:
    """Where a START row stands."""
    return {"number": number, "partition": 0, "base_offset": offset, "origin": A}


def test_a_start_row_beyond_the_end_is_a_gap_with_its_reason() -> None:
    """F5a: E = 1, the source's records up to 10 are gone; a consumer passes the gap, `replica list` shows it."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    committed(a, lambda d: d.add_control(Kind.START, StartPayload("ttl", 10, ((0, 0),)), **at(topic.number, 10)))
    produced(a, topic.number, b"2")
    replicated(a, b)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    (gap,) = b.announced.state.gaps()
    assert (gap.start, gap.end, gap.reason) == (1, 10, "ttl")
    assert values_at(b, copy.number) == {0: b"1", 10: b"2"}
    c = fresh(C)
    replicated(b, c, link=b"n" * 16)
    copy = c.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(c, copy.number) == {0: b"1", 10: b"2"}
    assert c.announced.state.gaps() == b.announced.state.gaps()


def test_a_gap_row_beyond_the_end_is_behind() -> None:
    """E below where the gap row begins: something else is missing, it is no gap."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    committed(a, lambda d: d.add_control(Kind.START, StartPayload("ttl", 10, ((0, 0),)), **at(topic.number, 10)))
    replicated(a, b)
    f = frame(b, C, slice_of("ships"), 0)
    answer = applied(c, replace(f, rows=[row for row in f.rows if row.kind != Kind.BATCH]))[0]
    assert answer.behind == 1
    assert c.announced.state.gaps() == []


def test_a_start_row_of_another_history_is_a_conflict() -> None:
    """S3: a start row carries the epoch history and is checked like a batch."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    committed(a, lambda d: d.add_control(Kind.START, StartPayload("ttl", 10, ((4, 0),)), **at(topic.number, 10)))
    f = frame(a, B, slice_of("ships"), a.announced.end - 1)
    assert applied(b, f)[0].conflicts == 1


def test_rows_of_a_deleted_incarnation_are_dropped() -> None:
    """S11: C, behind, still sends T's rows to B, which knows the tombstone."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, c)
    committed(a, lambda d: delete_topic(d, "ships"))
    replicated(a, b)
    assert b.announced.state.by_name("ships") is None
    applied(b, frame(c, B, slice_of("ships"), 0, link=b"n" * 16))
    assert b.announced.state.by_name("ships") is None
    assert b.announced.state.behind(b"n" * 16) == []


def test_a_topic_deleted_and_made_again_is_the_new_one_at_the_replica() -> None:
    """F8: nothing of the old incarnation can be read."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"old")
    replicated(a, b)
    committed(a, lambda d: delete_topic(d, "ships"))
    produced(a, made(a).number, b"new")
    replicated(a, b)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"new"}


def test_rows_of_a_new_partition_count_in_the_frame_that_brings_it() -> None:
    """What a frame remembers of a topic ends with the next row that changes it."""
    a, b = fresh(A), fresh(B)
    number = made(a).number
    produced(a, number, b"1")
    committed(a, lambda d: set_partitions(d, "ships", 3))
    produced(a, number, b"2", partition=2)
    replicated(a, b)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number, 2) == {0: b"2"}
    assert b.announced.state.behind(LINK) == []


def test_rows_behind_the_deletion_of_their_topic_are_dropped_in_one_frame_too() -> None:
    """Not noted behind, though rows of the topic before it in the frame were appended."""
    a, b = fresh(A), fresh(B)
    number = made(a).number
    produced(a, number, b"1")
    produced(a, number, b"2")
    committed(a, lambda d: delete_topic(d, "ships"))
    sent = frame(a, B, slice_of("ships"), 0)
    *others, late, deleted = sent.rows
    assert (late.kind, deleted.kind) == (Kind.BATCH, Kind.TOPIC_DELETED)
    (outcome,) = applied(b, replace(sent, rows=[*others, deleted, late]))
    assert (outcome.appended, outcome.behind, outcome.conflicts) == (1, 0, 0)


def test_partitions_and_settings_follow() -> None:
    """A newer TOPIC row changes the copy, an older one does not."""
    a, b = fresh(A), fresh(B)
    made(a)
    early = frame(a, B, slice_of("ships"), 0)
    committed(
        a, lambda d: set_partitions(d, "ships", 5), lambda d: set_configs(d, "ships", {"cleanup.policy": "compact"})
    )
    replicated(a, b)
    applied(b, early)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert (copy.partitions, copy.configs) == (5, {"cleanup.policy": "compact"})


@pytest.mark.parametrize("first", [A, B])
def test_an_empty_topic_yields_to_one_that_has_records(first: bytes) -> None:
    """S8: the replica auto-created the topic before its first record came; whichever id is smaller."""
    source_id, replica_id = (A, B) if first == A else (B, A)
    source, replica = fresh(source_id), fresh(replica_id)
    made(replica)
    produced(source, made(source).number, b"1")
    replicated(source, replica)
    copy = replica.announced.state.by_name("ships")
    assert copy is not None
    assert copy.owner == source_id
    assert values_at(replica, copy.number) == {0: b"1"}
    assert replica.announced.state.behind(LINK) == []


def test_of_two_empty_topics_the_one_of_the_smaller_id_stays_on_both_sides() -> None:
    """S8, links both ways; then its owner writes and both have it."""
    a, b = fresh(A), fresh(B)
    mine = made(a)
    made(b)
    replicated(b, a, link=b"m" * 16)
    replicated(a, b)
    produced(a, mine.number, b"1")
    replicated(a, b)
    replicated(b, a, link=b"m" * 16)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert copy.incarnation == mine.incarnation
    assert values_at(b, copy.number) == {0: b"1"}
    assert a.announced.state.by_name("ships") == mine


def test_two_topics_with_records_and_one_name_conflict_until_one_is_deleted() -> None:
    """Nothing is lost on either side; when the name is free the waiting one is made and brought."""
    a, b = fresh(A), fresh(B)
    theirs = made(a)
    produced(a, theirs.number, b"a")
    mine = made(b)
    produced(b, mine.number, b"b")
    replicated(a, b)
    (note,) = b.announced.state.behind(LINK)
    assert note.conflict
    assert values_at(b, mine.number) == {0: b"b"}
    committed(b, lambda d: delete_topic(d, "ships"))
    (note,) = b.announced.state.behind(LINK)
    assert (note.reason, note.incarnation) == ("gap", theirs.incarnation)
    applied(b, repair_frame(a, B, theirs.number, 0, 0))
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"a"}
    assert b.announced.state.behind(LINK) == []


def test_a_topic_that_yielded_deletes_nothing_elsewhere() -> None:
    """The row by which an empty topic made room is passed over by a replica that has its records."""
    a, b = fresh(A), fresh(C)
    mine = made(a)
    replicated(a, b)
    other = fresh(B)
    produced(other, made(other).number, b"1")
    replicated(other, b, link=b"m" * 16)
    produced(a, mine.number, b"mine")
    replicated(b, a, link=b"n" * 16)
    assert values_at(a, mine.number) == {0: b"mine"}
    replicated(a, b)
    assert b.announced.state.behind(LINK), "two topics with records: a conflict, shown"


def test_a_conflict_with_a_topic_that_yielded_is_over() -> None:
    """Two sites made a topic of one name, and only one of them wrote: links both ways come to rest without a note."""
    a, b = fresh(A), fresh(B)
    made(a)
    produced(b, made(b).number, b"1")
    replicated(a, b)
    assert [note.conflict for note in b.announced.state.behind(LINK)] == [True]
    replicated(b, a, link=b"m" * 16)
    (row,) = [row for row in rows_of(a) if row.kind == Kind.TOPIC_DELETED]
    told = payloads.decode_topic_deleted(row.batch)
    f = frame(a, B, slice_of("ships"), 0)
    applied(b, replace(f, rows=[row], topics={row.topic: FrameTopic(told.incarnation, told.name)}))
    assert b.announced.state.behind(LINK) == []
    assert b.announced.state.by_name("ships") is not None


def test_rows_of_a_topic_that_nobody_made_are_behind() -> None:
    """Unknown topic: noted, repaired with its create row."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    f = frame(a, B, slice_of("ships"), 0)
    applied(b, replace(f, rows=f.rows[1:]))
    assert [note.reason for note in b.announced.state.behind(LINK)] == ["unknown-topic"]
    applied(b, repair_frame(a, B, topic.number, 0, 0))
    assert b.announced.state.behind(LINK) == []


def test_a_name_that_is_illegal_here_is_set_aside() -> None:
    """A name too long after prefixing: never a stalled slice."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    f = frame(a, B, slice_of("ships"), 0)
    payload = payloads.decode_topic(f.rows[0].batch)
    long = f.rows[0]._replace(batch=payloads.encode(replace(payload, name="x" * 300)))
    names = {topic.number: FrameTopic(topic.incarnation, "x" * 300)}
    answer = applied(b, replace(f, rows=[long, f.rows[1]], topics=names))[0]
    assert min(answer.positions.values()) == a.announced.end
    assert [note.reason for note in b.announced.state.behind(LINK)] == [NO_NAME_HERE + "x" * 300]


def test_two_streams_of_one_cluster_replicate() -> None:
    """F6: origin is the stream and not the cluster; nothing goes back to where it began."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"1")
    replicated(a, b)
    before = a.announced.end
    replicated(b, a, link=b"m" * 16)
    assert [row.kind for row in rows_of(a, before)] == [Kind.POSITION] * (a.announced.end - before)


def test_idle_links_both_ways_come_to_rest() -> None:
    """F7: positions are local rows; a frame of an empty stretch moves them once, and then nothing is written."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"1")
    replicated(a, b)
    replicated(b, a, link=b"m" * 16)
    sent = [row for row in rows_of(a) if row.kind == Kind.POSITION]
    assert sent
    assert not any(f.rows for f in (frame(a, B, s, 2) for s in range(16))), (
        "nothing but local rows was added on either side"
    )


def test_two_paths_bring_a_record_once() -> None:
    """S3: A to D by B and by C; batches are never cut anew, so the second copy is already here."""
    a, b, c, d = (fresh(id) for id in (A, B, C, D))
    topic = made(a)
    produced(a, topic.number, b"1", b"2")
    replicated(a, b)
    replicated(a, c)
    replicated(b, d, link=b"m" * 16)
    replicated(c, d, link=b"n" * 16)
    copy = d.announced.state.by_name("ships")
    assert copy is not None
    assert values_at(d, copy.number) == {0: b"1", 1: b"2"}
    assert sum(row.kind == Kind.BATCH for row in rows_of(d)) == 1


def test_a_link_that_is_forgotten_starts_again_and_finds_everything_here() -> None:
    """`replica resume -rescan`: the whole log is read again, the table drops what is equal."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"1")
    replicated(a, b)
    committed(b, lambda d: forget_link(d, LINK))
    assert b.announced.state.positions(LINK) == {}
    assert applied(b, frame(a, B, slice_of("ships"), 0, run=GrantRun(0, 0)))[0].duplicates == 1


def test_many_notes_are_forgotten_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn in between."""
    monkeypatch.setattr("fairlead.streamlog.applying.frame.NOTES_AT_ONCE", 2)
    b = fresh(B)

    def noted(draft: Draft) -> None:
        for partition in range(3):
            draft.add_control(Kind.BEHIND, BehindPayload(LINK, "ships", b"i" * 16, partition, 0, "gap", 0))

    committed(b, noted)
    assert [committed(b, lambda d: forget_link(d, LINK))[0].result() for _ in range(3)] == [True, False, False]
    assert list(b.announced.state.behind(LINK)) == []


def test_time_to_live_here_counts_from_the_append_here() -> None:
    """F12: a row that was nine days at sea gets the replica's own appended_at."""
    late = FakeClock(START_MS + 9 * 86_400_000)
    a, b = fresh(A), fresh(B, clock=late)
    produced(a, made(a).number, b"1")
    replicated(a, b)
    assert {row.appended_at for row in rows_of(b)} == {late.wall}


def test_a_deletion_by_another_link_ends_what_was_behind() -> None:
    """The topic is gone: there is nothing to repair, and the link that was behind is up to date."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    produced(a, topic.number, b"1")
    replicated(a, b)
    produced(a, topic.number, b"2")
    behind_from = a.announced.end
    produced(a, topic.number, b"3")
    late = frame(a, B, slice_of("ships"), behind_from)
    position = b.announced.state.positions(b"l" * 16)[0, slice_of("ships")].commit
    applied(b, replace(late, from_commit=position))
    assert [each.topic for each in b.announced.state.behind(b"l" * 16)] == ["ships"]
    committed(a, lambda d: delete_topic(d, "ships"))
    applied(b, frame(a, B, slice_of("ships"), 0, link=b"n" * 16))
    assert b.announced.state.by_name("ships") is None
    assert b.announced.state.behind(b"l" * 16) == []


# A source that was restored from a copy older than a deletion

RESCAN = b"r" * 16
"""Id of the link after a rescan: it has no positions yet."""


def restored_after_a_deletion() -> tuple[ShardLog, ShardLog, bytes]:
    """The source as its copy has it, with the topic, and a replica that knows the deletion; the topic's incarnation."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    copy = fresh(A)
    committed(copy, lambda d: create_topic(d, "ships", incarnation=topic.incarnation))
    for log in (a, copy):
        produced(log, topic.number, b"1")
    replicated(a, b)
    committed(a, lambda d: delete_topic(d, "ships"))
    replicated(a, b)
    return copy, b, topic.incarnation


def deleted_here(log: ShardLog, link: bytes = RESCAN) -> list[str]:
    return [note.topic for note in log.announced.state.deleted_here(link)]


def test_a_topic_that_the_same_source_had_deleted_and_sends_again_is_noted() -> None:
    """Once, and not as behind: whether it is alive at the source, the source knows."""
    a, b, incarnation = restored_after_a_deletion()
    replicated(a, b, link=RESCAN)
    assert deleted_here(b) == ["ships"]
    assert b.announced.state.behind(RESCAN) == []
    assert b.announced.state.by_incarnation(incarnation) is None
    end = b.announced.end
    applied(b, frame(a, B, slice_of("ships"), 0, link=RESCAN))
    assert b.announced.end == end
    again = opened(b.announced.storage, B)
    assert deleted_here(again) == ["ships"]


def test_a_rescan_that_still_has_the_deletion_leaves_no_note() -> None:
    """The creation is read before the deletion."""
    a, b = fresh(A), fresh(B)
    produced(a, made(a).number, b"1")
    created = a.announced.end
    replicated(a, b)
    committed(a, lambda d: delete_topic(d, "ships"))
    replicated(a, b)
    slice = slice_of("ships")
    applied(b, frame(a, B, slice, 0, created, link=RESCAN), frame(a, B, slice, created, link=RESCAN))
    assert deleted_here(b) == []
    assert b.announced.state.by_name("ships") is None


def test_a_topic_that_another_source_had_deleted_is_dropped_without_a_note() -> None:
    """The deletion is on its way there."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    produced(a, made(a).number, b"1")
    replicated(a, c)
    committed(a, lambda d: delete_topic(d, "ships"))
    replicated(a, b)
    applied(b, frame(c, B, slice_of("ships"), 0, link=RESCAN))
    assert deleted_here(b) == []


@pytest.mark.parametrize("held", [False, True])
def test_a_topic_that_was_deleted_here_is_taken_again(held: bool) -> None:
    """Also if another incarnation, made after the copy, has its name: then that one goes. A repair brings all of it,
    and it survives a restart and a merge; a deletion that follows deletes it again."""
    a, b, incarnation = restored_after_a_deletion()
    if held:
        lost = fresh(A)
        made_again = committed(lost, lambda d: create_topic(d, "ships", incarnation=b"x" * 16))[0].result()
        produced(lost, made_again.number, b"lost")
        replicated(lost, b, link=b"n" * 16)
    replicated(a, b, link=RESCAN)
    committed(b, lambda d: take_again(d, "ships"))
    assert [(each.topic, each.reason) for each in b.announced.state.behind(RESCAN)] == [("ships", "gap")]
    source = a.announced.state.by_name("ships")
    assert source is not None
    applied(b, repair_frame(a, B, source.number, 0, 0, link=RESCAN))
    for log in (b, opened(b.announced.storage, B)):
        copy = log.announced.state.by_name("ships")
        assert copy is not None
        assert copy.incarnation == incarnation
        assert values_at(log, copy.number) == {0: b"1"}
        assert log.announced.state.behind(RESCAN) == []
        assert deleted_here(log) == []
    b = opened(b.announced.storage, B)
    produced(a, source.number, b"2")
    committed(a, lambda d: delete_topic(d, "ships"))
    replicated(a, b, link=RESCAN)
    assert b.announced.state.by_incarnation(incarnation) is None
    assert deleted_here(b) == []


def test_nothing_is_taken_again_that_was_not_deleted() -> None:
    """A name, or a topic of this stream."""
    a, b, _ = restored_after_a_deletion()
    (unknown,) = committed(b, lambda d: take_again(d, "ships"))
    with pytest.raises(InvalidValue, match="no topic ships"):
        unknown.result()
    replicated(a, b, link=RESCAN)
    made(b)
    (own,) = committed(b, lambda d: take_again(d, "ships"))
    with pytest.raises(NotAllowed, match="this stream's own"):
        own.result()
