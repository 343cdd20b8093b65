"""Records of a diverged topic come into the topic that they were cut off once: over crashes, cuts and new owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    C,
    answer_of,
    fresh,
    handed_over,
    pulled,
    repaired,
    sent,
    taken_over,
    topic_of,
    values_of,
    wrote,
)
from tests.streamlog.requests.test_diverged import step
from tests.streamlog.world import DAY_MS, SETTINGS, FakeClock, SeededRandomness, installed, made, opened, rows_of

from fairlead.model.errors import CorruptBatch, NotAllowed, NotOwner
from fairlead.protocol.batch import (
    CONTROL,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    TRANSACTIONAL,
    build_batch,
    check_produced,
    check_stored,
    read_header,
    records_of,
)
from fairlead.storage.interface import Storage
from fairlead.storage.memory import Crashed, Fault, MemoryStorage
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.payloads import decode_state
from fairlead.streamlog.requests import claimed as notes
from fairlead.streamlog.requests.claim import claim, tail_batches
from fairlead.streamlog.requests.claimed import OfTail, Passed, Piece, claimed, tail_id
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.requests.topics import create_topic
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.transactions import Aborted
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.writer import ShardLog

TAIL = tuple(f"late{number}".encode() for number in range(8))
ONCE = Counter(TAIL)
MERGING = replace(SETTINGS, merge_commits_min=1)


def parted(a: ShardLog, b: ShardLog, *others: ShardLog) -> Topic:
    """A has two records that all have and eight that it alone had when B took the topic over and wrote to it. A has
    heard of it and keeps the eight in a diverged topic, which all have. The topic, as A knows it."""
    made(a)
    wrote(a, b"0", b"1")
    for site in (b, *others):
        sent(a, site)
    for first in range(0, len(TAIL), 2):
        wrote(a, *TAIL[first : first + 2])
    taken_over(b)
    wrote(b, b"b2")
    told(b, a, *others)
    return kept(a, b, *others)


def told(source: ShardLog, *sites: ShardLog) -> None:
    """All that the source has, and what is missing in between, comes to the sites."""
    for site in sites:
        sent(source, site)
        repaired(source, site)


def kept(site: ShardLog, *others: ShardLog) -> Topic:
    """The diverged topic, once it is copied and all have it."""
    before = {each.name for each in site.announced.state.topics()}
    while step(site):
        pass
    told(site, *others)
    (found,) = [each for each in site.announced.state.topics() if each.name not in before]
    return found


def steps(site: ShardLog, name: str, batches: int = 1, into: str = TOPIC, *, stamped: bool = False) -> int:
    """What a claim does, so many batches in a commit; answers how many records it has brought."""
    tail, target, brought = topic_of(site, name), topic_of(site, into), 0
    id, state = tail_id(tail.incarnation, 0), site.announced.state
    passed = claimed(state, target.number, 0).get(id, OfTail()).passed
    at = state.partition(tail.number, 0).start if passed is None else passed.to
    while at < state.partition(tail.number, 0).end:
        fetched = site.reader.fetch(tail.number, 0, at, 1 << 20, committed=True)
        taken = fetched.batches[:batches]
        found = tail_batches(id, taken, fetched.aborted)
        at = read_header(taken[-1]).last_offset + 1
        request = partial(claim, number=target.number, partition=0, id=id, batches=found, to=at, stamped=stamped)
        brought += answer_of(site, request)
    return brought


def counted(site: ShardLog, name: str = TOPIC) -> Counter[bytes]:
    """How often each of the tail's records is in the topic."""
    return Counter(value for value in values_of_topic(site, name) if value in TAIL)


def values_of_topic(site: ShardLog, name: str = TOPIC) -> list[bytes]:
    topic, state = topic_of(site, name), site.announced.state
    at, found = state.partition(topic.number, 0).log_start, list[bytes]()
    while at < state.partition(topic.number, 0).end:
        for batch in site.reader.fetch(topic.number, 0, at, 1 << 20).batches:
            header = check_stored(batch, read_header(batch).base_offset, read_header(batch).last_offset)
            found += [bytes(record.value or b"") for record in records_of(batch)]
            at = header.last_offset + 1
    return found


def test_a_claimed_tail_is_in_the_topic_once_and_the_diverged_topic_stays() -> None:
    """In its order, behind what is there. Claimed again, it brings nothing and writes nothing."""
    a, b = fresh(A), fresh(B)
    tail = parted(a, b)
    assert parent_of(tail) == topic_of(b).incarnation
    assert steps(b, tail.name) == len(TAIL)
    assert list(values_of(b).values()) == [b"0", b"1", b"b2", *TAIL]
    end = b.announced.end
    assert (steps(b, tail.name), b.announced.end) == (0, end)
    assert values_of_topic(b, tail.name) == list(TAIL)


def test_a_claim_belongs_to_the_owner() -> None:
    """Elsewhere nothing is written; the topic would have two histories."""
    a, b = fresh(A), fresh(B)
    tail = parted(a, b)
    with pytest.raises(NotOwner):
        steps(a, tail.name)
    assert counted(a) == Counter()


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_claim_that_crashes_at_any_call_of_the_storage_brings_each_record_once(fault: Fault) -> None:
    """The process dies in or behind each call in turn, and also loses what was not synced; the next one goes on."""
    for nth in count(1):
        a, b = fresh(A), fresh(B)
        tail = parted(a, b)
        storage = b.announced.storage
        assert isinstance(storage, MemoryStorage)
        whole = False
        for call in ("put", "sync", "get", "list"):
            storage.faults.choose(fault, call=call, nth=nth)
        try:
            steps(b, tail.name)
            whole = True
        except Crashed:
            storage.restart() if nth % 2 else storage.crash()
        storage.faults.clear()
        b = opened(storage, B, seed=90 + nth)
        steps(b, tail.name)
        assert counted(b) == ONCE, nth
        assert steps(b, tail.name) == 0
        wrote(b, b"after")
        if whole:
            assert nth > 4, "a claim writes a commit for each batch of the tail"
            return


@pytest.mark.parametrize("bring", [told, pulled])
def test_a_later_owner_knows_what_was_claimed(bring: Callable[[ShardLog, ShardLog], None]) -> None:
    """What names a batch of the tail travels in it, and each copy notes it with the batch, by whatever way it came."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    tail = parted(a, b, c)
    assert steps(b, tail.name) == len(TAIL)
    handed_over(b, c)
    bring(b, c)
    assert steps(c, tail.name) == 0
    assert counted(c) == ONCE
    bring(c, a)
    handed_over(c, a)
    bring(c, a)
    assert steps(a, tail.name) == 0


def test_an_owner_goes_on_with_the_claim_of_the_one_before_it() -> None:
    """B had claimed half of it, among other records, when it handed the topic over."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    tail = parted(a, b, c)
    one, two = (tail_batches_of(b, tail)[place] for place in (0, 1))
    for batch in (one, two):
        answer_of(b, batch)
        wrote(b, b"between")
    handed_over(b, c)
    told(b, c)
    assert steps(c, tail.name) == 4
    assert counted(c) == ONCE


def tail_batches_of(site: ShardLog, tail: Topic) -> list[partial[int]]:
    """Requests that claim each batch of a tail by itself."""
    id, number = tail_id(tail.incarnation, 0), topic_of(site, tail.name).number
    batches = site.reader.fetch(number, 0, site.announced.state.partition(number, 0).start, 1 << 20).batches
    target = topic_of(site).number
    return [
        partial(claim, number=target, partition=0, id=id, batches=tail_batches(id, [batch], ()), to=to, stamped=False)
        for batch, to in ((batch, read_header(batch).last_offset + 1) for batch in batches)
    ]


def test_what_was_claimed_and_then_cut_off_is_claimed_again_once() -> None:
    """C took the topic over from B while it had half of what B had claimed. The rest is in B's own diverged topic too:
    whichever of the two is claimed first, each record comes once."""
    for first, second in ((0, 1), (1, 0)):
        a, b, c = fresh(A), fresh(B), fresh(C)
        old = parted(a, b, c)
        requests = tail_batches_of(b, old)
        for request in requests[:2]:
            answer_of(b, request)
        told(b, c)
        wrote(b, b"of b")
        for request in requests[2:]:
            answer_of(b, request)
        taken_over(c)
        wrote(c, b"of c")
        told(c, b)
        assert counted(b) == Counter(TAIL[:4])
        newer = kept(b, c)
        assert values_of_topic(c, newer.name) == [b"of b", *TAIL[4:]]
        names = (old.name, newer.name)
        brought = [steps(c, names[first]), steps(c, names[second])]
        assert sum(brought) == 5
        assert counted(c) == ONCE
        assert Counter(values_of_topic(c))[b"of b"] == 1
        assert [steps(c, name) for name in names] == [0, 0]
        told(c, b)
        assert values_of(b) == values_of(c)
        handed_over(c, b)
        told(c, b)
        assert [steps(b, name) for name in names] == [0, 0]


def test_who_claimed_what_was_cut_off_claims_it_again() -> None:
    """B has claimed the whole tail when C takes the topic over with half of it, and gets the topic back. Neither how
    far it had come nor what it had claimed says any more what is there."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    tail = parted(a, b, c)
    requests = tail_batches_of(b, tail)
    for request in requests[:2]:
        answer_of(b, request)
    told(b, c)
    for request in requests[2:]:
        answer_of(b, request)
    assert steps(b, tail.name) == 0
    taken_over(c)
    wrote(c, b"of c")
    told(c, b)
    handed_over(c, b)
    told(c, b)
    assert counted(b) == Counter(TAIL[:4])
    assert steps(b, tail.name) == 4
    assert counted(b) == ONCE


def test_what_was_claimed_stays_known_once_its_records_have_expired() -> None:
    """The log without the batches says the same, at the owner and at the copy that owns the topic later."""
    clock = FakeClock()
    a, b, c = (fresh(id, clock=clock, settings=MERGING) for id in (A, B, C))
    tail = parted(a, b, c)
    steps(b, tail.name)
    told(b, c)
    handed_over(b, c)
    told(b, c)
    clock.pass_ms(2 * DAY_MS)
    for site, id in ((b, B), (c, C)):
        number = topic_of(site).number
        before = claimed(site.announced.state, number, 0)
        assert len(before) == 1
        site.upkeep.set_retention(DAY_MS)
        merged(site)
        assert site.announced.state.partition(number, 0).start == 11
        again = opened(without_checkpoints(site.announced.storage), id, clock=clock, seed=99)
        assert claimed(again.announced.state, number, 0) == before
    request = one_batch(topic_of(c), tail_id(tail.incarnation, 0), sequence=2)
    assert answer_of(again, request) == 0, "it had been claimed before it expired"


def merged(log: ShardLog) -> None:
    """Do every merge job there is."""
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))


def without_checkpoints(storage: Storage) -> MemoryStorage:
    """A copy of the log alone."""
    assert isinstance(storage, MemoryStorage)
    copy = MemoryStorage()
    copy.replace({name: data for name, data in storage.snapshot().items() if "/checkpoint/" not in name})
    return copy


def test_a_claimed_batch_is_a_batch_of_nobody_with_the_records_as_they_were() -> None:
    """Compression, keys, headers and times stay; it belongs to no producer's sequence and to no transaction. A copy
    takes it byte for byte."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    tail = parted(a, b, c)
    steps(b, tail.name)
    told(b, c)
    source = {
        bytes(record.value or b""): (record.key, record.timestamp, record.headers)
        for row in rows_of(b)
        if row.kind == Kind.BATCH and row.topic == topic_of(b, tail.name).number
        for record in records_of(row.batch)
    }
    rows = [row for row in rows_of(b) if row.kind == Kind.BATCH and row.topic == topic_of(b).number][-4:]
    for row in rows:
        header = check_stored(row.batch, row.base_offset, row.last_offset)
        assert header.leader_epoch == row.epoch == topic_of(b).epoch
        assert (header.producer_id < NO_PRODUCER, header.producer_epoch, row.crc) == (True, 0, header.crc)
        for record in records_of(row.batch):
            assert source[bytes(record.value or b"")] == (record.key, record.timestamp, record.headers)
    copies = [bytes(row.batch) for row in rows_of(c) if row.kind == Kind.BATCH][-4:]
    assert copies == [bytes(row.batch) for row in rows]
    with pytest.raises(CorruptBatch, match="no producer has the id -5"):
        check_produced(build_batch([(None, b"x")], producer_id=-5, producer_epoch=0, base_sequence=0))


def test_batches_of_transactions_lose_their_marks_and_control_batches_are_passed_over() -> None:
    """A reader of committed records gets the same from the topic as from the tail."""
    batches = [
        build_batch([(None, b"a")], base_offset=5, producer_id=7, base_sequence=0, attributes=TRANSACTIONAL, codec=1),
        build_batch([(b"\0\0\0\0", b"")], base_offset=6, producer_id=7, attributes=TRANSACTIONAL | CONTROL),
        build_batch([(None, b"b")], base_offset=7, producer_id=7, base_sequence=1, attributes=TRANSACTIONAL),
        build_batch([(None, b"c")], base_offset=8, producer_id=9, base_sequence=0),
    ]
    found = tail_batches(-9, batches, [Aborted(7, 5, 6)])
    assert [(batch.id, batch.sequence, batch.header.base_offset) for batch in found] == [(-9, 7, 7), (-9, 8, 8)]
    b = fresh(B)
    topic = made(b)
    request = partial(claim, number=topic.number, partition=0, id=-9, batches=found, to=9, stamped=True)
    assert answer_of(b, request) == 2
    for row in (row for row in rows_of(b) if row.kind == Kind.BATCH):
        header = check_stored(row.batch, row.base_offset, row.last_offset)
        assert header.attributes == LOG_APPEND_TIME
        assert header.max_timestamp == row.max_timestamp == row.appended_at


def test_another_topic_may_have_the_records_too() -> None:
    """What a topic has is its own: a claim into another one begins at the first record."""
    a, b = fresh(A), fresh(B)
    tail = parted(a, b)
    steps(b, tail.name)
    answer_of(b, lambda draft: create_topic(draft, "other", 1))
    assert steps(b, tail.name, into="other") == len(TAIL)
    assert steps(b, tail.name, into="other") == 0
    assert counted(b, "other") == ONCE == counted(b)


def test_sequence_numbers_begin_again_behind_the_last() -> None:
    """Offsets of a tail go beyond 2^31."""
    last = 2**31 - 2
    piece = Piece(1, 0, last, 4)
    assert [piece.holds(first, 2) for first in (last - 1, last, 0, 1)] == [False, True, True, False]
    of_tail = OfTail()
    of_tail.add(Piece(1, 0, last, 2))
    of_tail.add(Piece(1, 2, 0, 2))
    assert of_tail.pieces == [piece]
    assert of_tail.next_offset(2**31 + last - 5) == 2**31 + last + 4
    assert OfTail([], Passed(9, 0, 3)).next_offset(4) == 9


def test_notes_of_claims_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner refuses to forget what it has claimed; what a frame brings pushes out the oldest."""
    monkeypatch.setattr(notes, "TAILS_MAX", 2)
    b, c = fresh(B), fresh(C)
    topic = made(b)
    for id in (-7, -8):
        assert answer_of(b, one_batch(topic, id)) == 1
    with pytest.raises(NotAllowed, match="ships cannot note more"):
        answer_of(b, one_batch(topic, -9))
    monkeypatch.setattr(notes, "TAILS_MAX", 3)
    answer_of(b, one_batch(topic, -9))
    monkeypatch.setattr(notes, "TAILS_MAX", 2)
    sent(b, c)
    assert sorted(claimed(c.announced.state, topic_of(c).number, 0)) == [-9, -8]


def one_batch(topic: Topic, id: int, sequence: int = 0) -> partial[int]:
    """A request that claims a record."""
    batches = tail_batches(id, [build_batch([(None, b"x")], base_offset=sequence)], ())
    to = sequence + 1
    return partial(claim, number=topic.number, partition=0, id=id, batches=batches, to=to, stamped=False)


def notes_in(site: ShardLog) -> list[str]:
    """The keys of the rows that note what was claimed, as they stand in the log."""
    keys = [decode_state(row.batch).key for row in rows_of(site) if row.kind == Kind.STATE]
    return [key for key in keys if key.startswith("claimed")]


def test_a_note_goes_with_its_topic_and_merges_keep_the_newest() -> None:
    """Each claimed batch made one; a merge leaves one for the partition."""
    a, b = fresh(A), fresh(B, settings=MERGING)
    tail = parted(a, b)
    steps(b, tail.name)
    assert notes_in(b) == ["claimed 0"] * (len(TAIL) // 2)
    merged(b)
    assert notes_in(b) == ["claimed 0"]
    assert steps(b, tail.name) == 0
